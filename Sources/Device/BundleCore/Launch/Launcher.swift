public import BundleValues
import BundleDisk

/// Launches clients: select, organize, begin. `Verdicts` settles a launch.
///
/// A `Launcher` holds the lock of the store's only shell. So no client runs when it is created, and the shell of a
/// trial without a verdict has ended.
public struct Launcher: Sendable {
    /// The configuration of the device.
    public struct LaunchDevice: Sendable {
        /// The path of the store.
        public let store: String
        /// The version of the shell.
        public let shell: SemanticVersion
        /// The folder of the shell's own client; nil if it has none.
        public let seed: String?
        /// Whether all files of a client are compared with its receipt before its launch.
        public let verifies: Bool
        /// Reads Meteor bundles; without it none is launched. `DeviceContainer` sets it if a Meteor server is
        /// configured.
        package var layout: (any MeteorLayout)?
        /// The sources whose clients may run, in order of preference; nil for the order that the store has.
        public let sources: SourceOrder?

        /// Creates a configuration.
        public init(
            store: String, shell: SemanticVersion, seed: String?, verifies: Bool, sources: SourceOrder? = nil
        ) {
            self.sources = sources
            self.store = store
            self.shell = shell
            self.seed = seed
            self.verifies = verifies
        }
    }

    private let device: LaunchDevice
    private let seed: SeedFolder?
    private let folders: StoreFolders
    private let keeper: LedgerKeeper
    private let serving: ServingFolder
    private let roots: ServingRoots
    private let shellLock: FileLock
    private let writes: DiskWrites
    private let now: @Sendable () -> Timestamp
    private let warn: @Sendable (String) -> Void

    /// Opens the store and creates it if it is missing. Throws `storeLocked` if another shell runs on it. `now` is
    /// the clock for the ledger; `warn` receives messages about repairs and about clients that cannot be launched.
    public init(
        _ device: LaunchDevice, now: @escaping @Sendable () -> Timestamp = { .now },
        warn: @escaping @Sendable (String) -> Void
    ) throws {
        self.device = device
        self.now = now
        let writes = DiskWrites(warn)
        let warn: @Sendable (String) -> Void = { writes.warn($0) }
        self.warn = warn
        folders = try StoreFolders(below: try StoreFolders.openRoot(device.store))
        keeper = LedgerKeeper(root: folders.root)
        guard let lock = try FileLock.take(folders.serving) else {
            throw UpdateFailure(
                .storeLocked, subject: device.store,
                "Another shell runs on the store \(device.store), or is starting. End a `clientctl serve` that uses it, or "
                    + "try again in a moment.")
        }
        shellLock = lock
        serving = ServingFolder(folders.serving)
        let organizer = BundleOrganizer(serving: folders.serving)
        seed = device.seed.flatMap { path in
            do {
                let seed = try SeedFolder(at: path, layout: device.layout)
                if let failure = seed.manifestFailure { warn(failure) }
                return seed
            } catch {
                warn(
                    "\(UpdateFailure(error).message) Then restart the shell; until then, there is no fallback."
                )
                return nil
            }
        }
        roots = ServingRoots(device: device, seed: seed, folders: folders, organizer: organizer, warn: warn)
        self.writes = writes
        if try Self.settle(organizer, keeper, folders, seed, at: now(), warn) { writes.allow() }
    }

    /// Cleans up after an interrupted run and records the start of the shell: its seed, and the failure of a trial
    /// whose shell ended. Returns false if the disk refuses writes.
    private static func settle(
        _ organizer: BundleOrganizer, _ keeper: LedgerKeeper, _ folders: StoreFolders, _ seed: SeedFolder?,
        at time: Timestamp, _ warn: @escaping @Sendable (String) -> Void
    ) throws -> Bool {
        do {
            do {
                try organizer.clear()
            } catch {
                warn("\(UpdateFailure(error).message) The next run tries again.")
            }
            // Another process that holds the lock has recovered the store.
            if let lock = try FileLock.take(StoreLayout.lock, in: folders.root) {
                defer { withExtendedLifetime(lock) {} }
                try StoreRecovery(folders, at: time, warn: warn).run()
            }
            let started = try keeper.apply([start(seed, at: time)])
            let forgotten = started.before.entries.map(\.version).filter { started.after.ledger.entry($0) == nil }
            if !forgotten.isEmpty, let lock = try FileLock.take(StoreLayout.lock, in: folders.root) {
                defer { withExtendedLifetime(lock) {} }
                // A bundle with all its files fits any seed, so recovery would adopt it by its receipt.
                for version in forgotten { try folders.receipts.removeFile(StoreLayout.receipt(version)) }
                try StoreRecovery(folders, at: time, warn: warn).run()
            }
            return true
        } catch let error as DiskError {
            warn("\(error.failure.message) Until then only confirmed clients are shown.")
            return false
        }
    }

    private static func start(_ seed: SeedFolder?, at time: Timestamp) -> LedgerChange {
        .started(seed: seed?.identity, facts: seed?.facts, at: time)
    }

    /// Returns the changes of this shell that the ledger does not have yet.
    private func standing(at time: Timestamp) -> [LedgerChange] {
        (writes.isStartWritten ? [] : [Self.start(seed, at: time)])
            + (device.sources.map { [.ordered($0)] } ?? [])
    }

    /// Whether the store's path leads to another folder than the open one.
    package var isReplaced: Bool { folders.root.isReplaced }

    /// Prepares and begins a launch, for a shell that shows the client itself.
    public func launch() throws -> Launched {
        while true {
            if let launched = try begin(try prepare()) { return launched }
        }
    }

    /// Returns whether `error` means that the store cannot be used: it is full, read-only or broken, or belongs to
    /// another user or a newer program. A store in use and a folder that is not a store do not count.
    package static func isWithoutStore(_ error: any Error) -> Bool {
        error is DiskError || error is NewerLedger || (error as? UpdateFailure)?.code == .permissionDenied
    }

    /// Launches the seed from its own folder if the store cannot be used; throws `error` otherwise. Nothing is
    /// stored, so the launch needs no verdict.
    package static func launch(
        _ device: LaunchDevice, withoutStore error: any Error, warn: (String) -> Void
    ) throws -> Launched {
        guard isWithoutStore(error), let path = device.seed else { throw error }
        let seed = try SeedFolder(at: path, layout: device.layout)
        let root = try ServingRoots.inPlace(seed, device.layout)
        warn(
            "\(UpdateFailure(error).message) Until then the seed is shown from \(root.path), and nothing is stored."
        )
        let client = ReadyClient(
            name: .embedded, source: "embedded", root: root, use: nil, receipt: nil,
            manifest: seed.facts == nil ? nil : seed.directory, layout: device.layout)
        return Launched(
            prepared: PreparedLaunch(choice: .init(name: .embedded, reason: .onlyOne), client: client),
            token: try .random(), isTrial: false, isRecorded: false)
    }

    /// Chooses the next client and prepares it. Does not record a launch.
    ///
    /// A client that cannot be prepared is skipped and counts as a failed start. For guests only the seed is chosen.
    package func prepare(
        forGuests: Bool = false, without unfit: [ClientName: any Error] = [:]
    ) throws -> PreparedLaunch {
        var excluded = Set(unfit.keys)
        var last = unfit.values.first
        while true {
            let inventory = try inventory()
            if forGuests { excluded.formUnion(inventory.bundles.map(\.name)) }
            // If launches cannot be recorded, a trial could be started without limit.
            let trials =
                writes.areRefused ? inventory.bundles.map(\.name).filter(inventory.ledger.isOnTrial) : []
            guard let choice = choice(inventory, excluding: excluded.union(trials)) else {
                if !trials.isEmpty, !excluded.isSuperset(of: trials), acceptsWrites() { continue }
                throw last ?? (forGuests ? nothingForGuests : nothingToLaunch(inventory, trials))
            }
            do {
                if let client = try ready(choice.name, inventory) {
                    return PreparedLaunch(choice: choice, client: client)
                }
                // Another process is removing the client.
                excluded.insert(choice.name)
            } catch {
                skip(choice.name, error)
                excluded.insert(choice.name)
                last = error
            }
        }
    }

    /// Skips `name` because of `error`. Its start counts as failed, unless the device is the cause.
    package func skip(_ name: ClientName, _ error: any Error) {
        warn("\(UpdateFailure(error).message) \(name) is skipped.")
        guard let version = name.version, StartFailure.isOfClient(error) else { return }
        let failure = StartFailure(.notPrepared, detail: UpdateFailure(error).message, at: now())
        do {
            guard case .written(let update) = try keeper.propose([.unprepared(version, failure)]),
                update.after.ledger.block(on: version) != nil
            else { return }
            warn("\(name) is blocked: it could not be prepared twice.")
        } catch {
            // The failure is not recorded, so the client is tried once more.
            if isRefusal(error) { refuseTrials() }
        }
    }

    /// Returns whether the disk accepts writes again. Rewrites the ledger as a test.
    private func acceptsWrites() -> Bool {
        do {
            try keeper.rewrite(standing(at: now()))
        } catch {
            return false
        }
        writes.allow()
        return true
    }

    /// Prepares the installed client or the seed for display without a launch. Returns nil if the client is missing
    /// or must not run.
    public func ready(_ name: ClientName) throws -> ReadyClient? {
        let inventory = try inventory()
        if let version = name.version, inventory.ledger.recall(of: version) != nil { return nil }
        return try ready(name, inventory)
    }

    /// Returns nil if another process is removing the client.
    private func ready(_ name: ClientName, _ inventory: Inventory) throws -> ReadyClient? {
        guard let root = try roots.root(of: name, inventory) else { return nil }
        // A client that is shown in place is never removed.
        let use = root.isInPlace ? nil : try serving.use(root.name)
        if use == nil && !root.isInPlace { return nil }
        return ReadyClient(
            name: name, source: inventory.source(of: name), root: root, use: use, receipt: receipt(of: name),
            manifest: try roots.manifestFolder(of: name), layout: device.layout,
            facts: ClientFacts(name, inventory.ledger))
    }

    /// Returns the receipt of an archive, whose file paths are its URL paths. Returns nil for other clients, and if
    /// the receipt cannot be read.
    private func receipt(of name: ClientName) -> File? {
        guard let version = name.version, version.source == .archive else { return nil }
        return try? folders.receipts.file(StoreLayout.receipt(version))
    }

    /// Records a launch durably, before the first byte is shown. From then on the launch needs a verdict; with
    /// `awaitsPage`, from the first report of its page on.
    ///
    /// A running trial of the same shell is ended without a failure. Returns nil if the client was blocked, recalled
    /// or removed since `prepare`; the caller prepares again.
    package func begin(_ prepared: PreparedLaunch, awaitsPage: Bool = false) throws -> Launched? {
        let token = try LaunchToken.random()
        let name = prepared.choice.name
        do {
            guard let ledger = try record(name, token, awaitsPage: awaitsPage), let launch = ledger.launch else {
                return nil
            }
            let failures = name.version.flatMap(ledger.record(of:))?.failures ?? []
            return Launched(
                prepared: prepared, token: token, isTrial: launch.isTrial, isRecorded: true,
                wasReportedFailed: failures.contains { $0.cause == .reported })
        } catch  where isRefusal(error) {
            refuseTrials()
            if try inventory().ledger.isOnTrial(name) { return nil }
            warn("\(UpdateFailure(error).message) \(name) is confirmed, and is shown without a record of this launch.")
            return Launched(prepared: prepared, token: token, isTrial: false, isRecorded: false)
        }
    }

    /// Shows the seed to guests. Nothing is recorded, since the display for guests does not affect the other
    /// launches.
    package func show(_ prepared: PreparedLaunch) throws -> Launched {
        Launched(prepared: prepared, token: try .random(), isTrial: false, isRecorded: false)
    }

    /// Records a launch that the disk refused before. Returns the same launch if the disk still refuses.
    public func record(again launched: Launched) -> Launched {
        guard !launched.isRecorded, (try? record(launched.name, launched.token)) != nil else { return launched }
        return Launched(
            prepared: launched.prepared, token: launched.token, isTrial: launched.isTrial, isRecorded: true)
    }

    /// Stops the choice of clients on trial, because the disk refuses to record their launches.
    public func refuseTrials() { writes.refuse() }

    private func record(_ name: ClientName, _ token: LaunchToken, awaitsPage: Bool = false) throws -> Ledger? {
        let time = now()
        let launch = LedgerChange.launched(
            try LaunchClaim(name, token), shell: device.shell, at: time, awaitsPage: awaitsPage)
        guard case .written(let update) = try keeper.propose(standing(at: time) + [launch]) else { return nil }
        writes.settle()
        do {
            try keeper.publishPrevious(clients: folders.clients, staging: folders.staging)
        } catch {
            warn(BundleStore.delayed(error))
        }
        return update.after.ledger
    }

    /// Returns the choice of the rules; nil if no client can be shown.
    package func choice(_ inventory: Inventory, excluding excluded: Set<ClientName> = []) -> SelectionRule.Choice? {
        SelectionRule.select(inventory, shell: device.shell, hasSeed: seed != nil, excluding: excluded)
    }

    /// Returns the shell version that the best client needs, if this shell is too old for it.
    package func missingShell(_ inventory: Inventory) -> SemanticVersion? {
        SelectionRule.missingShell(inventory, shell: device.shell)
    }

    /// Returns the present state of the store.
    package func inventory() throws -> Inventory {
        let ledger = try readLedger()
        let trees = try StoredTrees.read(folders.root)
        if let failure = trees.listFailure { warn("\(failure.failure.message) Its clients are not shown.") }
        switch ledger.applying(standing(at: now()), in: trees) {
        case .accepted(let ledger): return trees.inventory(of: ledger)
        case .refused(let refusal): throw refusal.failure
        }
    }

    /// Without a readable or repairable ledger, the seed can still be shown.
    private func readLedger() throws -> Ledger {
        do {
            return try keeper.read()
        } catch  where isRefusal(error) {
            return Ledger()
        }
    }

    /// Returns whether nothing can be written, including the repair of a damaged ledger.
    private func isRefusal(_ error: any Error) -> Bool {
        error is DiskError || (!writes.isStartWritten && (error as? UpdateFailure)?.code == .storeDamaged)
    }

    private var nothingForGuests: UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: device.store,
            device.seed.map { "The seed \($0) cannot be shown to guests." }
                ?? "No seed is set for guests: name one with --seed.")
    }

    /// `trials` are clients that are skipped because their starts cannot be recorded.
    private func nothingToLaunch(_ inventory: Inventory, _ trials: [ClientName]) -> UpdateFailure {
        let blocked = inventory.bundles.map(\.name).filter { name in
            name.version.map { inventory.ledger.block(on: $0) != nil } ?? false
        }
        let why = [
            trials.isEmpty
                ? nil : "\(Self.list(trials)) is not confirmed, and its start cannot be recorded on this disk",
            blocked.isEmpty ? nil : "blocked is \(Self.list(blocked)): see `clientctl status`",
        ].compactMap(\.self)
        // 0.0.0 is the version of a shell for which the operator has set none.
        let shell = "\(device.shell)" == "0.0.0" ? "" : " with shell \(device.shell)"
        return UpdateFailure(
            .configInvalid, subject: device.store,
            "There is nothing to launch: the store \(device.store) has no client that may run"
                + "\(shell)\(why.isEmpty ? "" : " (\(why.joined(separator: "; ")))"), and "
                + "\(device.seed.map { "the seed \($0) cannot be shown" } ?? "no seed was named"). "
                + "Give a seed with --seed, or install a newer client.")
    }

    private static func list(_ names: [ClientName]) -> String { names.map(\.description).joined(separator: ", ") }
}

/// A client with its serving root, which is not removed while this value exists. Only `Launcher` creates it.
public struct ReadyClient: Sendable {
    /// The name of the client.
    public let name: ClientName
    /// The source of the client: `archive`, `meteor` or `embedded`.
    public let source: String
    /// The client's serving root.
    public let root: OrganizedRoot
    private let use: FileLock?
    private let receipt: File?
    private let manifest: Directory?
    private let layout: (any MeteorLayout)?
    /// The facts that pages may read about the client; nil for the seed.
    package let facts: ClientFacts?

    /// Returns the members of the asset manifest about its files, or the digests in the receipt of files larger than
    /// `size`.
    package func labels(ofFilesOver size: Int) throws -> AssetLabels {
        if let manifest, let layout { return try layout.labels(of: manifest) }
        var labels: [BundlePath: AssetLabels.Label] = [:]
        if let receipt {
            try Receipt.forEachLine(of: receipt) { line, _ in
                guard let record = Receipt.record(line), record.size > size else { return }
                labels[record.path] = AssetLabels.Label(digest: record.digest)
            }
        }
        return AssetLabels(labels)
    }

    /// The addresses that its page has to reach before its start is confirmed. Its manifest was verified before its installation.
    package var requiredEndpoints: [String] {
        guard let receipt, let manifest = try? Receipt.manifest(of: receipt) else { return [] }
        return manifest.objectValue?["requiredEndpoints"]?.arrayValue?.compactMap(\.stringValue) ?? []
    }

    fileprivate init(
        name: ClientName, source: String, root: OrganizedRoot, use: FileLock?, receipt: File?,
        manifest: Directory?, layout: (any MeteorLayout)?, facts: ClientFacts? = nil
    ) {
        self.facts = facts
        self.receipt = receipt
        self.manifest = manifest
        self.layout = layout
        self.name = name
        self.source = source
        self.root = root
        self.use = use
    }
}

/// A client that is chosen and prepared. Only `Launcher` creates it.
package struct PreparedLaunch: Sendable {
    package let choice: SelectionRule.Choice
    package let client: ReadyClient

    fileprivate init(choice: SelectionRule.Choice, client: ReadyClient) {
        self.choice = choice
        self.client = client
    }
}

/// A recorded launch. Only `Launcher` creates it.
public struct Launched: Sendable {
    package let prepared: PreparedLaunch
    /// The secret that a verdict requires.
    public let token: LaunchToken
    /// Whether the client awaits its confirmation.
    public let isTrial: Bool
    /// Whether the ledger has the launch; false if the disk refused writes.
    public let isRecorded: Bool
    /// Whether an earlier start of the client was reported as failed.
    package let wasReportedFailed: Bool

    fileprivate init(
        prepared: PreparedLaunch, token: LaunchToken, isTrial: Bool, isRecorded: Bool, wasReportedFailed: Bool = false
    ) {
        self.wasReportedFailed = wasReportedFailed
        self.prepared = prepared
        self.token = token
        self.isTrial = isTrial
        self.isRecorded = isRecorded
    }

    /// The launched client.
    public var name: ClientName { prepared.choice.name }

    /// Returns the launch with a new token, for new pages.
    package func renewed() throws -> Launched {
        Launched(prepared: prepared, token: try .random(), isTrial: isTrial, isRecorded: isRecorded)
    }
}
