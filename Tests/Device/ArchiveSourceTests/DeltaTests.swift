import BundleArchive
import BundleCore
import BundleDisk
import BundleSigning
import BundleTesting
import BundleValues
import Glibc
import Testing

@testable import BundleFormats
@testable import ArchiveSource

/// A device and releases with deltas between them, on a server that may send wrong files.
private final class DeltaSite {
    let device: Device
    let pair: TreePair
    let archive: [UInt8]
    let delta: [UInt8]
    let entry: DeltaList.Delta
    let tree: Directory

    init(_ pair: TreePair, version: String? = "1.0.0", noise: Int = 0) throws {
        device = try Device()
        self.pair = pair
        archive = Self.tar(pair.new)
        tree = try device.folder.directory(creating: "trees")
        let old = try Self.write(pair.old, to: tree.directory(creating: "old"))
        let new = try Self.write(pair.new, to: tree.directory(creating: "new"))
        let file = try device.folder.file(creating: "made.delta")
        var options = DeltaMaker.Options()
        (options.level, options.groupBytes) = (3, 8 << 10)
        let made = try #require(try DeltaMaker(options).make(from: old, to: new, into: file))
        delta = try file.readAll()
        entry = DeltaList.Delta(
            baseVersion: try version.map { try SemanticVersion(parsing: $0) }, baseContentSha256: old.contentSha256,
            url: "from.delta", size: made.size, sha256: made.sha256, memory: made.memory)
        for name in ["one", "two"] { try device.folder.makeDirectory(name) }
        try device.folder.directory("one").replaceFile("client.tar", with: Self.tar(pair.old))
    }

    static func tar(_ files: [String: [UInt8]]) -> [UInt8] {
        TarOf.bytes(
            files.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }.map { TarItem($0.key, $0.value) })
    }

    private static func write(_ files: [String: [UInt8]], to folder: Directory) throws -> DeltaTree {
        for (name, bytes) in files {
            let path = try BundlePath(parsing: name)
            var place = folder
            for part in path.components.dropLast() {
                place = try place.directory(creating: String(decoding: part, as: UTF8.self))
            }
            try bytes.withUnsafeBytes { try place.createFile(path.name, with: $0) }
        }
        return try DeltaTree(CanonicalTree(folder))
    }

    /// The files of the second release on the server; nil for a missing file.
    struct Served {
        var archive: [UInt8]?
        var list: [UInt8]?
        var delta: [UInt8]?
    }

    func list(
        _ entries: [DeltaList.Delta]? = nil, version: String = "2.0.0", key: SigningPair? = nil
    ) throws -> [UInt8] {
        let list = DeltaList(
            version: try SemanticVersion(parsing: version), contentSha256: try SHA256Digest.of(archive),
            deltas: entries ?? [entry])
        var envelope = DeltaListFormat.envelope(of: list)
        let key = key ?? device.key
        envelope.signatures = [.init(keyId: key.id, bytes: try key.signature(of: envelope.message))]
        return envelope.document
    }

    func served() throws -> Served { Served(archive: archive, list: try list(), delta: delta) }

    func installOld() async throws {
        try await device.install("\(device.folder.path)/one/client.tar", as: "1.0.0", change(pair.old))
    }

    private func change(_ files: [String: [UInt8]]) -> (inout Manifest) throws -> Void {
        {
            $0.contentSha256 = try SHA256Digest.of(Self.tar(files))
            ($0.fileCount, $0.installedSize) = (files.count, files.values.reduce(0) { $0 + $1.count })
        }
    }

    /// Signs the second release, and writes the `served` files to the server.
    func offerNew(_ served: Served, at url: String? = nil) throws {
        let folder = try device.folder.directory("two")
        try folder.replaceFile("client.tar", with: archive)
        _ = try device.offer("\(folder.path)/client.tar", as: "2.0.0") {
            try change(pair.new)(&$0)
            if let url { $0.url = url }
        }
        for (name, bytes) in [
            ("client.tar", served.archive), ("deltas.json", served.list), ("from.delta", served.delta),
        ] {
            try folder.removeFile(name)
            if let bytes { try folder.replaceFile(name, with: bytes) }
        }
    }

    func route(
        _ served: Served? = nil, limits: ArchiveLimits = ArchiveLimits(), seed: String? = nil
    ) async throws -> DownloadRoute? {
        try offerNew(try served ?? self.served())
        return try await device.update(limits: limits, seed: seed).bundle?.entry.route
    }

    /// The files and receipts of the second release, without times and routes.
    func installed() throws -> [String: String] {
        try device.storeSnapshot().filter { $0.key.hasPrefix("clients/v2") || $0.key.hasPrefix("receipts/v2") }
    }
}

@Suite struct DeltaInstallTests {
    private static let rounds = getenv("DELTA_PAIRS").flatMap { Int(String(cString: $0)) } ?? 8

    private static let text = (0..<900).flatMap { Array("line \($0 &* 7919 % 1009) of a file that changes\n".utf8) }
    private static let pair = TreePair(
        old: ["a.js": [1, 2], "index.html": text, "z.js": [3]],
        new: ["a.js": [1, 2], "b.js": [9], "index.html": text + [1], "z.js": [3]])

    @Test func `installs the same tree by delta and by archive for random pairs`() async throws {
        var generator = SeededGenerator(seed: 2026)
        for round in 0..<Self.rounds {
            let pair = TreePair.random(&generator)
            let (one, other) = (try DeltaSite(pair), try DeltaSite(pair))
            try await one.installOld()
            try await other.installOld()
            #expect(try await one.route()?.reason == .taken, "pair \(round)")
            #expect(try await other.route(.init(archive: other.archive))?.reason == .noDeltas)
            let installed = try one.installed()
            #expect(installed.count > 2)
            #expect(
                try installed.filter { !$0.key.hasPrefix("receipts") }
                    == other.installed().filter { !$0.key.hasPrefix("receipts") }, "pair \(round)")
            #expect(try one.receipt() == other.receipt(), "pair \(round)")
        }
    }

    @Test func `uses the delta if the archive is damaged, and the archive if the delta is`() async throws {
        let site = try DeltaSite(Self.pair)
        try await site.installOld()
        var served = try site.served()
        served.archive = served.archive.map { $0.map { $0 ^ 1 } }
        try site.offerNew(served)
        let report = try await site.device.update()
        #expect(report.bundle?.entry.route == DownloadRoute(.taken, "from 1.0.0"))
        #expect(report.bytesDownloaded == site.delta.count)
        #expect(try site.device.folder.directory("store").directory("downloads").list().isEmpty)

        for damage in [{ $0 ^ 1 }, { _ in 0 }] as [(UInt8) -> UInt8] {
            let other = try DeltaSite(Self.pair)
            try await other.installOld()
            var served = try other.served()
            served.delta = served.delta.map { $0.map(damage) }
            #expect(try await other.route(served)?.reason == .refused)
        }
    }

    @Test func `does not try a refused delta again`() async throws {
        let site = try DeltaSite(Self.pair)
        try await site.installOld()
        var served = try site.served()
        (served.delta, served.archive) = ([UInt8](repeating: 0, count: site.delta.count), nil)
        try site.offerNew(served)
        await #expect(throws: FetchError.self) { try await site.device.update() }
        // The delta is valid now, but the device has recorded its refusal.
        let route = try await site.route()
        #expect(route?.reason == .triedBefore)
        #expect(route?.detail?.contains("is not the one that was signed") == true)
    }

    @Test func `uses the archive if the base is damaged, and names the damaged file`() async throws {
        for name in ["index.html", "z.js"] {
            let site = try DeltaSite(Self.pair)
            try await site.installOld()
            let tree = try site.device.folder.directory("store").directory("clients").directory("v1.0.0")
            let size = try tree.file(name).size()
            try tree.replaceFile(name, with: [UInt8](repeating: 7, count: size))
            let route = try await site.route()
            #expect(route?.reason == .damagedBase)
            #expect(route?.detail?.contains(name) == true)
            #expect(
                try site.device.folder.directory("store").directory("clients").directory("v2.0.0").file("z.js")
                    .readAll() == [3])
        }
    }

    @Test func `uses the archive if the delta needs too much memory`() async throws {
        let site = try DeltaSite(Self.pair)
        try await site.installOld()
        var limits = ArchiveLimits()
        limits.deltaMemory = site.entry.memory - 1
        let route = try await site.route(limits: limits)
        #expect(route?.reason == .tooMuchMemory)
        #expect(route?.detail?.contains("--max-delta-memory") == true)
    }

    @Test func `rejects a list of deltas with another signature or for another release`() async throws {
        let site = try DeltaSite(Self.pair)
        for list in [try site.list(key: SigningPair()), try site.list(version: "2.0.1"), Array("<html>".utf8), []] {
            let site = try DeltaSite(Self.pair)
            try await site.installOld()
            // Except for the second list, another device's key signed these.
            let list = list == (try? site.list()) ? [] : list
            #expect(
                try await site.route(.init(archive: site.archive, list: list, delta: site.delta))?.reason == .refused)
        }
        let own = try DeltaSite(Self.pair)
        try await own.installOld()
        let wrong = try own.list(version: "2.0.1")
        #expect(try await own.route(.init(archive: own.archive, list: wrong, delta: own.delta))?.reason == .refused)
    }

    @Test func `uses the archive if no delta fits`() async throws {
        let site = try DeltaSite(Self.pair)
        #expect(try await site.route()?.reason == .noBase)

        let foreign = try DeltaSite(Self.pair)
        try await foreign.installOld()
        let other = DeltaList.Delta(
            baseVersion: nil, baseContentSha256: try SHA256Digest.of([1]), url: "from.delta", size: 1,
            sha256: try SHA256Digest.of([2]), memory: 1)
        let list = try foreign.list([other])
        #expect(try await foreign.route(.init(archive: foreign.archive, list: list))?.reason == .noMatch)

        let poor = try DeltaSite(Self.pair)
        try await poor.installOld()
        #expect(try await poor.route(.init(archive: poor.archive, list: try poor.list()))?.reason == .notFetched)
    }

    @Test func `applies a delta to the seed`() async throws {
        let site = try DeltaSite(Self.pair, version: nil)
        let route = try await site.route(seed: "\(site.tree.path)/old")
        #expect(route == DownloadRoute(.taken, "from the seed"))
        let other = try DeltaSite(Self.pair, version: nil)
        try other.tree.directory("old").replaceFile("z.js", with: [4])
        #expect(try await other.route(seed: "\(other.tree.path)/old")?.reason == .noMatch)
    }

    @Test func `resumes an interrupted download of a delta`() async throws {
        let site = try DeltaSite(
            TreePair(old: Self.pair.old, new: ["index.html": Self.text, "noise.bin": noise(300_000)]))
        try await site.installOld()
        let server = try LoopbackServer()
        server.set("/client.tar", Route(site.archive))
        server.set("/deltas.json", Route(try site.list()))
        let whole = Route.resource(site.delta, entityTag: "\"one\"")
        server.set("/from.delta", whole.with { $0.pace = .cut(after: 40_000) })
        try site.offerNew(.init(), at: try server.url("/client.tar").display)
        await #expect(throws: FetchError.self) { try await site.device.update() }
        server.set("/from.delta", whole)
        let report = try await site.device.update()
        #expect(report.bundle?.entry.route?.reason == .taken)
        #expect(report.bytesDownloaded == site.delta.count - 200_000)
        #expect(server.requests.last?["Range"] == "bytes=200000-")
    }

    @Test func `links unchanged files of the base`() async throws {
        let site = try DeltaSite(Self.pair)
        try await site.installOld()
        _ = try await site.route()
        let clients = try site.device.folder.directory("store").directory("clients")
        var (old, new) = (stat(), stat())
        #expect(stat("\(clients.path)/v1.0.0/a.js", &old) == 0 && stat("\(clients.path)/v2.0.0/a.js", &new) == 0)
        #expect(old.st_ino == new.st_ino)
    }
}

extension DeltaSite {
    /// The files in the receipt of the second release.
    fileprivate func receipt() throws -> [UInt8] {
        let bytes = try device.folder.directory("store").directory("receipts").file("v2.0.0.json").readAll()
        return Array(bytes[(bytes.firstIndex(of: UInt8(ascii: "\n")) ?? 0)...])
    }
}
