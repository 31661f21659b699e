import BundleCore
import BundleTestTraits
import BundleTesting
import BundleValues
import BundleShell
import Glibc
import Testing

/// `serve --health-command`, which never runs as root.
@Suite(.ownThread) struct HealthCommandTests {
    private static let user = ["setpriv", "--reuid", "4321", "--clear-groups"]

    private let site: Site

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        try Clientctl.stock(["chmod", "a+rx", "\(site.folder.path)/.."])
        try Clientctl.stock(["chmod", "-R", "a+rX", site.folder.path])
        if Clientctl.isRoot { try Clientctl.stock(["chown", "-R", "4321", site.store]) }
    }

    private func serve(_ command: String) throws -> ServeRun {
        try ServeRun(
            ["--store", site.store, "--shell-version", "1.5.0", "--health-command", command],
            environment: ["CLIENTCTL_PASSPHRASE": "horse"], wrapper: Clientctl.isRoot ? Self.user : [])
    }

    private func status() throws -> Outcome { try Clientctl.run(["status", "--store", site.store, "--json"]) }

    private func verdict() throws -> String? { try status()["launch"]?.objectValue?["verdict"]?.stringValue }

    @Test func `confirms a client after the health command ends with 0`() throws {
        let gate = "\(site.store)/healthy"
        let serve = try serve(
            "sh -c 'test $CLIENTCTL_VERSION = 1.0.0$CLIENTCTL_PASSPHRASE || exit 1; until test -e \(gate); do sleep 0.1; done'"
        )
        #expect(try serve.call("startupDidComplete", token: serve.loadPage()).status == 200)
        #expect(try verdict() == nil)
        try Clientctl.stock(["touch", gate])
        try serve.wait(for: "the confirmation") { _ in (try? verdict()) == "good" }
        try serve.stop()
    }

    @Test func `fails a client with the last line of the health command`() throws {
        let serve = try serve("sh -c 'echo checking; echo the card reader is missing; exit 4'")
        try serve.call("startupDidComplete", token: serve.loadPage())
        try serve.wait(for: "the failure") { _ in (try? verdict()) == "faulty" }
        let log = try serve.stop().errors
        #expect(log.contains("the health command ended with status 4: the card reader is missing"), "\(log)")
    }

    @Test(.enabled(if: Clientctl.isRoot, "only root can try")) func `serve refuses a health command as root`() throws {
        let refused = try Clientctl.run([
            "serve", "--store", site.store, "--shell-version", "1.5.0", "--health-command", "true", "--json",
        ])
        refused.failed(78, "configInvalid")
        let missing = try Program.run(
            Self.user + [
                Clientctl.path, "serve", "--store", site.store, "--shell-version", "1.5.0", "--health-command",
                "no-such-program",
            ], environment: Clientctl.environment())
        #expect(missing.status == 78 && missing.errors.contains("the program no-such-program was not found"))
    }
}

/// `publish --requires-endpoint` and `serve`. The test reports the answers as a page would.
@Suite(.ownThread) struct RequiredEndpointTests {
    private static let endpoint = "https://api.example.com/health"

    private let site: Site

    init() throws {
        site = try Site()
        try site.publish("1.0.0", nil, ["--requires-endpoint", Self.endpoint])
    }

    private func serve(timeout: String = "60s") throws -> (run: ServeRun, token: String) {
        try site.install().succeeded("installed")
        let serve = try ServeRun([
            "--store", site.store, "--shell-version", "1.5.0", "--startup-timeout", timeout,
        ])
        let token = try serve.loadPage()
        let answer = try serve.call("startupDidComplete", token: token)
        #expect(answer.text.contains(Self.endpoint), "\(answer.text)")
        return (serve, token)
    }

    private func verdict() throws -> String? {
        try Clientctl.run(["status", "--store", site.store, "--json"])["launch"]?.objectValue?["verdict"]?.stringValue
    }

    private func report(_ answer: String, _ serve: (run: ServeRun, token: String)) throws -> String {
        try serve.run.call("endpoint", token: serve.token, body: #"{"endpoint":"\#(Self.endpoint)",\#(answer)}"#).text
    }

    @Test func `confirms a client after its page has reached the endpoint`() throws {
        let serve = try serve()
        #expect(try report(#""status":503"#, serve).contains(#""again":true"#))
        #expect(try report(#""error":"TypeError: Failed to fetch""#, serve).contains(#""again":true"#))
        #expect(try verdict() == nil)
        #expect(try report(#""status":200"#, serve).contains(#""again":false"#))
        try serve.run.wait(for: "the confirmation") { _ in (try? verdict()) == "good" }
        try serve.run.stop()
    }

    @Test func `fails a client whose endpoint answers with an error`() throws {
        let serve = try serve(timeout: "1s")
        _ = try report(#""status":503"#, serve)
        try serve.run.wait(for: "the failure") { _ in (try? verdict()) == "faulty" }
        let log = try serve.run.stop().errors
        #expect(log.contains("\(Self.endpoint) answered with status 503"), "\(log)")
    }

    @Test func `the endpoints of a release are signed`() throws {
        let text = try String(decoding: contents(ofFile: site.manifest), as: UTF8.self)
        #expect(text.contains(#""requiredEndpoints""#))
        let changed = text.replacing("api.example.com", with: "api.example.org")
        try site.folder.write(Array(changed.utf8), to: "feed/manifest.json")
        try site.install().failed(20, "signatureInvalid")
        for address in ["health", "ftp://h/x"] {
            let refused = try Clientctl.run([
                "publish", site.folder.path, "--version", "2.0.0", "--feed", site.feed, "--key", site.key,
                "--min-shell",
                "1.0.0", "--requires-endpoint", address,
            ])
            #expect(refused.status == 64 && refused.errors.contains("neither a path"), "\(refused.errors)")
        }
    }
}

/// `confirm` and embedded shells request the endpoints of a release themselves.
@Suite(.ownThread) struct EndpointProbeTests {
    private let site: Site
    private let server: LoopbackServer

    init() throws {
        site = try Site()
        server = try LoopbackServer(["/ok": Route([7])])
    }

    private func install(_ endpoint: String) throws {
        try site.publish("1.0.0", nil, ["--requires-endpoint", endpoint])
        try site.install().succeeded("installed")
    }

    private func launch() throws -> Outcome {
        let launched = try Clientctl.run(["launch", "--store", site.store, "--shell-version", "1.5.0", "--json"])
        AnswerSchema.expect(launched.json, to: ["launch"])
        return launched.succeeded()
    }

    /// Returns the arguments of `confirm` for `launched`.
    private func confirm(_ launched: Outcome, _ more: [String] = []) throws -> [String] {
        [
            "confirm", "--store", site.store, "--version", "1.0.0", "--token", try #require(launched.string("token")),
            "--startup-timeout", "1s", "--json",
        ] + more
    }

    private func verdict() throws -> String? {
        try Clientctl.run(["status", "--store", site.store, "--json"])["launch"]?.objectValue?["verdict"]?.stringValue
    }

    @Test func `confirm requests the endpoint of a client on trial once`() throws {
        let endpoint = "http://127.0.0.1:\(server.port)/ok"
        try install(endpoint)
        let launched = try launch()
        #expect(launched.strings("requiredEndpoints") == [endpoint])
        try Clientctl.run(confirm(launched)).succeeded("confirmed")
        try Clientctl.run(confirm(launched)).succeeded("alreadyConfirmed")
        try Clientctl.run(confirm(try launch())).succeeded("confirmed")
        #expect(server.requests.map(\.path) == ["/ok"])
    }

    @Test func `confirm refuses a client whose endpoint answers with an error`() throws {
        try install("http://127.0.0.1:\(server.port)/missing")
        let launched = try launch()
        let refused = try Clientctl.run(confirm(launched))
        refused.failed(40, "healthFailed")
        #expect(refused.errors.contains("/missing answered with status 404"), "\(refused.errors)")
        #expect(refused.errors.contains("Run `clientctl fail`"), "\(refused.errors)")
        #expect(try verdict() == nil)
    }

    @Test(arguments: [
        ("/app/shared.js?x=1", false, 0), ("/none", false, 40), ("/none", true, 40), ("/ok", false, 40),
        ("/ok", true, 0),
    ])
    func `confirm accepts a path only if the client or its server has it`(path: String, named: Bool, status: Int) throws
    {
        try install(path)
        let origin = named ? ["--page-origin", "http://127.0.0.1:\(server.port)/"] : []
        let outcome = try Clientctl.run(try confirm(try launch(), origin))
        #expect(outcome.status == Int32(status), "\(outcome.errors)")
    }

    @Test func `confirm neither confirms nor fails without a network`() throws {
        let isolated = ["unshare", "-n"]
        guard (try? Program.run(isolated + ["true"], environment: Clientctl.environment()).status) == 0 else {
            try Test.cancel("a network cannot be taken away here")
        }
        try install("http://127.0.0.1:9/")
        let launched = try launch()
        let refused = Outcome(
            try Program.run(isolated + [Clientctl.path] + confirm(launched), environment: Clientctl.environment()))
        refused.failed(10, "networkUnavailable")
        #expect(refused.errors.contains("this device has no network"), "\(refused.errors)")
        #expect(try verdict() == nil)
    }

    @Test(arguments: ["/ok", "/missing"])
    func `an embedded shell confirms a client after its endpoint has answered`(path: String) async throws {
        try install("http://127.0.0.1:\(server.port)\(path)")
        var configuration = ShellConfiguration(
            store: site.store, shellVersion: try SemanticVersion(parsing: "1.5.0"))
        configuration.startupTimeout = try StartupTimeout(.seconds(1))
        let container = DeviceContainer(configuration, userAgent: "tests")
        let shell = try container.shell(bridge: SilentBridge())
        try await shell.start()
        try await shell.startupDidComplete(shell.pageWillLoad().token)
        for await event in shell.events {
            switch event {
            case .confirmed: #expect(path == "/ok")
            case .rolledBack(_, _, let failure):
                #expect(
                    path == "/missing" && failure.message.contains("answered with status 404"), "\(failure.message)")
            case .failed(let failure): #expect(path == "/missing", "\(failure.message)")
            default: continue
            }
            break
        }
        #expect(try verdict() == (path == "/ok" ? "good" : "faulty"))
        await shell.stop()
    }
}

/// A web view that shows nothing.
private struct SilentBridge: ShellBridge {
    func show(_ client: ReadyClient) {}

    func reload() {}
}
