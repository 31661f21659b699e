import BundleDisk
import BundleFormats
import BundleSigning
package import BundleValues
import CLibrary

/// Chooses the program that `clientctl run` starts, by the rules for clients, and records its start and its verdict.
package struct ProgramLauncher: Sendable {
    /// The place of the programs.
    package struct ProgramDevice: Sendable {
        /// The path of the store.
        package let store: String
        /// The folder for the record of starts; nil for the store itself.
        package let starts: String?
        /// The version of the seed, the program of the device's package. Older programs do not run.
        package let seed: SemanticVersion

        package init(store: String, starts: String?, seed: SemanticVersion) {
            self.store = store
            self.starts = starts
            self.seed = seed
        }
    }

    /// A program whose start is recorded.
    package struct Start: Sendable {
        package let version: SemanticVersion
        /// The path of the executable file.
        package let path: String
        /// The secret that a verdict requires; nil if the program is not on trial.
        package let token: LaunchToken?
    }

    private let device: ProgramDevice
    private let root: Directory
    private let keeper: LedgerKeeper
    private let environment: Environment

    /// The version of the seed.
    package var seed: SemanticVersion { device.seed }

    /// Opens the store, which must exist. Throws `wrongKind` for a store of web clients, and `permissionDenied` if another user than
    /// this one or root may write to it.
    package init(_ device: ProgramDevice, environment: Environment) throws {
        self.device = device
        self.environment = environment
        root = try Directory.open(device.store)
        try OwnFile.require(root, with: Self.content)
        try StoreMark.require(in: root)
        try StoreKind.require(.program, in: root)
        guard let path = device.starts else {
            keeper = LedgerKeeper(root: root)
            return
        }
        try Directory.createAll(path, mode: 0o700)
        let starts = try Directory.open(path)
        try OwnFile.require(starts, with: "starts")
        try StoreMark.require(in: starts)
        keeper = LedgerKeeper(root: starts, store: starts.isSame(as: root) ? nil : root)
    }

    private static let content = "programs"

    /// Returns the program to start, with its start on the disk; nil for the seed.
    ///
    /// A trial without a verdict has failed by now. `probe` runs a program on trial before its first start, and throws if that fails. A
    /// program that cannot be started counts as a failed start and is skipped.
    package func start(probe: (Start) throws -> Void) throws -> Start? {
        // Without the record of this start, no program on trial starts: it could be tried without end.
        let isWritten = write([.started(seed: try seedDigest(), facts: nil, at: environment.now())])
        var excluded: Set<ClientName> = []
        while let bundle = try choose(without: excluded) {
            let ledger = try keeper.read()
            let isTrial = ledger.isOnTrial(bundle.name)
            guard let version = bundle.version.semantic, isWritten || !isTrial else {
                excluded.insert(bundle.name)
                continue
            }
            do {
                let path = try executable(of: bundle)
                let token = try LaunchToken.random()
                let start = Start(version: version, path: path, token: isTrial ? token : nil)
                if isTrial, ledger.record(of: bundle.version) == nil { try probe(start) }
                switch try record(bundle.name, token) {
                case true: return start
                case false: excluded.insert(bundle.name)
                }
            } catch let error as DiskError where error.isWriteRefusal && !isTrial {
                environment.log(
                    "\(UpdateFailure(error).message) \(bundle.name) is confirmed, and starts without a record.")
                return Start(version: version, path: try executable(of: bundle), token: nil)
            } catch {
                skip(bundle, because: error)
                excluded.insert(bundle.name)
            }
        }
        write([.launched(try LaunchClaim(.embedded, .random()), shell: device.seed, at: environment.now())])
        return nil
    }

    /// The seed of another version is another program: what failed under the former one is tried again.
    private func seedDigest() throws -> SHA256Digest { try SHA256Digest.of(Array("program \(device.seed)".utf8)) }

    /// Returns the best program above the seed; nil for the seed.
    private func choose(without excluded: Set<ClientName>) throws -> InstalledBundle? {
        let inventory = try StoredTrees.read(root).inventory(of: keeper.read())
        let older = inventory.bundles.filter { $0.version.semantic.map { $0 <= device.seed } ?? true }.map(\.name)
        let choice = SelectionRule.select(inventory, shell: nil, hasSeed: true, excluding: excluded.union(older))
        return choice?.name.version.flatMap(inventory.bundle)
    }

    /// Returns the version that a restart would start; nil if it is the seed. A program that failed once waits for the next start.
    package func next() throws -> SemanticVersion? {
        guard let bundle = try choose(without: []) else { return nil }
        let ledger = try keeper.read()
        guard ledger.failureBeforeRetry(of: bundle.name) != nil else { return bundle.version.semantic }
        return ledger.launch?.name.version?.semantic
    }

    /// Writes `changes`, and returns whether the disk accepted them.
    @discardableResult
    private func write(_ changes: [LedgerChange]) -> Bool {
        do {
            try keeper.apply(changes)
            return true
        } catch {
            environment.log("\(UpdateFailure(error).message) Until then, only confirmed programs start.")
            return false
        }
    }

    /// Records the start. Returns false if the program was blocked, recalled or removed meanwhile.
    private func record(_ name: ClientName, _ token: LaunchToken) throws -> Bool {
        let launch = LedgerChange.launched(try LaunchClaim(name, token), shell: device.seed, at: environment.now())
        guard case .written = try keeper.propose([launch]) else { return false }
        return true
    }

    /// Returns the path of the executable file. Throws if a file of the program differs from what was installed, or if another user may
    /// change one.
    private func executable(of bundle: InstalledBundle) throws -> String {
        let receipts = try root.directory(StoreLayout.receipts)
        let trees = try root.directory(StoreLayout.clients)
        for folder in [receipts, trees] { try OwnFile.require(folder, with: Self.content) }
        if let difference = try InstalledTree.difference(of: bundle, inStoreAt: root.path) {
            throw UpdateFailure(
                .storeDamaged, subject: "\(bundle.name): \(difference)",
                "The program \(bundle.name) is damaged: \(difference). Repair it with `clientctl repair --store \(root.path)`."
            )
        }
        guard let program = try ProgramModes.program(of: receipts.file(StoreLayout.receipt(bundle.version))) else {
            throw UpdateFailure(
                .wrongKind, subject: "\(bundle.name)",
                "\(bundle.name) is not a program: its receipt names no executable file. Install a release that was published with --program, or use another store for web clients."
            )
        }
        let tree = try trees.directory(bundle.version.folderName)
        try OwnFile.require(tree, with: Self.content)
        let file = try tree.file(program.path.string)
        try OwnFile.require(file, with: Self.content)
        return file.path
    }

    private func skip(_ bundle: InstalledBundle, because error: any Error) {
        environment.log("\(UpdateFailure(error).message) \(bundle.name) is skipped.")
        let failure = UpdateFailure(error)
        guard ![.resourcesExhausted, .permissionDenied, .diskFull, .storeLocked].contains(failure.code) else { return }
        write([.unprepared(bundle.version, StartFailure(.notPrepared, detail: failure.message, at: environment.now()))])
    }
}

// Verdicts on the last start.
extension ProgramLauncher {
    /// Confirms the start. Throws `versionMismatch` if it is not the last one, and `healthFailed` if it has failed already.
    package func confirm(_ version: SemanticVersion, _ token: LaunchToken) throws {
        try keeper.apply([.confirmed(try claim(version, token), at: environment.now())])
    }

    /// Fails the start. Returns false if it is confirmed, or not the last one.
    package func fail(
        _ version: SemanticVersion, _ token: LaunchToken, _ cause: StartFailure.Cause, _ detail: String
    ) throws -> Bool {
        let failure = StartFailure(cause, detail: detail, at: environment.now())
        guard case .written = try keeper.propose([.failed(try claim(version, token), failure)]) else { return false }
        return true
    }

    /// Ends a trial without a verdict, since the service was stopped.
    package func abandon(_ version: SemanticVersion, _ token: LaunchToken) throws {
        try keeper.apply([.abandoned(try claim(version, token))])
    }

    private func claim(_ version: SemanticVersion, _ token: LaunchToken) throws -> LaunchClaim {
        try LaunchClaim(.installed(.archive(version)), token)
    }
}

/// The record of the starts of programs, in a folder of its own.
package enum ProgramStarts {
    /// Adds the starts in the folder at `path` to the ledger of `store`, so that retention keeps the program that works. A missing
    /// folder or store changes nothing.
    package static func adopt(_ path: String, into store: String) throws {
        guard File.exists(path), try Inventory.exists(at: store) else { return }
        let starts = try Directory.open(path)
        try LedgerKeeper(root: StoreFolders.openRoot(store)).exclusively { try $0.adopt(startsIn: starts) }
    }
}
