import BundleValues
import BundleDisk
import BundleTesting
import Glibc
import Testing

@testable import BundleCore

/// Tests a disk that fails after the ledger is written. The command succeeds and reports the failure.
struct CommittedTests {
    /// A source that damages the store while its release is staged.
    private struct SpoilingSource: UpdateSource {
        let inner: MemorySource
        let spoil: @Sendable () throws -> Void

        func latestOffer(for request: OfferRequest) -> OfferStep<MemoryOffer> { inner.latestOffer(for: request) }

        func stage(
            _ offer: MemoryOffer, in area: StagingArea, reusing installed: ReuseIndex
        ) throws -> StagedBundle {
            try spoil()
            return try inner.stage(offer, in: area, reusing: installed)
        }
    }

    @Test func `an installation succeeds if the store cannot be read afterwards`() async throws {
        let bench = try await StoreBench(installing: "1.0.0", "1.1.0")
        let path = bench.path
        let updater = Updater(
            source: SpoilingSource(inner: MemorySource(try MemoryOffer("1.2.0"))) {
                // Retention cannot remove 1.0.0.
                try bench.remove("receipts/v1.0.0.json")
                try bench.write("", to: "receipts/v1.0.0.json/in-the-way")
            },
            device: .init(store: path, shell: try Sample.version("1.0.0"), appId: nil, keep: 1),
            // After the first warning, no client can be listed.
            environment: Environment(log: { line in
                bench.warnings.add(line)
                rename(path + "/clients", path + "/away")
            }))
        guard case .installed(_, let report) = try await updater.update() else {
            Issue.record("1.2.0 is not installed")
            return
        }
        #expect(report.name == (try Sample.name("1.2.0")))
        #expect(report.bundle?.name == report.name)
        #expect(report.current == report.name)
        #expect(report.previous(hasSeed: false) == (try Sample.name("1.1.0")))
        #expect(!bench.warnings.lines.isEmpty)
        // The next run completes the retention.
        rename(path + "/away", path + "/clients")
        try await bench.install("1.2.0")
        #expect(try bench.text("clients/previousVersion") == "v1.1.0\n")
    }

    @Test func `does not update previousVersion from the previous ledger`()
        async throws
    {
        let bench = try await StoreBench(installing: "1.0.0", "1.1.0", "1.2.0")
        let root = try bench.root()
        try root.removeFile("ledger.json")
        try Array("damage".utf8).withUnsafeBytes { try root.createFile("ledger.json", with: $0) }
        #expect(try LedgerFile.read(root)?.previous == (try Sample.name("1.0.0")))
        let failure = #expect(throws: UpdateFailure.self) {
            try LedgerKeeper(root: root).publishPrevious(
                clients: try root.directory("clients"), staging: try root.directory("staging"))
        }
        #expect(failure?.code == .storeDamaged)
        #expect(LedgerKeeper.delayed(try #require(failure)).hasSuffix("repeat this command."))
        #expect(try bench.text("clients/previousVersion") == "v1.1.0\n")
    }

    @Test func `a selection is stored if previousVersion cannot be written`() async throws {
        let bench = try StoreBench()
        _ = try await bench.updater(try MemoryOffer("1.0.0", minimumShell: "0.5.0")).update()
        try await bench.install("1.1.0")
        let store = try bench.open()
        // The folder in which the new file would be written.
        rmdir(bench.path + "/staging")
        let inventory = try await store.apply([.selected(shell: try Sample.version("0.9.0"))])
        #expect(inventory.ledger.current == (try Sample.name("1.0.0")))
        #expect(bench.warnings.lines.contains { $0.contains("The next run updates clients/previousVersion") })
        #expect(try Inventory.read(at: bench.path).ledger == inventory.ledger)
    }

    @Test func `a rollback is stored if previousVersion cannot be written`() async throws {
        let bench = try await StoreBench(installing: "1.0.0", "1.1.0")
        let device = Launcher.LaunchDevice(
            store: bench.path, shell: try Sample.version("1.0.0"), seed: nil, verifies: false)
        _ = try Launcher(device, environment: Environment()).launch()
        let verdicts = try Verdicts(
            store: bench.path, environment: Environment(log: { [warnings = bench.warnings] in warnings.add($0) }))
        // The file has to change, but the folder for the new one is missing.
        try bench.write("v9.9.9\n", to: "clients/previousVersion")
        rmdir(bench.path + "/staging")
        let target = try Sample.name("1.0.0")
        #expect(try verdicts.rollBack(to: target).back().target == target)
        #expect(bench.warnings.lines.contains { $0.contains("The next run updates clients/previousVersion") })
        #expect(try Inventory.read(at: bench.path).ledger.blocks.map(\.version.description) == ["1.1.0"])
    }
}
