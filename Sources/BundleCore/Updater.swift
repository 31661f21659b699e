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
        if let glance = try Inventory.settled(at: device.store), let outcome = try settled(offer, glance) {
            return outcome
        }

        let store = try BundleStore.open(at: device.store, warn: warn)
        let appId = try await store.bound(to: device.appId)
        if let outcome = try settled(offer, try await store.inventory()) {
            guard case .upToDate(_, _, let newest, _) = outcome else { return outcome }
            // What brought us here may be a run that was stopped after its client got its name: end it.
            try await store.select { [device] in SelectionRule.select($0, shell: device.shell) }
            let plan = try await retain(in: store)
            return .upToDate(offer, inventory: try await store.inventory(), newest: newest, removed: plan.removed)
        }

        let staged = try await stage(offer, in: store)
        let installation = try await store.install(staged, appId: appId) { [device] inventory in
            SelectionRule.select(inventory, shell: device.shell)
        }
        let plan = try await retain(in: store)
        // Last of all: until then the area tells the next run that this one did not end.
        await store.discard(staged.area)
        return .installed(
            offer,
            InstallReport(
                installation: installation, bytesDownloaded: staged.bytesDownloaded, retention: plan))
    }

    private func decide(_ offer: Channel.Offer, _ inventory: Inventory) -> AcceptanceRule.Decision {
        AcceptanceRule.decide(
            offer, inventory: inventory, shell: device.shell, appId: device.appId ?? inventory.ledger.appId)
    }

    /// The outcome where there is nothing to install; nil where there is. What must not be passed over is thrown.
    private func settled(_ offer: Channel.Offer, _ inventory: Inventory) throws -> UpdateOutcome<Channel.Offer>? {
        let verdict = decide(offer, inventory).verdict
        switch verdict {
        case .install: return nil
        case .upToDate(let newest):
            return .upToDate(offer, inventory: inventory, newest: newest, removed: [])
        case .incompatible, .blocked, .wrongApp:
            guard let failure = verdict.failure(of: offer.version) else { return nil }
            throw failure
        }
    }

    /// The installation is done and durable: room that cannot be freed now does not make it a failure.
    private func retain(in store: BundleStore) async throws -> RetentionPlan {
        let plan = RetentionRule.plan(try await store.inventory(), keep: device.keep)
        do {
            try await store.retain(plan)
            return plan
        } catch {
            warn("Older clients could not be removed: \(error). `clientctl gc` tries again.")
            return RetentionPlan(retained: try await store.inventory().bundles.map(\.version), removed: [])
        }
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
    /// Nothing newer was offered; `newest` is the usable client that is as new. `removed` went because an interrupted
    /// run had left it.
    case upToDate(Offer, inventory: Inventory, newest: SemanticVersion, removed: [SemanticVersion])
}

/// What an installation did.
public struct InstallReport: Sendable {
    /// What the store changed.
    public let installation: BundleStore.Installation
    /// Body bytes taken from the network.
    public let bytesDownloaded: Int
    /// Which clients stayed and which went.
    public let retention: RetentionPlan
}
