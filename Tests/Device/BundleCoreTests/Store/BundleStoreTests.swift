import BundleDisk
import BundleTesting
import Glibc
import Testing

@testable import BundleCore
import BundleValues

struct BundleStoreTests {
    private static let newest: [LedgerChange] = [.selected(shell: nil)]

    // MARK: Opening

    @Test func `creates a private store and the missing folders above it`() async throws {
        let bench = try StoreBench()
        let path = bench.parent.path + "/a/b/store"
        let store = try BundleStore.open(at: path, environment: Environment())
        #expect(try Directory.open(path).permissions().mode == 0o700)
        #expect(try Directory.open(path).directory("staging").permissions().mode == 0o700)
        #expect(try Directory.open(path).directory("downloads").permissions().mode == 0o700)
        #expect(try await store.inventory().bundles.isEmpty)
        #expect(try Inventory.exists(at: path))
        #expect(try !Inventory.exists(at: bench.path))
    }

    @Test(arguments: [0o777, 0o702, 0o1777] as [mode_t])
    func `refuses a store that every user may write to`(mode: mode_t) async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let before = try bench.snapshot()
        #expect(chmod(bench.path, mode) == 0)
        let failure = try #require(throws: UpdateFailure.self) { try bench.open() }
        #expect(failure.code == .permissionDenied)
        #expect(failure.subject == bench.path)
        #expect(chmod(bench.path, 0o700) == 0)
        #expect(try bench.snapshot() == before)
    }

    @Test(arguments: [0o755, 0o775, 0o750] as [mode_t])
    func `opens a store that other users may read or a group may write to`(mode: mode_t) async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        #expect(chmod(bench.path, mode) == 0)
        #expect(try await bench.open().inventory().bundles.count == 1)
    }

    @Test func `refuses a store that another process works on without changing it`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        try bench.write("x", to: "staging/attempt-1/x")
        let lock = try #require(try FileLock.take("lock", in: try bench.root()))
        let before = try bench.snapshot()
        let failure = try #require(throws: UpdateFailure.self) { try bench.open() }
        #expect(failure.code == .storeLocked)
        #expect(failure.subject == bench.path)
        #expect(try bench.snapshot() == before)
        withExtendedLifetime(lock) {}
    }

    @Test func `an open store is locked until it is released`() async throws {
        let bench = try StoreBench()
        do {
            let store = try bench.open()
            #expect(throws: UpdateFailure.self) { try bench.open() }
            #expect(try await store.inventory().bundles.isEmpty)
        }
        #expect(try await bench.open().inventory().bundles.isEmpty)
    }

    @Test func `binds a store to the first application that an installation names`() async throws {
        let bench = try StoreBench()
        do {
            let store = try bench.open()
            try await store.requireBound(to: nil)
            try await store.requireBound(to: "org.example.b")
            let staged = try await bench.stage(try MemoryOffer("1.0.0"), in: store)
            _ = try await store.install(staged, at: .now, with: [.bound(appId: "org.example.a")])
        }
        let store = try bench.open()
        #expect(try await store.inventory().ledger.appId == "org.example.a")
        try await store.requireBound(to: nil)
        try await store.requireBound(to: "org.example.a")
        let failure = await #expect(throws: UpdateFailure.self) { try await store.requireBound(to: "org.example.b") }
        #expect(failure?.code == .appMismatch)
        #expect(failure?.subject == "org.example.b")
    }

    // MARK: Installing

    @Test func `an installed client has a folder, a receipt and an entry, and no staging area`() async throws {
        let bench = try StoreBench()
        let store = try bench.open()
        let staged = try await bench.stage(try MemoryOffer("1.0.0"), in: store)
        #expect(try bench.names("clients").isEmpty)
        let installed = try await store.install(staged, at: .now, with: Self.newest)
        let bundle = try #require(installed.bundles.first)
        #expect(installed.ledger == (try await store.inventory().ledger))
        #expect(bundle.path == bench.path + "/clients/v1.0.0")
        #expect(bundle.name.description == "v1.0.0")
        #expect(bundle.entry.fileCount == 2)
        #expect(bundle.entry.installedSize == "client 1.0.0".utf8.count + "run(\"1.0.0\")".utf8.count)
        #expect(try bench.text("clients/v1.0.0/index.html") == "client 1.0.0")
        #expect(try bench.text("clients/v1.0.0/assets/app.js") == "run(\"1.0.0\")")
        #expect(try bench.names("receipts") == ["v1.0.0.json"])
        #expect(try bench.names("staging").isEmpty)
        #expect(try bench.text("clients/previousVersion") == "embedded\n")
        let inventory = try await store.inventory()
        #expect(inventory.bundles == [bundle])
        #expect(inventory.ledger.current == bundle.name)
        #expect(try Inventory.read(at: bench.path) == inventory)
        #expect(try InstalledTree.difference(of: bundle, inStoreAt: bench.path) == nil)
    }

    @Test func `writes the previous client to previousVersion`() async throws {
        let bench = try StoreBench()
        _ = try await bench.updater(try MemoryOffer("1.0.0", minimumShell: "0.5.0")).update()
        for version in ["1.1.0", "1.2.0"] { try await bench.install(version) }
        #expect(try bench.text("clients/previousVersion") == "v1.1.0\n")
        let store = try bench.open()
        _ = try await store.apply([.selected(shell: try Sample.version("0.9.0"))])
        #expect(try bench.text("clients/previousVersion") == "v1.2.0\n")
        let ledger = try await store.inventory().ledger
        #expect(ledger.current.description == "v1.0.0")
        #expect(ledger.previous?.description == "v1.2.0")
        #expect(try Inventory.read(at: bench.path).ledger == ledger)
    }

    @Test func `writes nothing if the current client is selected again`() async throws {
        let bench = try await StoreBench(installing: "1.0.0", "1.1.0")
        let store = try bench.open()
        let before = try bench.snapshot()
        _ = try await store.apply(Self.newest)
        #expect(try bench.snapshot() == before)
    }

    @Test func `replaces only the manifest of an installed version with the same content`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let store = try bench.open()
        let tree = try FolderSnapshot(of: bench.path + "/clients/v1.0.0")
        let offer = try MemoryOffer("1.0.0", minimumShell: "0.5.0")
        _ = try await store.install(try await bench.stage(offer, in: store), at: .now, with: Self.newest)
        #expect(try FolderSnapshot(of: bench.path + "/clients/v1.0.0") == tree)
        let bundle = try #require(try await store.inventory().bundles.first)
        #expect(bundle.entry.shells == offer.shells)
        #expect(try bench.text("receipts/v1.0.0.json")?.contains("\"minShellVersion\":\"0.5.0\"") == true)
        #expect(try InstalledTree.difference(of: bundle, inStoreAt: bench.path) == nil)
        #expect(try bench.names("staging").isEmpty)
    }

    @Test func `refuses an installed version with other content`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let store = try bench.open()
        let before = try bench.snapshot().withoutTimes
        let staged = try await bench.stage(try MemoryOffer("1.0.0", files: ["index.html": "other"]), in: store)
        let failure = await #expect(throws: UpdateFailure.self) {
            try await store.install(staged, at: .now, with: Self.newest)
        }
        #expect(failure?.code == .versionExists)
        #expect(failure?.subject == "1.0.0")
        #expect(try bench.snapshot().withoutTimes == before)
    }

    /// The path of a file that blocks the installation.
    @Test(arguments: ["staging/*/tree", "ledger.json.new/x", "clients/v1.1.0/x", "receipts/v1.1.0.json/x"])
    func `leaves the store unchanged if the disk refuses an installation`(obstacle: String) async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let store = try bench.open()
        let before = try bench.snapshot().withoutTimes.entries
        let staged = try await bench.stage(try MemoryOffer("1.1.0"), in: store)
        if obstacle.hasPrefix("staging") {
            try bench.remove("staging/\(staged.area.name)/tree")
        } else {
            try bench.write("in the way", to: obstacle)
        }
        await #expect(throws: DiskError.self) {
            try await store.install(staged, at: .now, with: [.bound(appId: "org.example.a")] + Self.newest)
        }
        let own = try bench.snapshot().withoutTimes.entries.filter { before[$0.key] != nil }
        #expect(own == before)
        #expect(try bench.root().contents("clients/v1.1.0/index.html", maximumBytes: 99) == nil)
        #expect(try bench.root().contents("receipts/v1.1.0.json/x", maximumBytes: 99)?.count ?? 10 == 10)
        #expect(try bench.names("staging").isEmpty)
        #expect(try await store.inventory().bundles.map(\.version.description) == ["1.0.0"])
        #expect(try await store.inventory().ledger.appId == nil)
        #expect(try Inventory.read(at: bench.path).bundles.map(\.version.description) == ["1.0.0"])
        // The next run does not need a cleanup by hand.
    }

    @Test func `refuses a release that does not fit before it writes anything`() async throws {
        let bench = try StoreBench()
        let store = try bench.open()
        let before = try bench.snapshot()
        let footprint = Footprint(downloadBytes: nil, installedBytes: 1 << 60, fileCount: nil)
        let failure = await #expect(throws: UpdateFailure.self) { try await store.openStaging(for: footprint) }
        #expect(failure?.code == .diskFull)
        #expect(failure?.subject == bench.path)
        #expect(try bench.snapshot() == before)
    }

    @Test func `removes a discarded staging area`() async throws {
        let bench = try StoreBench()
        let store = try bench.open()
        let staged = try await bench.stage(try MemoryOffer("1.0.0"), in: store)
        #expect(try bench.names("staging") == [staged.area.name])
        await store.discard(staged.area)
        #expect(try bench.names("staging").isEmpty)
    }

    // MARK: Removing

    @Test func `retention removes only the folder, the receipt and the entry of a client`() async throws {
        let bench = try await StoreBench(installing: "1.0.0", "1.1.0", "1.2.0")
        let store = try bench.open()
        let before = try bench.snapshot().withoutTimes
        _ = try await store.retain(keeping: 2)
        let after = try bench.snapshot().withoutTimes
        let gone = before.paths.filter { after.entries[$0] == nil }
        #expect(
            gone == [
                "clients/v1.0.0", "clients/v1.0.0/assets", "clients/v1.0.0/assets/app.js", "clients/v1.0.0/index.html",
                "receipts/v1.0.0.json",
            ])
        #expect(after.paths.allSatisfy { before.entries[$0] != nil })
        #expect(try Inventory.read(at: bench.path) == (try await store.inventory()))
        #expect(try Inventory.read(at: bench.path).bundles.map(\.version.description) == ["1.1.0", "1.2.0"])
    }

    @Test func `removes a client's folder without following links`() async throws {
        let bench = try await StoreBench(installing: "1.0.0", "1.1.0", "1.2.0")
        // A link in the folder is removed, but not its target.
        try bench.write("precious", to: "downloads/kept")
        #expect(symlink("../../downloads", bench.path + "/clients/v1.0.0/link") == 0)
        let store = try bench.open()
        _ = try await store.retain(keeping: 1)
        #expect(try bench.root().directory("clients").kind(of: "v1.0.0") == nil)
        #expect(try bench.text("downloads/kept") == "precious")
    }
}
