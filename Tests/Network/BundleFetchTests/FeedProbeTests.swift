import BundleFetch
import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

@Suite(.ownThread) struct FeedProbeTests {
    private static let options = FetchOptions(userAgent: "tests/1")

    private func probe(
        _ url: FetchURL, limit: Duration = .seconds(60), _ change: (inout FetchOptions) -> Void = { _ in }
    ) async -> FeedProbe.End {
        var options = Self.options
        change(&options)
        return await FeedProbe.run(url, options: options, limit: limit)
    }

    @Test(arguments: [200, 302, 404, 503]) func `reports any status with its date`(status: Int) async throws {
        var route = Route([1, 2, 3], status: status)
        route.headers = [("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("Location", "http://feed.invalid/")]
        let server = try LoopbackServer(["/x": route])
        let end = await probe(try server.url("/x"))
        #expect(end == .answered(status: status, date: "Sun, 06 Nov 1994 08:49:37 GMT"))
        #expect(server.requests.count == 1)
    }

    @Test func `sends no token`() async throws {
        let server = try LoopbackServer(["/x": Route()])
        let url = try server.url("/x")
        let credential = try BearerCredential(tokenFile: Array("secret\n".utf8), origin: url.origin)
        #expect(await probe(url) { $0.credential = credential } == .answered(status: 200, date: nil))
        #expect(server.requests.first?["Authorization"] == nil)
    }

    @Test func `does not wait for the body`() async throws {
        var stalled = Route([1, 2, 3])
        stalled.pace = .stall(after: 0)
        var endless = Route()
        endless.body = .endless
        let server = try LoopbackServer(["/stalled": stalled, "/endless": endless])
        for path in ["/stalled", "/endless"] {
            #expect(await probe(try server.url(path)) == .answered(status: 200, date: nil))
        }
    }

    @Test func `reports a server that does not respond`() async throws {
        let gate = try Gate()
        var route = Route()
        route.gate = gate
        let server = try LoopbackServer(["/x": route])
        guard case .silent = await probe(try server.url("/x"), limit: .milliseconds(1500 * BusyMachine.seconds(1)))
        else {
            Issue.record("it is not silent")
            return gate.open()
        }
        gate.open()
    }

    @Test func `reports a response that is not HTTP as none`() async throws {
        var route = Route()
        route.raw = Array("220 mail.example.com ESMTP\r\n".utf8)
        let server = try LoopbackServer(["/x": route])
        guard case .silent = await probe(try server.url("/x")) else { return #expect(Bool(false), "it is an answer") }
    }

    @Test func `distinguishes a closed port, an unknown name and an unknown proxy`() async throws {
        let server = try LoopbackServer()
        let url = try server.url("/x")
        server.stop()
        guard case .unconnected = await probe(url) else { return #expect(Bool(false), "it is connected") }
        let nowhere = try FetchURL(parsing: "http://feed.invalid/x")
        guard case .unresolved = await probe(nowhere) else { return #expect(Bool(false), "it has an address") }
        guard case .proxyRefused = await probe(nowhere, { $0.proxy = "http://proxy.invalid:1" }) else {
            return #expect(Bool(false), "the proxy is there")
        }
    }

    @Test func `reports the status of a proxy that refuses`() async throws {
        let proxy = try ConnectProxy(to: 9, status: 407)
        let end = await probe(try FetchURL(parsing: "https://feed.invalid/x")) {
            $0.proxy = "http://127.0.0.1:\(proxy.port)"
        }
        #expect(end == .proxyRefused(reason: "it returned 407"))
    }

    @Test func `reports an untrusted authority`() async throws {
        let server = try TLSServer()
        let url = try server.url("/")
        guard case .untrusted = await probe(url) else { return #expect(Bool(false), "it is trusted") }
        guard case .answered = await probe(url, { $0.caFile = server.caFile }) else {
            return #expect(Bool(false), "it is not trusted")
        }
    }
}
