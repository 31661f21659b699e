import MeteorTesting

/// A small Meteor client for a demonstration of hot code push. Its version 3 is broken.
enum DemoClient {
    static func bundle(_ number: Int, rootURL: String) -> MeteorBundleBuilder {
        var builder = MeteorBundleBuilder(
            .stated("version\(number)"),
            [
                BundleEntry(
                    "merged-stylesheets.css", url: "/merged-stylesheets.css?hash={hash}", type: "css",
                    .text(styles(number))),
                BundleEntry("app/app.js", url: "/app/app.js?hash={hash}", type: "js", .text(script(number))),
                BundleEntry("app/motto.txt", url: "/motto.txt", .text("The same file in every version.\n")),
            ])
        builder.page.title = "MockMeteor demo"
        builder.page.rootURL = rootURL
        builder.page.appId = "mockmeteordemo"
        builder.page.body = "<h1 id=\"version\"></h1>\n<p id=\"status\">starting up</p>\n"
        return builder
    }

    private static func styles(_ number: Int) -> String {
        let color = ["#dff0ff", "#e0ffe0", "#ffe0e0"][(number - 1) % 3]
        return "body { background: \(color); font-family: sans-serif; text-align: center; padding-top: 4em; }\n"
    }

    private static func script(_ number: Int) -> String {
        """
        (function () {
          'use strict';

          document.getElementById('version').textContent = 'version \(number)';

          function tell(text) {
            document.getElementById('status').textContent = text;
            console.log(text);
          }

          function start() {
            var server = window.WebAppLocalServer;
            if (!server) {
              tell('This page is in no shell: WebAppLocalServer is missing.');
              return;
            }
        \(number == 3 ? "    tell('broken: this version throws before it has started up');\n    throw new Error('version 3 is broken');\n" : "")\
            server.onError(function (error) {
              tell('no update: ' + error.message);
            });
            server.onNewVersionReady(function (version) {
              tell('the new version ' + version + ' is ready');
              server.switchToPendingVersion(function () {
                window.location.reload();
              });
            });
            server.startupDidComplete(function () {
              tell('started up');
            });
            window.setInterval(function () {
              server.checkForUpdates();
            }, 3000);
          }

          window.addEventListener('load', start);
        })();

        """
    }
}
