import BundleSigning
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Synchronization
import Testing

/// `feed serve --upstream URL --cache DIR`.
@Suite("Cache of feed serve", .ownThread) struct FeedCacheTests {
    private let site: Site
    private let upstream: LoopbackServer

    init() throws {
        site = try Site()
        try site.publish("1.0.0", Site.client("1.0.0").merging(["noise.bin": noise(200_000)]) { $1 })
        upstream = try LoopbackServer(folder: site.feed)
    }

    /// A running cache.
    private struct Cache {
        let process: Command
        let url: String
    }

    private func cache(size: String = "10MB", in folder: String = "cache") throws -> Cache {
        let process = try Command([
            Clientctl.path, "feed", "serve", "--upstream", "\(try upstream.url("/"))", "--cache",
            site.folder.file(folder),
            "--cache-size", size,
        ])
        return Cache(process: process, url: process.nextLine())
    }

    private func install(_ store: String, _ cache: Cache) throws -> Outcome {
        try Clientctl.run([
            "install", "--manifest", "\(try upstream.url("/manifest.json"))", "--trust", site.trust, "--store",
            site.folder.file(store), "--shell-version", "1.5.0", "--json", "--mirror", cache.url,
        ])
    }

    private var archiveRequests: Int { upstream.requests.count { $0.path.hasSuffix(".tar.zst") } }

    @Test func `fetches an archive once for several devices, also after a restart`() throws {
        let cache = try cache()
        for store in ["one", "two", "three"] { try install(store, cache).succeeded("installed", "1.0.0") }
        #expect(archiveRequests == 1)
        withExtendedLifetime(cache.process) {}
        let again = try self.cache()
        try install("four", again).succeeded("installed", "1.0.0")
        #expect(archiveRequests == 1)
    }

    @Test func `serves no documents and no file that the documents do not name`() throws {
        let cache = try cache()
        for path in [
            "manifest.json", "releases/v1.0.0/other.tar.zst", "releases/v9.0.0/x", "releases/v1.0.0/deltas.json",
        ] {
            let answer = try Program.run(
                ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", cache.url + path],
                environment: ["PATH": "/usr/bin:/bin"])
            #expect(answer.text == "404", "\(path)")
        }
    }

    @Test func `does not keep an archive whose bytes differ from the signed digest, and devices install from the feed`()
        throws
    {
        let (port, path) = (upstream.port, "/releases/v1.0.0")
        let hostile = try LoopbackServer(answer: { request in
            if request.path.hasPrefix(path), request.path.hasSuffix(".tar.zst") {
                return Route([UInt8](repeating: 7, count: 100))
            }
            return .redirect(to: "http://127.0.0.1:\(port)\(request.path)")
        })
        let process = try Command([
            Clientctl.path, "feed", "serve", "--upstream", "\(try hostile.url("/"))", "--cache",
            site.folder.file("cache"),
        ])
        try install("one", Cache(process: process, url: process.nextLine())).succeeded("installed", "1.0.0")
        #expect(archiveRequests == 1)
        #expect(try TreeSnapshot(of: site.folder.file("cache")).files.isEmpty)
    }

    @Test func `drops a file for which the documents name another digest, and a damaged one after a restart`() throws {
        let port = upstream.port
        let isLying = Mutex(true)
        let lie = [UInt8](repeating: 69, count: 5000)
        let manifest = String(decoding: try contents(ofFile: "\(site.feed)/manifest.json"), as: UTF8.self)
        let digest = try SHA256Digest.of(lie).hex
        let lying = manifest.replacing(/"sha256": ?"[0-9a-f]{64}"/, with: "\"sha256\": \"\(digest)\"")
            .replacing(/"size": ?[0-9]+/, with: "\"size\": 5000")
        let middle = try LoopbackServer(answer: { request in
            if isLying.withLock(\.self) {
                if request.path == "/manifest.json" { return Route(bytes(lying)) }
                if request.path.hasSuffix(".tar.zst") { return Route(lie) }
            }
            return .redirect(to: "http://127.0.0.1:\(port)\(request.path)")
        })
        func start() throws -> Cache {
            let process = try Command([
                Clientctl.path, "feed", "serve", "--upstream", "\(try middle.url("/"))", "--cache",
                site.folder.file("cache"),
            ])
            return Cache(process: process, url: process.nextLine())
        }
        let archive = try #require(try TreeSnapshot(of: site.feed).files.first { $0.key.hasSuffix(".tar.zst") })
        func ask(_ cache: Cache) throws -> Int? {
            Int(
                try Program.run(
                    ["curl", "-s", "-o", "/dev/null", "-w", "%{size_download}", cache.url + archive.key],
                    environment: ["PATH": "/usr/bin:/bin"]
                ).text)
        }
        func becomesTrue(_ cache: Cache) throws {
            let deadline = ContinuousClock.now + .seconds(60)
            while try ask(cache) != archive.value.count {
                try #require(ContinuousClock.now < deadline)
                poll(nil, 0, 200)
            }
        }
        var cache: Cache? = try start()
        #expect(try ask(#require(cache)) == 5000)
        isLying.withLock { $0 = false }
        try becomesTrue(#require(cache))
        // The program ends with its last reference.
        cache = nil
        // The disk damages the file, without a change of its size.
        let path = "cache/\(archive.key)"
        try site.folder.write([UInt8](repeating: 1, count: archive.value.count), to: path)
        let again = try start()
        let deadline = ContinuousClock.now + .seconds(60)
        repeat {
            _ = try ask(again)
            try #require(ContinuousClock.now < deadline)
            poll(nil, 0, 200)
            // The file is absent while the cache fetches it again.
        } while (try? contents(ofFile: site.folder.file(path))) != archive.value
    }

    @Test func `never keeps more bytes than --cache-size, however many releases the feed offers`() throws {
        for number in 1...4 {
            let files = Site.client("1.\(number).0").merging(["noise.bin": noise(200_000, seed: UInt64(number))]) { $1 }
            try site.publish("1.\(number).0", files)
            let cache = try self.cache(size: "450kB")
            try install("store-\(number)", cache).succeeded("installed", "1.\(number).0")
            let held = try TreeSnapshot(of: site.folder.file("cache")).files.values.reduce(0) { $0 + $1.count }
            #expect(held <= 450_000)
            withExtendedLifetime(cache.process) {}
        }
        let small = try cache(size: "100kB", in: "small")
        try install("without", small).succeeded("installed", "1.4.0")
        #expect(try TreeSnapshot(of: site.folder.file("small")).files.isEmpty)
    }

    @Test func `a cache for other machines refuses to serve a feed with a token to everybody`() throws {
        let token = try site.folder.write(bytes("secret\n"), to: "token")
        chmod(token, 0o600)
        let serve = [
            "feed", "serve", "--upstream", "\(try upstream.url("/"))", "--upstream-token-file", token, "--cache",
            site.folder.file("cache"),
        ]
        let refused = try Clientctl.run(serve + ["--bind", "0.0.0.0", "--json"]).failed(64, "usage")
        #expect(refused.errors.contains("--mirror-token-file"))
        let closed = try Command([Clientctl.path] + serve + ["--bind", "0.0.0.0", "--token-file", token])
        #expect([closed.nextLine(), closed.nextLine()].contains { $0.hasPrefix("http://0.0.0.0:") })
    }

    @Test func `devices send a mirror the token of --mirror-token-file, and never that of the feed`() throws {
        let tokens = try ["feed-secret", "mirror-secret"].map { name in
            let path = try site.folder.write(bytes("\(name)\n"), to: name)
            chmod(path, 0o600)
            return path
        }
        let mirror = try Command([
            Clientctl.path, "feed", "serve", "--upstream", "\(try upstream.url("/"))", "--cache",
            site.folder.file("cache"), "--token-file", tokens[1],
        ])
        let cache = Cache(process: mirror, url: mirror.nextLine())
        func install(_ store: String, _ more: [String]) throws -> Outcome {
            try Clientctl.run(
                [
                    "install", "--manifest", "\(try upstream.url("/manifest.json"))", "--trust", site.trust, "--store",
                    site.folder.file(store), "--shell-version", "1.5.0", "--json", "--token-file", tokens[0],
                ] + more)
        }
        let before = archiveRequests
        try install("with", ["--mirror", cache.url, "--mirror-token-file", tokens[1]]).succeeded("installed")
        #expect(archiveRequests == before + 1)
        #expect(upstream.requests.allSatisfy { $0["Authorization"] != "Bearer mirror-secret" })
        try install("more", ["--mirror", cache.url, "--mirror-token-file", tokens[1]]).succeeded("installed")
        #expect(archiveRequests == before + 1)
        try install("without", ["--mirror", cache.url]).succeeded("installed")
        #expect(archiveRequests == before + 2)
        try install("nowhere", ["--mirror-token-file", tokens[1]]).failed(64, "usage")
        try install("clear", ["--mirror", "http://192.0.2.1/", "--mirror-token-file", tokens[1]]).failed(
            78, "configInvalid")
    }

    @Test func `removes old releases when the cache is full, and keeps the one that the feed offers`() throws {
        let cache = try cache(size: "250kB")
        try install("one", cache).succeeded("installed", "1.0.0")
        try site.publish("1.1.0", Site.client("1.1.0").merging(["noise.bin": noise(200_000, seed: 2)]) { $1 })
        // The cache uses the documents of the feed for some seconds.
        var names: [String] = []
        for _ in 0..<300 where !names.contains(where: { $0.contains("v1.1.0") }) {
            try Clientctl.stock(["rm", "-rf", site.folder.file("two")])
            try install("two", cache).succeeded("installed", "1.1.0")
            names = try TreeSnapshot(of: site.folder.file("cache")).files.keys.sorted()
        }
        #expect(names.count == 1 && names.allSatisfy { $0.contains("v1.1.0") }, "\(names)")
    }
}
