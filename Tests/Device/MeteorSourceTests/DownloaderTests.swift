import BundleValues
import BundleDisk
import BundleTransport
import BundleFetch
import BundleSigning
import BundleTestTraits
import BundleTesting
import Synchronization
import Testing

@testable import MeteorSource

@Suite("AssetDownloader", .ownThread) struct DownloaderTests {
    let index = Array("<html>".utf8)

    func server(_ files: [String: [UInt8]]) throws -> LoopbackServer {
        try LoopbackServer(files.mapValues { .resource($0, entityTag: "\"\($0.count)\"") })
    }

    @Test func `downloads all files into the tree`() async throws {
        let bench = try DownloadBench()
        let files = ["/": index, "/app/app.js": noise(5000), "/a/b/c.png": noise(700_000), "/empty.css": []]
        let server = try server(files)
        let jobs = try files.sorted { $0.key < $1.key }.map { try bench.job(server, $0.key, $0.value) }
        let result = try await bench.run(jobs)
        #expect(result.missing == [])
        #expect(result.bytesFromNetwork == files.values.map(\.count).reduce(0, +))
        #expect(result.files.count == 4)
        for asset in result.files {
            let job = jobs[asset.job]
            #expect(try bench.contents(job.file.string) == files[job.name])
            #expect(asset.receipt.sha256 == (try .of(files[job.name] ?? [])))
            #expect(asset.bytesFromNetwork == asset.receipt.size)
        }
        #expect(try bench.partNames() == [])
        #expect(bench.progress.values.last == DownloadProgress(bytes: result.bytesFromNetwork, files: 4))
        #expect(server.requests.allSatisfy { $0["Accept-Encoding"] == nil })
    }

    @Test func `completes without jobs`() async throws {
        #expect(try await DownloadBench().run([]).files == [])
    }

    @Test func `accepts the first file before it requests another`() async throws {
        let bench = try DownloadBench()
        let gate = try Gate()
        let server = try server(["/a.js": [1]])
        server.set("/", Route(index).with { $0.pace = .held(after: 3, gate) })
        let jobs = [try bench.job(server, "/", index), try bench.job(server, "/a.js", [1])]
        async let result = bench.run(jobs)
        await server.hasRequests(1)
        try await Task.sleep(for: .milliseconds(50))
        #expect(server.requests.map(\.target) == ["/"])
        gate.open()
        #expect(try await result.files.map(\.job) == [0, 1])
    }

    @Test func `requests nothing more after the first file is rejected`() async throws {
        let bench = try DownloadBench()
        let server = try server(["/": noise(3), "/a.js": [1]])
        await #expect(throws: WrongDigest.self) {
            _ = try await bench.run([try bench.job(server, "/", index), try bench.job(server, "/a.js", [1])])
        }
        #expect(server.requests.map(\.target) == ["/"])
        #expect(try bench.contents("index.html") == nil)
        #expect(try bench.partNames() == [])
    }

    @Test func `P33: limits the number of parallel requests`() async throws {
        let fetcher = Counting(CurlFetcher(options: FetchOptions(userAgent: "test")))
        let bench = try DownloadBench().with { $0.fetcher = fetcher }
        let gate = try Gate()
        let server = try server(["/": index])
        let paths = (0..<40).map { "/\($0).js" }
        for path in paths { server.set(path, Route(Array(path.utf8)).with { $0.pace = .held(after: 0, gate) }) }
        let jobs = try paths.map { try bench.job(server, $0, Array($0.utf8)) }
        async let result = bench.run([try bench.job(server, "/", index)] + jobs)
        await server.hasRequests(7)
        try await Task.sleep(for: .milliseconds(100))
        #expect(server.requests.count == 7)
        gate.open()
        #expect(try await result.files.count == 41)
        #expect(fetcher.most == 6)
        #expect(server.requests.prefix(7).map(\.target).sorted() == (["/"] + paths.prefix(6)).sorted())
    }

    @Test func `AN-06: succeeds after two responses of 500`() async throws {
        let bench = try DownloadBench()
        let server = try LoopbackServer(["/": Route([], status: 500)])
        let jobs = [try bench.job(server, "/", index)]
        async let result = bench.run(jobs)
        await bench.clock.sleeper(until: .milliseconds(100))
        bench.clock.advance(by: .milliseconds(100))
        await bench.clock.sleeper(until: .milliseconds(1100))
        server.set("/", Route(index))
        bench.clock.advance(by: .seconds(1))
        #expect(try await result.files.count == 1)
        #expect(server.requests.count == 3)
    }

    @Test func `N-15: waits for Retry-After of several 503 responses while other files continue`() async throws {
        let bench = try DownloadBench()
        let paths = (0..<20).map { "/\($0).js" }
        let server = try server(["/": index])
        for (number, path) in paths.enumerated() {
            let busy = Route([], status: 503).with { $0.headers = [("Retry-After", "7")] }
            server.set(path, number < 10 ? busy : Route(Array(path.utf8)))
        }
        let jobs = [try bench.job(server, "/", index)] + (try paths.map { try bench.job(server, $0, Array($0.utf8)) })
        async let result = bench.run(jobs)
        // A sleep that starts after the clock has advanced never ends.
        await bench.clock.sleeper(until: .seconds(7), count: 10)
        while bench.progress.values.last?.files != 11 { try await Task.sleep(for: .milliseconds(2)) }
        #expect(server.requests.count == 21)
        for path in paths { server.set(path, Route(Array(path.utf8))) }
        bench.clock.advance(by: .seconds(7))
        #expect(try await result.files.count == 21)
        #expect(server.requests.count == 31)
    }

    @Test func `N-06: retries after a refused connection`() async throws {
        let gone = try LoopbackServer()
        let dead = try gone.url("/")
        gone.stop()
        let bench = try DownloadBench().with { $0.fetcher = Detour($0.fetcher, to: dead, times: 1) }
        let server = try server(["/": index])
        let jobs = [try bench.job(server, "/", index)]
        async let result = bench.run(jobs)
        await bench.clock.sleeper(until: .milliseconds(100))
        bench.clock.advance(by: .milliseconds(100))
        #expect(try await result.files.count == 1)
    }

    @Test func `retries a connection that ends before the header, at most five times without progress`() async throws {
        let bench = try DownloadBench()
        let server = try LoopbackServer(["/": Route().with { $0.raw = [] }])
        let jobs = [try bench.job(server, "/", index)]
        async let result = bench.run(jobs)
        for end in [100, 1100, 3100, 7100] as [Int] {
            await bench.clock.sleeper(until: .milliseconds(end))
            bench.clock.advance(by: .milliseconds(end) - bench.clock.now.sinceStart)
        }
        do {
            _ = try await result
            Issue.record("It should not succeed.")
        } catch let failure as UpdateFailure {
            #expect(failure.code == .networkUnavailable)
            #expect(failure.subject == "/")
            #expect(failure.message.hasPrefix("Error downloading asset: /. "))
        }
    }

    @Test(arguments: [3000, 1_000_000])
    func `N-07: resumes a file after a lost connection`(size: Int) async throws {
        let bench = try DownloadBench()
        let content = noise(size)
        let whole = Route.resource(content, entityTag: "\"e\"")
        let server = try LoopbackServer(["/a.js": whole.with { $0.pace = .cut(after: size * 3 / 4) }])
        let jobs = [try bench.job(server, "/a.js", content)]
        async let result = bench.run(jobs)
        await bench.clock.sleeper(until: .milliseconds(100))
        server.set("/a.js", whole)
        bench.clock.advance(by: .milliseconds(100))
        let asset = try #require(try await result.files.first)
        #expect(asset.bytesFromNetwork == size)
        #expect(try bench.contents("a.js") == content)
        #expect(server.requests[1]["Range"] == "bytes=\(size * 3 / 4)-")
        #expect(server.requests[1]["If-Range"] == "\"e\"")
        #expect(try bench.partNames() == [])
    }

    @Test func `N-07: starts a file again if it has changed on the server`() async throws {
        let bench = try DownloadBench()
        let content = noise(1_000_000)
        let old = Route.resource(noise(1_000_000, seed: 9), entityTag: "\"old\"")
        let server = try LoopbackServer(["/a.js": old.with { $0.pace = .cut(after: 600_000) }])
        let jobs = [try bench.job(server, "/a.js", content)]
        async let result = bench.run(jobs)
        await bench.clock.sleeper(until: .milliseconds(100))
        server.set("/a.js", .resource(content, entityTag: "\"new\""))
        bench.clock.advance(by: .milliseconds(100))
        #expect(try await result.files.count == 1)
        #expect(try bench.contents("a.js") == content)
        #expect(server.requests[1]["Range"] == "bytes=600000-")
        #expect(try bench.partNames() == [])
    }

    @Test func `starts a file again without a strong validator`() async throws {
        let bench = try DownloadBench()
        let content = noise(1_000_000)
        let whole = Route.resource(content, entityTag: "W/\"e\"")
        let server = try LoopbackServer(["/a.js": whole.with { $0.pace = .cut(after: 600_000) }])
        let jobs = [try bench.job(server, "/a.js", content)]
        async let result = bench.run(jobs)
        await bench.clock.sleeper(until: .milliseconds(100))
        server.set("/a.js", whole)
        bench.clock.advance(by: .milliseconds(100))
        #expect(try await result.bytesFromNetwork == 1_600_000)
        #expect(server.requests[1]["Range"] == nil)
        #expect(try bench.partNames() == [])
    }

    @Test func `starts a part again if the server has no more bytes (416)`() async throws {
        let bench = try DownloadBench()
        let content = noise(400_000)
        let old = Route.resource(noise(1_000_000), entityTag: "\"e\"").with { $0.pace = .cut(after: 600_000) }
        let server = try LoopbackServer(["/a.js": old])
        let jobs = [try bench.job(server, "/a.js", content)]
        async let result = bench.run(jobs)
        await bench.clock.sleeper(until: .milliseconds(100))
        server.set("/a.js", .resource(content, entityTag: "\"e\""))
        bench.clock.advance(by: .milliseconds(100))
        // The first attempt made progress, the second did not.
        await bench.clock.sleeper(until: .milliseconds(1100))
        bench.clock.advance(by: .seconds(1))
        #expect(try await result.files.count == 1)
        #expect(server.requests.map { $0["Range"] } == [nil, "bytes=600000-", nil])
        #expect(try bench.contents("a.js") == content)
    }

    @Test func `downloads a rejected resumed file once more from its first byte`() async throws {
        let bench = try DownloadBench()
        let content = noise(1_000_000)
        let other = Route.resource(noise(1_000_000, seed: 9), entityTag: "\"e\"")
        let server = try LoopbackServer(["/a.js": other.with { $0.pace = .cut(after: 600_000) }])
        let jobs = [try bench.job(server, "/a.js", content)]
        async let result = bench.run(jobs)
        await bench.clock.sleeper(until: .milliseconds(100))
        server.set("/a.js", .resource(content, entityTag: "\"e\""))
        bench.clock.advance(by: .milliseconds(100))
        await bench.clock.sleeper(until: .milliseconds(1100))
        bench.clock.advance(by: .seconds(1))
        #expect(try await result.files.count == 1)
        #expect(server.requests.map { $0["Range"] } == [nil, "bytes=600000-", nil])
        #expect(try bench.contents("a.js") == content)
    }

    @Test func `ends after a 404, names the file, and keeps complete files`() async throws {
        let bench = try DownloadBench()
        let server = try server(["/": index, "/a.js": [1]])
        server.set("/slow.js", Route([1, 2]).with { $0.pace = .stall(after: 1) })
        let jobs = try [("/", index), ("/a.js", [1]), ("/slow.js", [1, 2]), ("/app/gone.js", [3])].map {
            try bench.job(server, $0.0, $0.1)
        }
        let failure = await #expect(throws: UpdateFailure.self) { try await bench.run(jobs) }
        #expect(failure?.code == .httpStatus)
        #expect(failure?.message.contains("Non-success status code 404 for asset: /app/gone.js") == true)
        let left = try bench.interrupted()
        #expect(try left.verified(key: jobs[0].key)?.receipt.size == index.count)
        #expect(try left.verified(key: jobs[3].key) == nil)
        #expect(try bench.contents("app/gone.js") == nil)
    }

    @Test func `N-23: does not retry a redirect from https to http`() async throws {
        let plain = try server(["/": index])
        let secure = try TLSServer(redirect: try plain.url("/").description)
        let bench = try DownloadBench().with {
            $0.fetcher = CurlFetcher(options: FetchOptions(userAgent: "test", caFile: secure.caFile))
        }
        let job = AssetJob(
            url: try secure.url("/away"), name: "/app.js", file: try BundlePath(parsing: "app.js"), key: "k",
            maximumBytes: 100
        ) { [index] in try DigestInspector(index) }
        let failure = await #expect(throws: UpdateFailure.self) { _ = try await bench.run([job]) }
        #expect(failure?.code == .networkUnavailable)
        #expect(failure?.message.contains("Error downloading asset: /app.js. ") == true)
        #expect(failure?.message.contains("https may not lead to http") == true)
        #expect(plain.requests.isEmpty)
    }

    @Test func `reports a missing optional file without writing it`() async throws {
        let bench = try DownloadBench()
        let server = try server(["/": index])
        let jobs = [try bench.job(server, "/", index), try bench.job(server, "/app.js.map", [1], isOptional: true)]
        let result = try await bench.run(jobs)
        #expect(result.missing == [1])
        #expect(result.files.map(\.job) == [0])
        #expect(try bench.contents("app.js.map") == nil)
    }

    @Test func `N-08: ends at once when it is cancelled and keeps complete files`() async throws {
        let bench = try DownloadBench()
        let large = noise(900_000)
        let server = try server(["/": index, "/a.js": [1]])
        let stalled = Route.resource(large, entityTag: "\"l\"").with { $0.pace = .stall(after: 800_000) }
        server.set("/large.js", stalled)
        let jobs = try [("/", index), ("/a.js", [1]), ("/large.js", large)].map { try bench.job(server, $0.0, $0.1) }
        let task = Task { try await bench.run(jobs) }
        while bench.progress.values.last?.files != 2 || (bench.progress.values.last?.bytes ?? 0) < 500_000 {
            try await Task.sleep(for: .milliseconds(2))
        }
        task.cancel()
        await #expect(throws: CancellationError.self) { _ = try await task.value }
        let left = try bench.interrupted()
        #expect(left.keys.count == 2)
        #expect(try left.verified(key: jobs[1].key)?.file.name == "a.js")
        #expect(try (left.unfinished(key: jobs[2].key)?.size ?? 0) > 500_000)
        #expect(try bench.contents("large.js") == nil)
    }

    @Test func `throws the caller's error about free space unchanged`() async throws {
        struct NoRoom: Error {}
        let checks = Record<Void>()
        let bench = try DownloadBench().with {
            $0.policy.requests = 1
            $0.requireRoom = {
                checks.add(())
                if checks.values.count == 3 { throw NoRoom() }
            }
        }
        let server = try server(["/": index, "/a.js": noise(300_000), "/b.js": [2]])
        let jobs = try [("/", index), ("/a.js", noise(300_000)), ("/b.js", [2])].map {
            try bench.job(server, $0.0, $0.1)
        }
        await #expect(throws: NoRoom.self) { _ = try await bench.run(jobs) }
        #expect(try bench.partNames() == [])
        #expect(try bench.interrupted().keys.count == 2)
    }

    @Test func `N-18: reports a full disk`() async throws {
        guard let disk = try SmallDisk() else {
            print("disk full: KNOWN LIMITATION: no tmpfs can be mounted here; not run")
            return
        }
        let bench = try DownloadBench(in: disk.path)
        let large = noise(3_000_000)
        let server = try server(["/": index, "/large.js": large])
        let jobs = [try bench.job(server, "/", index), try bench.job(server, "/large.js", large)]
        let error = await #expect(throws: DiskError.self) { _ = try await bench.run(jobs) }
        #expect(error?.kind == .full)
        #expect(try bench.partNames() == [])
        #expect(try bench.interrupted().verified(key: jobs[0].key) != nil)
        // Programs that other tests start inherit open files until their exec.
        let deadline = ContinuousClock.now + .seconds(60)
        while try bench.attempt.freeSpace().bytes <= 500_000, ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(try bench.attempt.freeSpace().bytes > 500_000)
    }

    @Test func `downloads a thousand files`() async throws {
        let bench = try DownloadBench()
        let files = Dictionary(
            uniqueKeysWithValues: (0..<1000).map { ("/f\($0 % 130)/g\($0 % 3)/\($0).js", Array("\($0)".utf8)) })
        let server = try server(files)
        let result = try await bench.run(files.map { try bench.job(server, $0.key, $0.value) })
        #expect(result.files.count == 1000)
        #expect(try bench.tree.filePaths().count == 1000)
    }
}

/// Counts the parallel requests.
final class Counting: Fetcher {
    private let fetcher: any Fetcher
    private let count = Mutex((now: 0, most: 0))

    init(_ fetcher: any Fetcher) { self.fetcher = fetcher }

    var most: Int { count.withLock { $0.most } }

    func fetch<Sink: FetchSink & ~Copyable>(
        _ request: FetchRequest, into sink: inout Sink
    ) async throws -> FetchHead {
        count.withLock { count in
            count.now += 1
            count.most = max(count.most, count.now)
        }
        defer { count.withLock { $0.now -= 1 } }
        return try await fetcher.fetch(request, into: &sink)
    }
}

/// A file system of one megabyte, in the mount namespace of a separate process.
struct SmallDisk {
    private let process: Command
    let path: String

    /// Returns nil if it cannot be mounted, without root and user namespaces.
    init?() throws {
        let script = "mount -t tmpfs -o size=1m,mode=777 tmpfs /mnt && echo $$ && exec sleep 600"
        for unshare in [["unshare", "-m"], ["unshare", "-Urm"]] {
            let command = try Command(unshare + ["--propagation", "private", "sh", "-c", script])
            guard let number = Int(command.nextLine()) else { continue }
            let path = "/proc/\(number)/root/mnt"
            guard (try? Directory.open(path)) != nil else { continue }
            process = command
            self.path = path
            return
        }
        return nil
    }
}
