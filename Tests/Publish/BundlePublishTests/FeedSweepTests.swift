import ArchiveSource
import BundleCore
import BundleDisk
import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

@testable import BundlePublish

@Suite("FeedSweep", .ownThread) struct FeedSweepTests {
    private let workspace: Workspace

    init() throws { workspace = try Workspace() }

    private func fill(_ location: any FeedLocation, _ versions: String...) throws {
        for version in versions {
            _ = try location.create(
                "releases/v\(version)/client-v\(version).tar.zst", with: .bytes(Array(repeating: 1, count: 100)))
            let manifest = JSONWriter.bytes(of: try workspace.manifest(version).document)
            _ = try location.create("releases/v\(version)/manifest.json", with: .bytes(manifest))
        }
    }

    private func put(_ document: ChannelDocument, _ path: String, in location: any FeedLocation) throws {
        let bytes = try [workspace.channel].sign(ChannelFormat.envelope(document)).document
        try location.replace(path, with: bytes, version: location.read(path, maximumBytes: 1 << 20)?.version)
    }

    private func sweep(
        _ location: any FeedLocation, keep: Int = 1, age: Duration = .seconds(-600), isDryRun: Bool = false
    ) throws -> SweepPlan {
        var terms = FeedSweep.Terms()
        (terms.keep, terms.leastAge, terms.isDryRun) = (keep, age, isDryRun)
        return try FeedSweep(location, terms: terms, clock: .now).run(FeedWait())
    }

    private func releases(in location: any FeedLocation) throws -> [String] {
        try ReleaseFeed.versions(in: location).sorted().map(\.description)
    }

    /// Releases that are named in every way, and two that are not.
    private func whole(_ location: any FeedLocation) throws {
        try fill(location, "1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0", "1.7.0")
        try put(workspace.document("1.1.0"), "channels/stable/1.json", in: location)
        var second = try workspace.document("1.2.0")
        second.sequence = 2
        try put(second, "channels/stable/2.json", in: location)
        var live = try workspace.document("1.4.0")
        live.sequence = 3
        live.recalled = [.init(version: try workspace.version("1.3.0"), reason: "bad")]
        try put(live, "channels/stable.json", in: location)
        let newest = NewestManifest.manifest(of: try workspace.manifest("1.5.0"))
        _ = try location.create("manifest.json", with: .bytes(newest))
        _ = try location.create("releases/v2.0.0/client-v2.0.0.tar.zst", with: .bytes([1, 2, 3]))
        _ = try location.create("releases/notes.txt", with: .bytes([1]))
        _ = try location.create("releases/other/file", with: .bytes([1]))
        _ = try location.create("index.html", with: .bytes([1]))
    }

    @Test(arguments: LocationKind.all)
    func `keeps referenced releases and removes the others`(_ kind: LocationKind) throws {
        let location = try kind.location(in: workspace.folder)
        try whole(location)
        let plan = try sweep(location, isDryRun: true)
        #expect(
            plan.removed.map(\.path) == ["releases/v1.0.0", "releases/v1.1.0", "releases/v1.6.0", "releases/v2.0.0"])
        #expect(plan.removed.map(\.reason) == [.unnamed, .unnamed, .unnamed, .incomplete])
        #expect(plan.removed.last?.bytes == 3)
        #expect(
            plan.kept.map(\.reasons) == [
                [.newest], [.manifest], [.channel("stable")], [.recalled("stable")], [.copy("stable", 2)],
            ])
        let before = Set(try location.list("").map(\.name))
        _ = try sweep(location)
        #expect(try releases(in: location) == ["1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.7.0"])
        let gone = ["v1.0.0", "v1.1.0", "v1.6.0", "v2.0.0"].map { "releases/\($0)/" }
        #expect(
            Set(try location.list("").map(\.name))
                == before.filter { name in !gone.contains { name.hasPrefix($0) } }
                .union(["v1.0.0", "v1.1.0", "v1.6.0"].map { "retired/\($0).json" }))
        #expect(try sweep(location).removed.isEmpty)
    }

    @Test(arguments: LocationKind.all)
    func `keeps releases that may be in publication`(_ kind: LocationKind) throws {
        let location = try kind.location(in: workspace.folder)
        try whole(location)
        let plan = try sweep(location, age: .seconds(600))
        #expect(plan.removed.isEmpty)
        #expect(plan.kept.last?.reasons == [.young])
        #expect(try releases(in: location).count == 8)
    }

    @Test func `keeps the releases that the requested number of copies names`() throws {
        try whole(workspace.location)
        let plan = try sweep(workspace.location, keep: 2, isDryRun: true)
        #expect(
            plan.kept.map(\.version.description) == ["1.7.0", "1.6.0", "1.5.0", "1.4.0", "1.3.0", "1.2.0", "1.1.0"])
    }

    @Test func `keeps the releases that the copies name when the channel file is lost`() throws {
        try whole(workspace.location)
        try workspace.location.remove("channels/stable.json")
        #expect(try sweep(workspace.location, isDryRun: true).kept.map(\.version.description).contains("1.2.0"))
    }

    @Test func `keeps the base of a delta, but not the base of that base or an unlisted delta`() throws {
        let location = workspace.location
        try whole(location)
        func list(_ version: String, from base: String) throws -> [UInt8] {
            let digest = try workspace.manifest(version).claims.sha256
            let entry = DeltaList.Delta(
                baseVersion: try workspace.version(base), baseContentSha256: digest, url: "from-\(base).delta", size: 1,
                sha256: digest, memory: 1)
            let list = DeltaList(version: try workspace.version(version), contentSha256: digest, deltas: [entry])
            return try [workspace.release].sign(DeltaListFormat.envelope(of: list)).document
        }
        _ = try location.create("releases/v1.4.0/deltas.json", with: .bytes(try list("1.4.0", from: "1.1.0")))
        _ = try location.create("releases/v1.4.0/from-1.1.0.delta", with: .bytes([1]))
        _ = try location.create("releases/v1.4.0/from-0.9.0.delta", with: .bytes([1]))
        _ = try location.create("releases/v1.1.0/deltas.json", with: .bytes(try list("1.1.0", from: "1.0.0")))
        let plan = try sweep(location)
        #expect(plan.removed.map(\.path).contains("releases/v1.4.0/from-0.9.0.delta"))
        #expect(try location.list("releases/v1.4.0").count == 4)
        #expect(plan.kept.last?.reasons == [.base(of: try workspace.version("1.4.0"))])
        #expect(try releases(in: location).first == "1.1.0")
        try workspace.folder.write(Array("{".utf8), to: "feed/releases/v1.4.0/deltas.json")
        #expect(workspace.refusal { _ = try sweep(location) }?.code == .manifestMalformed)
    }

    @Test(arguments: ["channels/stable.json", "channels/stable/2.json", "manifest.json"])
    func `removes nothing if a channel file cannot be read`(_ path: String) throws {
        try whole(workspace.location)
        try workspace.folder.write(Array("{".utf8), to: "feed/\(path)")
        #expect(workspace.refusal { _ = try sweep(workspace.location) }?.message.contains(path) == true)
        #expect(try releases(in: workspace.location).count == 8)
    }

    @Test func `removes nothing if no channel or manifest offers a release`() throws {
        try fill(workspace.location, "1.0.0", "1.1.0")
        #expect(workspace.refusal { _ = try sweep(workspace.location) }?.code == .configInvalid)
        #expect(try releases(in: workspace.location).count == 2)
    }

    @Test func `keeps a release that is offered during the sweep, and reports one offered too late`() throws {
        let location = HookedLocation(workspace.location)
        try whole(location.inner)
        let late = try workspace.document("1.4.0", "1.6.0")
        location.beforeRemoval = { [self] release in
            if release == "releases/v1.0.0/" { try put(late, "channels/stable.json", in: workspace.location) }
        }
        _ = try sweep(location)
        #expect(try releases(in: location).contains("1.6.0"))
        #expect(try !releases(in: location).contains("1.1.0"))
        try fill(location.inner, "1.1.0")
        let tooLate = try workspace.document("1.4.0", "1.6.0", "1.1.0")
        location.beforeRemoval = { [self] _ in try put(tooLate, "channels/stable.json", in: workspace.location) }
        try location.inner.remove("channels/stable/1.json")
        #expect(workspace.refusal { _ = try sweep(location) }?.message.contains("Publish it again") == true)
    }

    @Test func `refuses to restore a copy with removed releases`() throws {
        let location = workspace.location
        try whole(location)
        try location.remove("channels/stable/2.json")
        var live = try workspace.document("1.4.0")
        live.sequence = 3
        try put(live, "channels/stable/3.json", in: location)
        #expect(try workspace.editor().restore("stable", to: 1).changes.contains { $0.contains("1.1.0 added") })
        _ = try location.remove("channels/stable.json")
        try put(live, "channels/stable.json", in: location)
        try location.remove("channels/stable/4.json")
        _ = try sweep(location)
        #expect(workspace.refusal { _ = try workspace.editor().restore("stable", to: 1) }?.subject == "1.1.0")
    }
}
