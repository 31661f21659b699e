/// The update line: offer, decide, stage, install, select, retain. It reads from top to bottom.
public struct Updater<Channel: UpdateChannel>: Sendable {
    /// Who and where the device is.
    public struct Device: Sendable {
        /// The store's path.
        public let store: String
        /// The shell's version.
        public let shell: SemanticVersion
        /// The application, when the device names one.
        public let appId: String?
        /// Clients to keep.
        public let keep: Int

        /// States a device.
        public init(store: String, shell: SemanticVersion, appId: String?, keep: Int) {
            self.store = store
            self.shell = shell
            self.appId = appId
            self.keep = keep
        }
    }

    private let channel: Channel
    private let device: Device
    private let warn: @Sendable (String) -> Void

    /// Joins a channel and a device; `warn` hears about repairs.
    public init(channel: Channel, device: Device, warn: @escaping @Sendable (String) -> Void) {
        self.channel = channel
        self.device = device
        self.warn = warn
    }

    /// What `update` would do, with every rule's answer. Changes nothing.
    public func check() async throws -> (offer: Channel.Offer, decision: AcceptanceRule.Decision) {
        let offer = try await channel.latestOffer()
        return (offer, decide(offer, try Inventory.read(at: device.store)))
    }

    /// Brings the newest release into the store, if the rules take it. After a failure the store is what it was.
    public func update() async throws -> UpdateOutcome<Channel.Offer> {
        let offer = try await channel.latestOffer()
        // A look without the lock: a device that has nothing to do writes nothing and disturbs nobody.
        if let glance = try Inventory.settled(at: device.store), isFinished(glance),
            let newest = try standing(offer, glance)
        {
            return .upToDate(offer, inventory: glance, newest: newest)
        }

        let store = try BundleStore.open(at: device.store, warn: warn)
        let appId = try await store.bound(to: device.appId)
        if let newest = try standing(offer, try await store.inventory()) {
            // What an interrupted run left undone, or what another shell or number to keep asks for.
            try await store.select(appId: appId, select)
            _ = try await retain(in: store)
            return .upToDate(offer, inventory: try await store.inventory(), newest: newest)
        }

        let staged = try await stage(offer, in: store)
        let installed = try await store.install(staged, appId: appId, selecting: select)
        let plan = try await retain(in: store)
        let ledger = try await store.inventory().ledger
        return .installed(
            offer,
            InstallReport(
                bundle: installed, ledger: ledger,
                bytesDownloaded: staged.bytesDownloaded, retention: plan))
    }

    private func select(_ inventory: Inventory) -> ClientName {
        SelectionRule.select(inventory, shell: device.shell, hasSeed: inventory.ledger.seed != nil)?.name ?? .embedded
    }

    /// Whether nothing is left to do but what an offer brings.
    private func isFinished(_ inventory: Inventory) -> Bool {
        (inventory.ledger.pending ?? inventory.ledger.current) == select(inventory)
            && RetentionRule.plan(inventory, keep: device.keep).removed.isEmpty
            && (device.appId == nil || inventory.ledger.appId != nil)
    }

    /// Removes what need not be kept. The release is installed by then, so a disk that fails here only delays this.
    private func retain(in store: BundleStore) async throws -> RetentionPlan {
        do {
            return try await store.retain(keeping: device.keep)
        } catch {
            warn("\(UpdateFailure(error).message) Older clients stay until the next run.")
            let left = try await store.inventory().bundles.map(\.version)
            return RetentionPlan(retained: left, removed: [])
        }
    }

    private func decide(_ offer: Channel.Offer, _ inventory: Inventory) -> AcceptanceRule.Decision {
        AcceptanceRule.decide(
            offer, inventory: inventory, shell: device.shell, appId: device.appId ?? inventory.ledger.appId)
    }

    /// The client that is as new as `offer`; nil where there is something to install. What must not be passed over is
    /// thrown.
    private func standing(_ offer: Channel.Offer, _ inventory: Inventory) throws -> SemanticVersion? {
        let verdict = decide(offer, inventory).verdict
        if case .upToDate(let newest) = verdict { return newest }
        if let failure = verdict.failure(of: offer.version) { throw failure }
        return nil
    }

    private func stage(_ offer: Channel.Offer, in store: BundleStore) async throws -> StagedBundle {
        let area = try await store.openStaging(for: offer.footprint)
        do {
            return try await channel.stage(offer, in: area, reusing: try await store.reuseIndex())
        } catch {
            await store.discard(area)
            throw error
        }
    }
}

/// How an update ended.
public enum UpdateOutcome<Offer: UpdateOffer>: Sendable {
    /// The offer is installed.
    case installed(Offer, InstallReport)
    /// Nothing newer was offered; `newest` is the usable client that is as new.
    case upToDate(Offer, inventory: Inventory, newest: SemanticVersion)
}

/// What an installation did.
public struct InstallReport: Sendable {
    /// The client that was installed.
    public let bundle: InstalledBundle
    private let ledger: Ledger
    /// The client that runs, or runs first.
    public var current: ClientName { ledger.current }
    /// The client that runs next, where that is another one.
    public var pending: ClientName? { ledger.pending }
    /// The client that the next one follows.
    public var previous: ClientName? { ledger.pending == nil ? ledger.previous : ledger.current }
    /// Body bytes taken from the network.
    public let bytesDownloaded: Int
    /// Which clients stayed and which went.
    public let retention: RetentionPlan

    init(bundle: InstalledBundle, ledger: Ledger, bytesDownloaded: Int, retention: RetentionPlan) {
        self.bundle = bundle
        self.ledger = ledger
        self.bytesDownloaded = bytesDownloaded
        self.retention = retention
    }
}
