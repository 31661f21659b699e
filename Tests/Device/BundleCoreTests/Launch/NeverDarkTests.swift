import BundleDisk
import BundleTesting
import BundleValues
import Glibc
import Testing

@testable import BundleCore

/// Tests that a client is shown although files cannot be read, linked, removed or written.
struct NeverDarkTests {
    // MARK: Clients that cannot be prepared

    @Test func `a client that cannot be prepared fails its start and is blocked after the second one`()
        async throws
    {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        try await bench.install(try MemoryOffer("1.1.0", files: ["app.js": "no page"]))
        let version: ClientVersion = try Sample.version("1.1.0")
        #expect(try bench.launch().name.description == "v1.0.0")
        let failures = try #require(try bench.ledger().record(of: version)?.failures)
        #expect(failures.map(\.cause) == [.notPrepared])
        #expect(failures.first?.detail.contains("no index page") == true)
        #expect(try bench.ledger().block(on: version) == nil)
        #expect(try bench.launch().name.description == "v1.0.0")
        #expect(try bench.ledger().block(on: version)?.cause == .failedStarts)
        let said = bench.warnings.lines.count
        #expect(try bench.launch().name.description == "v1.0.0")
        #expect(bench.warnings.lines.count == said)
    }

    @Test func `failures of the device are not failed starts`() throws {
        let full = DiskError("write", at: "x", code: ENOSPC)
        #expect(!StartFailure.isOfClient(full))
        #expect(!StartFailure.isOfClient(OrganizingError.notPlaced(urlPath: "x", link: full, copy: full)))
        #expect(!StartFailure.isOfClient(DiskError("open", at: "x", code: EMFILE)))
        #expect(!StartFailure.isOfClient(UpdateFailure(.configInvalid, subject: "x", "No seed.")))
        #expect(!StartFailure.isOfClient(CancellationError()))
        #expect(StartFailure.isOfClient(DiskError("read", at: "x", code: EIO)))
        #expect(StartFailure.isOfClient(OrganizingError.indexMissing(path: "x")))
        #expect(StartFailure.isOfClient(UpdateFailure(.storeDamaged, subject: "x", "Damaged.")))
    }

    @Test func `a page may have any size`() throws {
        let folder = try TemporaryFolder()
        let page = Array("<!doctype html><title>x</title>".utf8) + [UInt8](repeating: 0x20, count: 33 << 20)
        try folder.write(page, to: "index.html")
        let seed = try SeedFolder(at: folder.path, layout: nil)
        let map = try AssetMap(tree: seed.directory)
        let serving = try TemporaryDirectory.ofTests()
        let root = try BundleOrganizer(serving: serving.directory).organize(map, as: "x")
        #expect(try root.page().count > page.count)
        #expect(!root.isInPlace)
    }

    @Test func `allows trials again when the disk accepts writes, even if no other client could be launched`()
        async throws
    {
        let bench = try await LaunchBench(installing: "1.0.0")
        let launcher = try bench.launcher(try bench.device(seed: nil))
        launcher.refuseTrials()
        #expect(try launcher.prepare().choice.name.description == "v1.0.0")
    }

    // MARK: The seed in place

    @Test func `shows the seed from its own folder if it has no serving root`() throws {
        let bench = try LaunchBench()
        let launcher = try bench.launcher()
        // A removed folder accepts no new entries.
        let serving = try bench.root().directory("serving")
        try bench.remove("serving")
        let launched = try launcher.launch()
        withExtendedLifetime(serving) {}
        let root = launched.prepared.client.root
        #expect(root.isInPlace)
        #expect(root.path == bench.path("seed"))
        #expect(hasShim(String(decoding: try root.page(), as: UTF8.self)))
        #expect(Set(root.places.keys) == [Array("index.html".utf8), Array("assets/app.js".utf8)])
        let script = try #require(root.places[Array("assets/app.js".utf8)])
        #expect(try script.open().readAll() == Array("seed 1".utf8))
        #expect(bench.warnings.lines.contains { $0.contains("the seed is shown from") })
    }

    @Test func `reads a file from memory`() throws {
        #expect(try FilePlace.memory(Array("x".utf8), name: "cordova.js").open().readAll() == Array("x".utf8))
    }

    // MARK: Recovery

    @Test func `reports files that cannot be removed once and continues`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        // The name is too long for the prefix of a temporary name.
        let name = String(repeating: "x", count: 250)
        try bench.root().directory("clients").makeDirectory(name)
        try bench.root().directory("staging").makeDirectory("attempt-1")
        let folder = try bench.root().directory("clients").directory(name)
        #expect(try bench.launch().name.description == "v1.0.0")
        withExtendedLifetime(folder) {}
        #expect(try bench.names("staging") == [])
    }

    @Test func `root does not change another user's store`() async throws {
        guard geteuid() == 0 else { return }
        let bench = try await LaunchBench(installing: "1.0.0")
        #expect(chown(bench.store, 4321, 4321) == 0)
        for attempt in [
            { _ = try bench.launcher() }, { _ = try bench.open() }, { _ = try bench.verdicts() },
        ] as [() throws -> Void] {
            let failure = #expect(throws: UpdateFailure.self) { try attempt() }
            #expect(failure?.code == .permissionDenied)
            #expect(failure?.message.contains("sudo -u") == true)
        }
    }

    // MARK: Two ledgers

    private static func twice(_ bench: LaunchBench) throws -> (before: Ledger, after: Ledger) {
        let keeper = LedgerKeeper(root: try bench.root())
        let version: ClientVersion = try Sample.version("1.1.0")
        for _ in 0..<2 {
            try keeper.apply([.unprepared(version, StartFailure(.notPrepared, detail: "", at: .now))])
        }
        let before = try bench.ledger()
        try keeper.apply([.bound(appId: "org.example.app")])
        return (before, try bench.ledger())
    }

    @Test(arguments: ["", "x", "{}", "cut"]) func `uses the previous ledger if the newest is damaged`(
        damage: String
    ) async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        let (before, after) = try Self.twice(bench)
        #expect(before.blocks.count == 1 && after.appId != nil)
        let bytes = damage == "cut" ? Array((try bench.text("ledger.json") ?? "").utf8.dropLast(3)) : Array(damage.utf8)
        try bench.root().removeFile("ledger.json")
        try bench.root().createDurableFile("ledger.json", with: bytes)
        #expect(try bench.ledger() == before)
        #expect(try Inventory.settled(at: bench.store) == nil)
        _ = try bench.open()
        #expect(try bench.text("ledger.json.damaged").map { Array($0.utf8) } == bytes)
        #expect(try LedgerFile.generations(try bench.root()).damage == nil)
        #expect(try bench.ledger() == before)
        #expect(bench.warnings.lines.contains { $0.contains("The previous ledger is used") })
        #expect(try Inventory.settled(at: bench.store)?.ledger == before)
    }

    @Test func `reports the store as damaged if both ledgers are`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        _ = try Self.twice(bench)
        for name in ["ledger.json", "ledger.before.json"] {
            try bench.root().removeFile(name)
            try bench.root().createDurableFile(name, with: [0])
        }
        let failure = #expect(throws: UpdateFailure.self) { try bench.ledger() }
        #expect(failure?.code == .storeDamaged)
        #expect(failure?.subject.hasSuffix("/ledger.json") == true)
    }

    @Test func `uses the previous ledger if the newest is missing`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        let (before, _) = try Self.twice(bench)
        try bench.remove("ledger.json")
        #expect(try bench.ledger() == before)
        #expect(try Inventory.settled(at: bench.store) == nil)
        _ = try bench.open()
        #expect(try bench.ledger() == before)
        #expect(try LedgerFile.generations(try bench.root()).damage == nil)
        #expect(bench.warnings.lines.contains { $0.contains("The previous ledger is used") })
    }

    @Test func `reports a missing ledger with a damaged previous one, and starts with an empty one`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        _ = try Self.twice(bench)
        try bench.remove("ledger.json")
        try bench.root().removeFile("ledger.before.json")
        try bench.root().createDurableFile("ledger.before.json", with: [0])
        let failure = #expect(throws: UpdateFailure.self) { try bench.ledger() }
        #expect(failure?.code == .storeDamaged && failure?.message.contains("is missing") == true)
        #expect(try Inventory.settled(at: bench.store) == nil)
        _ = try bench.open()
        #expect(try bench.ledger().blocks == [])
        #expect(bench.warnings.lines.contains { $0.contains("Blocks recorded in it are lost. It is kept as") })
        #expect(try bench.root().contents("ledger.json.damaged", maximumBytes: 9) == [0])
        #expect(try bench.root().kind(of: "ledger.before.json") == nil)
        #expect(try Inventory.settled(at: bench.store)?.ledger.entries.count == 2)
    }

    @Test func `keeps the newer one of two damaged ledgers`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        for name in ["ledger.json", "ledger.before.json"] {
            try bench.root().removeFile(name)
            try bench.root().createDurableFile(name, with: Array(name.utf8))
        }
        let root = try bench.root()
        _ = try bench.open()
        #expect(try root.contents("ledger.json.damaged", maximumBytes: 99) == Array("ledger.json".utf8))
        #expect(try root.kind(of: "ledger.before.json") == nil)
    }

    @Test func `recovers from an interruption while the previous ledger is kept`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        let (_, after) = try Self.twice(bench)
        let root = try bench.root()
        // After the link, and after its rename.
        try root.link("ledger.json", to: root, as: "ledger.before.json.new")
        try LedgerFile.write(after, to: root, keepingLast: true)
        try root.removeFile("ledger.before.json")
        try root.link("ledger.json", to: root, as: "ledger.before.json")
        try LedgerFile.write(after, to: root, keepingLast: true)
        #expect(try bench.ledger() == after)
        #expect(try root.list().filter { $0.hasSuffix(".new") } == [])
    }
}
