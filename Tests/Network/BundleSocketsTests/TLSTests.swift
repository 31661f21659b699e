import BundleFetch
import BundleTransport
import BundleSockets
import BundleTestTraits
import BundleTesting
import Testing

@Suite("SocketConnector with TLS", .ownThread)
struct TLSTests {
    private func connect(
        _ authority: TestAuthority, host: String = "127.0.0.1", trusting caFile: String?, scheme: String = "wss"
    ) async throws -> TransportMessage? {
        let echo = try await EchoServer.start()
        let front = try TLSFront(authority, before: echo.port)
        let url = try SocketURL(parsing: "\(scheme)://\(host):\(front.port)/push")
        let connector = Self.connector(trusting: caFile)
        let result: Result<TransportMessage?, any Error>
        do {
            let transport = try await connector.connect(url)
            try await transport.sendText("inside")
            result = .success(try await transport.receive())
            await transport.close()
        } catch {
            result = .failure(error)
        }
        await echo.server.stop()
        return try result.get()
    }

    private func connect(_ authority: TestAuthority, host: String = "127.0.0.1") async throws -> TransportMessage? {
        try await connect(authority, host: host, trusting: authority.authorityFile)
    }

    private static func connector(trusting caFile: String?) -> SocketConnector {
        SocketConnector(
            .patient(), over: CurlStreamConnector(options: FetchOptions(userAgent: "tests/1", caFile: caFile)))
    }

    private func isUntrusted(_ work: () async throws -> TransportMessage?) async -> Bool {
        do {
            _ = try await work()
            return false
        } catch TransportError.untrusted {
            return true
        } catch {
            Issue.record("\(error)")
            return false
        }
    }

    @Test func `connects to a server with a valid name or address`() async throws {
        let named = try TestAuthority(names: "DNS:localhost")
        #expect(try await connect(named, host: "localhost") == .text("inside"))
        let addressed = try TestAuthority(names: "IP:127.0.0.1")
        #expect(try await connect(addressed) == .text("inside"))
    }

    @Test func `rejects a certificate for another name or address`() async throws {
        let other = try TestAuthority(names: "DNS:other.example,IP:127.0.0.2")
        #expect(await isUntrusted { try await connect(other, host: "localhost") })
        #expect(await isUntrusted { try await connect(other) })
    }

    @Test func `rejects an authority that was not named`() async throws {
        let authority = try TestAuthority(names: "IP:127.0.0.1")
        let other = try TestAuthority(names: "IP:127.0.0.1")
        #expect(await isUntrusted { try await connect(authority, trusting: other.authorityFile) })
        #expect(await isUntrusted { try await connect(authority, trusting: nil) })
    }

    @Test func `rejects an expired certificate`() async throws {
        let authority = try TestAuthority(names: "IP:127.0.0.1", days: -1)
        #expect(await isUntrusted { try await connect(authority) })
    }

    @Test func `reports authorities that cannot be read`() async throws {
        let authority = try TestAuthority(names: "IP:127.0.0.1")
        #expect(await isUntrusted { try await connect(authority, trusting: "/nonexistent/ca.pem") })
    }

    @Test func `does not open a ws socket on a TLS server`() async throws {
        let authority = try TestAuthority(names: "IP:127.0.0.1")
        await #expect(throws: TransportError.self) {
            try await connect(authority, trusting: authority.authorityFile, scheme: "ws")
        }
    }

    @Test func `does not start TLS with a server without TLS`() async throws {
        let echo = try await EchoServer.start()
        let url = try SocketURL(parsing: "wss://127.0.0.1:\(echo.port)/push")
        await #expect(throws: TransportError.self) { try await Self.connector(trusting: nil).connect(url) }
        await echo.server.stop()
    }
}
