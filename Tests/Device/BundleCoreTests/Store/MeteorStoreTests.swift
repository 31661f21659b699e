import BundleDisk
import BundleTesting
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

/// Tests Meteor bundles in the store: installation, offers of installed bundles, and recovery.
struct MeteorStoreTests {
    private static func word(_ outcome: UpdateOutcome) -> String {
        switch outcome {
        case .installed(let version, let report): "installed \(version), then \(report.pending ?? report.current)"
        case .chosen(let version, let report): "chosen \(version), then \(report.pending ?? report.current)"
        case .upToDate(_, _, let newest): "upToDate \(newest)"
        case .notInRollout(_, _, let newest, _): "notInRollout \(newest)"
        case .waiting(_, _, let newest, let wait): "waiting \(wait.reason), then \(newest)"
        }
    }

    // MARK: Updating

    @Test func `an installed push has a folder, a receipt and an entry, and runs before an archive`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        #expect(Self.word(try await bench.push("a")) == "installed a, then meteor-a")
        #expect(try bench.text("meteor/a/index.html") == "push a")
        #expect(try bench.text("meteor/a/app/app.js") == "run(\"a\")")
        #expect(try bench.names("receipts") == ["meteor-a.json", "v1.0.0.json"])
        #expect(try bench.names("staging").isEmpty)
        let inventory = try Inventory.read(at: bench.path)
        #expect(inventory.bundles.map(\.path) == ["clients/v1.0.0", "meteor/a"].map { "\(bench.path)/\($0)" })
        #expect(inventory.ledger.offered == (try Sample.name("meteor-a")))
        #expect(inventory.source(of: try Sample.name("meteor-a")) == "meteor")
        for bundle in inventory.bundles {
            #expect(try InstalledTree.difference(of: bundle, inStoreAt: bench.path) == nil)
        }
        let before = try bench.snapshot()
        #expect(Self.word(try await bench.push("a")) == "upToDate meteor-a")
        #expect(try bench.snapshot() == before)
    }

    @Test(arguments: ["\u{301}a", "\u{FE0F}", "a\u{600}", "\u{600}", "e\u{301}"])
    func `finds an installed version that starts with a combining character`(version: String) async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        #expect(Self.word(try await bench.push(version)) == "installed \(version), then meteor-\(version)")
        let inventory = try Inventory.read(at: bench.path)
        #expect(inventory.bundles.map(\.version.description) == ["1.0.0", version])
        try bench.remove("ledger.json")
        try await bench.push("b")
        let versions = try Inventory.read(at: bench.path).bundles.map(\.version.description)
        #expect(Set(versions) == ["1.0.0", version, "b"])
    }

    @Test func `chooses an installed push without a download when the server returns to it`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        for version in ["a", "b"] { try await bench.push(version) }
        let trees = try FolderSnapshot(of: bench.path + "/meteor")
        #expect(Self.word(try await bench.push("a")) == "chosen a, then meteor-a")
        #expect(try FolderSnapshot(of: bench.path + "/meteor") == trees)
        #expect(try Inventory.read(at: bench.path).ledger.offered == (try Sample.name("meteor-a")))
        // The order of installation does not change.
        #expect(try Inventory.read(at: bench.path).bundles.map(\.version.description) == ["1.0.0", "a", "b"])
    }

    @Test func `chooses the seed when the server offers the seed's version`() async throws {
        let bench = try StoreBench()
        try await bench.push("a")
        let source = PushSource(offer: try PushOffer("own"), seed: try MeteorVersion(parsing: "own"))
        #expect(Self.word(try await bench.push(source)) == "chosen own, then embedded")
        let ledger = try Inventory.read(at: bench.path).ledger
        #expect(ledger.offered == .embedded)
        #expect(ledger.current == .embedded)
    }

    @Test func `stores the order of the sources`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let order = try #require(SourceOrder(["archive", "meteor"]))
        let source = PushSource(offer: try PushOffer("a"))
        #expect(Self.word(try await bench.push(source, sources: order)) == "installed a, then v1.0.0")
        #expect(try Inventory.read(at: bench.path).ledger.sources == order)
        // A device without a setting keeps the stored order.
        #expect(Self.word(try await bench.push("b")) == "installed b, then v1.0.0")
    }

    @Test func `an archive that is installed beside a push does not run before it`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        try await bench.push("a")
        try await bench.install("1.1.0")
        #expect(try Inventory.read(at: bench.path).ledger.current.description == "meteor-a")
    }

    // MARK: Recovery

    /// A change of a store, and the remaining clients. The store has v1.0.0 and the pushes `own`, which has all its
    /// files, and `heir`, which needs seed 1.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let spoil: @Sendable (StoreBench) throws -> Void
        var left = ["v1.0.0", "meteor-own", "meteor-heir"]
        var warnings: [String] = []
    }

    private static func forget(_ bench: StoreBench, _ version: String) throws {
        let version: ClientVersion = try Sample.version(version)
        try bench.editLedger { $0.forget(version) }
    }

    private static func setSeed(_ bench: StoreBench, _ text: String) throws {
        let seed = try Sample.seed(text)
        try bench.editLedger { $0.seed = seed }
    }

    private static func stray(_ name: String) -> String { "\(name) was removed: the ledger has no client of this name" }

    static let cases = [
        Case(testDescription: "nothing was interrupted", spoil: { _ in }),
        Case(
            testDescription: "a complete push without an entry", spoil: { try forget($0, "meteor-own") },
            left: ["v1.0.0", "meteor-heir", "meteor-own"],
            warnings: ["recovered meteor-own: it was complete but missing from the ledger"]),
        Case(
            testDescription: "a complete push for the present seed",
            spoil: {
                try forget($0, "meteor-heir")
                try setSeed($0, "1")
            }, warnings: ["recovered meteor-heir: it was complete but missing from the ledger"]),
        Case(
            testDescription: "a complete push before any seed is known", spoil: { try forget($0, "meteor-heir") },
            warnings: ["recovered meteor-heir: it was complete but missing from the ledger"]),
        Case(
            testDescription: "a complete push for another seed",
            spoil: {
                try forget($0, "meteor-heir")
                try setSeed($0, "2")
            }, left: ["v1.0.0", "meteor-own"], warnings: ["heir was removed: it was downloaded for another seed"]),
        Case(
            testDescription: "no ledger", spoil: { try $0.loseLedger() },
            warnings: ["recovered v1.0.0", "recovered meteor-own", "recovered meteor-heir"]),
        Case(
            testDescription: "folders of other updaters",
            spoil: {
                for name in ["Downloading", "PartialDownload", ".hidden", "stray"] {
                    try $0.write("x", to: "meteor/\(name)/index.html")
                }
                try $0.write("x", to: "meteor/file")
            },
            warnings: ["Downloading", "PartialDownload", ".hidden", "stray", "file"].map(stray)),
        Case(
            testDescription: "previousVersion among the pushes",
            spoil: { try $0.write("x", to: "meteor/previousVersion/x") }, warnings: [stray("previousVersion")]),
        Case(
            testDescription: "an archive's folder among the pushes",
            spoil: { try $0.write("client 1.0.0", to: "meteor/v1.0.0/index.html") }, warnings: [stray("v1.0.0")]),
        Case(
            testDescription: "a push without an entry, with other bytes",
            spoil: {
                try forget($0, "meteor-own")
                try $0.write("Push own", to: "meteor/own/index.html")
            }, left: ["v1.0.0", "meteor-heir"], warnings: [stray("own")]),
        Case(
            testDescription: "a push without an entry or receipt",
            spoil: {
                try forget($0, "meteor-own")
                try $0.remove("receipts/meteor-own.json")
            }, left: ["v1.0.0", "meteor-heir"], warnings: [stray("own")]),
        Case(
            testDescription: "an entry without a folder", spoil: { try $0.remove("meteor/heir") },
            left: ["v1.0.0", "meteor-own"], warnings: ["meteor-heir was removed from the ledger: its folder is missing"]
        ),
        Case(
            testDescription: "no folder of pushes", spoil: { try $0.remove("meteor") }, left: ["v1.0.0"],
            warnings: [
                "meteor-own was removed from the ledger: its folder is missing",
                "meteor-heir was removed from the ledger: its folder is missing",
            ]),
        Case(
            testDescription: "receipts of nothing",
            spoil: {
                try $0.write("{}", to: "receipts/meteor-none.json")
                try $0.write("{}", to: "receipts/meteor-.json")
            }),
    ]

    @Test(arguments: cases) func `cleans up pushes after an interrupted run`(_ state: Case) async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        try await bench.push("own")
        try await bench.push("heir", seed: "1")
        try state.spoil(bench)
        #expect(bench.warnings.lines.isEmpty)

        let first = try await bench.open().inventory()
        // Folders are listed in any order.
        #expect(Set(first.bundles.map(\.name.description)) == Set(state.left))
        #expect(first.bundles.count == state.left.count)
        #expect(first.bundles.map(\.name) == first.ledger.entries.map { ClientName.installed($0.version) })
        #expect(!first.isUnsettled)
        #expect(bench.warnings.lines.count == state.warnings.count)
        for part in state.warnings {
            #expect(bench.warnings.lines.contains { $0.contains(part) }, "\(bench.warnings.lines) name \(part)")
        }
        let pushes = first.bundles.map(\.version).filter { $0.source == .meteor }
        #expect(try bench.names("meteor") == pushes.map(\.folderName).sorted())
        #expect(try bench.names("receipts") == first.bundles.map { "\($0.name).json" }.sorted())
        #expect(try bench.names("staging").isEmpty)
        for bundle in first.bundles {
            #expect(try InstalledTree.difference(of: bundle, inStoreAt: bench.path) == nil)
        }

        let before = try bench.snapshot()
        #expect(try await bench.open().inventory() == first)
        #expect(try bench.snapshot() == before)
    }

    @Test func `does not offer an adopted push`() async throws {
        let bench = try StoreBench()
        for version in ["a", "b"] { try await bench.push(version) }
        try bench.editLedger { $0.forget($0.entries[0].version) }
        let ledger = try await bench.open().inventory().ledger
        #expect(ledger.offered == (try Sample.name("meteor-b")))
        // It comes before the other one, since its removal may have been interrupted.
        #expect(ledger.entries.map(\.version.description) == ["a", "b"])
    }

    // MARK: Interrupted downloads

    private static let failure = UpdateFailure(.networkUnavailable, subject: "x", "gone")

    private static func interrupted(_ bench: StoreBench, _ version: String, hasJournal: Bool = true) async throws {
        var offer = try PushOffer(version)
        offer.hasJournal = hasJournal
        let source = PushSource(offer: offer, failure: failure)
        await #expect(throws: failure) { try await bench.push(source) }
    }

    @Test func `removes the kept downloads after an attempt whose tree became a client`() async throws {
        let bench = try StoreBench()
        try await Self.interrupted(bench, "a")
        let journal = StoreLayout.attemptPrefix + "installed/" + StagingArea.journalName
        try bench.write("{}", to: "staging/\(journal)")
        _ = try bench.open()
        #expect(try bench.names("staging").isEmpty)
        // The completed attempt has used the kept downloads, too.
        #expect(try bench.names("downloads").isEmpty)
    }

    @Test func `keeps the downloads of the last failed push only`() async throws {
        let bench = try StoreBench()
        try await Self.interrupted(bench, "a")
        try await Self.interrupted(bench, "b")
        #expect(try bench.names("staging").isEmpty)
        #expect(try bench.names("downloads") == ["interrupted"])
        // The receipt is removed, since the tree is incomplete.
        #expect(try bench.names("downloads/interrupted") == [StagingArea.journalName, "tree"])
        #expect(try bench.text("downloads/interrupted/tree/index.html") == "push b")
        // Without a journal, the complete files are unknown.
        try await Self.interrupted(bench, "c", hasJournal: false)
        #expect(try bench.text("downloads/interrupted/tree/index.html") == "push b")
        let before = try bench.snapshot()
        _ = try bench.open()
        #expect(try bench.snapshot() == before)
    }

    @Test func `removes kept downloads after the installation of a push, but not of an archive`() async throws {
        let bench = try StoreBench()
        try await Self.interrupted(bench, "a")
        try await bench.install("1.0.0")
        #expect(try bench.names("downloads") == ["interrupted"])
        try await bench.push("a")
        #expect(try bench.names("downloads").isEmpty)
    }

    @Test func `an installed push removes attempts that an earlier run could not remove`() async throws {
        let bench = try StoreBench()
        let store = try bench.open()
        let area = try await store.openStaging(
            for: Footprint(downloadBytes: nil, installedBytes: nil, fileCount: nil))
        try bench.write("x", to: "staging/attempt-1/tree/index.html")
        try bench.write("{}", to: "staging/attempt-1/\(StagingArea.journalName)")
        let offer = try PushOffer("a")
        let staged = try PushSource(offer: offer).stage(offer, in: area, reusing: try await store.reuseIndex())
        _ = try await store.install(staged, at: .now, with: [])
        #expect(try bench.names("staging").isEmpty)
        #expect(try bench.names("downloads").isEmpty)
    }

    @Test func `keeps no other attempt after a completed push`() async throws {
        let bench = try StoreBench()
        _ = try bench.open()
        try bench.write("x", to: "staging/attempt-1/tree/index.html")
        try bench.write("{}", to: "staging/attempt-1/\(StagingArea.journalName)")
        try bench.write("{}", to: "staging/attempt-2/\(StagingArea.journalName)")
        _ = try bench.open()
        #expect(try bench.names("staging").isEmpty)
        #expect(try bench.names("downloads").isEmpty)
    }

    @Test func `the next attempt finds the kept downloads`() async throws {
        let bench = try StoreBench()
        let store = try bench.open()
        let footprint = Footprint(downloadBytes: nil, installedBytes: nil, fileCount: nil)
        let first = try await store.openStaging(for: footprint)
        #expect(try first.interrupted() == nil)
        try bench.write("{}", to: "staging/\(first.name)/\(StagingArea.journalName)")
        await store.discard(first)
        let second = try await store.openStaging(for: footprint)
        #expect(try second.interrupted()?.list().sorted() == [StagingArea.journalName, "tree"])
    }

    @Test(arguments: [
        ("staging/attempt-1/assets.journal", "{}", true), ("staging/attempt-1/assets.journal", "", false),
        ("staging/trash-1/assets.journal", "{}", false), ("staging/attempt-1/tree/assets.journal", "{}", false),
        ("staging/attempt-1/assets.journal/x", "{}", false),
    ])
    func `keeps an interrupted attempt only if its journal is not empty`(path: String, text: String, isKept: Bool)
        async throws
    {
        let bench = try StoreBench()
        _ = try bench.open()
        try bench.write("x", to: "staging/attempt-1/receipt.json")
        try bench.write("x", to: "staging/attempt-1/tree/index.html")
        try bench.write(text, to: path)
        #expect(try Inventory.read(at: bench.path).isUnsettled)
        _ = try bench.open()
        #expect(try bench.names("staging").isEmpty)
        #expect(try bench.names("downloads") == (isKept ? ["interrupted"] : []))
        if isKept { #expect(try bench.names("downloads/interrupted") == [StagingArea.journalName, "tree"]) }
    }
}
