import BundleFetch
import BundleTransport
import BundleSockets
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// Each test runs in a separate process, because the environment names the proxies.
@Suite("SocketConnector with a proxy", .ownThread)
struct ProxyTests {
    private static func connect(_ url: String, trusting caFile: String? = nil) async throws -> TransportMessage? {
        var configuration = SocketConnector.Configuration.patient()
        configuration.fields = [("Authorization", "Bearer secret")]
        let connector = SocketConnector(
            configuration, over: CurlStreamConnector(options: FetchOptions(userAgent: "tests/1", caFile: caFile)))
        let transport = try await connector.connect(try SocketURL(parsing: url))
        try await transport.sendText("through")
        let message = try await transport.receive()
        await transport.close()
        return message
    }

    @Test func `tunnels a wss socket through a proxy and sends its token to the server only`() async throws {
        await #expect(processExitsWith: .success) {
            let authority = try TestAuthority(names: "DNS:feed.example")
            let echo = try await EchoServer.start()
            let front = try TLSFront(authority, before: echo.port)
            let proxy = try ConnectProxy(to: front.port)
            setenv("https_proxy", "http://127.0.0.1:\(proxy.port)", 1)
            #expect(
                try await Self.connect("wss://feed.example/push", trusting: authority.authorityFile)
                    == .text("through"))
            let request = proxy.nextRequest()
            #expect(request.hasPrefix("CONNECT feed.example:443 HTTP/1.1|"))
            #expect(!request.contains("secret"))
        }
    }

    @Test func `tunnels a ws socket through a proxy`() async throws {
        await #expect(processExitsWith: .success) {
            let echo = try await EchoServer.start()
            let proxy = try ConnectProxy(to: echo.port)
            setenv("http_proxy", "http://127.0.0.1:\(proxy.port)", 1)
            #expect(try await Self.connect("ws://feed.example:8080/push") == .text("through"))
            #expect(proxy.nextRequest().hasPrefix("CONNECT feed.example:8080 HTTP/1.1|"))
        }
    }

    @Test func `reports a proxy that does not open a tunnel`() async throws {
        await #expect(processExitsWith: .success) {
            let proxy = try ConnectProxy(to: 9, status: 403)
            setenv("https_proxy", "http://127.0.0.1:\(proxy.port)", 1)
            do {
                _ = try await Self.connect("wss://feed.example/push")
                Issue.record("it was opened")
            } catch TransportError.unreachable(let reason) {
                #expect(reason.contains("403"))
            }
        }
    }

    @Test func `connects to this machine without a proxy`() async throws {
        await #expect(processExitsWith: .success) {
            let echo = try await EchoServer.start()
            for name in ["http_proxy", "ALL_PROXY"] { setenv(name, "http://127.0.0.1:9", 1) }
            for host in ["127.0.0.1", "localhost"] {
                #expect(try await Self.connect("ws://\(host):\(echo.port)/push") == .text("through"))
            }
        }
    }
}
