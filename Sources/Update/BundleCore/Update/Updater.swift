package import BundleValues

/// The update line: offer, decide, stage, install, select, retain. It reads from top to bottom.
package struct Updater<Source: UpdateSource>: Sendable {
    /// Who and where the device is.
    package struct Device: Sendable {
        /// The store's path.
        package let store: String
        /// The shell's version.
        package let shell: SemanticVersion
        /// The application, when the device names one.
        package let appId: String?
        /// Clients to keep.
        package let keep: Int
        /// Whose clients may run, in order; nil for what the store remembers.
        package let sources: SourceOrder?

        /// States a device.
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
    private let device: Device
    private let shouldDownload: @Sendable (ClientVersion) async -> Bool
    private let now: @Sendable () -> Timestamp
    private let warn: @Sendable (String) -> Void

    /// Joins a source and a device. `shouldDownload` can decline a version before its download; `now` is the time for the ledger, and
    /// `warn` receives sentences about repairs.
    package init(
        source: Source, device: Device,
        shouldDownload: @escaping @Sendable (ClientVersion) async -> Bool = { _ in true },
        now: @escaping @Sendable () -> Timestamp = { .now },
        warn: @escaping @Sendable (String) -> Void
    ) {
        self.source = source
        self.device = device
        self.shouldDownload = shouldDownload
        self.now = now
        self.warn = warn
    }

    /// What `update` would do, with every rule's answer; `explaining` adds what speaks about everything else that is offered.
    /// Changes nothing.
    package func check(explaining: Bool) async throws -> CheckFindings {
        var inventory = try Inventory.read(at: device.store)
        let offer = try await follow(&inventory, remembering: false)
        let noted = offer.feed.map(inventory.recording) ?? inventory
        let decision = decide(offer, noted)
        return CheckFindings(
            offered: offer.clientVersion, decision: decision,
            others: explaining ? source.explain(offer, noted, shell: device.shell, appId: device.appId) : [],
            plan: try await plan(offer, decision.verdict, noted), memory: noted.ledger.feed)
    }

    private func plan(
        _ offer: Source.Offer, _ verdict: Decision.Verdict, _ inventory: Inventory
    ) async throws -> PlannedRoute? {
        guard case .install = verdict else { return nil }
        return try await source.plan(offer, inventory)
    }

    /// What the channel offers at present. A trust root that it has led to is in the ledger before the next one is asked for.
    package func latestOffer() async throws -> Source.Offer {
        var inventory: Inventory
        do {
            inventory = try Inventory.read(at: device.store)
        } catch let failure as UpdateFailure where failure.code == .storeDamaged {
            inventory = try await open().inventory()
        }
        return try await follow(&inventory, remembering: true)
    }

    private func open() throws -> BundleStore { try BundleStore.open(at: device.store, time: now(), warn: warn) }

    /// Writes down what a look at the feed has added, beside whatever works on the store; the store as it is then.
    @discardableResult
    func record(_ news: FeedUpdate) throws -> Inventory { try apply([.recorded(news)]) }

    private func apply(_ changes: [LedgerChange]) throws -> Inventory {
        let folders = try StoreFolders(below: try StoreFolders.openRoot(device.store))
        return try LedgerKeeper(root: folders.root).apply(changes).after
    }

    /// Asks the source step by step; what it has to remember on the way is written, or only shown to it.
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
            "The source came to no offer within \(OfferRequest.maximumSteps) steps.")
    }

    /// Brings the newest client into the store, if the rules take it. After a failure the store is what it was.
    package func update() async throws -> UpdateOutcome {
        try await update(following: try await latestOffer())
    }

    /// Brings `offer` into the store. If that fails because the server has another client by then, brings that one.
    ///
    /// The store remembers a version that this device may have and that did not arrive.
    package func update(following offer: Source.Offer) async throws -> UpdateOutcome {
        do {
            return try await update(to: offer)
        } catch let failure {
            guard UpdateFailure(failure).mayResultFromServerChange, let now = try? await latestOffer(),
                now.clientVersion != offer.clientVersion
            else {
                note(offer, UpdateFailure(failure))
                throw failure
            }
            do {
                return try await update(to: now)
            } catch let failure {
                note(now, UpdateFailure(failure))
                throw failure
            }
        }
    }

    /// Writes down whether the device lacks `offer`, which an update failed to bring.
    ///
    /// A cancelled update shows nothing about the source. The update throws its own failure, so an error of the ledger is dropped.
    private func note(_ offer: Source.Offer, _ failure: UpdateFailure) {
        guard !Task.isCancelled, let inventory = try? Inventory.read(at: device.store) else { return }
        let source = offer.clientVersion.source
        let change: LedgerChange
        switch WantedRule.judge(decide(offer, inventory).verdict, after: failure) {
        case .wanted: change = .missed(offer.clientVersion, failure, at: now())
        case .notForDevice where inventory.ledger.wanted.contains { $0.version.source == source }:
            change = .supplied(source)
        case .notForDevice: return
        }
        _ = try? apply([change])
    }

    /// Brings `offer` into the store, if the rules take it. After a failure the store is what it was.
    package func update(to offer: Source.Offer) async throws -> UpdateOutcome {
        // A look without the lock: a device that has nothing to do writes nothing new and disturbs nobody.
        if let glance = try Inventory.settled(at: device.store), !isNew(offer.feed, glance),
            case let verdict = try verdict(offer, glance), let newest = verdict.newest,
            isFinished(glance, changes(offer, newest))
        {
            // Whoever wrote that may have been stopped before it was durable, and now it is answered for.
            try glance.sync()
            return .nothing(offer.clientVersion, verdict, inventory: glance, newest: newest)
        }

        let store = try open()
        try await store.requireBound(to: device.appId)
        // A recall counts whatever becomes of the offer.
        if let feed = offer.feed, isNew(feed, try await store.inventory()) {
            _ = try await store.apply([.recorded(feed), .selected(shell: device.shell)])
        }
        let verdict = try verdict(offer, try await store.inventory())
        switch verdict {
        case .upToDate(let newest), .notInRollout(let newest, _):
            // What an interrupted run left undone, or what another shell or number to keep asks for.
            let inventory = try await store.apply(changes(offer, newest))
            let plan = await retain(in: store, inventory)
            return .nothing(
                offer.clientVersion, verdict, inventory: inventory.without(plan.removed), newest: newest)
        case .choose(let name):
            let inventory = try await store.apply(changes(offer, name))
            return .chosen(
                offer.clientVersion,
                InstallReport(name, inventory, bytesDownloaded: 0, retention: await retain(in: store, inventory)))
        default: break
        }

        guard await shouldDownload(offer.clientVersion) else { return try await decline(offer, in: store) }
        let staged = try await stage(offer, in: store)
        let inventory = try await store.install(staged, at: now(), with: changes(offer, nil, installing: true))
        // From here on nothing may fail: the release is installed, and a run that fails has changed nothing.
        return .installed(
            offer.clientVersion,
            InstallReport(
                .installed(staged.identity.version), inventory, bytesDownloaded: staged.bytesDownloaded,
                route: staged.route,
                retention: await retain(in: store, inventory)))
    }

    /// Keeps what is here: the program around the updater does not take the version now.
    private func decline(_ offer: Source.Offer, in store: BundleStore) async throws -> UpdateOutcome {
        let inventory = try await store.apply(changes(offer, nil))
        return .notInRollout(
            offer.clientVersion, inventory: inventory, newest: inventory.ledger.pending ?? inventory.ledger.current,
            detail: "the program that shows clients does not take it now")
    }

    private func isNew(_ feed: FeedUpdate?, _ inventory: Inventory) -> Bool {
        feed.map { inventory.ledger.recording($0) != inventory.ledger } ?? false
    }

    /// Whether nothing is left to do but what an offer brings: neither `changes` nor retention would change anything.
    private func isFinished(_ inventory: Inventory, _ changes: [LedgerChange]) -> Bool {
        inventory.ledger.applying(changes, in: inventory.trees) == .accepted(inventory.ledger)
            && RetentionRule.plan(inventory, keep: device.keep).removed.isEmpty
    }

    /// Removes what need not be kept. What was asked for is done by then, so a disk that fails here only delays this.
    private func retain(in store: BundleStore, _ inventory: Inventory) async -> RetentionPlan {
        do {
            return try await store.retain(keeping: device.keep)
        } catch {
            warn("\(UpdateFailure(error).message) Older clients stay until the next run.")
            return RetentionPlan(retained: inventory.bundles.map(\.name), removed: [])
        }
    }

    private func decide(_ offer: Source.Offer, _ inventory: Inventory) -> Decision {
        let decision = source.decide(offer, inventory, shell: device.shell, appId: device.appId)
        return Decision(verdict: decision.verdict, outcomes: offer.evidence + decision.outcomes)
    }

    /// The verdict where it is no refusal; a refusal is thrown.
    private func verdict(_ offer: Source.Offer, _ inventory: Inventory) throws -> Decision.Verdict {
        let verdict = decide(offer, inventory).verdict
        if let failure = verdict.failure(of: offer.clientVersion) { throw failure }
        return verdict
    }

    /// What every update that succeeds writes into the ledger: the application of the store, the order of the sources, the client
    /// `name` that the Meteor server offers, if it is here, that the source offers nothing else, and what runs next.
    ///
    /// A store whose device names no application is bound to that of its first release: one release key may sign several applications.
    private func changes(_ offer: Source.Offer, _ name: ClientName?, installing: Bool = false) -> [LedgerChange] {
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
            // What is here of a client that has no room would keep out another one that has.
            await store.discard(area, keepingDownloads: UpdateFailure(error).code != .diskFull)
            throw error
        }
    }
}

/// How an update ended; the version is the one that was offered.
package enum UpdateOutcome: Sendable {
    /// The offer is installed.
    case installed(ClientVersion, InstallReport)
    /// The offer is in the store, and runs next; nothing was downloaded.
    case chosen(ClientVersion, InstallReport)
    /// Nothing newer was offered; `newest` is the usable client that is as new.
    case upToDate(ClientVersion, inventory: Inventory, newest: ClientName)
    /// What was offered is not for this device yet; `newest` is the best that it has.
    case notInRollout(ClientVersion, inventory: Inventory, newest: ClientName, detail: String)

    fileprivate static func nothing(
        _ offered: ClientVersion, _ verdict: Decision.Verdict, inventory: Inventory, newest: ClientName
    ) -> UpdateOutcome {
        guard case .notInRollout(_, let detail) = verdict else {
            return .upToDate(offered, inventory: inventory, newest: newest)
        }
        return .notInRollout(offered, inventory: inventory, newest: newest, detail: detail)
    }
}

/// What an installation did.
package struct InstallReport: Sendable {
    /// The client that was installed, or chosen.
    package let name: ClientName
    /// The same in the store; nil for the seed.
    package let bundle: InstalledBundle?
    private let ledger: Ledger
    /// The client that runs, or runs first.
    package var current: ClientName { ledger.current }
    /// The client that runs next, where that is another one.
    package var pending: ClientName? { ledger.pending }
    /// Returns the client that the next one follows; nil where it would be a seed, and neither the caller nor the store has one.
    package func previous(hasSeed: Bool) -> ClientName? {
        let previous = ledger.pending == nil ? ledger.previous : ledger.current
        return hasSeed ? previous : ledger.known(previous)
    }
    /// Body bytes taken from the network.
    package let bytesDownloaded: Int
    /// How its files came by; nil where nothing was brought, and for a Meteor bundle.
    package let route: DownloadRoute?
    /// Which clients stayed and which went.
    package let retention: RetentionPlan

    init(
        _ name: ClientName, _ inventory: Inventory, bytesDownloaded: Int, route: DownloadRoute? = nil,
        retention: RetentionPlan
    ) {
        self.route = route
        self.name = name
        bundle = name.version.flatMap(inventory.bundle)
        ledger = inventory.ledger
        self.bytesDownloaded = bytesDownloaded
        self.retention = retention
    }
}
