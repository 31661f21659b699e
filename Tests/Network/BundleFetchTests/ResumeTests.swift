import BundleValues
import BundleFetch
import BundleTestTraits
import BundleTesting
import Testing

@Suite(.ownThread) struct ResumeTests {
    let fetcher = CurlFetcher(options: FetchOptions(userAgent: "t"))
    let content = Array("0123456789".utf8)

    func resume(_ offset: Int, _ validator: String = "\"e\"") throws -> FetchRequest.Resume {
        try #require(FetchRequest.Resume(offset: offset, validator: validator))
    }

    @Test(arguments: [("\"e\"", nil), (nil, "Sat, 21 Nov 2026 10:00:00 GMT")] as [(String?, String?)])
    func `receives the rest`(tag: String?, date: String?) async throws {
        let server = try LoopbackServer(["/a": .resource(content, entityTag: tag, lastModified: date)])
        let validator = try #require(tag ?? date)
        let fetched = await Fetched(fetcher, try server.url("/a"), resume: try resume(4, validator))
        #expect(fetched.head?.status == 206)
        #expect(fetched.head?.rangeStart == 4)
        #expect(fetched.head?.contentLength == 6)
        #expect(fetched.sink.text == "456789")
        #expect(server.requests[0]["Range"] == "bytes=4-")
        #expect(server.requests[0]["If-Range"] == validator)
    }

    @Test func `receives the whole resource if it has changed`() async throws {
        let server = try LoopbackServer(["/a": .resource(content, entityTag: "\"changed\"")])
        let fetched = await Fetched(fetcher, try server.url("/a"), resume: try resume(4))
        #expect(fetched.head?.status == 200)
        #expect(fetched.head?.rangeStart == nil)
        #expect(fetched.sink.bytes == content)
    }

    @Test func `resumes after a closed connection`() async throws {
        let server = try LoopbackServer(["/a": .resource(content, entityTag: "\"e\"").with { $0.pace = .cut(after: 3) }]
        )
        let cut = await Fetched(fetcher, try server.url("/a"))
        #expect(cut.error != nil)
        server.set("/a", .resource(content, entityTag: "\"e\""))
        let validator = try #require(cut.sink.heads.first?.validator)
        let rest = await Fetched(
            fetcher, try server.url("/a"), resume: try resume(cut.sink.bytes.count, validator))
        #expect(cut.sink.bytes + rest.sink.bytes == content)
    }

    @Test func `sends the range after a redirect`() async throws {
        let server = try LoopbackServer(["/a": .redirect(to: "/b"), "/b": .resource(content, entityTag: "\"e\"")])
        #expect(await Fetched(fetcher, try server.url("/a"), resume: try resume(4)).sink.text == "456789")
    }

    @Test func `reports 416 for a range after the end`() async throws {
        let server = try LoopbackServer(["/a": .resource(content, entityTag: "\"e\"")])
        let fetched = await Fetched(fetcher, try server.url("/a"), resume: try resume(10))
        #expect(fetched.fetchError == .httpStatus(416, try server.url("/a"), retryAfter: nil))
    }

    @Test(arguments: [
        ("bytes 3-9/10", "starts at byte 3"), ("bytes 5-9/10", "starts at byte 5"), ("bytes 4-8/10", "the end"),
        ("bytes 4-10/10", "the end"), ("bytes 4-3/4", "cannot be read"), ("bytes 4-9", "cannot be read"),
        ("items 4-9/10", "cannot be read"), ("bytes */10", "cannot be read"),
        ("bytes 4-9/99999999999999999999", "the end"),
        ("", "cannot be read"),
    ])
    func `rejects a range other than the requested one`(range: String, reason: String) async throws {
        let route = Route(Array("456789".utf8), status: 206).with { $0.headers = [("Content-Range", range)] }
        let server = try LoopbackServer(["/a": route])
        let fetched = await Fetched(fetcher, try server.url("/a"), resume: try resume(4))
        guard case .invalidResponse(_, let found) = fetched.fetchError else {
            Issue.record("\(String(describing: fetched.error))")
            return
        }
        #expect(found.contains(reason))
        #expect(fetched.sink.heads.isEmpty)
    }

    @Test func `accepts a range without a total`() async throws {
        let route = Route(Array("456789".utf8), status: 206).with { $0.headers = [("Content-Range", "bytes 4-9/*")] }
        let server = try LoopbackServer(["/a": route])
        #expect(await Fetched(fetcher, try server.url("/a"), resume: try resume(4)).sink.text == "456789")
    }

    @Test func `rejects a range that was not requested`() async throws {
        let route = Route(content, status: 206).with { $0.headers = [("Content-Range", "bytes 0-9/10")] }
        let server = try LoopbackServer(["/a": route])
        let fetched = await Fetched(fetcher, try server.url("/a"))
        #expect(
            fetched.fetchError == .invalidResponse(try server.url("/a"), reason: "it is a part that was not requested"))
    }

    @Test func `rejects a range of another version`() async throws {
        let route = Route(Array("456789".utf8), status: 206).with {
            $0.headers = [("Content-Range", "bytes 4-9/10"), ("ETag", "\"other\"")]
        }
        let server = try LoopbackServer(["/a": route])
        let fetched = await Fetched(fetcher, try server.url("/a"), resume: try resume(4))
        #expect(
            fetched.fetchError
                == .invalidResponse(
                    try server.url("/a"), reason: "it is a part of another version than the one begun"))
    }

    @Test(arguments: [9, 10])
    func `includes the existing part in the limit`(limit: Int) async throws {
        let server = try LoopbackServer(["/a": .resource(content, entityTag: "\"e\"")])
        let fetched = await Fetched(fetcher, try server.url("/a"), maximumBytes: limit, resume: try resume(4))
        #expect(fetched.fetchError == (limit == 9 ? .tooLarge(limit: 9, try server.url("/a")) : nil))
        #expect(fetched.sink.heads.isEmpty == (limit == 9))
    }

    @Test(arguments: [("bytes 4-9/*", Route.Framing.honest), ("bytes 4-9/10", .chunked)])
    func `rejects a stated rest above the limit before the first byte`(
        range: String, framing: Route.Framing
    ) async throws {
        let route = Route(Array("456789".utf8), status: 206).with {
            $0.headers = [("Content-Range", range)]
            $0.framing = framing
        }
        let server = try LoopbackServer(["/a": route])
        let fetched = await Fetched(fetcher, try server.url("/a"), maximumBytes: 9, resume: try resume(4))
        #expect(fetched.fetchError == .tooLarge(limit: 9, try server.url("/a")))
        #expect(fetched.sink.heads.isEmpty)
    }

    @Test func `aborts a rest of unknown length at the limit`() async throws {
        let route = Route(Array("456789".utf8), status: 206).with {
            $0.headers = [("Content-Range", "bytes 4-9/*")]
            $0.framing = .untilClose
        }
        let server = try LoopbackServer(["/a": route])
        let fetched = await Fetched(fetcher, try server.url("/a"), maximumBytes: 9, resume: try resume(4))
        #expect(fetched.fetchError == .tooLarge(limit: 9, try server.url("/a")))
    }

    @Test func `rejects a rest with an overflowing length`() async throws {
        let route = Route([1], status: 206).with {
            $0.headers = [("Content-Range", "bytes 4-9/*")]
            $0.framing = .stated("\(Int.max)")
        }
        let server = try LoopbackServer(["/a": route])
        let fetched = await Fetched(fetcher, try server.url("/a"), maximumBytes: .max, resume: try resume(4))
        #expect(fetched.fetchError == .tooLarge(limit: .max, try server.url("/a")))
    }
}
