public import BundleValues
import BundleDisk

/// The launch line: select, organize, begin; `Verdicts` settles. It reads from top to bottom.
///
/// Whoever holds one is the shell of the store: a second one is refused until it is gone. So when it is made, no client runs,
/// and a trial without a verdict is one that its shell did not survive.
public struct Launcher: Sendable {
    /// Who and where the device is.
    public struct Device: Sendable {
        /// The store's path.
        public let store: String
        /// The shell's version.
        public let shell: SemanticVersion
        /// The folder of the client that the shell brings; nil where it brings none.
        public let seed: String?
        /// Whether every file of a client is compared with its receipt before it is launched.
        public let verifies: Bool
        /// Reads Meteor bundles; without it none is launched. `DeviceContainer` sets it where a Meteor server is named.
        package var layout: (any MeteorLayout)?
        /// Whose clients may run, in order; nil for what the store remembers.
        public let sources: SourceOrder?

        /// States a device.
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

    private let device: Device
    private let seed: SeedFolder?
    private let folders: StoreFolders
    private let keeper: LedgerKeeper
    private let serving: ServingFolder
    private let roots: ServingRoots
    private let shellLock: FileLock
    private let writes: Writes
    private let now: @Sendable () -> Timestamp
    private let warn: @Sendable (String) -> Void

    /// Opens the store, creating it where it is missing; `storeLocked` where another shell runs on it. `now` is what the ledger
    /// says about when, `warn` hears about repairs and about clients that cannot be launched.
    public init(
        _ device: Device, now: @escaping @Sendable () -> Timestamp = { .now },
        warn: @escaping @Sendable (String) -> Void
    ) throws {
        self.device = device
        self.now = now
        let writes = Writes(warn)
        let warn: @Sendable (String) -> Void = { writes.warn($0) }
        self.warn = warn
        folders = try StoreFolders(below: try StoreFolders.openRoot(device.store))
        keeper = LedgerKeeper(root: folders.root)
        guard let lock = try FileLock.take(folders.serving) else {
            throw UpdateFailure(
                .storeLocked, subject: device.store,
                "Another shell runs on the store \(device.store), or is just being started: end a `clientctl serve` that runs there, "
                    + "else try again in a moment.")
        }
        shellLock = lock
        serving = ServingFolder(folders.serving)
        let organizer = BundleOrganizer(serving: folders.serving)
        seed = device.seed.flatMap { path in
            do {
                let seed = try SeedFolder(at: path, layout: device.layout)
                if let trouble = seed.trouble { warn(trouble) }
                return seed
            } catch {
                warn(
                    "\(UpdateFailure(error).message) There is nothing to fall back to until the shell is started again."
                )
                return nil
            }
        }
        roots = ServingRoots(device: device, seed: seed, folders: folders, organizer: organizer, warn: warn)
        self.writes = writes
        if try Self.settle(organizer, keeper, folders, seed, at: now(), warn) { writes.allow() }
    }

    /// What an interrupted run left is cleared, and what a start means is written down: another seed, and a trial that its
    /// shell did not survive. False where the disk takes no writes.
    private static func settle(
        _ organizer: BundleOrganizer, _ keeper: LedgerKeeper, _ folders: StoreFolders, _ seed: SeedFolder?,
        at time: Timestamp, _ warn: @escaping @Sendable (String) -> Void
    ) throws -> Bool {
        do {
            do {
                try organizer.clear()
            } catch {
                warn("\(UpdateFailure(error).message) It is left as it is, and tried again by the next run.")
            }
            // Somebody at work on the store right now has cleared it.
            if let lock = try FileLock.take(StoreLayout.lock, in: folders.root) {
                defer { withExtendedLifetime(lock) {} }
                try StoreRecovery(folders, at: time, warn: warn).run()
            }
            let started = try keeper.apply([start(seed, at: time)])
            let forgotten = started.before.entries.map(\.version).filter { started.after.ledger.entry($0) == nil }
            if !forgotten.isEmpty, let lock = try FileLock.take(StoreLayout.lock, in: folders.root) {
                defer { withExtendedLifetime(lock) {} }
                // A bundle that owns all its files fits any seed, so its receipt would make it known again.
                for version in forgotten { try folders.receipts.removeFile(StoreLayout.receipt(version)) }
                try StoreRecovery(folders, at: time, warn: warn).run()
            }
            return true
        } catch let error as DiskError {
            warn("\(error.failure.message) Until then only a client that has proved itself is shown.")
            return false
        }
    }

    private static func start(_ seed: SeedFolder?, at time: Timestamp) -> LedgerChange {
        .started(seed: seed?.identity, facts: seed?.facts, at: time)
    }

    /// What this shell means for the ledger, where that is not written yet.
    private func standing(at time: Timestamp) -> [LedgerChange] {
        (writes.isStartWritten ? [] : [Self.start(seed, at: time)])
            + (device.sources.map { [.ordered($0)] } ?? [])
    }

    /// Whether the store's path leads to another folder by now.
    package var isReplaced: Bool { folders.root.isReplaced }

    /// The whole line at once, for a shell that shows the client itself.
    public func launch() throws -> Launched {
        while true {
            if let launched = try begin(try prepare()) { return launched }
        }
    }

    /// Whether `error` says that the store cannot be used, since it is full, read-only, broken, another user's or a newer program's,
    /// rather than that it is in use, or not a store.
    package static func isWithoutStore(_ error: any Error) -> Bool {
        error is DiskError || error is NewerLedger || (error as? UpdateFailure)?.code == .permissionDenied
    }

    /// The seed from its own folder, where the store cannot be had; throws `error` where it can. Nothing is remembered, so no
    /// verdict is waited for.
    package static func launch(
        _ device: Device, withoutStore error: any Error, warn: (String) -> Void
    ) throws -> Launched {
        guard isWithoutStore(error), let path = device.seed else { throw error }
        let seed = try SeedFolder(at: path, layout: device.layout)
        let root = try ServingRoots.inPlace(seed, device.layout)
        warn(
            "\(UpdateFailure(error).message) Until then the seed is shown from \(root.path) itself, and nothing is remembered."
        )
        let client = ReadyClient(
            name: .embedded, source: "embedded", root: root, use: nil, receipt: nil,
            manifest: seed.facts == nil ? nil : seed.directory, layout: device.layout)
        return Launched(
            prepared: PreparedLaunch(choice: .init(name: .embedded, reason: .onlyOne), client: client),
            token: try .random(), isTrial: false, isRecorded: false)
    }

    /// Chooses the client that runs next and makes it ready to be shown. Writes no boot attempt.
    ///
    /// A client that cannot be made ready is passed over, as if its start had failed. For guests only the seed is chosen.
    package func prepare(
        forGuests: Bool = false, without unfit: [ClientName: any Error] = [:]
    ) throws -> PreparedLaunch {
        var excluded = Set(unfit.keys)
        var last = unfit.values.first
        while true {
            let inventory = try inventory()
            if forGuests { excluded.formUnion(inventory.bundles.map(\.name)) }
            // Without a boot attempt on the disk a trial could start for ever.
            let trials =
                writes.areRefused ? inventory.bundles.map(\.name).filter(inventory.ledger.isOnTrial) : []
            guard let choice = choice(inventory, excluding: excluded.union(trials)) else {
                if !trials.isEmpty, !excluded.isSuperset(of: trials), takesWrites() { continue }
                throw last ?? (forGuests ? nothingForGuests : nothingToLaunch(inventory, trials))
            }
            do {
                if let client = try ready(choice.name, inventory) {
                    return PreparedLaunch(choice: choice, client: client)
                }
                // Somebody removes it at this moment.
                excluded.insert(choice.name)
            } catch {
                passOver(choice.name, error)
                excluded.insert(choice.name)
                last = error
            }
        }
    }

    /// `name` cannot be shown, for this reason: its start has failed, unless the reason lies with the device.
    package func passOver(_ name: ClientName, _ error: any Error) {
        warn("\(UpdateFailure(error).message) \(name) is passed over.")
        guard let version = name.version, StartFailure.isOfClient(error) else { return }
        let failure = StartFailure(.notPrepared, detail: UpdateFailure(error).message, at: now())
        do {
            guard case .written(let update) = try keeper.propose([.unprepared(version, failure)]),
                update.after.ledger.block(on: version) != nil
            else { return }
            warn("\(name) is blocked: it could not be made ready again.")
        } catch {
            // It is tried once more then.
            if isRefusal(error) { refuseTrials() }
        }
    }

    /// Whether the disk takes writes again: the ledger is written once more, as it is.
    private func takesWrites() -> Bool {
        do {
            try keeper.rewrite(standing(at: now()))
        } catch {
            return false
        }
        writes.allow()
        return true
    }

    /// Makes an installed client or the seed ready to be looked at, without a launch; nil where there is no such client or
    /// it must not run.
    public func ready(_ name: ClientName) throws -> ReadyClient? {
        let inventory = try inventory()
        if let version = name.version, inventory.ledger.recall(of: version) != nil { return nil }
        return try ready(name, inventory)
    }

    /// Nil where somebody removes the client at this moment.
    private func ready(_ name: ClientName, _ inventory: Inventory) throws -> ReadyClient? {
        guard let root = try roots.root(of: name, inventory) else { return nil }
        // Nobody removes what is shown in place.
        let use = root.isInPlace ? nil : try serving.use(root.name)
        if use == nil && !root.isInPlace { return nil }
        return ReadyClient(
            name: name, source: inventory.source(of: name), root: root, use: use, receipt: receipt(of: name),
            manifest: try roots.manifestFolder(of: name), layout: device.layout)
    }

    /// The receipt of an archive's files, whose paths are their URL paths; nil for other clients, and for a receipt that cannot be read.
    private func receipt(of name: ClientName) -> File? {
        guard let version = name.version, version.source == .archive else { return nil }
        return try? folders.receipts.file(StoreLayout.receipt(version))
    }

    /// Writes the boot attempt down, durably, before the first byte is shown; from here on the launch needs a verdict, where it
    /// `awaitsPage` from the first report of its page on.
    ///
    /// A client that ran until now and was still on trial has not failed: its own shell left it. Returns nil for a client that was
    /// blocked, recalled or removed since it was prepared: prepare again.
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
            warn("\(UpdateFailure(error).message) \(name) has proved itself and is shown without a record of it.")
            return Launched(prepared: prepared, token: token, isTrial: false, isRecorded: false)
        }
    }

    /// Shows the seed to guests. It is as good as the shell, and what guests are shown decides nothing about what runs
    /// otherwise: nothing is written down.
    package func show(_ prepared: PreparedLaunch) throws -> Launched {
        Launched(prepared: prepared, token: try .random(), isTrial: false, isRecorded: false)
    }

    /// Writes a launch down that the disk refused; the same launch while it still does.
    public func record(again launched: Launched) -> Launched {
        guard !launched.isRecorded, (try? record(launched.name, launched.token)) != nil else { return launched }
        return Launched(
            prepared: launched.prepared, token: launched.token, isTrial: launched.isTrial, isRecorded: true)
    }

    /// The disk takes no writes: until it does, no client on trial is chosen, since its attempts could not be counted.
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

    /// What the rules choose at present; nil where nothing can be shown.
    package func choice(_ inventory: Inventory, excluding excluded: Set<ClientName> = []) -> SelectionRule.Choice? {
        SelectionRule.select(inventory, shell: device.shell, hasSeed: seed != nil, excluding: excluded)
    }

    /// The shell that the best client needs, where this one is too old for it.
    package func missingShell(_ inventory: Inventory) -> SemanticVersion? {
        SelectionRule.missingShell(inventory, shell: device.shell)
    }

    /// What is remembered and installed at present.
    package func inventory() throws -> Inventory {
        let ledger = try readLedger()
        let trees = try StoredTrees.read(folders.root)
        if let trouble = trees.trouble { warn("\(trouble.failure.message) What is in there is not shown.") }
        switch ledger.applying(standing(at: now()), in: trees) {
        case .accepted(let ledger): return trees.inventory(of: ledger)
        case .refused(let refusal): throw refusal.failure
        }
    }

    /// A damaged ledger that the disk does not let anybody repair still leaves the seed, which needs none.
    private func readLedger() throws -> Ledger {
        do {
            return try keeper.read()
        } catch  where isRefusal(error) {
            return Ledger()
        }
    }

    /// Whether nothing can be written, be it that the ledger cannot be repaired for that.
    private func isRefusal(_ error: any Error) -> Bool {
        error is DiskError || (!writes.isStartWritten && (error as? UpdateFailure)?.code == .storeDamaged)
    }

    private var nothingForGuests: UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: device.store,
            device.seed.map { "The seed \($0) cannot be shown to guests." }
                ?? "There is no seed for guests: name one with --seed.")
    }

    /// The `trials` are left out, since no start of theirs can be noted.
    private func nothingToLaunch(_ inventory: Inventory, _ trials: [ClientName]) -> UpdateFailure {
        let blocked = inventory.bundles.map(\.name).filter { name in
            name.version.map { inventory.ledger.block(on: $0) != nil } ?? false
        }
        let why = [
            trials.isEmpty
                ? nil : "\(Self.list(trials)) has not proved itself, and its start cannot be noted on this disk",
            blocked.isEmpty ? nil : "blocked is \(Self.list(blocked)): see `clientctl status`",
        ].compactMap(\.self)
        return UpdateFailure(
            .configInvalid, subject: device.store,
            "There is nothing to launch: the store \(device.store) has no client that may run with shell "
                + "\(device.shell)\(why.isEmpty ? "" : " (\(why.joined(separator: "; ")))"), and "
                + "\(device.seed.map { "the seed \($0) cannot be shown" } ?? "no seed was named"). "
                + "Give a seed with --seed, or install a newer client.")
    }

    private static func list(_ names: [ClientName]) -> String { names.map(\.description).joined(separator: ", ") }
}

/// A client with its serving root, which stays for as long as this lives; only `Launcher` makes one.
public struct ReadyClient: Sendable {
    /// The client.
    public let name: ClientName
    /// The source that it came by.
    public let source: String
    /// Its serving root.
    public let root: OrganizedRoot
    private let use: FileLock?
    private let receipt: File?
    private let manifest: Directory?
    private let layout: (any MeteorLayout)?

    /// Returns what its asset manifest contains about its files, or the digests that its receipt has of files larger than `size`.
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

    fileprivate init(
        name: ClientName, source: String, root: OrganizedRoot, use: FileLock?, receipt: File?,
        manifest: Directory?, layout: (any MeteorLayout)?
    ) {
        self.receipt = receipt
        self.manifest = manifest
        self.layout = layout
        self.name = name
        self.source = source
        self.root = root
        self.use = use
    }
}

/// A client that is chosen and ready to be launched; only `Launcher` makes one.
package struct PreparedLaunch: Sendable {
    /// The client, and why.
    package let choice: SelectionRule.Choice
    /// The client with its serving root.
    package let client: ReadyClient

    fileprivate init(choice: SelectionRule.Choice, client: ReadyClient) {
        self.choice = choice
        self.client = client
    }
}

/// A boot attempt that is written down; only `Launcher` makes one.
public struct Launched: Sendable {
    /// What was launched.
    package let prepared: PreparedLaunch
    /// The secret for the verdict.
    public let token: LaunchToken
    /// Whether the client has yet to prove itself.
    public let isTrial: Bool
    /// Whether the ledger has it: not where the disk took no writes.
    public let isRecorded: Bool
    /// Whether a start of the client was reported as failed before.
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

    /// The client.
    public var name: ClientName { prepared.choice.name }

    /// The same with a token of its own, for other pages than those of before.
    package func renewed() throws -> Launched {
        Launched(prepared: prepared, token: try .random(), isTrial: isTrial, isRecorded: isRecorded)
    }
}
