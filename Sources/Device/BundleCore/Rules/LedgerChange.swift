import BundleFormats
import BundleValues
import BundleSigning

/// A change of a ledger, with all its inputs, including the time.
///
/// `Ledger.applying` is pure and returns the changed ledger; only `LedgerKeeper` writes it to the disk.
enum LedgerChange: Sendable, Equatable {
    // MARK: By updates

    /// Binds the store to an application permanently.
    case bound(appId: String)
    /// Adds the result of a feed scan.
    case recorded(FeedUpdate)
    /// Sets the sources whose clients may run.
    case ordered(SourceOrder)
    /// Stores that the Meteor server offers an installed bundle, or the seed.
    case offered(ClientName)
    /// Adds a client whose folder has its final name.
    case installed(Ledger.Entry)
    /// Schedules the choice of `SelectionRule` for a shell of that version; a nil `shell` meets every range.
    case selected(shell: SemanticVersion?)
    /// Removes a client by retention; refused if the client has a role.
    case removed(ClientVersion)
    /// Stores that an attempt to install an offered version failed.
    case missed(ClientVersion, UpdateFailure, at: Timestamp)
    /// Stores that an offer waits for its download, and why.
    case waiting(ClientVersion, FetchWait, at: Timestamp)
    /// Counts bytes on a metered link. A negative number gives back bytes that were reserved.
    case metered(Int, at: Timestamp)
    /// Stores that the device has everything that the source offers.
    case supplied(SourceName)

    // MARK: By recovery

    /// Removes a client whose folder is missing or has other files than were installed.
    case lost(ClientVersion)
    /// Adds a client whose receipt matches every byte of its folder. A Meteor bundle becomes the last one if its
    /// installation was interrupted (`isNewest`), otherwise the first.
    case adopted(Ledger.Entry, isNewest: Bool)

    // MARK: By shells

    /// Starts a shell with this seed. A trial that has no verdict did not survive its previous shell.
    case started(seed: SHA256Digest?, facts: MeteorFacts?, at: Timestamp)
    /// Starts a launch; refused if the client may not run.
    case launched(LaunchClaim, shell: SemanticVersion, at: Timestamp, awaitsPage: Bool = false)
    /// Stores that a page of the last launch has reported to its shell.
    case pageReported(LaunchClaim)
    /// Confirms the client of the last launch.
    case confirmed(LaunchClaim, at: Timestamp)
    /// Fails the client of the last launch; the rules choose the next one.
    case failed(LaunchClaim, StartFailure)
    /// Counts a failed start of a client that could not be prepared.
    case unprepared(ClientVersion, StartFailure)
    /// Blocks a client because a repair found no good copy of one of its files.
    case damaged(ClientVersion, reason: String, at: Timestamp)
    /// Stores that a repair found every file as installed. `hadDamage` is true if files were damaged before.
    case repaired(ClientVersion, hadDamage: Bool)
    /// Ends the last launch without a verdict, since the shell closed its client.
    case abandoned(LaunchClaim)

    // MARK: By hand

    /// Rolls back to `to`, or as far as `RollBackRule` decides. With `of`, only from that client.
    case rolledBack(to: ClientName?, of: ClientName? = nil, at: Timestamp)
    /// Allows a blocked version to run again.
    case unblocked(ClientVersion)

    // MARK: By reports

    /// Turns the recording of reports on, or off and deletes the queue.
    case reporting(Bool)
    /// Removes the reports that a receiver accepted, and `dropped` from the count of dropped reports.
    case reported(ids: [String], dropped: Int)
}

/// The result of a change.
enum LedgerOutcome: Sendable, Equatable {
    /// The new ledger, which is equal to the old one if nothing changed.
    case accepted(Ledger)
    /// The ledger did not change.
    case refused(LedgerRefusal)
}

extension Ledger {
    /// Applies all of `changes` in order, or none. `trees` are the clients on the disk.
    func applying(_ changes: [LedgerChange], in trees: StoredTrees) -> LedgerOutcome {
        var next = self
        for change in changes {
            if let refusal = next.apply(change, in: trees) { return .refused(refusal) }
        }
        return .accepted(next)
    }

    /// Returns the ledger with `news` of the feed. A version that is blocked for failed starts gets a retry if its
    /// channel grants one that this device has not used. One more failure blocks it again.
    func recording(_ news: FeedUpdate) -> Ledger {
        var next = self
        next.feed = news.added(to: feed)
        for block in blocks where block.cause == .failedStarts {
            guard let version = block.version.semantic, next.feed.useRetry(of: version) else { continue }
            next.retry(block.version)
        }
        return next
    }

    private mutating func apply(_ change: LedgerChange, in trees: StoredTrees) -> LedgerRefusal? {
        switch change {
        case .bound(let appId): return bind(to: appId)
        case .recorded(let news): self = recording(news)
        case .ordered(let sources): self.sources = sources
        case .missed(let version, let failure, let time): miss(version, after: failure, at: time)
        case .waiting(let version, let wait, let time): setWaiting(version, because: wait, at: time)
        case .metered(let bytes, let time): metered = MeteredUse.adding(bytes, to: metered, at: time)
        case .supplied(let source): forgetWanted(of: source)
        case .offered(let name): offered = name
        case .installed(let entry): record(entry)
        case .selected(let shell): select(for: shell, in: trees)
        case .removed(let version): return remove(version)
        case .lost(let version): forget(version)
        case .adopted(let entry, let isNewest): adopt(entry, isNewest: isNewest)
        case .started(let seed, let facts, let time): start(seed: seed, facts: facts, at: time)
        case .launched(let claim, let shell, let time, let awaitsPage):
            return launch(claim, shell: shell, at: time, awaitsPage: awaitsPage)
        case .pageReported(let claim): return changeLaunch(of: claim) { $0.launch?.awaitsPage = false }
        case .confirmed(let claim, let time): return confirm(claim, at: time)
        case .failed(let claim, let failure): return fail(claim, by: failure, in: trees)
        case .unprepared(let version, let failure): return failPreparation(of: version, by: failure, in: trees)
        case .damaged(let version, let reason, let time):
            block(Block(version: version, cause: .damagedFiles, reason: reason, count: 0, since: time))
            reschedule(trees)
        case .repaired(let version, let hadDamage): repair(version, hadDamage: hadDamage, in: trees)
        case .abandoned(let claim): return changeLaunch(of: claim) { $0.abandonTrial() }
        case .rolledBack(let target, let left, let time): return rollBack(to: target, of: left, in: trees, at: time)
        case .unblocked(let version): if unblock(version) { reschedule(trees) }
        case .reporting(let isOn): reports = isOn ? reports ?? ReportQueue() : nil
        case .reported(let ids, let dropped): reports?.settle(ids, dropped: dropped)
        }
        return nil
    }

    private mutating func bind(to appId: String) -> LedgerRefusal? {
        if let bound = self.appId, !bound.utf8.elementsEqual(appId.utf8) {
            return .boundTo(appId: bound, asked: appId)
        }
        self.appId = appId
        return nil
    }

    private mutating func select(for shell: SemanticVersion?, in trees: StoredTrees) {
        let choice = SelectionRule.select(trees.inventory(of: self), shell: shell, hasSeed: seed != nil)
        schedule(choice?.name ?? .embedded)
    }

    private mutating func remove(_ version: ClientVersion) -> LedgerRefusal? {
        if RetentionRule.isProtected(version, in: self) { return .hasRole(version) }
        forget(version)
        return nil
    }

    private mutating func start(seed: SHA256Digest?, facts: MeteorFacts?, at time: Timestamp) {
        adopt(seed: seed, facts)
        settleInterrupted(at: time)
    }

    private mutating func failPreparation(
        of version: ClientVersion, by failure: StartFailure, in trees: StoredTrees
    ) -> LedgerRefusal? {
        if entry(version) == nil { return .notInstalled(version) }
        fail(version, by: failure)
        reschedule(trees)
        return nil
    }

    private mutating func repair(_ version: ClientVersion, hadDamage: Bool, in trees: StoredTrees) {
        let before = self
        repair(version, hadDamage: hadDamage)
        if self != before { reschedule(trees) }
    }

    /// Changes the last launch if `claim` matches it.
    private mutating func changeLaunch(of claim: LaunchClaim, _ body: (inout Ledger) -> Void) -> LedgerRefusal? {
        if let refusal = refusal(of: claim) { return refusal }
        body(&self)
        return nil
    }

    private mutating func launch(
        _ claim: LaunchClaim, shell: SemanticVersion, at time: Timestamp, awaitsPage: Bool
    ) -> LedgerRefusal? {
        if let version = claim.name.version {
            if entry(version) == nil { return .notInstalled(version) }
            if recall(of: version) != nil { return .recalled(version) }
        }
        self.shell = shell
        begin(claim, at: time, awaitsPage: awaitsPage)
        return nil
    }

    private mutating func confirm(_ claim: LaunchClaim, at time: Timestamp) -> LedgerRefusal? {
        if let refusal = refusal(of: claim) { return refusal }
        switch launch?.verdict {
        case .good: break
        case .faulty: return .failedBefore(claim.name, claim.name.version.flatMap { record(of: $0)?.failures.last })
        case nil: settleGood(at: time)
        }
        return nil
    }

    private mutating func fail(
        _ claim: LaunchClaim, by failure: StartFailure, in trees: StoredTrees
    ) -> LedgerRefusal? {
        if let refusal = refusal(of: claim) { return refusal }
        switch launch?.verdict {
        case .good: return .confirmedBefore(claim.name)
        case .faulty: break
        case nil: settle(faulty: failure)
        }
        reschedule(trees)
        return nil
    }

    /// Returns the reason why `claim` does not match the last launch; nil if it does.
    private func refusal(of claim: LaunchClaim) -> LedgerRefusal? {
        if let launch, claim.matches(launch) { return nil }
        return .otherLaunch(of: claim.name, last: launch)
    }

    private mutating func rollBack(
        to target: ClientName?, of left: ClientName?, in trees: StoredTrees, at time: Timestamp
    ) -> LedgerRefusal? {
        switch RollBackRule.decide(trees.inventory(of: self), to: target, of: left) {
        case .refused(let refusal): return .noWayBack(refusal)
        case .back(let target, let newer):
            rollBack(to: target, from: newer, at: time)
            return nil
        }
    }

    /// Schedules the client that the rules choose for the shell of the last launch.
    private mutating func reschedule(_ trees: StoredTrees) {
        if let choice = SelectionRule.next(trees.inventory(of: self)) { schedule(choice.name) }
    }
}
