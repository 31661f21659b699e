import BundleFormats
package import BundleValues

/// Updates a store from a source: offer, decide, stage, install, select, retain.
package struct Updater<Source: UpdateSource>: Sendable {
    /// The configuration of the device.
    package struct UpdateDevice: Sendable {
        package let store: String
        package let shell: SemanticVersion
        /// The application, if the device names one.
        package let appId: String?
        /// The number of clients to keep.
        package let keep: Int
        /// The sources whose clients may run, in order of preference; nil for the order that the store has.
        package let sources: SourceOrder?

        package init(
            store: String, shell: SemanticVersion, appId: String?, keep: Int, sources: SourceOrder? = nil
        ) {
            self.sources = sources
            self.store = store
            self.shell = shell
            self.appId = appId
            self.keep = keep
        }
    }

    private let source: Source
    private let device: UpdateDevice
    private let gate: FetchGate
    private let shouldDownload: @Sendable (ClientVersion) async -> Bool
    private let environment: Environment

    /// Creates an updater. `gate` answers checks; the source passes it before a download. `shouldDownload` can decline a version
    /// before its download. The log receives messages about repairs.
    package init(
        source: Source, device: UpdateDevice, gate: FetchGate = FetchGate(),
        shouldDownload: @escaping @Sendable (ClientVersion) async -> Bool = { _ in true },
        environment: Environment
    ) {
        self.source = source
        self.device = device
        self.gate = gate
        self.shouldDownload = shouldDownload
        self.environment = environment
    }

    /// Returns the result that `update` would have, with the outcome of every rule. `explaining` adds the outcomes for all other
    /// releases. Changes nothing.
    package func check(explaining: Bool) async throws -> CheckFindings {
        var inventory = try Inventory.read(at: device.store)
        let offer = try await follow(&inventory, remembering: false)
        let noted = offer.feed.map(inventory.recording) ?? inventory
        let decision = decide(on: offer, in: noted)
        let plan = try await plan(for: offer, after: decision.verdict, in: noted)
        return CheckFindings(
            offered: offer.clientVersion, decision: decision,
            others: explaining ? source.explain(offer, in: noted, shell: device.shell, appId: device.appId) : [],
            plan: plan, memory: noted.ledger.feed,
            wait: await wait(for: offer, after: decision.verdict, plan: plan, in: noted),
            retry: decision.verdict.newest.flatMap { newest in
                newest.version == offer.clientVersion ? noted.ledger.failureBeforeRetry(of: newest) : nil
            },
            rate: gate.policy.joined(with: offer.terms.policy, isUrgent: offer.terms.isUrgent).rate)
    }

    private func wait(
        for offer: Source.Offer, after verdict: Decision.Verdict, plan: PlannedRoute?, in inventory: Inventory
    ) async -> FetchWait? {
        guard case .install = verdict else { return nil }
        // Only a download shows which files of a Meteor bundle are missing.
        guard let plan else { return await gate.wait(offer.terms, load: .files, bytes: 0, in: inventory) }
        return await gate.wait(
            offer.terms, load: plan.route.reason == .taken ? .delta : .archive, bytes: plan.bytes, in: inventory)
    }

    private func plan(
        for offer: Source.Offer, after verdict: Decision.Verdict, in inventory: Inventory
    ) async throws -> PlannedRoute? {
        guard case .install = verdict else { return nil }
        return try await source.plan(offer, in: inventory)
    }

    /// Returns the source's present offer. Each trust root on the way is stored before the source is asked for the
    /// next one.
    package func latestOffer() async throws -> Source.Offer {
        var inventory: Inventory
        do {
            inventory = try Inventory.read(at: device.store)
        } catch let failure as UpdateFailure where failure.code == .storeDamaged {
            inventory = try await open().inventory()
        }
        return try await follow(&inventory, remembering: true)
    }

    private func open() async throws -> BundleStore {
        try await BundleStore.openWaiting(at: device.store, environment: environment)
    }

    /// Stores the result of a feed scan, also while another process works on the store. Returns the store's new
    /// state.
    @discardableResult
    func record(_ news: FeedUpdate) throws -> Inventory { try apply([.recorded(news)]) }

    private func apply(_ changes: [LedgerChange]) throws -> Inventory {
        let folders = try StoreFolders(below: try StoreFolders.openRoot(device.store))
        return try LedgerKeeper(root: folders.root).apply(changes).after
    }

    /// Asks the source until it makes an offer. Updates on the way are stored, or only passed to the next request.
    private func follow(_ inventory: inout Inventory, remembering: Bool) async throws -> Source.Offer {
        for stepsLeft in (0...OfferRequest.maximumSteps).reversed() {
            let request = OfferRequest(
                inventory: inventory, shell: device.shell, appId: device.appId ?? inventory.ledger.appId,
                stepsLeft: stepsLeft)
            switch try await source.latestOffer(for: request) {
            case .offer(let offer): return offer
            case .remember(let news): inventory = remembering ? try record(news) : inventory.recording(news)
            }
        }
        throw UpdateFailure(
            .internal, subject: "\(Source.self)",
            "The source made no offer within \(OfferRequest.maximumSteps) steps.")
    }

    /// Installs the newest client if the rules accept it. After a failure the store is unchanged.
    package func update() async throws -> UpdateOutcome {
        try await update(following: try await latestOffer())
    }

    /// Installs `offer`. If that fails because the server has another client by then, installs that one.
    ///
    /// The store records an offer that this device may have but could not install.
    package func update(following offer: Source.Offer) async throws -> UpdateOutcome {
        do {
            return try await update(to: offer)
        } catch let failure {
            guard UpdateFailure(failure).mayResultFromServerChange, let now = try? await latestOffer(),
                now.clientVersion != offer.clientVersion
            else {
                note(offer, after: UpdateFailure(failure))
                throw failure
            }
            do {
                return try await update(to: now)
            } catch let failure {
                note(now, after: UpdateFailure(failure))
                throw failure
            }
        }
    }

    /// Records whether the device lacks `offer`, whose update failed.
    ///
    /// A cancelled update says nothing about the source. Errors of the ledger are ignored, since the update throws
    /// its own failure.
    private func note(_ offer: Source.Offer, after failure: UpdateFailure) {
        guard !Task.isCancelled, let inventory = try? Inventory.read(at: device.store) else { return }
        let source = offer.clientVersion.source
        let change: LedgerChange
        switch WantedRule.judge(decide(on: offer, in: inventory).verdict, after: failure) {
        case .wanted: change = .missed(offer.clientVersion, failure, at: environment.now())
        case .notForDevice where inventory.ledger.wanted.contains { $0.version.source == source }:
            change = .supplied(source)
        case .notForDevice: return
        }
        _ = try? apply([change])
    }

    /// Installs `offer` if the rules accept it. After a failure the store is unchanged.
    package func update(to offer: Source.Offer) async throws -> UpdateOutcome {
        if let outcome = try settled(offer) { return outcome }
        let store = try await open()
        try await store.requireBound(to: device.appId)
        // A recall takes effect whatever the decision is.
        if let feed = offer.feed, changesLedger(feed, of: try await store.inventory()) {
            _ = try await store.apply([.recorded(feed), .selected(shell: device.shell)])
        }
        let verdict = try verdict(on: offer, in: try await store.inventory())
        switch verdict {
        case .upToDate(let newest), .notInRollout(let newest, _):
            // Applies changes that an interrupted run left, or that another shell version or number of clients
            // requires.
            let inventory = try await store.apply(changes(by: offer, offering: newest))
            let plan = await retain(in: store, inventory)
            return .nothing(
                offer.clientVersion, verdict, inventory: inventory.without(plan.removed), newest: newest)
        case .choose(let name):
            let inventory = try await store.apply(changes(by: offer, offering: name))
            return .chosen(
                offer.clientVersion,
                InstallReport(name, inventory, bytesDownloaded: 0, retention: await retain(in: store, inventory)))
        default: return try await install(offer, in: store)
        }
    }

    /// Returns the outcome for a device with nothing to do, which neither takes the lock nor writes; nil for others.
    private func settled(_ offer: Source.Offer) throws -> UpdateOutcome? {
        guard let glance = try Inventory.settled(at: device.store), !changesLedger(offer.feed, of: glance),
            case let verdict = try verdict(on: offer, in: glance), let newest = verdict.newest,
            isFinished(glance, after: changes(by: offer, offering: newest))
        else { return nil }
        // Another process that wrote this state may have been stopped before its sync.
        try glance.sync()
        return .nothing(offer.clientVersion, verdict, inventory: glance, newest: newest)
    }

    private func install(_ offer: Source.Offer, in store: BundleStore) async throws -> UpdateOutcome {
        guard await shouldDownload(offer.clientVersion) else { return try await decline(offer, in: store) }
        let staged: StagedBundle
        do {
            staged = try await stage(offer, in: store)
        } catch let pause as FetchPause {
            return try await wait(pause.wait, for: offer, in: store)
        }
        let inventory = try await store.install(
            staged, at: environment.now(), with: changes(by: offer, offering: nil, installing: true))
        // The release is installed, so nothing after this may fail: a failed run must not have changed anything.
        return .installed(
            offer.clientVersion,
            InstallReport(
                .installed(staged.identity.version), inventory, bytesDownloaded: staged.bytesDownloaded,
                route: staged.route,
                retention: await retain(in: store, inventory)))
    }

    /// Keeps the present clients, because the download waits.
    private func wait(_ wait: FetchWait, for offer: Source.Offer, in store: BundleStore) async throws -> UpdateOutcome {
        let inventory = try await store.apply([
            .waiting(offer.clientVersion, wait, at: environment.now()), .selected(shell: device.shell),
        ])
        return .waiting(
            offer.clientVersion, inventory: inventory, newest: inventory.ledger.pending ?? inventory.ledger.current,
            wait)
    }

    /// Keeps the present clients, because `shouldDownload` declined the version.
    private func decline(_ offer: Source.Offer, in store: BundleStore) async throws -> UpdateOutcome {
        let inventory = try await store.apply(changes(by: offer, offering: nil))
        return .notInRollout(
            offer.clientVersion, inventory: inventory, newest: inventory.ledger.pending ?? inventory.ledger.current,
            detail: "the program that shows clients declined it for now")
    }

    /// Returns whether recording `update` would change the ledger.
    private func changesLedger(_ update: FeedUpdate?, of inventory: Inventory) -> Bool {
        update.map { inventory.ledger.recording($0) != inventory.ledger } ?? false
    }

    /// Returns whether neither `changes` nor retention would change anything.
    private func isFinished(_ inventory: Inventory, after changes: [LedgerChange]) -> Bool {
        inventory.ledger.applying(changes, in: inventory.trees) == .accepted(inventory.ledger)
            && RetentionRule.plan(inventory, keep: device.keep).removed.isEmpty
    }

    /// Removes clients by retention. The update is complete by then, so a failure is only a warning.
    private func retain(in store: BundleStore, _ inventory: Inventory) async -> RetentionPlan {
        do {
            return try await store.retain(keeping: device.keep)
        } catch {
            environment.log("\(UpdateFailure(error).message) Older clients stay until the next run.")
            return RetentionPlan(retained: inventory.bundles.map(\.name), removed: [])
        }
    }

    private func decide(on offer: Source.Offer, in inventory: Inventory) -> Decision {
        let decision = source.decide(offer, in: inventory, shell: device.shell, appId: device.appId)
        return Decision(verdict: decision.verdict, outcomes: offer.evidence + decision.outcomes)
    }

    /// Returns the verdict, and throws it if it is a refusal.
    private func verdict(on offer: Source.Offer, in inventory: Inventory) throws -> Decision.Verdict {
        let verdict = decide(on: offer, in: inventory).verdict
        if let failure = verdict.failure(of: offer.clientVersion) { throw failure }
        return verdict
    }

    /// Returns the changes of every successful update: the application of the store, the order of the sources, the
    /// client `name` that the Meteor server offers if it is installed, the end of a pending offer, and the next
    /// client.
    ///
    /// A store of a device without an application is bound to that of its first release, since one release key may
    /// sign several applications.
    private func changes(by offer: Source.Offer, offering name: ClientName?, installing: Bool = false) -> [LedgerChange]
    {
        let offered = offer.clientVersion.source == .meteor ? name : nil
        let application = device.appId ?? (installing ? offer.appId : nil)
        let known: [LedgerChange?] = [
            application.map { .bound(appId: $0) }, device.sources.map { .ordered($0) }, offered.map { .offered($0) },
            .supplied(offer.clientVersion.source),
        ]
        return known.compactMap(\.self) + [.selected(shell: device.shell)]
    }

    private func stage(_ offer: Source.Offer, in store: BundleStore) async throws -> StagedBundle {
        let area = try await store.openStaging(for: offer.footprint)
        do {
            return try await source.stage(offer, in: area, reusing: try await store.reuseIndex())
        } catch {
            // The downloads of a client that does not fit could prevent one that does.
            await store.discard(area, keepingDownloads: UpdateFailure(error).code != .diskFull)
            throw error
        }
    }
}
