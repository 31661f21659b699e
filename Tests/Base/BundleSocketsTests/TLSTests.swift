import BundlePlatform
import BundlePush
import BundleSockets
import BundleTestTraits
import BundleTesting
import Testing

@Suite(.ownThread)
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

    @Test func `a server that proves its name or address is talked with`() async throws {
        let named = try TestAuthority(names: "DNS:localhost")
        #expect(try await connect(named, host: "localhost") == .text("inside"))
        let addressed = try TestAuthority(names: "IP:127.0.0.1")
        #expect(try await connect(addressed) == .text("inside"))
    }

    @Test func `a certificate for another name or address is refused`() async throws {
        let other = try TestAuthority(names: "DNS:other.example,IP:127.0.0.2")
        #expect(await isUntrusted { try await connect(other, host: "localhost") })
        #expect(await isUntrusted { try await connect(other) })
    }

    @Test func `an authority that was not named is refused`() async throws {
        let authority = try TestAuthority(names: "IP:127.0.0.1")
        let other = try TestAuthority(names: "IP:127.0.0.1")
        #expect(await isUntrusted { try await connect(authority, trusting: other.authorityFile) })
        #expect(await isUntrusted { try await connect(authority, trusting: nil) })
    }

    @Test func `a certificate that is out of date is refused`() async throws {
        let authority = try TestAuthority(names: "IP:127.0.0.1", days: -1)
        #expect(await isUntrusted { try await connect(authority) })
    }

    @Test func `authorities that cannot be read are told`() async throws {
        let authority = try TestAuthority(names: "IP:127.0.0.1")
        #expect(await isUntrusted { try await connect(authority, trusting: "/nonexistent/ca.pem") })
    }

    @Test func `a socket in the clear does not open inside TLS`() async throws {
        let authority = try TestAuthority(names: "IP:127.0.0.1")
        await #expect(throws: TransportError.self) {
            try await connect(authority, trusting: authority.authorityFile, scheme: "ws")
        }
    }

    @Test func `TLS does not begin with a server in the clear`() async throws {
        let echo = try await EchoServer.start()
        let url = try SocketURL(parsing: "wss://127.0.0.1:\(echo.port)/push")
        await #expect(throws: TransportError.self) { try await Self.connector(trusting: nil).connect(url) }
        await echo.server.stop()
    }
}
