import ArchiveSource
import BundleCore
import BundleDisk
import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

@testable import BundlePublish

/// What a feed's documents do not need goes, and nothing else does.
@Suite(.ownThread) struct FeedSweepTests {
    private let bench: Bench

    init() throws { bench = try Bench() }

    private func fill(_ place: any FeedPlace, _ versions: String...) throws {
        for version in versions {
            _ = try place.create(
                "releases/v\(version)/client-v\(version).tar.zst", .bytes(Array(repeating: 1, count: 100)))
            let manifest = JSONWriter.bytes(of: try bench.manifest(version).document)
            _ = try place.create("releases/v\(version)/manifest.json", .bytes(manifest))
        }
    }

    private func put(_ document: ChannelDocument, _ path: String, in place: any FeedPlace) throws {
        let bytes = try [bench.channel].sign(ChannelFormat.envelope(document)).document
        try place.replace(path, with: bytes, version: place.read(path, maximumBytes: 1 << 20)?.version)
    }

    private func sweep(
        _ place: any FeedPlace, keep: Int = 1, age: Duration = .seconds(-600), isDryRun: Bool = false
    ) throws -> SweepPlan {
        var terms = FeedSweep.Terms()
        (terms.keep, terms.leastAge, terms.isDryRun) = (keep, age, isDryRun)
        return try FeedSweep(place, terms, clock: .now).run(FeedWait())
    }

    private func releases(in place: any FeedPlace) throws -> [String] {
        try ReleaseFeed.versions(in: place).sorted().map(\.description)
    }

    /// Releases that are named in every way, and two that are not.
    private func whole(_ place: any FeedPlace) throws {
        try place.make()
        try fill(place, "1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0", "1.7.0")
        try put(bench.document("1.1.0"), "channels/stable/1.json", in: place)
        var second = try bench.document("1.2.0")
        second.sequence = 2
        try put(second, "channels/stable/2.json", in: place)
        var live = try bench.document("1.4.0")
        live.sequence = 3
        live.revoked = [.init(version: try bench.version("1.3.0"), reason: "bad")]
        try put(live, "channels/stable.json", in: place)
        let newest = NewestManifest.manifest(of: try bench.manifest("1.5.0"))
        _ = try place.create("manifest.json", .bytes(newest))
        _ = try place.create("releases/v2.0.0/client-v2.0.0.tar.zst", .bytes([1, 2, 3]))
        _ = try place.create("releases/notes.txt", .bytes([1]))
        _ = try place.create("releases/other/file", .bytes([1]))
        _ = try place.create("index.html", .bytes([1]))
    }

    @Test(arguments: PlaceKind.all)
    func `what is named stays, and the rest goes`(_ kind: PlaceKind) throws {
        let place = try kind.place(in: bench.folder)
        try whole(place)
        let plan = try sweep(place, isDryRun: true)
        #expect(
            plan.removed.map(\.path) == ["releases/v1.0.0", "releases/v1.1.0", "releases/v1.6.0", "releases/v2.0.0"])
        #expect(plan.removed.map(\.reason) == [.unnamed, .unnamed, .unnamed, .incomplete])
        #expect(plan.removed.last?.bytes == 3)
        #expect(
            plan.kept.map(\.reasons) == [
                [.newest], [.manifest], [.channel("stable")], [.recalled("stable")], [.copy("stable", 2)],
            ])
        let before = Set(try place.list("").map(\.name))
        _ = try sweep(place)
        #expect(try releases(in: place) == ["1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.7.0"])
        let gone = ["v1.0.0", "v1.1.0", "v1.6.0", "v2.0.0"].map { "releases/\($0)/" }
        #expect(
            Set(try place.list("").map(\.name))
                == before.filter { name in !gone.contains { name.hasPrefix($0) } }
                .union(["v1.0.0", "v1.1.0", "v1.6.0"].map { "retired/\($0).json" }))
        #expect(try sweep(place).removed.isEmpty)
    }

    @Test(arguments: PlaceKind.all)
    func `what somebody may be publishing stays`(_ kind: PlaceKind) throws {
        let place = try kind.place(in: bench.folder)
        try whole(place)
        let plan = try sweep(place, age: .seconds(600))
        #expect(plan.removed.isEmpty)
        #expect(plan.kept.last?.reasons == [.young])
        #expect(try releases(in: place).count == 8)
    }

    @Test func `the newest copies count, as many as were asked for`() throws {
        try whole(bench.place)
        let plan = try sweep(bench.place, keep: 2, isDryRun: true)
        #expect(
            plan.kept.map(\.version.description) == ["1.7.0", "1.6.0", "1.5.0", "1.4.0", "1.3.0", "1.2.0", "1.1.0"])
    }

    @Test func `a lost document's copies go on counting`() throws {
        try whole(bench.place)
        try bench.place.remove("channels/stable.json")
        #expect(try sweep(bench.place, isDryRun: true).kept.map(\.version.description).contains("1.2.0"))
    }

    @Test func `a delta's base stays, its base does not, and an unlisted delta goes`() throws {
        let place = bench.place
        try whole(place)
        func list(_ version: String, from base: String) throws -> [UInt8] {
            let digest = try bench.manifest(version).claims.sha256
            let entry = DeltaList.Delta(
                baseVersion: try bench.version(base), baseContentSha256: digest, url: "from-\(base).delta", size: 1,
                sha256: digest, memory: 1)
            let list = DeltaList(version: try bench.version(version), contentSha256: digest, deltas: [entry])
            return try [bench.release].sign(DeltaListFormat.envelope(of: list)).document
        }
        _ = try place.create("releases/v1.4.0/deltas.json", .bytes(try list("1.4.0", from: "1.1.0")))
        _ = try place.create("releases/v1.4.0/from-1.1.0.delta", .bytes([1]))
        _ = try place.create("releases/v1.4.0/from-0.9.0.delta", .bytes([1]))
        _ = try place.create("releases/v1.1.0/deltas.json", .bytes(try list("1.1.0", from: "1.0.0")))
        let plan = try sweep(place)
        #expect(plan.removed.map(\.path).contains("releases/v1.4.0/from-0.9.0.delta"))
        #expect(try place.list("releases/v1.4.0").count == 4)
        #expect(plan.kept.last?.reasons == [.base(of: try bench.version("1.4.0"))])
        #expect(try releases(in: place).first == "1.1.0")
        try bench.folder.write(Array("{".utf8), to: "feed/releases/v1.4.0/deltas.json")
        #expect(bench.refusal { _ = try sweep(place) }?.code == .manifestMalformed)
    }

    @Test(arguments: ["channels/stable.json", "channels/stable/2.json", "manifest.json"])
    func `nothing goes where a document cannot be read`(_ path: String) throws {
        try whole(bench.place)
        try bench.folder.write(Array("{".utf8), to: "feed/\(path)")
        #expect(bench.refusal { _ = try sweep(bench.place) }?.message.contains(path) == true)
        #expect(try releases(in: bench.place).count == 8)
    }

    @Test func `nothing goes where no document offers anything`() throws {
        try fill(bench.place, "1.0.0", "1.1.0")
        #expect(bench.refusal { _ = try sweep(bench.place) }?.code == .configInvalid)
        #expect(try releases(in: bench.place).count == 2)
    }

    @Test func `a release that somebody names meanwhile stays, and one named too late is told`() throws {
        let place = Overtaken(bench.place)
        try whole(place.inner)
        let late = try bench.document("1.4.0", "1.6.0")
        place.beforeRemoval = { [self] release in
            if release == "v1.0.0" { try put(late, "channels/stable.json", in: bench.place) }
        }
        _ = try sweep(place)
        #expect(try releases(in: place).contains("1.6.0"))
        #expect(try !releases(in: place).contains("1.1.0"))
        try fill(place.inner, "1.1.0")
        let tooLate = try bench.document("1.4.0", "1.6.0", "1.1.0")
        place.beforeRemoval = { [self] _ in try put(tooLate, "channels/stable.json", in: bench.place) }
        try place.inner.remove("channels/stable/1.json")
        #expect(bench.refusal { _ = try sweep(place) }?.message.contains("publish it again") == true)
    }

    @Test func `a copy whose releases are gone is not restored`() throws {
        let place = bench.place
        try whole(place)
        try place.remove("channels/stable/2.json")
        var live = try bench.document("1.4.0")
        live.sequence = 3
        try put(live, "channels/stable/3.json", in: place)
        #expect(try bench.editor().restore("stable", to: 1).changes.contains { $0.contains("1.1.0 added") })
        _ = try place.remove("channels/stable.json")
        try put(live, "channels/stable.json", in: place)
        try place.remove("channels/stable/4.json")
        _ = try sweep(place)
        #expect(bench.refusal { _ = try bench.editor().restore("stable", to: 1) }?.subject == "1.1.0")
    }
}

/// A place that others change before a release is removed, as a bucket may be.
private final class Overtaken: FeedPlace {
    let inner: any FeedPlace
    var beforeRemoval: (String) throws -> Void = { _ in }

    init(_ inner: any FeedPlace) { self.inner = inner }

    var address: String { inner.address }
    var folder: String? { nil }
    var keepsOthersOut: Bool { false }
    func read(_ name: String, maximumBytes: Int) throws -> FeedRecord? {
        try inner.read(name, maximumBytes: maximumBytes)
    }
    func stream(_ name: String, _ body: (UnsafeRawBufferPointer) throws -> Void) throws -> Bool {
        try inner.stream(name, body)
    }
    func create(_ name: String, _ content: FeedContent) throws -> Bool { try inner.create(name, content) }
    func replace(_ name: String, with bytes: [UInt8], version: FeedVersion?) throws {
        try inner.replace(name, with: bytes, version: version)
    }
    func remove(_ name: String) throws { try inner.remove(name) }
    func removeRelease(_ release: String) throws {
        try beforeRemoval(release)
        try inner.removeRelease(release)
    }
    func list(_ folder: String) throws -> [FeedEntry] { try inner.list(folder) }
    func isIncomplete(_ release: String) throws -> Bool { try inner.isIncomplete(release) }
    func draft(_ wait: FeedWait) throws -> any ReleaseDraft { try inner.draft(wait) }
    func make() throws { try inner.make() }
    func requireThere() throws { try inner.requireThere() }
    func settle(_ folder: String) throws { try inner.settle(folder) }
    func alone<Answer>(_ wait: FeedWait, _ work: () throws -> Answer) throws -> Answer { try work() }
}
