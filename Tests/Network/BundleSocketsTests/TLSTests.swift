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

/// Fails without `openssl` and `python3`.
@Suite("SocketConnector with a client certificate", .ownThread)
struct ClientCertificateSocketTests {
    private let authority: TestAuthority

    init() throws { authority = try TestAuthority(names: "IP:127.0.0.1") }

    /// Opens a socket on a server that accepts the certificates of `clients`. Returns the description of the error, or "open".
    private func connect(_ client: TestAuthority?, accepting clients: TestAuthority, page: String = "") async throws
        -> String
    {
        let server = try CertificateServer(authority, clients: clients.authorityFile, page: page)
        var options = FetchOptions(userAgent: "tests/1", caFile: authority.authorityFile)
        options.clientCertificate = client.map { ClientCertificate(path: $0.certificateFile, keyPath: $0.keyFile) }
        let connector = SocketConnector(.patient(), over: CurlStreamConnector(options: options))
        let url = try SocketURL(parsing: "wss://127.0.0.1:\(server.port)/push")
        // A server may close the connection before the client has read its alert.
        var failure = ""
        for _ in 0..<20 {
            do {
                let transport = try await connector.connect(url)
                await transport.close()
                return "open"
            } catch TransportError.clientCertificate(let reason) {
                return reason
            } catch {
                failure = "\(error)"
            }
        }
        return failure
    }

    @Test func `opens a socket on a server that requires one`() async throws {
        #expect(try await connect(authority, accepting: authority) == "open")
    }

    @Test(arguments: ["", "No required SSL certificate was sent"])
    func `reports that the server requires a certificate if there is none`(page: String) async throws {
        let error = try await connect(nil, accepting: authority, page: page)
        #expect(error == "the server requires a client certificate (--client-cert and --client-key)")
    }

    @Test(arguments: ["", "The SSL certificate error"])
    func `reports that the server refuses the certificate of another authority`(page: String) async throws {
        let other = try TestAuthority(names: "IP:127.0.0.1")
        let error = try await connect(other, accepting: authority, page: page)
        #expect(
            error.hasPrefix("the server refuses the client certificate \(other.certificateFile): it was revoked, or"))
    }

    @Test(arguments: ["", "The SSL certificate error"])
    func `reports that the certificate has expired`(page: String) async throws {
        let expired = try TestAuthority(names: "IP:127.0.0.1", days: -1)
        let error = try await connect(expired, accepting: expired, page: page)
        #expect(
            error.hasPrefix("the server refuses the client certificate \(expired.certificateFile): it expired on"))
    }

    @Test func `reports a certificate whose key does not fit`() async throws {
        let other = try TestAuthority(names: "IP:127.0.0.1")
        var options = FetchOptions(userAgent: "tests/1", caFile: authority.authorityFile)
        options.clientCertificate = ClientCertificate(path: authority.certificateFile, keyPath: other.keyFile)
        let server = try CertificateServer(authority, clients: authority.authorityFile)
        let connector = SocketConnector(.patient(), over: CurlStreamConnector(options: options))
        let error = await #expect(throws: TransportError.self) {
            try await connector.connect(try SocketURL(parsing: "wss://127.0.0.1:\(server.port)/push"))
        }
        #expect(
            "\(error.map { "\($0)" } ?? "")".hasPrefix("the client certificate \(authority.certificateFile) or its key")
        )
    }
}
