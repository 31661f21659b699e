import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
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

    // MARK: Declared origins

    private static let declaring = """
        <!doctype html><meta name="clientctl:connect" content="https://api.example.com wss://live.example.org">
        <meta name="clientctl:frame" content="https://maps.example.com">
        """

    /// Returns the directives of the page at `path` with their sources.
    private func directives(_ serving: ServeRun, _ path: String = "/") throws -> [String: [String]] {
        let policy = try serving.ask("GET \(path)", ["Accept: text/html"])["Content-Security-Policy"] ?? ""
        let words = policy.split(separator: ";").map { $0.split(separator: " ").map(String.init) }
        return Dictionary(words.map { ($0.first ?? "", Array($0.dropFirst())) }, uniquingKeysWith: +)
    }

    private func installDeclaring(_ version: String = "1.0.0", _ page: String = Self.declaring) throws {
        try site.publish(version, ["index.html": bytes(page), "help.html": bytes("<!doctype html><p>Help")])
        try site.install().succeeded("installed")
    }

    @Test func `serve adds the declared origins of a signed release to the policies of its pages`() throws {
        try installDeclaring()
        let serving = try ServeRun(["--store", site.store, "--shell-version", "1.5.0"])
        for path in ["/", "/help.html", "/orders/12", "/clients/v1.0.0/help.html"] {
            let found = try directives(serving, path)
            #expect(found["connect-src"] == ["'self'", "https://api.example.com", "wss://live.example.org"], "\(path)")
            #expect(found["frame-src"] == ["'self'", "https://maps.example.com"], "\(path)")
            #expect(found["img-src"] == ["'self'", "data:", "blob:"] && found["media-src"] == nil)
            #expect(found["script-src"]?.contains { $0.contains("example") } == false)
        }
        // Another page of the client declares nothing.
        try site.publish(
            "1.1.0", ["index.html": bytes("<!doctype html><p>1.1.0"), "help.html": bytes(Self.declaring)])
        try site.install().succeeded("installed")
        let found = try directives(serving, "/clients/v1.1.0/help.html")
        #expect(found["connect-src"] == ["'self'"] && found["frame-src"] == nil)
        try serving.stop()
    }

    @Test(
        arguments: [
            (["--csp-from-release", "no"], [:], ["'self'"]),
            (["--csp-from-release", "no", "--csp-allow", "https://*.example.com"], [:], ["'self'"]),
            (["--csp-allow", "https://*.example.com"], [:], ["'self'", "https://api.example.com"]),
            (
                ["--csp-allow", "https://x.example", "--csp-allow", "wss://live.example.org"], [:],
                ["'self'", "wss://live.example.org"]
            ),
            (
                [], ["CLIENTCTL_CSP_ALLOW": "https://*.example.com wss://*.example.org"],
                ["'self'", "https://api.example.com", "wss://live.example.org"]
            ),
            ([], ["CLIENTCTL_CSP_FROM_RELEASE": "no"], ["'self'"]),
            (
                ["--csp", "connect-src https://api.example.com https://own.example"], [:],
                ["'self'", "https://api.example.com", "https://own.example", "wss://live.example.org"]
            ),
        ] as [([String], [String: String], [String])])
    func `the device decides which declared origins pages may use`(
        flags: [String], environment: [String: String], sources: [String]
    ) throws {
        try installDeclaring()
        let serving = try ServeRun(
            ["--store", site.store, "--shell-version", "1.5.0"] + flags, environment: environment)
        #expect(try directives(serving)["connect-src"] == sources)
        try serving.stop()
    }

    @Test func `the log, status, doctor and check name the origins that a device refuses`() throws {
        try installDeclaring()
        let flags = ["--csp-allow", "https://*.example.com"]
        let refusal = "index.html declares wss://live.example.org for connect-src, which no --csp-allow covers"
        let place = ["--store", site.store]
        // Before the client has run.
        let check = try site.check(nil, ["--explain"] + flags)
        #expect(check.status == 3, "\(check.errors)")
        let next = check["origins"]?.objectValue
        #expect(next?["client"] == .string("v1.0.0"))
        #expect(next?["declared"]?.objectValue?["frame"] == .array([.string("https://maps.example.com")]))
        #expect(next?["refused"]?.arrayValue?.first?.stringValue?.hasPrefix(refusal) == true)
        #expect(try site.check(nil, flags)["origins"] == nil)
        let doctor = try Clientctl.run(["doctor", "--port", "0"] + place + flags)
        #expect(doctor.text.contains("origins: In the client that is shown next, \(refusal)"), "\(doctor.text)")
        #expect(try !Clientctl.run(["doctor", "--port", "0"] + place).text.contains(refusal))
        let serving = try ServeRun(place + ["--shell-version", "1.5.0"] + flags)
        _ = try serving.loadPage()
        let deadline = ContinuousClock.now + .seconds(60)
        while try !Clientctl.run(["status"] + place).text.contains("page error: \(refusal)") {
            try #require(ContinuousClock.now < deadline, "status shows no refusal")
        }
        #expect(try serving.program.printed().errors.ranges(of: refusal).count == 1)
        try serving.stop()
    }

    @Test func `a seed declares origins with and without a store`() throws {
        try site.folder.write(bytes(Self.declaring), to: "seed/index.html")
        let seed = ["--shell-version", "1.5.0", "--seed", site.folder.file("seed")]
        for isDamaged in [false, true] {
            if isDamaged {
                let path = "\(site.store)/downloads"
                try Clientctl.stock(["rm", "-rf", path])
                try #require(symlink(try site.folder.makeFolder("elsewhere"), path) == 0)
            }
            let serving = try ServeRun(seed + ["--store", site.store])
            #expect(try directives(serving)["frame-src"] == ["'self'", "https://maps.example.com"], "\(isDamaged)")
            try serving.stop()
            let bounded = try ServeRun(seed + ["--store", site.store, "--csp-from-release", "no"])
            #expect(try directives(bounded)["frame-src"] == nil, "\(isDamaged)")
            #expect(try directives(bounded)["connect-src"] == ["'self'"], "\(isDamaged)")
            try bounded.stop()
        }
    }

    @Test(arguments: ["https://*", "https://api.example.com/v1", "nothing", "", "'self'"])
    func `serve refuses a pattern that is not one of origins`(pattern: String) throws {
        let arguments = ["serve", "--store", site.store, "--shell-version", "1.5.0", "--csp-allow=\(pattern)"]
        let refused = try Clientctl.run(pattern.isEmpty ? arguments.dropLast() + ["--csp-allow", ""] : arguments)
        #expect(refused.status == 64 && refused.errors.contains("https://*.example.com"), "\(refused.errors)")
    }

    // MARK: Operator's sources

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
