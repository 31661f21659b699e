import BundleValues
import BundleFetch
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@Suite("Traffic limits", .ownThread) struct TrafficTests {
    private static func options(_ traffic: Traffic) -> FetchOptions {
        var options = FetchOptions(userAgent: "t")
        options.traffic = traffic
        return options
    }

    /// Fetches the same file several times at once.
    private static func fetch(_ count: Int, _ url: FetchURL, _ fetchers: [CurlFetcher]) async throws -> [[UInt8]] {
        try await withThrowingTaskGroup(of: [UInt8].self) { group in
            for index in 0..<count {
                let fetcher = fetchers[index % fetchers.count]
                group.addTask { try await fetcher.fetchBytes(url, maximumBytes: 1 << 20) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test func `limits the transfers of two fetchers together`() async throws {
        let bytes = noise(100_000)
        let server = try LoopbackServer(["/a": Route(bytes)])
        let traffic = Traffic()
        traffic.limit(rate: 200_000)
        let fetchers = [CurlFetcher(options: Self.options(traffic)), CurlFetcher(options: Self.options(traffic))]
        let start = ContinuousClock.now
        let received = try await Self.fetch(4, try server.url("/a"), fetchers)
        let elapsed = start.duration(to: .now)
        #expect(received == [bytes, bytes, bytes, bytes])
        #expect(traffic.total == 400_000)
        // Two buffers may exceed the tokens at the end.
        #expect(elapsed >= .seconds(1.8))
    }

    @Test func `does not count a pause as a stall`() async throws {
        let bytes = noise(60_000)
        let server = try LoopbackServer(["/a": Route(bytes)])
        let traffic = Traffic()
        traffic.limit(rate: 40_000)
        var options = Self.options(traffic)
        options.stallTimeout = .milliseconds(200)
        options.minimumCeiling = .seconds(1)
        options.ceilingRate = 1 << 30
        #expect(try await Self.fetch(1, try server.url("/a"), [CurlFetcher(options: options)]) == [bytes])
    }

    @Test func `continues at full speed when the limit is removed`() async throws {
        let bytes = noise(1 << 20)
        let server = try LoopbackServer(["/a": Route(bytes)])
        let traffic = Traffic()
        traffic.limit(rate: 8000)
        let fetcher = CurlFetcher(options: Self.options(traffic))
        async let received = Self.fetch(1, try server.url("/a"), [fetcher])
        while traffic.total == 0 { try await Task.sleep(for: .milliseconds(5)) }
        traffic.limit(rate: nil)
        #expect(try await received == [bytes])
    }

    @Test func `ends a paused transfer at once when its task is cancelled`() async throws {
        let server = try LoopbackServer(["/a": Route(noise(1 << 20))])
        let traffic = Traffic()
        traffic.limit(rate: 8000)
        let fetcher = CurlFetcher(options: Self.options(traffic))
        let url = try server.url("/a")
        let task = Task { try await fetcher.fetchBytes(url, maximumBytes: 1 << 20) }
        while traffic.total == 0 { try await Task.sleep(for: .milliseconds(5)) }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }
}

@Suite("OriginHeaders", .ownThread) struct OriginHeadersTests {
    @Test func `does not send the header fields after a redirect to another origin`() async throws {
        let other = try LoopbackServer(["/b": Route(Array("b".utf8))])
        let server = try LoopbackServer(["/a": .redirect(to: "\(try other.url("/b"))")])
        var options = FetchOptions(userAgent: "t")
        options.headers = try OriginHeaders([("X-Site", "12")], origin: try server.url("/").origin)
        _ = try await CurlFetcher(options: options).fetchBytes(try server.url("/a"), maximumBytes: 10)
        #expect(server.requests.map { $0["X-Site"] } == ["12"])
        #expect(other.requests.map { $0["X-Site"] } == [nil])
    }

    @Test func `rejects an origin without encryption on another machine`() throws {
        let origin = try FetchURL(parsing: "http://a.example/").origin
        #expect(throws: CredentialError.self) { try OriginHeaders([("X-Site", "12")], origin: origin) }
    }
}

@Suite("HeaderFile") struct HeaderFileTests {
    @Test func `reads one header field in each line`() throws {
        let fields = try HeaderFile.parse(Array("# site\nX-Site: 12\r\n\nAuthorization:  Basic abc== \n".utf8))
        #expect(fields.map(\.name) == ["X-Site", "Authorization"])
        #expect(fields.map(\.value) == ["12", "Basic abc=="])
    }

    @Test(arguments: [
        ("", HeaderFile.HeaderRefusal.none), ("# only a comment\n", .none), ("X-Site", .notAField(line: 1)),
        ("X-A: 1\nX Site: 12", .notAField(line: 2)), (": 12", .notAField(line: 1)), ("X-Site:", .notAField(line: 1)),
        ("X-Site: 1\u{7}", .notAField(line: 1)), ("X-Site: ä", .notAField(line: 1)), ("Host: a", .reserved("Host")),
        ("range: bytes=0-", .reserved("range")),
    ]) func `rejects a line that is not a header field or replaces one of a fetch`(
        text: String, refusal: HeaderFile.HeaderRefusal
    ) {
        #expect(throws: refusal) { try HeaderFile.parse(Array(text.utf8)) }
    }
}

/// Fails without `openssl` and `python3`.
@Suite("ClientCertificate", .ownThread) struct ClientCertificateTests {
    private static func fetch(_ authority: TestAuthority, _ certificate: ClientCertificate?) async throws -> Fetched {
        let server = try CertificateServer(authority, clients: authority.authorityFile)
        var options = FetchOptions(userAgent: "t", caFile: authority.authorityFile)
        options.clientCertificate = certificate
        let url = try FetchURL(parsing: "https://127.0.0.1:\(server.port)/")
        var fetched = await Fetched(CurlFetcher(options: options), url)
        // A server may close the connection before the client has read its alert.
        for _ in 0..<20 {
            guard case .unreachable? = fetched.fetchError else { break }
            fetched = await Fetched(CurlFetcher(options: options), url)
        }
        return fetched
    }

    private static func reason(_ fetched: Fetched) -> String {
        guard case .tlsFailed(_, let reason)? = fetched.fetchError else {
            return "\(String(describing: fetched.error))"
        }
        return reason
    }

    @Test func `sends the certificate to a server that requires one`() async throws {
        let authority = try TestAuthority(names: "IP:127.0.0.1")
        let fetched = try await Self.fetch(
            authority, ClientCertificate(path: authority.certificateFile, keyPath: authority.keyFile))
        #expect(fetched.sink.text == "ok", "\(String(describing: fetched.error))")
    }

    @Test func `reports a missing certificate`() async throws {
        let fetched = try await Self.fetch(try TestAuthority(names: "IP:127.0.0.1"), nil)
        #expect(Self.reason(fetched) == "the server requires a client certificate (--client-cert and --client-key)")
    }

    @Test func `names a certificate of another authority in the failure`() async throws {
        let other = try TestAuthority(names: "IP:127.0.0.1")
        let fetched = try await Self.fetch(
            try TestAuthority(names: "IP:127.0.0.1"),
            ClientCertificate(path: other.certificateFile, keyPath: other.keyFile))
        #expect(Self.reason(fetched).hasPrefix("the server refuses the client certificate \(other.certificateFile)"))
    }

    @Test func `names a certificate in the failure if the key does not match it`() async throws {
        let authority = try TestAuthority(names: "IP:127.0.0.1")
        let other = try TestAuthority(names: "IP:127.0.0.1")
        let fetched = try await Self.fetch(
            authority, ClientCertificate(path: authority.certificateFile, keyPath: other.keyFile))
        #expect(Self.reason(fetched).hasPrefix("the client certificate \(authority.certificateFile) or its key cannot"))
    }
}
