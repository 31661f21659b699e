import BundleDisk
import BundleFormats
package import BundleValues

/// Launches clients: select, organize, begin. `Verdicts` settles a launch.
///
/// A `Launcher` holds the lock of the store's only shell. So no client runs when it is created, and the shell of a
/// trial without a verdict has ended.
package struct Launcher: Sendable {
    /// The configuration of the device.
    package struct LaunchDevice: Sendable {
        /// The path of the store.
        package let store: String
        /// The version of the shell.
        package let shell: SemanticVersion
        /// The folder of the shell's own client; nil if it has none.
        package let seed: String?
        /// Whether all files of a client are compared with its receipt before its launch.
        package var verifies: Bool
        /// Reads Meteor bundles; without it none is launched. `DeviceContainer` sets it if a Meteor server is
        /// configured.
        package var layout: (any MeteorLayout)?
        /// The sources whose clients may run, in order of preference; nil for the order that the store has.
        package var sources: SourceOrder?

        /// Creates a configuration.
        package init(
            store: String, shell: SemanticVersion, seed: String?, verifies: Bool, sources: SourceOrder? = nil
        ) {
            self.sources = sources
            self.store = store
            self.shell = shell
            self.seed = seed
            self.verifies = verifies
        }
    }

    /// An open store.
    private struct OpenStore {
        let folders: StoreFolders
        let keeper: LedgerKeeper
        let serving: ServingFolder
        let roots: ServingRoots
        /// The lock of the store's only shell.
        let shellLock: FileLock
    }

    let device: LaunchDevice
    private var seed: SeedFolder?
    /// The store, or the reason why it cannot be opened.
    private let store: Result<OpenStore, any Error>
    /// The seed that a device without a store waits for.
    private var late = LateSeed()
    let writes: DiskWrites
    /// Its log receives a message once until the next successful write.
    let environment: Environment

    /// Opens the store and creates it if it is missing. Throws `storeLocked` if another shell runs on it. The log of
    /// `environment` receives messages about repairs and about clients that cannot be launched.
    package init(_ device: LaunchDevice, environment: Environment) throws {
        self.device = device
        let writes = DiskWrites(environment)
        var environment = environment
        environment.log = { writes.log($0) }
        (self.writes, self.environment) = (writes, environment)
        let folders = try StoreFolders(below: try StoreFolders.openRoot(device.store))
        try StoreKind.require(.client, in: folders.root)
        guard let lock = try FileLock.take(folders.serving) else {
            throw UpdateFailure(
                .storeLocked, subject: device.store,
                "Another shell runs on the store \(device.store), or is starting. End a `clientctl serve` that uses it, or "
                    + "try again in a moment.")
        }
        seed = Self.openSeed(of: device, environment)
        let roots = ServingRoots(
            device: device, seed: seed, folders: folders, organizer: BundleOrganizer(serving: folders.serving),
            environment: environment)
        store = .success(
            OpenStore(
                folders: folders, keeper: LedgerKeeper(root: folders.root), serving: ServingFolder(folders.serving),
                roots: roots, shellLock: lock))
        if try recordStart() { writes.allow() }
    }

    /// Shows the seed of a device from its own folder, because its store cannot be opened for the reason `refusal`. Nothing is recorded.
    ///
    /// Throws `refusal` if the store is in use or is no store, and on a device without a seed, unless its disk may accept writes later.
    package init(_ device: LaunchDevice, without refusal: any Error, environment: Environment) throws {
        let mayPass = device.seed != nil || (refusal as? DiskError)?.isWriteRefusal == true
        guard Self.isWithoutStore(refusal), mayPass else { throw refusal }
        self.device = device
        let writes = DiskWrites(environment)
        var environment = environment
        environment.log = { writes.log($0) }
        (self.writes, self.environment) = (writes, environment)
        store = .failure(refusal)
        do {
            seed = try device.seed.map { try SeedFolder(at: $0, layout: device.layout) }
        } catch {
            late.failure = error
        }
    }

    /// Returns whether `error` means that the store cannot be used: it is full, read-only or broken, or belongs to
    /// another user or a newer program. A store in use and a folder that is not a store do not count.
    static func isWithoutStore(_ error: any Error) -> Bool {
        error is DiskError || error is NewerLedger || (error as? UpdateFailure)?.code == .permissionDenied
    }

    /// The reason why the store could not be opened; nil for an open one.
    package var refusal: (any Error)? { if case .failure(let refusal) = store { refusal } else { nil } }

    /// The application ID of a seed from Meteor.
    package var seedAppId: String? { seed?.facts?.appId }

    /// Looks for the seed of a device without a store, which may still be copied. Returns true when it is complete.
    package mutating func findSeed() -> Bool {
        guard refusal != nil, seed == nil, let path = device.seed else { return false }
        do {
            let found = try SeedFolder(at: path, layout: device.layout)
            guard try late.isComplete(ServingRoots.inPlace(found, layout: device.layout)) else { return false }
            seed = found
        } catch {
            late = LateSeed(failure: error)
        }
        return seed != nil
    }

    private static func openSeed(of device: LaunchDevice, _ environment: Environment) -> SeedFolder? {
        do {
            let seed = try device.seed.map { try SeedFolder(at: $0, layout: device.layout) }
            if let failure = seed?.manifestFailure { environment.log(failure) }
            return seed
        } catch {
            environment.log("\(UpdateFailure(error).message) Then restart the shell; until then, there is no fallback.")
            return nil
        }
    }

    /// Cleans up after an interrupted run and records the start of the shell: its seed, and the failure of a trial
    /// whose shell ended. Returns false if the disk refuses writes.
    private func recordStart() throws -> Bool {
        let store = try store.get()
        do {
            do {
                try store.roots.organizer.clear()
            } catch {
                environment.log("\(UpdateFailure(error).message) The next run tries again.")
            }
            try recover()
            let started = try store.keeper.apply([start(at: environment.now())])
            let forgotten = started.before.entries.map(\.version).filter { started.after.ledger.entry($0) == nil }
            // A bundle with all its files fits any seed, so recovery would adopt it by its receipt.
            if !forgotten.isEmpty { try recover(removingReceiptsOf: forgotten) }
            return true
        } catch let error as DiskError {
            environment.log("\(error.failure.message) Until then only confirmed clients are shown.")
            return false
        }
    }

    /// Recovers the store, unless another process holds its lock: that one has recovered it.
    private func recover(removingReceiptsOf versions: [ClientVersion] = []) throws {
        let folders = try store.get().folders
        guard let lock = try FileLock.take(StoreLayout.lock, in: folders.root) else { return }
        defer { withExtendedLifetime(lock) {} }
        for version in versions { try folders.receipts.removeFile(StoreLayout.receipt(version)) }
        try StoreRecovery(folders, environment: environment).run()
    }

    private func start(at time: Timestamp) -> LedgerChange {
        .started(seed: seed?.identity, facts: seed?.facts, at: time)
    }

    /// Returns the changes of this shell that the ledger does not have yet.
    func standing(at time: Timestamp) -> [LedgerChange] {
        (writes.isStartWritten ? [] : [start(at: time)])
            + (device.sources.map { [.ordered($0)] } ?? [])
    }

    /// Whether the store's path leads to another folder than the open one.
    package var isReplaced: Bool { (try? store.get())?.folders.root.isReplaced == true }

    /// Prepares and begins a launch, for a shell that shows the client itself.
    package func launch() throws -> Launched {
        while true {
            if let launched = try begin(try prepare()) { return launched }
        }
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
                throw last ?? late.failure ?? refusal
                    ?? (forGuests ? nothingForGuests : nothingToLaunch(in: inventory, skipping: trials))
            }
            do {
                if let client = try ready(choice.name, in: inventory) {
                    return PreparedLaunch(choice: choice, client: client)
                }
                // Another process is removing the client.
                excluded.insert(choice.name)
            } catch {
                skip(choice.name, because: error)
                excluded.insert(choice.name)
                last = error
            }
        }
    }

    /// Skips `name` because of `error`. Its start counts as failed, unless the device is the cause.
    package func skip(_ name: ClientName, because error: any Error) {
        environment.log("\(UpdateFailure(error).message) \(name) is skipped.")
        guard let version = name.version, StartFailure.isOfClient(error) else { return }
        let failure = StartFailure(.notPrepared, detail: UpdateFailure(error).message, at: environment.now())
        do {
            guard case .written(let update) = try store.get().keeper.propose([.unprepared(version, failure)]),
                update.after.ledger.block(on: version) != nil
            else { return }
            environment.log("\(name) is blocked: it could not be prepared twice.")
        } catch {
            // The failure is not recorded, so the client is tried once more.
            if isRefusal(error) { refuseTrials() }
        }
    }

    /// Returns whether the disk accepts writes again. Rewrites the ledger as a test.
    private func acceptsWrites() -> Bool {
        do {
            try store.get().keeper.rewrite(standing(at: environment.now()))
        } catch {
            return false
        }
        writes.allow()
        return true
    }

    /// Prepares the installed client or the seed for display without a launch. Returns nil if the client is missing
    /// or must not run.
    package func ready(_ name: ClientName) throws -> ReadyClient? {
        let inventory = try inventory()
        if let version = name.version, inventory.ledger.recall(of: version) != nil { return nil }
        return try ready(name, in: inventory)
    }

    /// Returns nil if another process is removing the client.
    private func ready(_ name: ClientName, in inventory: Inventory) throws -> ReadyClient? {
        guard case .success(let store) = store else { return try readyInPlace(name) }
        guard let root = try store.roots.root(of: name, in: inventory) else { return nil }
        // A client that is shown in place is never removed.
        let use = root.isInPlace ? nil : try store.serving.use(root.name)
        if use == nil && !root.isInPlace { return nil }
        return ReadyClient(
            name: name, source: inventory.source(of: name), root: root, use: use,
            receipt: Self.receipt(of: name, in: store.folders), manifest: try store.roots.manifestFolder(of: name),
            layout: device.layout, facts: ClientFacts(name, inventory.ledger))
    }

    /// Returns the seed from its own folder; nil for another client.
    private func readyInPlace(_ name: ClientName) throws -> ReadyClient? {
        guard name == .embedded, let seed, let refusal else { return nil }
        let root = try ServingRoots.inPlace(seed, layout: device.layout)
        environment.log(
            "\(UpdateFailure(refusal).message) Until then the seed is shown from \(root.path), and nothing is stored.")
        return ReadyClient(
            name: name, source: "embedded", root: root, use: nil, receipt: nil,
            manifest: seed.facts == nil ? nil : seed.directory, layout: device.layout, facts: nil)
    }

    /// Returns the receipt of an archive, whose file paths are its URL paths. Returns nil for other clients, and if
    /// the receipt cannot be read.
    private static func receipt(of name: ClientName, in folders: StoreFolders) -> File? {
        guard let version = name.version, version.source == .archive else { return nil }
        return try? folders.receipts.file(StoreLayout.receipt(version))
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
        guard case .success(let store) = store else { return .empty }
        let ledger = try readLedger(store.keeper)
        let trees = try StoredTrees.read(store.folders.root)
        if let failure = trees.listFailure { environment.log("\(failure.failure.message) Its clients are not shown.") }
        switch ledger.applying(standing(at: environment.now()), in: trees) {
        case .accepted(let ledger): return trees.inventory(of: ledger)
        case .refused(let refusal): throw refusal.failure
        }
    }

    /// Without a readable or repairable ledger, the seed can still be shown.
    private func readLedger(_ keeper: LedgerKeeper) throws -> Ledger {
        do {
            return try keeper.read()
        } catch  where isRefusal(error) {
            return Ledger()
        }
    }

    /// Returns whether nothing can be written, including the repair of a damaged ledger.
    func isRefusal(_ error: any Error) -> Bool {
        error is DiskError || (!writes.isStartWritten && (error as? UpdateFailure)?.code == .storeDamaged)
    }

    private var nothingForGuests: UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: device.store,
            device.seed.map { "The seed \($0) cannot be shown to guests." }
                ?? "No seed is set for guests: name one with --seed.")
    }

    /// `trials` are clients that are skipped because their starts cannot be recorded.
    private func nothingToLaunch(in inventory: Inventory, skipping trials: [ClientName]) -> UpdateFailure {
        let blocked = inventory.bundles.map(\.name).filter { name in
            name.version.map { inventory.ledger.block(on: $0) != nil } ?? false
        }
        let why = [
            trials.isEmpty
                ? nil : "\(Self.list(trials)) is not confirmed, and its start cannot be recorded on this disk",
            blocked.isEmpty ? nil : "blocked is \(Self.list(blocked)): see `clientctl status`",
        ].compactMap(\.self)
        let shell = device.shell == .zero ? "" : " with shell \(device.shell)"
        return UpdateFailure(
            blocked.isEmpty ? .configInvalid : .versionBlocked, subject: device.store,
            "There is nothing to launch: the store \(device.store) has no client that may run"
                + "\(shell)\(why.isEmpty ? "" : " (\(why.joined(separator: "; ")))"), and "
                + "\(device.seed.map { "the seed \($0) cannot be shown" } ?? "no seed was named"). "
                + (inventory.bundles.isEmpty
                    ? "Run `clientctl install`, give `clientctl serve` a feed with --channel or --manifest, or give a seed with --seed."
                    : "Install a newer client, or give a seed with --seed."))
    }

    private static func list(_ names: [ClientName]) -> String { names.map(\.description).joined(separator: ", ") }
}

extension Launcher {
    /// Records a launch durably, before the first byte is shown. From then on the launch needs a verdict; with
    /// `awaitsPage`, from the first report of its page on.
    ///
    /// A running trial of the same shell is ended without a failure. Returns nil if the client was blocked, recalled
    /// or removed since `prepare`; the caller prepares again.
    package func begin(_ prepared: PreparedLaunch, awaitsPage: Bool = false) throws -> Launched? {
        if refusal != nil { return try show(prepared) }
        let token = try LaunchToken.random()
        let name = prepared.choice.name
        do {
            guard let ledger = try record(name, token, awaitsPage: awaitsPage), let launch = ledger.launch else {
                return nil
            }
            let failures = name.version.flatMap(ledger.record(of:))?.failures ?? []
            return Launched(
                prepared: prepared, token: token, isTrial: launch.isTrial, isRecorded: true,
                wasReportedFailed: failures.contains { $0.cause.isOfPage })
        } catch  where isRefusal(error) {
            refuseTrials()
            if try inventory().ledger.isOnTrial(name) { return nil }
            environment.log(
                "\(UpdateFailure(error).message) \(name) is confirmed, and is shown without a record of this launch.")
            return Launched(prepared: prepared, token: token, isTrial: false, isRecorded: false)
        }
    }

    /// Shows the seed to guests. Nothing is recorded, since the display for guests does not affect the other
    /// launches.
    package func show(_ prepared: PreparedLaunch) throws -> Launched {
        Launched(prepared: prepared, token: try .random(), isTrial: false, isRecorded: false)
    }

    /// Records a launch that the disk refused before. Returns the same launch if the disk still refuses.
    package func record(again launched: Launched) -> Launched {
        guard !launched.isRecorded, (try? record(launched.name, launched.token)) != nil else { return launched }
        return Launched(
            prepared: launched.prepared, token: launched.token, isTrial: launched.isTrial, isRecorded: true)
    }

    /// Stops the choice of clients on trial, because the disk refuses to record their launches.
    package func refuseTrials() { writes.refuse() }

    private func record(_ name: ClientName, _ token: LaunchToken, awaitsPage: Bool = false) throws -> Ledger? {
        let (store, time) = (try store.get(), environment.now())
        let launch = LedgerChange.launched(
            try LaunchClaim(name, token), shell: device.shell, at: time, awaitsPage: awaitsPage)
        guard case .written(let update) = try store.keeper.propose(standing(at: time) + [launch]) else { return nil }
        writes.settle()
        store.keeper.updatePrevious(in: store.folders, environment: environment)
        return update.after.ledger
    }
}

/// A seed that appeared after the first attempt to show it, so that it may still be copied.
private struct LateSeed {
    /// The observed state of a seed, which distinguishes a complete one from one that is still being copied.
    private struct Scan: Equatable {
        /// The sizes of the files; nil for a file that cannot be opened.
        let sizes: [[UInt8]: Int?]
        let page: [UInt8]

        init(at root: OrganizedRoot) throws {
            sizes = root.places.mapValues { try? $0.open().size() }
            page = try root.page()
        }

        /// The number of equal scans that are needed, half a second apart. Missing files may still be copied, but a source map that is
        /// only named must not block the seed forever.
        var times: Int { sizes.values.contains(nil) ? 40 : 5 }
    }

    /// The reason why there is no seed; nil for one that was found.
    var failure: (any Error)?
    private var last: Scan?
    private var times = 0

    init(failure: (any Error)? = nil) { self.failure = failure }

    mutating func isComplete(_ root: OrganizedRoot) throws -> Bool {
        let scan = try Scan(at: root)
        times = last == scan ? times + 1 : 1
        (last, failure) = (scan, nil)
        return times >= scan.times
    }
}
