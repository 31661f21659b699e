import BundleDisk
import BundleTesting
import Glibc
import Testing

@testable import BundleCore
import BundleValues

struct BundleStoreTests {
    private static let newest: [LedgerChange] = [.selected(shell: nil)]

    // MARK: Opening

    @Test func `a store is created for its owner alone, with what is missing above it`() async throws {
        let bench = try StoreBench()
        let path = bench.parent.path + "/a/b/store"
        let store = try BundleStore.open(at: path, time: .now) { _ in }
        #expect(try Directory.open(path).permissions().mode == 0o700)
        #expect(try Directory.open(path).directory("staging").permissions().mode == 0o700)
        #expect(try Directory.open(path).directory("downloads").permissions().mode == 0o700)
        #expect(try await store.inventory().bundles.isEmpty)
        #expect(try Inventory.exists(at: path))
        #expect(try !Inventory.exists(at: bench.path))
    }

    @Test(arguments: [0o777, 0o702, 0o1777] as [mode_t])
    func `a store that everybody may write to is refused`(mode: mode_t) async throws {
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
    func `a store that others may read, or a group may write to, is opened`(mode: mode_t) async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        #expect(chmod(bench.path, mode) == 0)
        #expect(try await bench.open().inventory().bundles.count == 1)
    }

    @Test func `a store that another process works on is locked, and left alone`() async throws {
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

    @Test func `an open store locks others out until it goes`() async throws {
        let bench = try StoreBench()
        do {
            let store = try bench.open()
            #expect(throws: UpdateFailure.self) { try bench.open() }
            #expect(try await store.inventory().bundles.isEmpty)
        }
        #expect(try await bench.open().inventory().bundles.isEmpty)
    }

    @Test func `a store belongs to the first application that an installation names`() async throws {
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

    @Test func `an installed client has its folder, receipt and entry, and staging is empty`() async throws {
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

    @Test func `the client that ran before stands in previousVersion`() async throws {
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

    @Test func `selecting what is current writes nothing`() async throws {
        let bench = try await StoreBench(installing: "1.0.0", "1.1.0")
        let store = try bench.open()
        let before = try bench.snapshot()
        _ = try await store.apply(Self.newest)
        #expect(try bench.snapshot() == before)
    }

    @Test func `a known version with the same content only gets its new manifest`() async throws {
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

    @Test func `a known version with other content is refused, and the installed one stays`() async throws {
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

    /// What stands in the way of an installation, by path and content.
    @Test(arguments: ["staging/*/tree", "ledger.json.new/x", "clients/v1.1.0/x", "receipts/v1.1.0.json/x"])
    func `an installation that the disk refuses leaves the store as it was`(obstacle: String) async throws {
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
        // The next run needs no cleaning up by hand.
    }

    @Test func `a release without room for it is refused before anything is written`() async throws {
        let bench = try StoreBench()
        let store = try bench.open()
        let before = try bench.snapshot()
        let footprint = Footprint(downloadBytes: nil, installedBytes: 1 << 60, fileCount: nil)
        let failure = await #expect(throws: UpdateFailure.self) { try await store.openStaging(for: footprint) }
        #expect(failure?.code == .diskFull)
        #expect(failure?.subject == bench.path)
        #expect(try bench.snapshot() == before)
    }

    @Test func `an area that is given up is removed`() async throws {
        let bench = try StoreBench()
        let store = try bench.open()
        let staged = try await bench.stage(try MemoryOffer("1.0.0"), in: store)
        #expect(try bench.names("staging") == [staged.area.name])
        await store.discard(staged.area)
        #expect(try bench.names("staging").isEmpty)
    }

    // MARK: Removing

    @Test func `retention removes folder, receipt and entry, and nothing else`() async throws {
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

    @Test func `a folder with a wrong owner's names in it goes whole`() async throws {
        let bench = try await StoreBench(installing: "1.0.0", "1.1.0", "1.2.0")
        // A link inside must go itself, never what it leads to.
        try bench.write("precious", to: "downloads/kept")
        #expect(symlink("../../downloads", bench.path + "/clients/v1.0.0/link") == 0)
        let store = try bench.open()
        _ = try await store.retain(keeping: 1)
        #expect(try bench.root().directory("clients").kind(of: "v1.0.0") == nil)
        #expect(try bench.text("downloads/kept") == "precious")
    }
}
