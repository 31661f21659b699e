import BundleValues
import BundleTestTraits
import BundleTesting
import Testing

/// A shell without a seed.
@Suite(.ownThread) struct SeedlessTests {
    @Test func `commands name no seed on a device without one`() throws {
        let site = try Site()
        try site.publish("1.0.0")
        let text = try Clientctl.run([
            "install", "--manifest", site.manifest, "--trust", site.trust, "--store", site.store, "--shell-version",
            "1.5.0",
        ]).text
        #expect(text.contains("current v1.0.0, previous none\n"), "\(text)")
        let place = ["--store", site.store, "--json"]
        #expect(try site.install().succeeded("upToDate")["previous"] == .null)
        let serving = try ServeRun(["--store", site.store, "--shell-version", "1.5.0"])
        _ = try serving.loadPage()
        #expect(try serving.ask("GET /clients/").text == #"{"versions":["v1.0.0"]}"#)
        try serving.stop()
        let status = try Clientctl.run(["status"] + place).succeeded()
        #expect(status["previous"] == .null)
        #expect(status["lastKnownGood"] == .null)
        #expect(try Clientctl.run(["list"] + place).succeeded().strings("versions") == ["v1.0.0"])
        let clients = (status["clients"]?.arrayValue ?? []).compactMap { $0.objectValue?["name"]?.stringValue }
        #expect(clients == ["v1.0.0"])
    }

    @Test func `serve shows a waiting page on a new device until the first update`()
        throws
    {
        let site = try Site()
        let serving = try ServeRun([
            "--store", site.store, "--shell-version", "1.5.0", "--manifest", "http://127.0.0.1:1/manifest.json",
            "--trust",
            site.trust,
        ])
        let page = try serving.ask("GET /", ["Accept: text/html"]).text
        #expect(page.contains("<h1>Waiting for the first update</h1>"))
        #expect(!page.contains("--"))
        try serving.wait(for: "the first check comes at once") {
            $0["clientctl_check_failures_total{code=\"networkUnavailable\"}"] == 1
                && $0["clientctl_screen_state{state=\"waiting\"}"] == 1
        }
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        try serving.wait(for: "the client can be loaded") { $0["clientctl_screen_state{state=\"starting\"}"] == 1 }
        _ = try serving.loadPage()
        try serving.wait(for: "the client is shown") { $0["clientctl_screen_state{state=\"client\"}"] == 1 }
        #expect(try serving.stop().errors.contains("no client yet: the first one is shown"))
    }

    @Test func `status offers no seed to a shell without one`() throws {
        let site = try Site()
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        let place = ["--store", site.store, "--json"]
        #expect(try Clientctl.run(["list", "--store", site.store]).text == "* v1.0.0\n")
        #expect(try !Clientctl.run(["status", "--store", site.store]).text.contains("embedded"))
        for _ in 0..<2 {
            let launched = try Clientctl.run(["launch", "--shell-version", "1.5.0"] + place).succeeded()
            let token = try #require(launched.string("token"))
            try Clientctl.run(["fail", "--version", "1.0.0", "--token", token] + place).succeeded("failed")
        }
        let status = try Clientctl.run(["status"] + place).succeeded()
        #expect(status["next"] == .null)
        #expect(try !Clientctl.run(["status", "--store", site.store]).text.contains("* embedded"))
        try Clientctl.run(["launch", "--shell-version", "1.5.0"] + place).failed(41, "versionBlocked")

        // The same for guests and other commands. A block stays visible after its client is removed.
        let token = try site.folder.write(bytes("t0ken\n"), to: "token")
        try Clientctl.stock(["chmod", "600", token])
        try Clientctl.run(["session", "login", "--token-file", token] + place).succeeded()
        try Clientctl.run(["session", "logout"] + place).succeeded()
        try Clientctl.stock(["rm", "-r", "\(site.store)/clients/v1.0.0"])
        try Clientctl.run(["prune"] + place).succeeded()
        #expect(try Clientctl.run(["status"] + place).succeeded()["running"] == .null)
        let text = try Clientctl.run(["status", "--store", site.store]).text
        #expect(text.contains("no seed for guests"), "\(text)")
        #expect(text.contains("v1.0.0  not installed; blocked"), "\(text)")
    }
}
