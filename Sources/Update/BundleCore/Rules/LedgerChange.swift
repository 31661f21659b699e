import BundleValues
import BundleSigning

/// Everything that happens to a ledger, with all that it needs to know, the time included.
///
/// `Ledger.applying` says what becomes of a ledger, and is pure; `LedgerKeeper` alone writes it.
enum LedgerChange: Sendable, Equatable {
    // MARK: By updates

    /// The store belongs to an application for good.
    case bound(appId: String)
    /// A look at the feed has added this to what is remembered.
    case recorded(FeedUpdate)
    /// The device names the sources whose clients may run.
    case ordered(SourceOrder)
    /// The Meteor server offers a client that is here already: a bundle, or the seed.
    case offered(ClientName)
    /// A client has its final name.
    case installed(Ledger.Entry)
    /// `SelectionRule` chooses what runs next, for a shell of that version; a nil one meets every range.
    case selected(shell: SemanticVersion?)
    /// Retention removes a client; refused where it has a role by now.
    case removed(ClientVersion)
    /// The device is offered a version, and an attempt to get it failed.
    case missed(ClientVersion, UpdateFailure, at: Timestamp)
    /// The device lacks nothing that the source offers it.
    case supplied(SourceName)

    // MARK: By recovery

    /// A client's folder is gone, or has other files than were installed.
    case lost(ClientVersion)
    /// A client's folder is there, and its receipt vouches for every byte. A Meteor bundle comes last where its installation
    /// was stopped (`isNewest`), else first.
    case adopted(Ledger.Entry, isNewest: Bool)

    // MARK: By shells

    /// A shell starts: it brings this seed, and a trial without a verdict did not survive its own shell.
    case started(seed: SHA256Digest?, facts: MeteorFacts?, at: Timestamp)
    /// A client is about to be shown; refused where it may no longer run.
    case launched(LaunchClaim, shell: SemanticVersion, at: Timestamp, awaitsPage: Bool = false)
    /// A page of the last launch has reported to its shell.
    case heard(LaunchClaim)
    /// The client of the last launch works.
    case confirmed(LaunchClaim, at: Timestamp)
    /// The client of the last launch does not work, and the rules choose what runs next.
    case failed(LaunchClaim, StartFailure)
    /// An installed client could not be made ready to be shown: a start has failed, though nobody saw it.
    case unprepared(ClientVersion, StartFailure)
    /// A repair found no good copy of a client's file.
    case damaged(ClientVersion, reason: String, at: Timestamp)
    /// A repair found every file of a client as it was installed; it `hadDamage` until then.
    case mended(ClientVersion, hadDamage: Bool)
    /// The shell has taken the client of the last launch off the screen before there was a verdict.
    case abandoned(LaunchClaim)

    // MARK: By hand

    /// An operator goes back to `to`, or as far as `RollBackRule` says; where `of` is named, from that client only.
    case rolledBack(to: ClientName?, of: ClientName? = nil, at: Timestamp)
    /// An operator lets a version run again.
    case unblocked(ClientVersion)

    // MARK: By reports

    /// The device begins to note what it reports, or ends that and forgets what it noted.
    case reporting(Bool)
    /// A receiver has the reports with these ids, and knows of so many dropped ones.
    case reported(ids: [String], dropped: Int)
}

/// What a change comes to.
enum LedgerOutcome: Sendable, Equatable {
    /// The ledger from then on; the same one where what was asked for is so already.
    case accepted(Ledger)
    /// The ledger stays as it is.
    case refused(LedgerRefusal)
}

extension Ledger {
    /// What `changes` make of this ledger, one after the other, all of them or none. Pure: `trees` is what the disk has.
    func applying(_ changes: [LedgerChange], in trees: StoredTrees) -> LedgerOutcome {
        var next = self
        for change in changes {
            if let refusal = next.apply(change, trees) { return .refused(refusal) }
        }
        return .accepted(next)
    }

    /// Returns the ledger that remembers `news` of the feed. A version whose starts failed is no longer blocked where its channel grants
    /// a retry that this device has not used: one more failure blocks it again.
    func recording(_ news: FeedUpdate) -> Ledger {
        var next = self
        next.feed = news.added(to: feed)
        for block in blocks where block.cause == .failedStarts {
            guard let version = block.version.semantic, next.feed.takeRetry(of: version) else { continue }
            next.retry(block.version)
        }
        return next
    }

    private mutating func apply(_ change: LedgerChange, _ trees: StoredTrees) -> LedgerRefusal? {
        switch change {
        case .bound(let appId): return bind(to: appId)
        case .recorded(let news): self = recording(news)
        case .ordered(let sources): self.sources = sources
        case .missed(let version, let failure, let time): miss(version, failure, at: time)
        case .supplied(let source): forgetWanted(of: source)
        case .offered(let name): offered = name
        case .installed(let entry): record(entry)
        case .selected(let shell):
            let inventory = trees.inventory(of: self)
            schedule(SelectionRule.select(inventory, shell: shell, hasSeed: seed != nil)?.name ?? .embedded)
        case .removed(let version):
            if RetentionRule.isProtected(version, self) { return .hasRole(version) }
            forget(version)
        case .lost(let version): forget(version)
        case .adopted(let entry, let isNewest): adopt(entry, isNewest: isNewest)
        case .started(let seed, let facts, let time):
            adopt(seed: seed, facts)
            settleInterrupted(at: time)
        case .launched(let claim, let shell, let time, let awaitsPage):
            return launch(claim, shell: shell, at: time, awaitsPage)
        case .heard(let claim):
            if let refusal = refusal(of: claim) { return refusal }
            launch?.awaitsPage = false
        case .confirmed(let claim, let time): return confirm(claim, at: time)
        case .failed(let claim, let failure): return fail(claim, failure, trees)
        case .unprepared(let version, let failure):
            if entry(version) == nil { return .notInstalled(version) }
            fail(version, failure)
            reschedule(trees)
        case .damaged(let version, let reason, let time):
            block(Block(version: version, cause: .damagedFiles, reason: reason, count: 0, since: time))
            reschedule(trees)
        case .mended(let version, let hadDamage):
            let before = self
            mend(version, hadDamage: hadDamage)
            if self != before { reschedule(trees) }
        case .abandoned(let claim):
            if let refusal = refusal(of: claim) { return refusal }
            abandonTrial()
        case .rolledBack(let target, let left, let time): return rollBack(to: target, of: left, trees, at: time)
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

    private mutating func launch(
        _ claim: LaunchClaim, shell: SemanticVersion, at time: Timestamp, _ awaitsPage: Bool
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
        _ claim: LaunchClaim, _ failure: StartFailure, _ trees: StoredTrees
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

    /// Why `claim` is about no running launch; nil where it is about the last one.
    private func refusal(of claim: LaunchClaim) -> LedgerRefusal? {
        if let launch, claim.matches(launch) { return nil }
        return .otherLaunch(of: claim.name, last: launch)
    }

    private mutating func rollBack(
        to target: ClientName?, of left: ClientName?, _ trees: StoredTrees, at time: Timestamp
    ) -> LedgerRefusal? {
        switch RollBackRule.decide(trees.inventory(of: self), to: target, of: left) {
        case .refused(let refusal): return .noWayBack(refusal)
        case .back(let target, let newer):
            rollBack(to: target, from: newer, at: time)
            return nil
        }
    }

    /// Brings what runs next up to what the rules say, for the shell that launched last.
    private mutating func reschedule(_ trees: StoredTrees) {
        if let choice = SelectionRule.next(trees.inventory(of: self)) { schedule(choice.name) }
    }
}
