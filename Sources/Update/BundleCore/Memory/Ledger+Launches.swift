package import BundleValues
import BundleSigning

/// The life of a version: staged, pending, trial, good; or trial, failed once, retry, trial, failed twice, blocked.
extension Ledger {
    /// Failed starts after which a version is blocked: it is retried once.
    static let maximumFailures = 2

    /// What a version is at present.
    package enum Standing: Sendable, Equatable {
        /// Never started.
        case staged
        /// Started, and watched.
        case trial
        /// Confirmed a start.
        case good(since: Timestamp)
        /// Failed once; retried when something else has been launched in between.
        case failed(StartFailure)
        case blocked(Block)
    }

    /// What the installed client `version` is at present.
    package func standing(of version: ClientVersion) -> Standing {
        if let block = block(on: version) { return .blocked(block) }
        let record = record(of: version)
        if let launch, launch.name == .installed(version), launch.isOpenTrial { return .trial }
        if let failure = record?.failures.last { return .failed(failure) }
        return record?.goodSince.map { .good(since: $0) } ?? .staged
    }

    /// Whether a launch of `name` is a trial: the seed is as good as the shell, and whatever confirmed a start is good.
    package func isOnTrial(_ name: ClientName) -> Bool {
        guard let version = name.version else { return false }
        if case .good = standing(of: version) { return false }
        return true
    }

    /// Writes down a boot attempt, before the first byte of the client is shown.
    mutating func begin(_ claim: LaunchClaim, at: Timestamp) {
        let name = claim.name
        let launch = Launch(
            name: name, tokenSha256: claim.tokenSha256, at: at, isTrial: isOnTrial(name), verdict: nil)
        select(name)
        if pending == name { pending = nil }
        self.launch = launch
    }

    /// Counts a trial that nobody is running any more as failed.
    mutating func settleInterrupted(at: Timestamp) {
        guard let launch, launch.isOpenTrial else { return }
        settle(faulty: StartFailure(.interrupted, detail: "", at: at))
    }

    /// Ends a trial without a verdict, because its own page asked for another client.
    mutating func abandonTrial() {
        if launch?.verdict == nil { launch?.isTrial = false }
    }

    /// The launched client is good.
    mutating func settleGood(at: Timestamp) {
        guard let name = launch?.name else { return }
        launch?.verdict = .good
        // What was blocked while it started must not be fallen back to.
        if name.version.flatMap(block) == nil { lastKnownGood = name }
        guard let version = name.version else { return }
        records.removeAll { $0.version == version }
        insert(StartRecord(version: version, goodSince: at, failures: []))
    }

    /// The launched client is faulty: retried once, then blocked.
    mutating func settle(faulty failure: StartFailure) {
        guard let name = launch?.name else { return }
        launch?.verdict = .faulty
        guard let version = name.version else { return }
        var record = record(of: version) ?? StartRecord(version: version, goodSince: nil, failures: [])
        record.goodSince = nil
        record.failures.append(failure)
        records.removeAll { $0.version == version }
        insert(record)
        if pending == name { pending = nil }
        if lastKnownGood == name { lastKnownGood = newestGood() }
        let count = record.failures.count
        if count >= Self.maximumFailures, !isLeftByHand(name) {
            let reason = "it failed to start \(count) times; \(failure)"
            block(
                Block(version: version, cause: .failedStarts, reason: reason, count: count, since: failure.at))
        }
    }

    private mutating func insert(_ record: StartRecord) {
        records.append(record)
        records.sortByVersion(\.version)
    }

    /// Notes which seed the shell brings. With another one than before it is another shell: what was learnt about starts
    /// under the old one is forgotten, and so are the Meteor bundles that were made for it (METEOR section 4.2). Blocks by hand
    /// stay, and so do archives, which depend on no seed.
    mutating func adopt(seed: SHA256Digest?, _ facts: MeteorFacts?) {
        guard let seed else { return }
        seedFacts = facts ?? (seed == self.seed ? seedFacts : nil)
        if seed == self.seed { return }
        let isFirst = self.seed == nil
        self.seed = seed
        for entry in entries where entry.identity.source == .meteor && entry.identity.seed != seed {
            // One that owns all its files may have come before the shell ran first.
            if !isFirst || entry.identity.seed != nil { forget(entry.version) }
        }
        if isFirst { return }
        offered = offered.flatMap { $0 == .embedded ? nil : $0 }
        records = []
        launch = nil
        lastKnownGood = .embedded
        blocks.removeAll { $0.cause == .failedStarts }
    }

    /// Whether a client fits the seed of the present shell: it inherits from none, or from this very one. Before its first
    /// launch nobody knows what the shell brings.
    func fitsSeed(_ identity: BundleIdentity) -> Bool {
        identity.seed == nil || seed == nil || identity.seed == seed
    }

    /// Whether somebody went back from `name` by hand.
    func isLeftByHand(_ name: ClientName) -> Bool { name.version.flatMap(block)?.cause == .byHand }

    /// Goes back to `target` by hand: every version of `newer` is blocked, so that no update undoes it, and how the last
    /// launch ended decides nothing any more.
    mutating func rollBack(to target: ClientName, from newer: [ClientVersion], at: Timestamp) {
        for version in newer {
            block(
                Block(
                    version: version, cause: .byHand, reason: "rolled back by hand to \(target)",
                    count: record(of: version)?.failures.count ?? 0, since: at))
        }
        if launch?.name != target { abandonTrial() }
        if launch?.verdict == .faulty { launch = nil }
        schedule(target)
    }
}
