import BundleDisk
import BundleTesting
import Testing

@testable import BundleCore
import BundleValues

/// Tests every state that an interrupted run or a failing disk can leave.
struct RecoveryTests {
    /// A state of the store and the expected result. The store had v1.0.0 and v1.1.0, current and previous.
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let spoil: @Sendable (StoreBench) async throws -> Void
        var versions = ["1.0.0", "1.1.0"]
        var current = "v1.1.0"
        var previous: String? = "v1.0.0"
        /// Parts of the expected warnings.
        var warnings: [String] = []

        var testDescription: String { name }
    }

    /// Installs 1.2.0, then removes its entry and the paths in `also`.
    private static func unrecorded(
        _ bench: StoreBench, also: @Sendable (StoreBench) throws -> Void = { _ in }
    ) async throws {
        let ledger = try bench.text("ledger.json") ?? ""
        try await bench.install("1.2.0")
        try bench.write(ledger, to: "ledger.json")
        try bench.write("v1.0.0\n", to: "clients/previousVersion")
        try also(bench)
    }

    private static let gone = "v1.2.0 was removed: the ledger has no client of this name"
    private static let damaged = "ledger cannot be read"

    static let leftovers: [Case] = [
        Case(name: "nothing was interrupted", spoil: { _ in }),
        Case(
            name: "an attempt and trash in staging",
            spoil: { bench in
                try bench.write("x", to: "staging/attempt-1/tree/assets/app.js")
                try bench.write("x", to: "staging/attempt-1/receipt.json")
                try bench.write("x", to: "staging/trash-1/index.html")
                try bench.write("v1.1.0\n", to: "staging/previousVersion.new")
            }),
        Case(
            name: "a receipt without a folder",
            spoil: { try $0.write("{}", to: "receipts/v1.2.0.json") }),
        Case(name: "a folder among the receipts", spoil: { try $0.write("x", to: "receipts/stray/x") }),
        Case(
            name: "a temporary ledger", spoil: { try $0.write("{\"schema\":1", to: "ledger.json.new") }),
        Case(
            name: "a temporary session", spoil: { try $0.write("{\"schema\":1", to: "session.json.new") }),
        Case(
            name: "a folder with the name of the temporary ledger",
            spoil: { try $0.write("x", to: "ledger.json.new/x") }),
        Case(
            name: "a partly removed serving root",
            spoil: { try $0.write("x", to: "serving/.old-1/assets/app.js") }),
        Case(name: "no previousVersion", spoil: { try $0.remove("clients/previousVersion") }),
        Case(
            name: "a previousVersion of an older selection",
            spoil: { try $0.write("embedded\n", to: "clients/previousVersion") }),
        Case(
            name: "a previousVersion that is too large",
            spoil: { try $0.write(String(repeating: "v", count: 5000), to: "clients/previousVersion") }),
        Case(
            name: "a folder with the name of previousVersion",
            spoil: { bench in
                try bench.remove("clients/previousVersion")
                try bench.write("x", to: "clients/previousVersion/x")
            }),
        Case(
            name: "no staging and no downloads",
            spoil: { bench in
                try bench.remove("staging")
                try bench.remove("downloads")
            }),
    ]

    static let folders: [Case] = [
        Case(
            name: "a folder with a good receipt but no entry", spoil: { try await unrecorded($0) },
            versions: ["1.0.0", "1.1.0", "1.2.0"],
            warnings: ["recovered v1.2.0: it was complete but missing from the ledger"]),
        Case(
            name: "a folder with neither receipt nor entry",
            spoil: { try await unrecorded($0) { try $0.remove("receipts/v1.2.0.json") } }, warnings: [gone]),
        Case(
            name: "a folder with a cut receipt",
            spoil: { bench in
                try await unrecorded(bench) {
                    let text = try $0.text("receipts/v1.2.0.json") ?? ""
                    try $0.write(String(text.dropLast(8)), to: "receipts/v1.2.0.json")
                }
            }, warnings: [gone]),
        Case(
            name: "a folder with an empty receipt",
            spoil: { try await unrecorded($0) { try $0.write("", to: "receipts/v1.2.0.json") } }, warnings: [gone]),
        Case(
            name: "a folder with another version's receipt",
            spoil: { bench in
                try await unrecorded(bench) {
                    try $0.write(
                        (try $0.text("receipts/v1.2.0.json") ?? "").replacingFirst("1.2.0", with: "1.3.0"),
                        to: "receipts/v1.2.0.json")
                }
            }, warnings: [gone]),
        Case(
            name: "a receipt that lists one file twice and hides another",
            spoil: { bench in
                try await unrecorded(bench) {
                    var lines = (try $0.text("receipts/v1.2.0.json") ?? "").split(
                        separator: "\n", omittingEmptySubsequences: false)
                    lines[2] = lines[1].dropLast()
                    try $0.write(lines.joined(separator: "\n"), to: "receipts/v1.2.0.json")
                }
            }, warnings: [gone]),
        Case(
            name: "a receipt without line breaks",
            spoil: { bench in
                try await unrecorded(bench) {
                    try $0.write(
                        (try $0.text("receipts/v1.2.0.json") ?? "").replacing("\n{", with: "{"),
                        to: "receipts/v1.2.0.json")
                }
            }, warnings: [gone]),
        Case(
            name: "a folder with a file of the same size but other bytes",
            spoil: { try await unrecorded($0) { try $0.write("Client 1.2.0", to: "clients/v1.2.0/index.html") } },
            warnings: [gone]),
        Case(
            name: "a folder with a file of length 0, as after a power cut",
            spoil: { try await unrecorded($0) { try $0.write("", to: "clients/v1.2.0/assets/app.js") } },
            warnings: [gone]),
        Case(
            name: "a folder without one of its files",
            spoil: { try await unrecorded($0) { try $0.remove("clients/v1.2.0/assets/app.js") } }, warnings: [gone]),
        Case(
            name: "a folder with an extra file",
            spoil: { try await unrecorded($0) { try $0.write("", to: "clients/v1.2.0/assets/more.js") } },
            warnings: [gone]),
        Case(
            name: "an empty folder", spoil: { try $0.root().directory("clients").makeDirectory("v1.2.0") },
            warnings: [gone]),
        Case(
            name: "a file with a client's name", spoil: { try $0.write("x", to: "clients/v1.2.0") }, warnings: [gone]),
        Case(
            name: "a folder without a version's name", spoil: { try $0.write("x", to: "clients/1.2.0/index.html") },
            warnings: ["1.2.0 was removed: the ledger has no client of this name"]),
        Case(
            name: "a version whose removal was interrupted",
            spoil: { try $0.editLedger { $0.forget($0.entries[0].version) } }, previous: nil,
            warnings: ["recovered v1.0.0: it was complete but missing from the ledger"]),
    ]

    static let ledgers: [Case] = [
        Case(
            name: "an entry of the previous client without a folder", spoil: { try $0.remove("clients/v1.0.0") },
            versions: ["1.1.0"], previous: nil, warnings: ["v1.0.0 was removed from the ledger: its folder is missing"]),
        Case(
            name: "an entry of the current client without a folder", spoil: { try $0.remove("clients/v1.1.0") },
            versions: ["1.0.0"], current: "embedded",
            warnings: ["v1.1.0 was removed from the ledger: its folder is missing"]),
        Case(
            name: "an entry with a file instead of a folder",
            spoil: { bench in
                try bench.remove("clients/v1.0.0")
                try bench.write("x", to: "clients/v1.0.0")
            }, versions: ["1.1.0"], previous: nil,
            warnings: [
                "v1.0.0 was removed from the ledger: its folder is missing",
                "v1.0.0 was removed: the ledger has no client",
            ]),
        Case(
            name: "a current client that was never installed",
            spoil: { bench in
                let name = try Sample.name("9.0.0")
                try bench.editLedger { $0.select(name) }
            },
            current: "embedded", previous: "v1.1.0"),
        Case(
            name: "no ledger", spoil: { try $0.loseLedger() }, current: "embedded", previous: nil,
            warnings: ["recovered v1.0.0", "recovered v1.1.0"]),
        Case(
            name: "a ledger of another kind",
            spoil: { bench in
                try bench.remove("ledger.json")
                try bench.write("x", to: "ledger.json/x")
            }, current: "embedded", previous: nil, warnings: [damaged, "recovered v1.0.0", "recovered v1.1.0"]),
        Case(
            name: "an empty ledger", spoil: { try $0.write("", to: "ledger.json") }, current: "embedded", previous: nil,
            warnings: [damaged, "recovered v1.0.0", "recovered v1.1.0"]),
        Case(
            name: "a cut ledger",
            spoil: { try $0.write(String((try $0.text("ledger.json") ?? "").dropLast(9)), to: "ledger.json") },
            current: "embedded", previous: nil, warnings: [damaged, "recovered v1.0.0", "recovered v1.1.0"]),
        Case(
            name: "a damaged ledger and a damaged client",
            spoil: { bench in
                try bench.write("{}", to: "ledger.json")
                try bench.write("client 9.0.0", to: "clients/v1.1.0/index.html")
            }, versions: ["1.0.0"], current: "embedded", previous: nil,
            warnings: [damaged, "recovered v1.0.0", "v1.1.0 was removed"]),
    ]

    @Test(arguments: leftovers + folders + ledgers)
    func `recovers an interrupted store, and a second recovery changes nothing`(_ state: Case) async throws {
        let bench = try await StoreBench(installing: "1.0.0", "1.1.0")
        try await state.spoil(bench)
        #expect(bench.warnings.lines.isEmpty)

        let first = try await inventory(bench)
        #expect(first.bundles.map(\.version.description) == state.versions)
        #expect(first.ledger.entries.map(\.version.description) == state.versions)
        #expect(first.ledger.current.description == state.current)
        #expect(first.ledger.previous?.description == state.previous)
        // Folders are listed in any order.
        #expect(bench.warnings.lines.count == state.warnings.count)
        for part in state.warnings {
            #expect(bench.warnings.lines.contains { $0.contains(part) }, "\(bench.warnings.lines) name \(part)")
        }

        #expect(try Inventory.read(at: bench.path) == first)
        #expect(!first.isUnsettled)
        for bundle in first.bundles {
            #expect(try InstalledTree.difference(of: bundle, inStoreAt: bench.path) == nil)
        }
        #expect(try bench.text("clients/previousVersion") == state.previous.map { $0 + "\n" })
        #expect(
            try bench.names("clients").filter { $0 != "previousVersion" } == state.versions.map { "v\($0)" })
        #expect(try bench.names("receipts") == state.versions.map { "v\($0).json" })
        #expect(try bench.names("staging").isEmpty)
        #expect(try !bench.names("serving").contains { $0.hasPrefix(".old-") })
        #expect(try bench.root().kind(of: "ledger.json.new") == nil)
        #expect(try bench.root().kind(of: "session.json.new") == nil)

        let before = try bench.snapshot()
        #expect(try await inventory(bench) == first)
        #expect(try bench.snapshot() == before)
        #expect(bench.warnings.lines.count == state.warnings.count)
    }

    private func inventory(_ bench: StoreBench) async throws -> Inventory { try await bench.open().inventory() }

    @Test(arguments: ["{\"schema\":4", "{\"schema\":3}"])
    func `keeps a ledger that it cannot read beside the rebuilt one`(text: String) async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        try bench.write(text, to: "ledger.json")
        #expect(throws: UpdateFailure.self) { try Inventory.read(at: bench.path) }
        _ = try bench.open()
        #expect(try bench.text("ledger.json.damaged") == text)
        #expect(bench.warnings.lines.first?.contains("kept as ledger.json.damaged") == true)
        #expect(try Inventory.read(at: bench.path).bundles.map(\.version.description) == ["1.0.0"])
    }

    @Test func `an adopted client has all values of its receipt`() async throws {
        let bench = try StoreBench()
        let offer = try MemoryOffer("1.0.0", minimumShell: "1.0.0", maximumShell: "4.0.0")
        _ = try await bench.updater(offer).update()
        let entry = try #require(try Inventory.read(at: bench.path).ledger.entries.first)
        try bench.remove("ledger.json")
        let adopted = try #require(try await inventory(bench).ledger.entries.first)
        #expect(adopted.identity == entry.identity)
        #expect(adopted.contentSha256 == entry.contentSha256)
        #expect(adopted.installedSize == entry.installedSize)
        #expect(adopted.fileCount == entry.fileCount)
        #expect(entry.fileCount == 2)
    }

    @Test func `does not read a client that is in the ledger`() async throws {
        // An installed client was synced before its entry; reading it at every start would slow down the device.
        let bench = try await StoreBench(installing: "1.0.0")
        try bench.write("Client 1.0.0", to: "clients/v1.0.0/index.html")
        #expect(try await inventory(bench).bundles.map(\.version.description) == ["1.0.0"])
        let bundle = try #require(try Inventory.read(at: bench.path).bundles.first)
        #expect(
            try InstalledTree.difference(of: bundle, inStoreAt: bench.path)
                == "index.html has other content than when it was installed")
    }

    @Test func `removes kept downloads together with the attempt that used them`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        try bench.write("x", to: "downloads/interrupted/assets.journal")
        try bench.write("x", to: "staging/attempt-1/tree/app.js")
        _ = try await inventory(bench)
        #expect(try bench.names("downloads") == ["interrupted"])
        // An attempt of an archive has no journal.
        try bench.write("x", to: "staging/attempt-3/receipt.json")
        _ = try await inventory(bench)
        #expect(try bench.names("downloads") == ["interrupted"])
        // An attempt without a tree: the tree has its final name.
        try bench.write("x", to: "staging/attempt-2/assets.journal")
        _ = try await inventory(bench)
        #expect(try bench.names("downloads") == [])
    }

    @Test func `keeps partial downloads`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        try bench.write("half", to: "downloads/x.part")
        _ = try bench.open()
        #expect(try bench.text("downloads/x.part") == "half")
    }
}
