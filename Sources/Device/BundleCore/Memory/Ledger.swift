import BundleFormats
package import BundleSigning
package import BundleValues

/// The state of all versions of a store. It is one file, which is replaced as a whole.
package struct Ledger: Sendable, Equatable {
    /// An installed client.
    package struct Entry: Sendable, Equatable {
        package let identity: BundleIdentity
        /// The SHA-256 of the canonical tar; for a Meteor bundle, of the file list in its receipt.
        package let contentSha256: SHA256Digest
        /// The sum of the files' sizes in bytes.
        package let installedSize: Int
        /// The number of files.
        package let fileCount: Int
        package let installedAt: Timestamp
        /// The way in which the files were downloaded; nil for a Meteor bundle, or if it is unknown.
        package let route: DownloadRoute?
        /// The beginning of the release notes; nil if there are none, or if they could not be downloaded.
        package let notes: String?

        package var version: ClientVersion { identity.version }
        /// The shells that can run the client; nil if its source does not limit them.
        package var shells: ShellRange? { identity.shells }

        package init(
            identity: BundleIdentity, contentSha256: SHA256Digest, installedSize: Int, fileCount: Int,
            installedAt: Timestamp, route: DownloadRoute? = nil, notes: String? = nil
        ) {
            self.route = route
            self.notes = notes
            self.identity = identity
            self.contentSha256 = contentSha256
            self.installedSize = installedSize
            self.fileCount = fileCount
            self.installedAt = installedAt
        }
    }

    /// A version that must not run on this device.
    package struct Block: Sendable, Equatable {
        package enum Cause: String, Sendable, CaseIterable {
            /// The version failed to start too often.
            case failedStarts
            /// An operator rolled back from the version.
            case byHand
            /// Files of the version were damaged, and no good copy was found.
            case damagedFiles
        }

        package let version: ClientVersion
        package let cause: Cause
        /// The reason, for people.
        package let reason: String
        /// The number of failed starts.
        package let count: Int
        package let since: Timestamp

        /// Advice for the publisher and the operator, as a sentence.
        package var advice: String { "\(remedy), or let this one run again with `clientctl unblock`." }

        /// Returns the advice with the command for the device with `store`.
        package func advice(store: String) -> String {
            "\(remedy), or run `clientctl unblock --version \(version) --store \(store)`."
        }

        private var remedy: String {
            version.source == .meteor ? "Deploy another version" : "Publish another release"
        }
    }

    /// The application of the store; nil until an installation names one.
    package internal(set) var appId: String?
    /// The installed clients: archives, lowest version first, then Meteor bundles in the order of their installation.
    package internal(set) var entries: [Entry] = []
    /// The client of the last launch; before the first launch, the client that is launched first.
    package internal(set) var current = ClientName.embedded
    /// The client that ran before the current one and did not fail; nil before the first change.
    package internal(set) var previous: ClientName?
    /// The client that is launched next, if it is not the current one.
    package internal(set) var pending: ClientName?
    /// The client to fall back to: the one whose start was confirmed last.
    package internal(set) var lastKnownGood = ClientName.embedded
    /// The blocked versions: archives, lowest first, then Meteor bundles.
    package internal(set) var blocks: [Block] = []
    /// The records of starts: archives, lowest version first, then Meteor bundles.
    package internal(set) var records: [StartRecord] = []
    /// The last launch; nil before the first.
    package internal(set) var launch: Launch?
    /// The version of the shell that launched last.
    package internal(set) var shell: SemanticVersion?
    /// The seed of the last shell that had one.
    package internal(set) var seed: SHA256Digest?
    /// The facts of that seed, if it is a Meteor bundle.
    package internal(set) var seedFacts: MeteorFacts?
    /// The last accepted offer of the Meteor server: a bundle, or the seed if it has that version.
    package internal(set) var offered: ClientName?
    /// The sources whose clients may run, in order of preference.
    package internal(set) var sources = SourceOrder.standard
    /// The state of the archive feed.
    package internal(set) var feed = FeedMemory()
    /// The reports of this device that wait to be sent; nil if the device does not report.
    package internal(set) var reports: ReportQueue?
    /// The offered versions that this device could not install, at most one for each source.
    package internal(set) var wanted: [Wanted] = []
    /// The offer that waits for its download; nil if none does.
    package internal(set) var waiting: WaitingOffer?
    /// The bytes on metered links; nil if none were counted.
    package internal(set) var metered: MeteredUse?
    /// The schema of the file, if a newer clientctl wrote it. It is not written: this program writes its own schema.
    package internal(set) var newerSchema: Int?

    /// Creates the ledger of an empty store.
    package init() {}

    package func entry(_ version: ClientVersion) -> Entry? { entries.first { $0.version == version } }

    package func block(on version: ClientVersion) -> Block? { blocks.first { $0.version == version } }

    /// Returns the reason why `version` must be closed at once: it is blocked on this device, or its channel recalled it.
    /// Returns nil if it may run. A version that a rollout excludes stays until the next launch.
    package func recall(of version: ClientVersion) -> String? {
        if let block = block(on: version) { return "it is blocked since \(block.since): \(block.reason)" }
        guard let withdrawal = version.semantic.flatMap(feed.withdrawal), withdrawal != .leftOut else { return nil }
        return "it is \(withdrawal)"
    }

    /// Returns whether `version` is shown as soon as it is ready, at any time of the day.
    package func isUrgent(_ version: ClientVersion) -> Bool {
        guard case .archive(let version) = version else { return false }
        return feed.isUrgent(version)
    }

    package func record(of version: ClientVersion) -> StartRecord? { records.first { $0.version == version } }

    /// Whether the shell has a seed. True before its first launch, because it may have one.
    package var mayHaveSeed: Bool { seed != nil || shell == nil }

    /// Returns `name`, or nil if it is the seed and no shell has had one.
    package func known(_ name: ClientName?) -> ClientName? { name == .embedded && seed == nil ? nil : name }

    /// The installed clients that have a role.
    var mentioned: [ClientVersion] {
        [current, previous, pending, lastKnownGood, launch?.name].compactMap { $0?.version }
    }

    /// Returns the roles of the client `name`, for people; empty if it has none.
    package func roles(of name: ClientName) -> [String] {
        let roles = [
            ("current", current), ("next", pending), ("previous", previous), ("last known good", lastKnownGood),
        ]
        return roles.filter { $0.1 == name }.map(\.0)
    }

    // MARK: Installing and removing

    /// Adds an installed client and replaces its earlier entry.
    mutating func record(_ entry: Entry) {
        entries.removeAll { $0.version == entry.version }
        entries.append(entry)
        entries.sortByVersion(\.version)
        if entry.identity.source == .meteor { offered = .installed(entry.version) }
    }

    /// Adds an installed client that has no entry, without a change of `offered`. A Meteor bundle becomes the last
    /// one if its installation was interrupted (`isNewest`). Otherwise it becomes the first: its removal may have
    /// been interrupted.
    mutating func adopt(_ entry: Entry, isNewest: Bool) {
        entries.removeAll { $0.version == entry.version }
        entries.insert(entry, at: isNewest ? entries.endIndex : 0)
        entries.sortByVersion(\.version)
    }

    /// The facts of the current Meteor bundle (METEOR section 4.1); those of the seed if the current client is not a
    /// Meteor bundle.
    package var meteorFacts: MeteorFacts? { current.version.flatMap(entry)?.identity.meteor ?? seedFacts }

    /// Makes `name` the next client. Before the first launch no client runs, so `name` becomes the current one.
    mutating func schedule(_ name: ClientName) {
        if launch == nil { select(name) }
        pending = name == current ? nil : name
    }

    /// Makes `name` the current client. The one before becomes the previous one, unless it failed.
    mutating func select(_ name: ClientName) {
        if name == current { return }
        if !hasFailed(current) { previous = current }
        if previous == name { previous = nil }
        current = name
    }

    private func hasFailed(_ name: ClientName) -> Bool {
        guard let version = name.version else { return false }
        return block(on: version) != nil || record(of: version)?.failures.isEmpty == false
    }

    /// Removes an installed client. The seed replaces a current one.
    mutating func forget(_ version: ClientVersion) {
        let name = ClientName.installed(version)
        entries.removeAll { $0.version == version }
        records.removeAll { $0.version == version }
        if current == name { current = .embedded }
        if previous == name || previous == current { previous = nil }
        if pending == name || pending == current { pending = nil }
        if offered == name { offered = nil }
        if lastKnownGood == name { lastKnownGood = newestGood() }
        if launch?.name == name { launch = nil }
    }

    /// Returns the installed client whose start was confirmed last, or the seed.
    private func newestGood() -> ClientName {
        let good = records.filter {
            $0.failures.isEmpty && entry($0.version) != nil && block(on: $0.version) == nil
        }
        // If two were confirmed in the same second, the last one in the list is chosen.
        let newest = good.reversed().max {
            ($0.goodSince?.secondsSinceEpoch ?? -1) < ($1.goodSince?.secondsSinceEpoch ?? -1)
        }
        return newest.flatMap { $0.goodSince == nil ? nil : .installed($0.version) } ?? .embedded
    }

    /// Blocks a version on this device.
    mutating func block(_ block: Block) {
        blocks.removeAll { $0.version == block.version }
        blocks.append(block)
        blocks.sortByVersion(\.version)
        if pending == .installed(block.version) { pending = nil }
        if lastKnownGood == .installed(block.version) { lastKnownGood = newestGood() }
    }

    /// Removes the effects of damage from `version`, whose files are all as installed. Failed preparations are
    /// forgotten. If the version `hadDamage`, its block for failed starts is removed, and only the last failure
    /// stays.
    mutating func repair(_ version: ClientVersion, hadDamage: Bool) {
        let cause = block(on: version)?.cause
        let isFreed = cause == .damagedFiles || cause == .failedStarts && hadDamage
        if isFreed { blocks.removeAll { $0.version == version } }
        guard isFreed || cause == nil && hadDamage, let index = records.firstIndex(where: { $0.version == version })
        else { return }
        records[index].failures.removeAll { $0.cause == .notPrepared }
        if cause == .failedStarts { records[index].failures = records[index].failures.suffix(1) }
        if records[index].failures.isEmpty, records[index].goodSince == nil { records.remove(at: index) }
        if let launch, launch.name == .installed(version), launch.verdict == .faulty, record(of: version) == nil {
            self.launch = nil
        }
    }

    /// Unblocks `version` for one more start. Only its last failure stays, so the next one blocks it again.
    mutating func retry(_ version: ClientVersion) {
        blocks.removeAll { $0.version == version }
        guard let index = records.firstIndex(where: { $0.version == version }) else { return }
        records[index].failures = records[index].failures.suffix(1)
    }

    /// Unblocks `version` and forgets its failures. Returns false if it was not blocked.
    mutating func unblock(_ version: ClientVersion) -> Bool {
        let known = block(on: version)
        blocks.removeAll { $0.version == version }
        if let known, known.cause != .damagedFiles {
            // A confirmed version that was blocked by hand stays confirmed.
            records.removeAll { $0.version == version && $0.goodSince == nil }
            if let launch, launch.name == .installed(version), launch.verdict == .faulty { self.launch = nil }
        }
        return known != nil
    }
}

extension Ledger {
    /// Returns the ledger with the starts of `other`, which another user recorded who may not write to the store.
    ///
    /// The clients, the state of the feed and the blocks by hand stay. Starts of clients that are not installed are
    /// ignored.
    func joining(startsOf other: Ledger?) -> Ledger {
        guard let other else { return self }
        let isKnown = { (name: ClientName) in name.version.map { self.entry($0) != nil } ?? true }
        var next = self
        next.records = other.records.filter { entry($0.version) != nil }
        next.blocks =
            blocks.filter { $0.cause != .failedStarts }
            + other.blocks.filter { new in
                new.cause == .failedStarts && entry(new.version) != nil
                    && !blocks.contains { $0.version == new.version && $0.cause != .failedStarts }
            }
        next.blocks.sortByVersion(\.version)
        next.launch = other.launch.flatMap { isKnown($0.name) ? $0 : nil }
        next.current = isKnown(other.current) ? other.current : .embedded
        next.previous = other.previous.flatMap { isKnown($0) ? $0 : nil }
        next.lastKnownGood = isKnown(other.lastKnownGood) ? other.lastKnownGood : .embedded
        if next.pending == next.current { next.pending = nil }
        (next.shell, next.seed) = (other.shell, other.seed)
        return next
    }
}

/// The states of a version: staged, pending, trial, good; or trial, failed once, retry, trial, failed twice, blocked.
extension Ledger {
    /// The number of failed starts after which a version is blocked.
    private static let maximumFailures = 2

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

    /// The newest failed start of all versions that did not confirm a start since; nil if there is none.
    package var lastFailedStart: (version: ClientVersion, failure: StartFailure)? {
        records.compactMap { record in record.failures.last.map { (record.version, $0) } }.max { $0.1.at < $1.1.at }
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
