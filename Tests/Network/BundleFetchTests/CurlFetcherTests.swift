import BundleCore
import BundleValues
import BundleFetch
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@Suite(.ownThread) struct CurlFetcherTests {
    let fetcher = CurlFetcher(options: FetchOptions(userAgent: "clientctl/1.2.3"))

    @Test func `passes head and body to the sink`() async throws {
        let server = try LoopbackServer(["/a": .resource(Array("hello".utf8), entityTag: "\"e\"", lastModified: "date")]
        )
        let fetched = await Fetched(fetcher, try server.url("/a"))
        #expect(
            fetched.head
                == FetchHead(
                    status: 200, effectiveURL: try server.url("/a"), contentLength: 5, entityTag: "\"e\"",
                    lastModified: "date"))
        #expect(fetched.sink.heads == [fetched.head])
        #expect(fetched.sink.text == "hello")
    }

    @Test func `sends a GET request with few headers`() async throws {
        let server = try LoopbackServer(["/a?b=c": Route()])
        #expect(try await fetcher.fetchBytes(try server.url("/a?b=c#d"), maximumBytes: 0) == [])
        let request = try #require(server.requests.first)
        #expect(request.method == "GET")
        #expect(request.target == "/a?b=c")
        #expect(request.headers.map(\.name) == ["Host", "User-Agent", "Accept", "Accept-Encoding"])
        #expect(request["User-Agent"] == "clientctl/1.2.3")
    }

    @Test func `reuses its connection after an error with a body`() async throws {
        let server = try LoopbackServer(["/a": Route(Array("a".utf8))])
        _ = try await fetcher.fetchBytes(try server.url("/a"), maximumBytes: 1)
        _ = await Fetched(fetcher, try server.url("/missing"))
        _ = try await fetcher.fetchBytes(try server.url("/a"), maximumBytes: 1)
        #expect(server.requests.map(\.connection) == [1, 1, 1])
    }

    @Test(arguments: [Route.Framing.chunked, .untilClose, .honest])
    func `receives a large body with any framing`(framing: Route.Framing) async throws {
        let bytes = noise(300_000)
        let server = try LoopbackServer(["/a": Route(bytes).with { $0.framing = framing }])
        #expect(try await fetcher.fetchBytes(try server.url("/a"), maximumBytes: bytes.count) == bytes)
    }

    @Test func `runs many transfers in parallel`() async throws {
        let server = try LoopbackServer()
        for index in 0..<100 { server.set("/\(index)", Route(Array("body \(index)".utf8))) }
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for index in 0..<100 {
                let url = try server.url("/\(index)")
                group.addTask { try await fetcher.fetchBytes(url, maximumBytes: 100) == Array("body \(index)".utf8) }
            }
            for try await isRight in group { #expect(isRight) }
        }
        #expect(server.connectionCount <= 8)
    }

    @Test func `fetches a file over HTTP`() async throws {
        let folder = try TemporaryFolder()
        try folder.write(Array("content".utf8), to: "file")
        let server = try LoopbackServer(folder: folder.path)
        #expect(try await fetcher.fetchBytes(try server.url("/file"), maximumBytes: 100) == Array("content".utf8))
    }

    @Test(arguments: [201, 204, 304, 401, 404, 416, 429, 500, 503])
    func `reports any other status without calling the sink`(status: Int) async throws {
        let server = try LoopbackServer(["/a": Route(status == 204 || status == 304 ? [] : [1, 2], status: status)])
        let fetched = await Fetched(fetcher, try server.url("/a"))
        #expect(fetched.fetchError == .httpStatus(status, try server.url("/a"), retryAfter: nil))
        #expect(fetched.sink.heads.isEmpty && fetched.sink.bytes.isEmpty)
    }

    @Test func `sends If-None-Match for a known tag`() async throws {
        let server = try LoopbackServer(["/a": .resource(Array("{}".utf8), entityTag: "W/\"1\"")])
        let url = try server.url("/a")
        let first = try #require(try await fetcher.fetchDocument(url, maximumBytes: 9, unless: nil))
        #expect(first.bytes == Array("{}".utf8) && first.tag == "W/\"1\"")
        let same = await Fetched(fetcher, url, knownTag: first.tag)
        #expect(same.head?.status == 304 && same.sink.heads.isEmpty && same.sink.bytes.isEmpty)
        #expect(try await fetcher.fetchDocument(url, maximumBytes: 9, unless: first.tag) == nil)
        server.set("/a", .resource(Array("{ }".utf8), entityTag: "\"2\""))
        #expect(try await fetcher.fetchDocument(url, maximumBytes: 9, unless: first.tag)?.bytes == Array("{ }".utf8))
        #expect(server.requests.map { $0["If-None-Match"] } == [nil, first.tag, first.tag, first.tag])
    }

    private static let gzip: [UInt8] = [
        0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xAB, 0x56, 0x4A, 0x54, 0xB2, 0x32, 0xAC, 0x05,
        0x00, 0xAF, 0xAC, 0x1B, 0x56, 0x07, 0x00, 0x00, 0x00,
    ]
    private static let deflate: [UInt8] = [
        0x78, 0x9C, 0xAB, 0x56, 0x4A, 0x54, 0xB2, 0x32, 0xAC, 0x05, 0x00, 0x08, 0x2A, 0x02, 0x09,
    ]
    /// 60,000 spaces.
    private static let bomb: [UInt8] = [
        0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xED, 0xC1, 0x31, 0x01, 0x00, 0x00, 0x00, 0xC2,
        0xA0, 0x2A, 0xEB, 0x9F, 0xD2, 0x1A, 0x1E, 0x40, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x7C, 0x19, 0xFC, 0xC1, 0x9D, 0xC9,
        0x60, 0xEA, 0x00, 0x00,
    ]

    private func server(_ bytes: [UInt8], encoding: String) throws -> LoopbackServer {
        try LoopbackServer(["/a": Route(bytes).with { $0.headers = [("Content-Encoding", encoding)] }])
    }

    @Test(arguments: [("gzip", gzip), ("x-gzip", gzip), ("deflate", deflate)])
    func `decodes a document that a server encoded without being asked`(encoding: String, bytes: [UInt8]) async throws {
        let server = try server(bytes, encoding: encoding)
        #expect(try await fetcher.fetchDocument(server.url("/a"), maximumBytes: 100) == Array(#"{"a":1}"#.utf8))
        #expect(server.requests.first?["Accept-Encoding"] == "identity")
    }

    @Test func `limits the decoded size of a document`() async throws {
        let server = try server(Self.bomb, encoding: "gzip")
        let url = try server.url("/a")
        await #expect(throws: FetchError.tooLarge(limit: 1000, url)) {
            try await fetcher.fetchDocument(url, maximumBytes: 1000)
        }
    }

    @Test(arguments: ["gzip", "unheard-of"]) func `reports a body that is not encoded as its header states`(
        encoding: String
    )
        async throws
    {
        let server = try server(Array("{}".utf8), encoding: encoding)
        let url = try server.url("/a")
        let error = await #expect(throws: FetchError.self) { try await fetcher.fetchDocument(url, maximumBytes: 9) }
        guard case .invalidResponse? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test func `does not decode a download`() async throws {
        let server = try server(Self.gzip, encoding: "gzip")
        let fetched = await Fetched(fetcher, try server.url("/a"))
        #expect(fetched.sink.bytes == Self.gzip)
    }

    @Test(arguments: ["", "\"a\"\r\nX-Evil: 1", "\"\u{E9}\"", String(repeating: "x", count: 1025)])
    func `drops a tag that is not a valid header value`(tag: String) async throws {
        let server = try LoopbackServer(["/a": Route([1])])
        let fetched = await Fetched(fetcher, try server.url("/a"), knownTag: tag)
        #expect(fetched.sink.bytes == [1])
        #expect(server.requests[0].headers.allSatisfy { !["If-None-Match", "X-Evil"].contains($0.name) })
    }

    @Test(arguments: [("7", Duration.seconds(7)), ("99999999", .seconds(86400)), ("soon", nil), ("-1", nil)])
    func `reports Retry-After up to a day`(text: String, wait: Duration?) async throws {
        let route = Route([], status: 503).with { $0.headers = [("Retry-After", text)] }
        let server = try LoopbackServer(["/a": route])
        let fetched = await Fetched(fetcher, try server.url("/a"))
        #expect(fetched.fetchError == .httpStatus(503, try server.url("/a"), retryAfter: wait))
    }

    @Test func `reports the status of an endless error page`() async throws {
        let server = try LoopbackServer(["/a": Route([], status: 404).with { $0.body = .endless }])
        let fetched = await Fetched(fetcher, try server.url("/a"))
        #expect(fetched.fetchError == .httpStatus(404, try server.url("/a"), retryAfter: nil))
    }

    @Test func `skips interim responses and ignores trailers`() async throws {
        let raw = """
            HTTP/1.1 103 Early\r\nETag: "wrong"\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r
            2\r\nok\r\n0\r\nETag: "late"\r\n\r\n
            """
        let server = try LoopbackServer(["/a": Route().with { $0.raw = Array(raw.utf8) }])
        let fetched = await Fetched(fetcher, try server.url("/a"))
        #expect(fetched.sink.text == "ok")
        #expect(fetched.head?.entityTag == nil)
    }

    @Test func `prefers chunks to a stated length (RFC 9112, section 6.3)`() async throws {
        let raw = "HTTP/1.1 200 OK\r\nContent-Length: 999\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
        let server = try LoopbackServer(["/a": Route().with { $0.raw = Array(raw.utf8) }])
        let fetched = await Fetched(fetcher, try server.url("/a"), maximumBytes: 2)
        #expect(fetched.sink.text == "ok")
        #expect(fetched.head?.contentLength == nil)
    }

    // MARK: Size

    @Test func `rejects a stated length above the limit before the first byte`() async throws {
        let server = try LoopbackServer(["/a": Route([UInt8](repeating: 1, count: 11))])
        let fetched = await Fetched(fetcher, try server.url("/a"), maximumBytes: 10)
        #expect(fetched.fetchError == .tooLarge(limit: 10, try server.url("/a")))
        #expect(fetched.sink.heads.isEmpty)
        #expect(await Fetched(fetcher, try server.url("/a"), maximumBytes: 11).sink.bytes.count == 11)
    }

    @Test func `rejects a stated length above Int.max before the first byte`() async throws {
        let route = Route([1]).with { $0.framing = .stated("99999999999999999999") }
        let server = try LoopbackServer(["/a": route])
        let fetched = await Fetched(fetcher, try server.url("/a"))
        #expect(fetched.fetchError == .tooLarge(limit: 1 << 20, try server.url("/a")))
        #expect(fetched.sink.heads.isEmpty)
    }

    @Test(arguments: [Route.Framing.honest, .chunked])
    func `aborts an endless body at the limit`(framing: Route.Framing) async throws {
        let route = Route().with {
            $0.body = .endless
            $0.framing = framing
        }
        let server = try LoopbackServer(["/a": route])
        let fetched = await Fetched(fetcher, try server.url("/a"), maximumBytes: 100_000)
        #expect(fetched.fetchError == .tooLarge(limit: 100_000, try server.url("/a")))
        #expect(fetched.sink.bytes.count <= 100_000)
    }

    @Test func `receives at most the stated length`() async throws {
        let server = try LoopbackServer(["/a": Route(Array("hello".utf8)).with { $0.framing = .stated("2") }])
        #expect(await Fetched(fetcher, try server.url("/a")).sink.text == "he")
    }

    @Test(arguments: [
        "Content-Length: 2\r\nContent-Length: 3\r\n", "Content-Length: two\r\n", "Content-Length: -2\r\n",
        "Content-Length:\r\n",
    ])
    func `rejects an invalid Content-Length`(lines: String) async throws {
        let raw = Array("HTTP/1.1 200 OK\r\n\(lines)\r\nok".utf8)
        let server = try LoopbackServer(["/a": Route().with { $0.raw = raw }])
        let fetched = await Fetched(fetcher, try server.url("/a"))
        #expect(fetched.error != nil)
        #expect(fetched.sink.heads.isEmpty)
    }

    @Test(arguments: [1, 200])
    func `aborts an endless header`(lineLength: Int) async throws {
        let line = "X: " + String(repeating: "a", count: lineLength * 1000) + "\r\n"
        let raw = "HTTP/1.1 200 OK\r\n" + String(repeating: line, count: 200 / lineLength) + "\r\nok"
        let server = try LoopbackServer(["/a": Route().with { $0.raw = Array(raw.utf8) }])
        let fetched = await Fetched(fetcher, try server.url("/a"))
        #expect(fetched.error != nil)
        #expect(fetched.sink.heads.isEmpty)
    }

    @Test func `rejects a header above the limit`() async throws {
        var options = FetchOptions(userAgent: "t")
        options.maximumHeaderBytes = 100
        let long = Route().with { $0.headers = [("X", String(repeating: "a", count: 100))] }
        let server = try LoopbackServer(["/long": long, "/short": Route()])
        let fetcher = CurlFetcher(options: options)
        #expect(
            await Fetched(fetcher, try server.url("/long")).fetchError
                == .invalidResponse(try server.url("/long"), reason: "its header has more than 100 bytes"))
        #expect(await Fetched(fetcher, try server.url("/short")).error == nil)
    }

    // MARK: Broken responses

    @Test(arguments: [Route.Framing.honest, .chunked])
    func `reports an incomplete body`(framing: Route.Framing) async throws {
        let route = Route([UInt8](repeating: 1, count: 5000)).with {
            $0.framing = framing
            $0.pace = .cut(after: 2000)
        }
        let server = try LoopbackServer(["/a": route])
        let fetched = await Fetched(fetcher, try server.url("/a"))
        guard case .unreachable = fetched.fetchError else {
            Issue.record("\(String(describing: fetched.error))")
            return
        }
        #expect(fetched.sink.bytes.count == 2000)
    }

    @Test(arguments: ["", "HTTP/1.1 200 OK\r\n", "hello\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/9 200 OK\r\n\r\n"])
    func `rejects a response that is not HTTP`(raw: String) async throws {
        let server = try LoopbackServer(["/a": Route().with { $0.raw = Array(raw.utf8) }])
        let fetched = await Fetched(fetcher, try server.url("/a"))
        #expect(fetched.fetchError != nil)
        #expect(fetched.sink.bytes.isEmpty)
    }

    @Test func `reports an unreachable server`() async throws {
        let server = try LoopbackServer()
        server.stop()
        guard case .unreachable(let url, _) = await Fetched(fetcher, try server.url("/a")).fetchError else {
            Issue.record("no error")
            return
        }
        #expect(url == (try server.url("/a")))
    }

    // MARK: Sink

    @Test func `throws the error of the sink`() async throws {
        let server = try LoopbackServer(["/a": Route([UInt8](repeating: 1, count: 100_000))])
        let atHead = await Fetched(fetcher, try server.url("/a"), sink: RecordingSink(refusesHead: true))
        #expect(atHead.error as? RecordingSink.Refusal == RecordingSink.Refusal())
        #expect(atHead.sink.bytes.isEmpty)
        let atBody = await Fetched(fetcher, try server.url("/a"), sink: RecordingSink(capacity: 10))
        #expect(atBody.error as? RecordingSink.Refusal == RecordingSink.Refusal())
        #expect(atBody.sink.bytes.count > 10)
    }

    // MARK: Proxy

    @Test func `uses the proxy from the environment`() async throws {
        await #expect(processExitsWith: .success) {
            let proxy = try LoopbackServer(["http://feed.invalid/x": Route(Array("by proxy".utf8))])
            setenv("http_proxy", "http://127.0.0.1:\(proxy.port)", 1)
            let fetcher = CurlFetcher(options: FetchOptions(userAgent: "t"))
            let url = try FetchURL(parsing: "http://feed.invalid/x")
            #expect(try await fetcher.fetchBytes(url, maximumBytes: 100) == Array("by proxy".utf8))
        }
    }

    @Test func `names the proxy that does not accept connections, without its password`() async throws {
        var options = FetchOptions(userAgent: "t")
        // No program listens on port 1.
        options.proxy = "http://user:secret@127.0.0.1:1/"
        let fetched = await Fetched(CurlFetcher(options: options), try FetchURL(parsing: "http://feed.invalid/x"))
        let text = try #require(fetched.fetchError.map { "\($0)" })
        #expect(text.contains("http://feed.invalid/x is not reachable: "))
        #expect(text.contains(" through the proxy 127.0.0.1:1"))
        #expect(!text.contains("secret"))
    }

    @Test func `does not use a proxy for this machine`() async throws {
        await #expect(processExitsWith: .success) {
            let proxy = try LoopbackServer { _ in Route(Array("by proxy".utf8)) }
            for name in ["http_proxy", "ALL_PROXY"] { setenv(name, "http://127.0.0.1:\(proxy.port)", 1) }
            // Would replace the built-in exception for this machine if libcurl read it.
            setenv("no_proxy", "elsewhere.example", 1)
            let server = try LoopbackServer(["/m": Route(Array("straight".utf8))])
            for host in ["127.0.0.1", "localhost"] {
                let url = try FetchURL(parsing: "http://\(host):\(server.port)/m")
                let credential = try BearerCredential(tokenFile: Array("secret".utf8), origin: url.origin)
                var options = FetchOptions(userAgent: "t")
                options.credential = credential
                let fetcher = CurlFetcher(options: options)
                #expect(try await fetcher.fetchBytes(url, maximumBytes: 100) == Array("straight".utf8))
            }
            #expect(proxy.connectionCount == 0)
            #expect(server.requests.map { $0["Authorization"] } == ["Bearer secret", "Bearer secret"])
        }
    }
}
