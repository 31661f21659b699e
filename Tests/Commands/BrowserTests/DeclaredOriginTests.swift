import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// The origins that a release declares, in the browsers of kiosks.
@Suite(.ownThread) struct DeclaredOriginTests {
    private let kiosk: Kiosk
    /// The declared origin, and another one. A page reports at the first, and through it about the second.
    private let declared: LoopbackServer
    private let other: LoopbackServer
    private let folder: TemporaryFolder

    init() throws {
        kiosk = try Kiosk()
        folder = try TemporaryFolder()
        (declared, other) = (try Self.server(), try Self.server())
    }

    private static func server() throws -> LoopbackServer {
        try LoopbackServer { _ in
            Route(bytes("answer")).with {
                $0.headers = [("Access-Control-Allow-Origin", "*"), ("Content-Type", "text/plain")]
            }
        }
    }

    private func element(_ origins: String...) -> String {
        "<meta name=\"clientctl:connect\" content=\"\(origins.joined(separator: " "))\">"
    }

    /// Returns a client that requests both servers, adds a declaration of the other one and requests that again. Then it
    /// confirms its start.
    private func client(_ version: String, head: String) -> DemoClient {
        let script = """
            function ask(root, path) { return fetch(root + path).then(() => 'reached', () => 'refused'); }
            (async () => {
              await ask('\(declared.root)', '/\(version)');
              await ask('\(other.root)', '/\(version)');
              document.head.insertAdjacentHTML('beforeend', '\(element(other.root))');
              history.replaceState(null, '', '/later');
              await ask('\(other.root)', '/\(version)/added');
              WebAppLocalServer.startupDidComplete();
            })();

            """
        var client = DemoClient.doing(version, script)
        client.head = head
        return client
    }

    private func paths(_ server: LoopbackServer) -> [String] { server.requests.map(\.path) }

    private func serve(_ engine: Engine, _ more: [String] = []) throws -> Serving {
        try kiosk.serve(["--browser", "\(engine.program(in: folder)) {profile} {url}"] + more)
    }

    private func end(_ serving: Serving) throws {
        serving.program.send(SIGTERM)
        #expect(try serving.program.wait(within: Browser.patience)?.status == 0)
    }

    @Test(arguments: [Engine.chromium, .webKitView])
    func `a page reaches a declared origin, no other one, and adds none at run time`(engine: Engine) throws {
        try engine.require()
        try kiosk.install(client("1.0.0", head: element(declared.root)))
        let serving = try serve(engine)
        try kiosk.wait(until: "v1.0.0", is: "good")
        #expect(paths(declared) == ["/1.0.0"])
        #expect(paths(other) == [])
        try end(serving)
    }

    @Test(arguments: [Engine.chromium, .webKitView])
    func `a page reaches no origin beyond the bound of the device, or without a declaration`(engine: Engine) throws {
        try engine.require()
        try kiosk.install(client("1.0.0", head: element(declared.root, other.root)))
        let bounded = try serve(engine, ["--csp-allow", declared.root])
        try kiosk.wait(until: "v1.0.0", is: "good")
        #expect(paths(declared) == ["/1.0.0"] && paths(other) == [])
        #expect(
            try bounded.program.printed().errors.contains(
                "index.html declares \(other.root) for connect-src, which no --csp-allow"))
        try kiosk.install(client("1.1.0", head: ""))
        try end(bounded)
        let unbounded = try serve(engine)
        try kiosk.wait(until: "v1.1.0", is: "good")
        #expect(paths(declared) == ["/1.0.0"] && paths(other) == [])
        try end(unbounded)
    }

    @Test(.needsBrowser) func `a page of a hot code push reaches no origin that it declares`() throws {
        let push = try PushKiosk(client("version1", head: element(declared.root)))
        try push.push(client("version2", head: element(declared.root)))
        let serving = try push.serve(timeout: "60s", interval: "20s")
        let browser = try Browser.forAllTests()
        let page = try browser.open(serving.root + "/")
        let deadline = ContinuousClock.now + Browser.patience
        var shown: String?
        while shown != "version2", ContinuousClock.now < deadline {
            try page.navigate(serving.root + "/")
            try page.wait(until: "location.pathname === '/later'")
            shown = try page.evaluate("version").stringValue
        }
        #expect(shown == "version2")
        try push.kiosk.wait(until: "meteor-version2", is: "good")
        #expect(paths(declared) == [] && paths(other) == [])
        let policy = try serving.ask("GET /", ["Accept": "text/html"])["Content-Security-Policy"] ?? ""
        #expect(!policy.contains(declared.root))
        #expect(try serving.program.printed().errors.contains("which only a signed release may"))
    }
}
