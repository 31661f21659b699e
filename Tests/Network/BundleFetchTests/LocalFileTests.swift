import BundleCore
import BundleValues
import BundleFetch
import BundleTesting
import Glibc
import Testing

@Suite struct LocalFileTests {
    let fetcher = CurlFetcher(options: FetchOptions(userAgent: "t"))
    let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    func url(_ name: String) throws -> FetchURL { try FetchURL(filePath: Array(folder.file(name).utf8)) }

    @Test func `passes head and content to the sink`() async throws {
        let content = noise(600_000)
        try folder.write(content, to: "a b")
        let fetched = await Fetched(fetcher, try url("a b"))
        #expect(fetched.head?.status == 200)
        #expect(fetched.head?.contentLength == content.count)
        #expect(fetched.sink.heads == [fetched.head])
        #expect(fetched.sink.bytes == content)
    }

    @Test func `resumes unless the file has changed`() async throws {
        try folder.write(Array("0123456789".utf8), to: "a")
        let validator = try #require(await Fetched(fetcher, try url("a")).head?.validator)
        let resume = try #require(FetchRequest.Resume(offset: 4, validator: validator))
        let rest = await Fetched(fetcher, try url("a"), resume: resume)
        #expect(rest.head?.status == 206)
        #expect(rest.head?.rangeStart == 4)
        #expect(rest.head?.contentLength == 6)
        #expect(rest.sink.text == "456789")

        try folder.write(Array("changed".utf8), to: "a")
        let whole = await Fetched(fetcher, try url("a"), resume: resume)
        #expect(whole.head?.rangeStart == nil)
        #expect(whole.sink.text == "changed")
    }

    @Test func `returns 416 for a range after the end`() async throws {
        try folder.write([1, 2], to: "a")
        let validator = try #require(await Fetched(fetcher, try url("a")).head?.validator)
        let resume = try #require(FetchRequest.Resume(offset: 2, validator: validator))
        let fetched = await Fetched(fetcher, try url("a"), resume: resume)
        #expect(fetched.fetchError == .httpStatus(416, try url("a"), retryAfter: nil))
    }

    @Test(arguments: [9, 10])
    func `rejects a file above the limit before the first byte`(limit: Int) async throws {
        try folder.write(Array("0123456789".utf8), to: "a")
        let fetched = await Fetched(fetcher, try url("a"), maximumBytes: limit)
        #expect(fetched.fetchError == (limit == 9 ? .tooLarge(limit: 9, try url("a")) : nil))
        #expect(fetched.sink.heads.isEmpty == (limit == 9))
    }

    @Test func `reports a missing file`() async throws {
        try folder.write([], to: "a")
        #expect(await Fetched(fetcher, try url("b")).fetchError == .fileMissing(try url("b")))
        #expect(await Fetched(fetcher, try url("a/b")).fetchError == .fileMissing(try url("a/b")))
        #expect(await Fetched(fetcher, try url("a")).error == nil)
    }

    @Test(.enabled(if: geteuid() != 0, "the superuser may read everything"))
    func `reports a missing permission`() async throws {
        let path = try folder.write([], to: "a")
        chmod(path, 0)
        #expect(await Fetched(fetcher, try url("a")).fetchError == .filePermission(try url("a")))
    }

    @Test func `rejects a path that is not a regular file`() async throws {
        mkfifo(folder.file("fifo"), 0o600)
        for url in [try url("fifo"), try FetchURL(filePath: Array(folder.path.utf8))] {
            #expect(await Fetched(fetcher, url).fetchError == .unreachable(url, reason: "it is not a regular file"))
        }
    }

    @Test func `throws the error of the sink`() async throws {
        try folder.write([1, 2], to: "a")
        let fetched = await Fetched(fetcher, try url("a"), sink: RecordingSink(refusesHead: true))
        #expect(fetched.error is RecordingSink.Refusal)
    }

    @Test func `ends a read when its task is cancelled`() async throws {
        try folder.write([UInt8](repeating: 1, count: 1 << 20), to: "a")
        let url = try url("a")
        let task = Task {
            await Fetched(
                fetcher, url, sink: RecordingSink(onBegin: { withUnsafeCurrentTask { $0?.cancel() } }))
        }
        let fetched = await task.value
        #expect(fetched.error is CancellationError)
        #expect(fetched.sink.bytes.isEmpty)
    }

    @Test func `fails when the file becomes shorter`() async throws {
        let path = try folder.write([UInt8](repeating: 1, count: 1 << 20), to: "a")
        let fetched = await Fetched(fetcher, try url("a"), sink: RecordingSink(onBegin: { truncate(path, 1000) }))
        #expect(
            fetched.fetchError
                == .unreachable(try url("a"), reason: "the file became shorter while it was read"))
    }
}
