import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
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
