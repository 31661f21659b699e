import BundleValues

/// The bundles of the Cordova plugin's suite (METEOR section 8.2).
package enum CordovaBundles {
    /// The appId of all pages except two.
    package static let appId = "1waqgcidafgwubeqj8o"
    /// The ROOT_URL of most pages. It is only compared as text.
    package static let rootURL = "http://localhost:3000/"
    package static let iosCompatibility = "0abe549f2adbcf6cd295428aefea628ebe69666a"
    package static let androidCompatibility = "4017747ca6b4f460f33b121e439b7a11a070205a"

    /// Returns the bundle of a version. `port` replaces 3000 in ROOT_URL, and the next port replaces 3001.
    package static func bundle(_ version: CordovaVersion, port: Int = 3000) -> MeteorBundleBuilder {
        var builder = MeteorBundleBuilder(.stated(version.version), hashes: .bytes, entries(of: version))
        builder.compatibility = compatibility(iosCompatibility, androidCompatibility)
        builder.page.versionStyle = .autoupdateVersionCordova
        builder.page.rootURL = "http://localhost:\(port)/"
        builder.page.appId = appId
        builder.page.asksForCordovaScript = true
        switch version {
        case .versionMismatch: builder.page.version = CordovaVersion.version3.rawValue
        case .missingRootURL: builder.page.rootURL = nil
        case .loopbackRootURL: builder.page.rootURL = "http://127.0.0.1:\(port)/"
        case .wrongRootURL: builder.page.rootURL = "http://localhost:\(port + 1)/"
        case .missingAppId: builder.page.appId = nil
        case .wrongAppId: builder.page.appId = "another_app_id"
        case .missingCompatibility: builder.compatibility = nil
        case .differentCompatibility:
            builder.compatibility = compatibility(
                "9a02a7998ece3cf17379eec42582b3618825dc91", "f9d1e65c341c1b68740d41d35250e6a8e9503236")
        case .version1, .version2, .version3, .missingAsset, .invalidAsset: break
        }
        return builder
    }

    /// Returns the bundle of the seed: version1, with files that its manifest does not list.
    package static func seed(port: Int = 3000) -> MeteorBundleBuilder {
        var builder = bundle(.version1, port: port)
        builder.unlisted = [
            ("not-in-manifest", .text("not-in-manifest\n")),
            ("cordova_plugins.js", .text("// cordova_plugins.js\n")),
        ]
        return builder
    }

    /// Returns the text of `app/template.mobileapp.js`, the script that changes with every version.
    package static func template(_ version: CordovaVersion) -> String {
        """
        (function () {
          document.title = 'mobileapp';
          document.documentElement.setAttribute('data-version', '\(version.version)');
          console.log('template of \(version.version)');
        })();

        """
    }

    private static let head = "<title>mobileapp</title>\n"
    /// The style sheet of Meteor's skeleton, 30 bytes.
    private static let styles = "/* CSS declarations go here */"

    private static func compatibility(_ ios: String, _ android: String) -> JSONObject {
        ["ios": .string(ios), "android": .string(android)]
    }

    private static func entries(of version: CordovaVersion) -> [BundleEntry] {
        switch version {
        case .missingRootURL, .loopbackRootURL, .wrongRootURL, .missingAppId, .wrongAppId: []
        case .version1, .missingCompatibility, .differentCompatibility: listed(.version1, someFile: "some-file")
        case .version2, .missingAsset, .invalidAsset, .versionMismatch:
            listed(.version2, someFile: "some-file (changed)") + [some("some-other-file")]
        case .version3: listed(.version3, someFile: "some-file (changed again)") + [some("some-other-file")]
        }
    }

    private static func listed(_ version: CordovaVersion, someFile: String) -> [BundleEntry] {
        let names = [
            "some-data.json", "some-file", "some-font.woff", "some-image.jpg", "some-image.png", "some-javascript.js",
            "some-page.html", "some-stylesheet.css", "some-text.txt", "some-video.mp4",
        ]
        return [
            code("packages/meteor.js", "window.Meteor = { release: 'METEOR@1.3' };\n"),
            code("app/template.mobileapp.js", template(version)),
            code("app/mobileapp.js", "window.mobileapp = function () { return window.WebAppLocalServer; };\n"),
            code("merged-stylesheets.css", styles),
        ] + names.map { some($0, text: $0 == "some-file" ? someFile : $0) } + [.fragment("head.html", .text(head))]
    }

    private static func code(_ path: String, _ text: String) -> BundleEntry {
        let map = "{\"version\":3,\"sources\":[\"\(path)\"],\"names\":[],\"mappings\":\"AAAA\"}"
        return BundleEntry(
            path, url: "/\(path)?{hash}", type: path.hasSuffix(".css") ? "css" : "js", .text(text),
            sourceMap: .init(.text(map)))
    }

    /// Returns a file with its own name or another text, and a line feed.
    private static func some(_ name: String, text: String? = nil) -> BundleEntry {
        BundleEntry("app/\(name)", url: "/\(name)", .text("\(text ?? name)\n"))
    }
}
