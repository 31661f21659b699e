import BundleFormats
import BundleSigning
package import BundleValues

/// The states of a version: staged, pending, trial, good; or trial, failed once, retry, trial, failed twice, blocked.
extension Ledger {
    /// The number of failed starts after which a version is blocked.
    static let maximumFailures = 2

    /// The state of a version.
    package enum Standing: Sendable, Equatable {
        /// The version has not been launched.
        case staged
        /// The version runs and awaits its confirmation.
        case trial
        /// The version confirmed a start.
        case good(since: Timestamp)
        /// The version failed once. It is retried after another client has been launched.
        case failed(StartFailure)
        case blocked(Block)
    }

    /// Returns the state of the installed client `version`.
    package func standing(of version: ClientVersion) -> Standing {
        if let block = block(on: version) { return .blocked(block) }
        let record = record(of: version)
        if let launch, launch.name == .installed(version), launch.isOpenTrial { return .trial }
        if let failure = record?.failures.last { return .failed(failure) }
        return record?.goodSince.map { .good(since: $0) } ?? .staged
    }

    /// Returns the failure of the first start of `name` if a second trial follows, otherwise nil.
    package func failureBeforeRetry(of name: ClientName) -> StartFailure? {
        guard let version = name.version, case .failed(let failure) = standing(of: version) else { return nil }
        return failure
    }

    /// Returns whether a launch of `name` is a trial. The seed and clients with a confirmed start are not on trial.
    package func isOnTrial(_ name: ClientName) -> Bool {
        guard let version = name.version else { return false }
        if case .good = standing(of: version) { return false }
        return true
    }

    /// Records a launch, before the first byte of the client is shown.
    mutating func begin(_ claim: LaunchClaim, at: Timestamp, awaitsPage: Bool = false) {
        let name = claim.name
        let launch = Launch(
            name: name, tokenSha256: claim.tokenSha256, at: at, isTrial: isOnTrial(name), verdict: nil,
            awaitsPage: awaitsPage)
        select(name)
        if pending == name { pending = nil }
        self.launch = launch
    }

    /// Fails a trial whose shell ended. If its page never reported, the next launch is another trial.
    mutating func settleInterrupted(at: Timestamp) {
        guard let launch, launch.isOpenTrial else { return }
        if launch.awaitsPage { return abandonTrial() }
        settle(faulty: StartFailure(.interrupted, detail: "", at: at))
    }

    /// Ends a trial without a verdict, because its own page asked for another client.
    mutating func abandonTrial() {
        if launch?.verdict == nil { launch?.isTrial = false }
    }

    /// Confirms the launched client.
    mutating func settleGood(at: Timestamp) {
        guard let name = launch?.name else { return }
        launch?.verdict = .good
        // A client that was blocked during its start must not become the fallback.
        if name.version.flatMap(block) == nil { lastKnownGood = name }
        guard let version = name.version else { return }
        records.removeAll { $0.version == version }
        insert(StartRecord(version: version, goodSince: at, failures: []))
    }

    /// Fails the launched client, which is retried once and then blocked.
    mutating func settle(faulty failure: StartFailure) {
        guard let launch else { return }
        self.launch?.verdict = .faulty
        if let version = launch.name.version { fail(version, by: failure.of(launch)) }
    }

    /// Counts a failed start of `version`, which is retried once and then blocked.
    mutating func fail(_ version: ClientVersion, by failure: StartFailure) {
        let name = ClientName.installed(version)
        var record = record(of: version) ?? StartRecord(version: version, goodSince: nil, failures: [])
        // A client that could not be prepared did not start. After a repair it is as good as before.
        if failure.cause != .notPrepared { record.goodSince = nil }
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

    /// Stores the seed of the shell. Another seed means another shell, so the starts under the old one are forgotten,
    /// as are the Meteor bundles for it (METEOR section 4.2). Blocks by hand and archives stay, since they do not
    /// depend on the seed.
    mutating func adopt(seed: SHA256Digest?, _ facts: MeteorFacts?) {
        guard let seed else { return }
        seedFacts = facts ?? (seed == self.seed ? seedFacts : nil)
        if seed == self.seed { return }
        let isFirst = self.seed == nil
        self.seed = seed
        for entry in entries where entry.identity.source == .meteor && entry.identity.seed != seed {
            // A bundle with all its files may have been installed before the first launch.
            if !isFirst || entry.identity.seed != nil { forget(entry.version) }
        }
        if isFirst { return }
        offered = offered.flatMap { $0 == .embedded ? nil : $0 }
        records = []
        launch = nil
        lastKnownGood = .embedded
        blocks.removeAll { $0.cause == .failedStarts }
    }

    /// Returns whether a client can run with the present seed: it does not need a seed, or needs this one. Before the
    /// first launch the seed is unknown.
    func fitsSeed(_ identity: BundleIdentity) -> Bool {
        identity.seed == nil || seed == nil || identity.seed == seed
    }

    /// Returns whether an operator rolled back from `name`.
    func isLeftByHand(_ name: ClientName) -> Bool { name.version.flatMap(block)?.cause == .byHand }

    /// Rolls back to `target` by hand. Every version of `newer` is blocked, so that no update undoes the rollback,
    /// and the verdict of the last launch is ignored. A version that failed before keeps its failure details.
    mutating func rollBack(to target: ClientName, from newer: [ClientVersion], at: Timestamp) {
        for version in newer {
            let (known, failures) = (block(on: version), record(of: version)?.failures ?? [])
            let evidence = known?.reason ?? failures.last?.description
            block(
                Block(
                    version: version, cause: .byHand,
                    reason: "rolled back by hand to \(target)" + (evidence.map { "; before, \($0)" } ?? ""),
                    count: known?.count ?? failures.count, since: known?.since ?? at))
        }
        if launch?.name != target { abandonTrial() }
        if launch?.verdict == .faulty { launch = nil }
        schedule(target)
    }
}
