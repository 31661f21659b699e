import BundleValues
import BundleTestTraits
import BundleTesting
import Testing

/// Whom the pages of `serve` may talk to.
@Suite(.ownThread) struct ServePolicyTests {
    private let site: Site

    init() throws {
        site = try Site()
        try site.folder.writeTree(Site.client("seed"), to: "seed")
    }

    /// The sources of `connect-src` with these flags and variables.
    private func connections(_ flags: [String], _ environment: [String: String]) throws -> [String] {
        let place = ["--store", site.store, "--shell-version", "1.5.0", "--seed", site.folder.file("seed")]
        let serving = try ServeRun(place + flags, environment: environment)
        let policy = try serving.ask("GET /", ["Accept: text/html"])["Content-Security-Policy"] ?? ""
        try serving.stop()
        let directive = policy.split(separator: ";").first { $0.contains("connect-src ") } ?? ""
        return directive.split(separator: " ").dropFirst().map(String.init)
    }

    @Test func `several policies are one`() throws {
        let flags = ["--csp", "connect-src https://a; img-src https://b", "--csp", "connect-src https://c"]
        #expect(try connections(flags, [:]) == ["'self'", "https://a", "https://c"])
    }

    private static let server = ["CLIENTCTL_METEOR": "http://meteor.example/app"]
    private static let sources = ["http://meteor.example:80", "ws://meteor.example:80"]

    @Test func `a Meteor server that is followed is one of them`() throws {
        #expect(try connections([], Self.server).suffix(2) == Self.sources)
        #expect(try connections(["--meteor", "http://meteor.example/"], [:]).suffix(2) == Self.sources)
    }

    @Test func `what a policy keeps from a page is in status once, until its client is launched again`() throws {
        let place = ["--store", site.store, "--shell-version", "1.5.0", "--seed", site.folder.file("seed")]
        func complaints() throws -> [String] {
            let status = try Clientctl.run(["status", "--store", site.store, "--json"]).succeeded()
            let clients = (status["clients"]?.arrayValue ?? []).compactMap(\.objectValue)
            let seed = try #require(clients.first { $0["name"] == .string("embedded") })
            return (seed["complaints"]?.arrayValue ?? []).compactMap(\.stringValue)
        }
        let serving = try ServeRun(place)
        let token = try serving.loadPage()
        try serving.call("startupDidComplete", token: token)
        let body = "{\"kind\": \"blocked\", \"directive\": \"connect-src\", \"url\": \"https://api.example\"}"
        for _ in 0..<2 { #expect(try serving.call("report", token: token, body: body).status == 200) }
        let told = ": --csp \"connect-src https://api.example\" would allow it"
        let deadline = ContinuousClock.now + .seconds(60)
        while try complaints().isEmpty { try #require(ContinuousClock.now < deadline, "status says nothing") }
        #expect(try complaints().count == 1)
        #expect(try complaints().first?.hasSuffix(told) == true)
        #expect(try Clientctl.run(["status", "--store", site.store]).text.contains(told))
        try serving.stop()
        let again = try ServeRun(place + ["--csp", "connect-src https://api.example"])
        _ = try again.loadPage()
        let later = ContinuousClock.now + .seconds(60)
        while try !complaints().isEmpty { try #require(ContinuousClock.now < later, "it stays") }
        try again.stop()
    }

    @Test func `one that flags leave out is none`() throws {
        try site.publish("1.0.0")
        let feed = ["--manifest", site.manifest, "--trust", site.trust]
        #expect(try !connections(feed, Self.server).contains { $0.contains("meteor.example") })
        #expect(try !connections(["--sources", "archive"], Self.server).contains { $0.contains("meteor.example") })
    }
}
