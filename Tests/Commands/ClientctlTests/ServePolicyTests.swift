import BundleValues
import BundleTestTraits
import BundleTesting
import Testing

/// The content security policy of the pages of `serve`.
@Suite(.ownThread) struct ServePolicyTests {
    private let site: Site

    init() throws {
        site = try Site()
        try site.folder.writeTree(Site.client("seed"), to: "seed")
    }

    /// Returns the sources of `connect-src` with these flags and variables.
    private func connections(_ flags: [String], _ environment: [String: String]) throws -> [String] {
        let place = ["--store", site.store, "--shell-version", "1.5.0", "--seed", site.folder.file("seed")]
        let serving = try ServeRun(place + flags, environment: environment)
        let policy = try serving.ask("GET /", ["Accept: text/html"])["Content-Security-Policy"] ?? ""
        try serving.stop()
        let directive = policy.split(separator: ";").first { $0.contains("connect-src ") } ?? ""
        return directive.split(separator: " ").dropFirst().map(String.init)
    }

    @Test func `serve joins several --csp policies`() throws {
        let flags = ["--csp", "connect-src https://a; img-src https://b", "--csp", "connect-src https://c"]
        #expect(try connections(flags, [:]) == ["'self'", "https://a", "https://c"])
    }

    private static let server = ["CLIENTCTL_METEOR": "http://meteor.example/app"]
    private static let sources = ["http://meteor.example:80", "ws://meteor.example:80"]

    @Test func `serve allows connections to the Meteor server it follows`() throws {
        #expect(try connections([], Self.server).suffix(2) == Self.sources)
        #expect(try connections(["--meteor", "http://meteor.example/"], [:]).suffix(2) == Self.sources)
    }

    @Test func `status shows a policy violation once, until the client is launched again`() throws {
        let place = ["--store", site.store, "--shell-version", "1.5.0", "--seed", site.folder.file("seed")]
        func pageErrors() throws -> [String] {
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
        let advice = ": --csp \"connect-src https://api.example\" would allow it"
        let deadline = ContinuousClock.now + .seconds(60)
        while try pageErrors().isEmpty { try #require(ContinuousClock.now < deadline, "status shows no violation") }
        #expect(try pageErrors().count == 1)
        #expect(try pageErrors().first?.hasSuffix(advice) == true)
        #expect(try Clientctl.run(["status", "--store", site.store]).text.contains(advice))
        try serving.stop()
        let again = try ServeRun(place + ["--csp", "connect-src https://api.example"])
        _ = try again.loadPage()
        let later = ContinuousClock.now + .seconds(60)
        while try !pageErrors().isEmpty { try #require(ContinuousClock.now < later, "the violation stays") }
        try again.stop()
    }

    @Test func `serve allows no connection to a Meteor server that flags disable`() throws {
        try site.publish("1.0.0")
        let feed = ["--manifest", site.manifest, "--trust", site.trust]
        #expect(try !connections(feed, Self.server).contains { $0.contains("meteor.example") })
        #expect(try !connections(["--sources", "archive"], Self.server).contains { $0.contains("meteor.example") })
    }
}
