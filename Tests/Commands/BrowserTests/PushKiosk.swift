import BundleTesting
import Glibc
import MeteorTesting
import Testing

/// A kiosk whose shell follows a Meteor server, optionally together with a feed of archives. Its seed is version1.
final class PushKiosk {
    let kiosk: Kiosk
    let server: MeteorServer

    private var seed: String { kiosk.folder.file("meteor-seed") }

    /// Creates the seed and a server that offers it.
    init(_ client: DemoClient = .good("version1"), _ change: (inout MeteorBundleBuilder) -> Void = { _ in }) throws {
        kiosk = try Kiosk()
        server = try MeteorServer([])
        let bundle = try bundle(client, change)
        try bundle.writeBundleLayout(to: seed)
        try add(bundle)
        try server.serve(version: bundle.version)
    }

    /// Builds the client like Meteor: scripts with a digest in their URLs, all other files public.
    private func bundle(_ client: DemoClient, _ change: (inout MeteorBundleBuilder) -> Void) throws -> MeteorBundle {
        let files = client.files
        var builder = MeteorBundleBuilder(.stated(client.version))
        for (path, content) in files.sorted(by: { $0.key < $1.key }) where path != "index.html" {
            let type = path.hasSuffix(".js") ? "js" : "asset"
            builder.entries.append(BundleEntry("app/\(path)", url: "/\(path)", type: type, .bytes(content)))
        }
        builder.page.template = files["index.html"]
        builder.page.rootURL = server.rootURL
        // The port of the application is derived from this ID. Two runs of the tests at the same time need different
        // ports.
        builder.page.appId = "push\(getpid())"
        change(&builder)
        return try builder.build()
    }

    private func add(_ bundle: MeteorBundle) throws {
        let place = kiosk.folder.file("served/\(bundle.version)")
        try bundle.writeServerLayout(to: place)
        server.add(bundle.version, folder: place)
    }

    /// Serves a client from the next request on.
    func push(_ client: DemoClient, _ change: (inout MeteorBundleBuilder) -> Void = { _ in }) throws {
        try add(try bundle(client, change))
        try server.serve(version: client.version)
    }

    /// Starts `serve`, which checks within a minute, then every `interval` and on request of the page. With `install`,
    /// a check runs first and may fail.
    func serve(
        port: Int? = 0, timeout: String = "60s", interval: String = "10h", _ more: [String] = []
    ) throws -> Serving {
        let device =
            ["--store", kiosk.store, "--shell-version", "1.5.0", "--seed", seed, "--meteor", server.rootURL] + more
        let choice = port.map { ["--port", "\($0)"] } ?? []
        let serving = try Serving(
            try kiosk.start(
                ["serve", "--startup-timeout", timeout, "--check-interval", interval] + choice + device))
        _ = try #require(try kiosk.start(["install"] + device).wait(within: .seconds(60)), "install does not end")
        return serving
    }

    /// The number of manifest requests since the start.
    var checks: Int { server.allRequests.count { $0.path == "/__cordova/manifest.json" } }

    /// Waits until the server has received that many manifest requests.
    func wait(forChecks count: Int) throws {
        let deadline = ContinuousClock.now + Browser.patience
        while checks < count {
            try #require(ContinuousClock.now < deadline, "\(checks) checks, not \(count)")
            poll(nil, 0, 5)
        }
    }
}
