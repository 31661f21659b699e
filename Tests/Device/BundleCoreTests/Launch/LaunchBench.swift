import BundleValues
import BundleDisk
import BundleTesting
import Glibc

@testable import BundleFormats
@testable import BundleCore

/// A device in a temporary folder, in memory if possible: a store, seeds, and a shell that starts and ends.
struct LaunchBench: Sendable {
    private let folder: TemporaryFolder
    let warnings = StoreBench.Warnings()

    var store: String { folder.file("store") }

    init() throws { folder = try TemporaryFolder() }

    /// Creates a device and installs these versions in order.
    init(installing first: String, _ others: String...) async throws {
        try self.init()
        for version in [first] + others { try await install(version) }
    }

    /// Creates a seed whose page contains `text`, and returns its path.
    @discardableResult
    func seed(_ text: String = "seed 1") throws -> String {
        try folder.writeTree(
            ["index.html": Array("<!doctype html><title>\(text)</title>".utf8), "assets/app.js": Array(text.utf8)],
            to: "seed")
    }

    func path(_ name: String) -> String { folder.file(name) }

    func device(shell: String = "1.0.0", seed: String?, verifies: Bool = false) throws -> Launcher.LaunchDevice {
        Launcher.LaunchDevice(store: store, shell: try Sample.version(shell), seed: seed, verifies: verifies)
    }

    /// Starts a shell with the seed "seed 1".
    func launcher(shell: String = "1.0.0", verifies: Bool = false) throws -> Launcher {
        try launcher(device(shell: shell, seed: try seed(), verifies: verifies))
    }

    func launcher(_ device: Launcher.LaunchDevice) throws -> Launcher {
        try Launcher(device, environment: Environment(log: { [warnings] in warnings.add($0) }))
    }

    func verdicts() throws -> Verdicts {
        try Verdicts(store: store, environment: Environment(log: { [warnings] in warnings.add($0) }))
    }

    func open() throws -> BundleStore {
        try BundleStore.open(at: store, environment: Environment(log: { [warnings] in warnings.add($0) }))
    }

    @discardableResult
    func install(_ offer: MemoryOffer, shell: String = "1.0.0", keep: Int = 9) async throws -> UpdateOutcome {
        try await Updater(
            source: MemorySource(offer),
            device: .init(store: store, shell: try Sample.version(shell), appId: nil, keep: keep),
            environment: Environment(log: { [warnings] in warnings.add($0) })
        ).update()
    }

    func install(_ version: String) async throws { try await install(try MemoryOffer(version)) }

    /// Starts a shell, launches a client, and ends the shell.
    func launch(shell: String = "1.0.0") throws -> Launched { try launcher(shell: shell).launch() }

    func launchAndConfirm() throws -> ClientName {
        let launched = try launch()
        _ = try verdicts().confirm(launched.name, launched.token)
        return launched.name
    }

    func launchAndFail() throws -> Verdicts.FailedLaunch {
        let launched = try launch()
        return try verdicts().fail(launched.name, launched.token, StartFailure(.reported, detail: "white", at: .now))
    }

    func root() throws -> Directory { try Directory.open(store) }

    func ledger() throws -> Ledger { try LedgerFile.read(try root()) ?? Ledger() }

    func editLedger(_ edit: (inout Ledger) -> Void) throws {
        var ledger = try ledger()
        edit(&ledger)
        try LedgerFile.write(ledger, to: try root())
    }

    func names(_ name: String) throws -> [String] { try root().directory(name).list().sorted() }

    func text(_ name: String) throws -> String? {
        try root().contents(name, maximumBytes: 1 << 22).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Overwrites a file of the store in place.
    func overwrite(_ name: String, _ bytes: [UInt8]) throws {
        // The previous ledger would repair a damaged one.
        if name == "ledger.json" { try remove("ledger.before.json") }
        try folder.write(bytes, to: "store/\(name)")
    }

    func remove(_ name: String) throws {
        let components = name.split(separator: "/")
        try root().directory(components.count == 1 ? "." : components.dropLast().joined(separator: "/"))
            .removeTree(String(components.last ?? ""))
    }
}

extension Launched {
    /// Returns the index page of the serving root.
    var page: String {
        get throws {
            let bytes = try prepared.client.root.directory.contents("index.html", maximumBytes: 1 << 20) ?? []
            return String(decoding: bytes, as: UTF8.self)
        }
    }
}

/// Returns whether a page contains the shim.
func hasShim(_ page: String) -> Bool { page.contains(String(decoding: ShimInjector.shim, as: UTF8.self)) }

extension Verdicts.RollBackResult {
    /// Returns the next client and the newly blocked ones. Throws if nothing was changed.
    func back() throws -> (target: ClientName, blocked: [ClientName]) {
        guard case .back(let target, let blocked) = self else { throw Unchanged(answer: self) }
        return (target, blocked)
    }

    struct Unchanged: Error { let answer: Verdicts.RollBackResult }
}
