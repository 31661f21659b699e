package import BundleSigning
package import BundleValues

/// Everything that a store remembers about versions: one value, one file, replaced whole.
package struct Ledger: Sendable, Equatable {
    /// What is remembered about one installed client.
    package struct Entry: Sendable, Equatable {
        /// What it is and which shells it is for.
        package let identity: BundleIdentity
        /// SHA-256 of its canonical tar; for a Meteor bundle, of the list of files in its receipt.
        package let contentSha256: SHA256Digest
        /// Sum of its files' sizes in bytes.
        package let installedSize: Int
        /// Number of its files.
        package let fileCount: Int
        /// When it was installed.
        package let installedAt: Timestamp
        /// How its files came by; nil for a Meteor bundle, and where nobody knows any more.
        package let route: DownloadRoute?

        /// Its version.
        package var version: ClientVersion { identity.version }
        /// The shells that it is for; nil where its source does not say.
        package var shells: ShellRange? { identity.shells }

        /// States what to remember.
        package init(
            identity: BundleIdentity, contentSha256: SHA256Digest, installedSize: Int, fileCount: Int,
            installedAt: Timestamp, route: DownloadRoute? = nil
        ) {
            self.route = route
            self.identity = identity
            self.contentSha256 = contentSha256
            self.installedSize = installedSize
            self.fileCount = fileCount
            self.installedAt = installedAt
        }
    }

    /// A version that must not run on this device.
    package struct Block: Sendable, Equatable {
        /// What blocked it.
        package enum Cause: String, Sendable, CaseIterable {
            /// It failed to start too often.
            case failedStarts
            /// An operator went back from it.
            case byHand
            /// Its files are not those that were installed, and no good copy was found.
            case damagedFiles
        }

        /// The version.
        package let version: ClientVersion
        /// What blocked it.
        package let cause: Cause
        /// Why, for people.
        package let reason: String
        /// Failed starts that led to it.
        package let count: Int
        /// Since when.
        package let since: Timestamp

        /// States a block.
        package init(version: ClientVersion, cause: Cause, reason: String, count: Int, since: Timestamp) {
            self.version = version
            self.cause = cause
            self.reason = reason
            self.count = count
            self.since = since
        }
    }

    /// The application this store belongs to; nil until an installation named one.
    package internal(set) var appId: String?
    /// The installed clients: archives, lowest version first, then Meteor bundles, in the order of their installation.
    package internal(set) var entries: [Entry] = []
    /// The client that was launched last; before the first launch, the one that is launched first.
    package internal(set) var current = ClientName.embedded
    /// The client that ran before the current one and did not fail; nil before the first change.
    package internal(set) var previous: ClientName?
    /// The client that is launched next, where that is not the current one.
    package internal(set) var pending: ClientName?
    /// The client to fall back to: the one that confirmed a start last.
    package internal(set) var lastKnownGood = ClientName.embedded
    /// The blocked versions: archives, lowest first, then Meteor bundles.
    package internal(set) var blocks: [Block] = []
    /// What is known about starts: of archives, lowest version first, then of Meteor bundles.
    package internal(set) var records: [StartRecord] = []
    /// The last boot attempt; nil before the first.
    package internal(set) var launch: Launch?
    /// The version of the shell that launched last.
    package internal(set) var shell: SemanticVersion?
    /// Which seed the shell brought at the last launch that had one.
    package internal(set) var seed: SHA256Digest?
    /// What that seed says about itself, where it is a Meteor bundle.
    package internal(set) var seedFacts: MeteorFacts?
    /// What the Meteor server offered last, where it was taken: a bundle, or the seed that has the same version.
    package internal(set) var offered: ClientName?
    /// The sources whose clients may run, the first one first.
    package internal(set) var sources = SourceOrder.standard
    /// What is remembered about the feed of archives.
    package internal(set) var feed = FeedMemory()
    /// What is to be told of this device; nil where it does not report.
    package internal(set) var reports: ReportQueue?
    /// The versions that this device is offered and could not get, at most one for each source.
    package internal(set) var wanted: [Wanted] = []

    /// An empty store's ledger.
    package init() {}

    /// What is remembered about `version`.
    package func entry(_ version: ClientVersion) -> Entry? { entries.first { $0.version == version } }

    /// The block on `version`, if there is one.
    package func block(on version: ClientVersion) -> Block? { blocks.first { $0.version == version } }

    /// Why `version` must not be shown a moment longer: it is blocked on this device, or its channel has recalled it. Nil where
    /// it may run; one that a rollout leaves out goes with the next launch.
    package func recall(of version: ClientVersion) -> String? {
        if let block = block(on: version) { return "it is blocked since \(block.since): \(block.reason)" }
        guard let withdrawal = version.semantic.flatMap(feed.withdrawal), withdrawal != .leftOut else { return nil }
        return "it is \(withdrawal)"
    }

    /// Whether `version` is to be shown as soon as it is ready, without waiting for a time of the day.
    package func isUrgent(_ version: ClientVersion) -> Bool {
        guard case .archive(let version) = version else { return false }
        return feed.isUrgent(version)
    }

    /// What is known about the starts of `version`.
    package func record(of version: ClientVersion) -> StartRecord? { records.first { $0.version == version } }

    /// Whether the shell brings a seed, as far as is known: before its first launch it may.
    package var mayHaveSeed: Bool { seed != nil || shell == nil }

    /// Returns `name`; nil where it is the seed, and no shell has brought one so far.
    package func known(_ name: ClientName?) -> ClientName? { name == .embedded && seed == nil ? nil : name }

    /// Every installed client that one of the roles names.
    var mentioned: [ClientVersion] {
        [current, previous, pending, lastKnownGood, launch?.name].compactMap { $0?.version }
    }

    // MARK: Installing and removing

    /// Remembers an installed client; one entry a version.
    mutating func record(_ entry: Entry) {
        entries.removeAll { $0.version == entry.version }
        entries.append(entry)
        entries.sortByVersion(\.version)
        if entry.identity.source == .meteor { offered = .installed(entry.version) }
    }

    /// Knows an installed client again; what is offered stays what it is. A Meteor bundle comes last where its installation
    /// was stopped (`isNewest`), else first: it may be one whose removal was stopped.
    mutating func adopt(_ entry: Entry, isNewest: Bool) {
        entries.removeAll { $0.version == entry.version }
        entries.insert(entry, at: isNewest ? entries.endIndex : 0)
        entries.sortByVersion(\.version)
    }

    /// What the bundle that runs says about itself (METEOR section 4.1); where that is none of Meteor's, the seed.
    package var meteorFacts: MeteorFacts? { current.version.flatMap(entry)?.identity.meteor ?? seedFacts }

    /// Makes `name` what is launched next. Before the first launch nothing runs, so it is current at once.
    mutating func schedule(_ name: ClientName) {
        if launch == nil { select(name) }
        pending = name == current ? nil : name
    }

    /// Makes `name` the client that runs; the one before becomes the previous, unless it has failed.
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

    /// Forgets an installed client. One that was current is followed by the seed.
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

    /// The installed client that confirmed a start last; the seed where none did.
    func newestGood() -> ClientName {
        let good = records.filter {
            $0.failures.isEmpty && entry($0.version) != nil && block(on: $0.version) == nil
        }
        // Of two that were confirmed in one second, the last one in the list.
        let newest = good.reversed().max {
            ($0.goodSince?.secondsSinceEpoch ?? -1) < ($1.goodSince?.secondsSinceEpoch ?? -1)
        }
        return newest.flatMap { $0.goodSince == nil ? nil : .installed($0.version) } ?? .embedded
    }

    /// Keeps `version` from running on this device.
    mutating func block(_ block: Block) {
        blocks.removeAll { $0.version == block.version }
        blocks.append(block)
        blocks.sortByVersion(\.version)
        if pending == .installed(block.version) { pending = nil }
        if lastKnownGood == .installed(block.version) { lastKnownGood = newestGood() }
    }

    /// Takes in that every file of `version` is what was installed. What damage caused is forgotten: that it could not be prepared, and,
    /// where it `hadDamage` until now, a block for starts that failed, of which the last one stays as evidence.
    mutating func mend(_ version: ClientVersion, hadDamage: Bool) {
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

    /// Lets `version` run once more: of its failures the last one counts, so that the next one blocks it again.
    mutating func retry(_ version: ClientVersion) {
        blocks.removeAll { $0.version == version }
        guard let index = records.firstIndex(where: { $0.version == version }) else { return }
        records[index].failures = records[index].failures.suffix(1)
    }

    /// Lets `version` run again, as if it had never failed; false where nothing blocked it.
    mutating func unblock(_ version: ClientVersion) -> Bool {
        let known = block(on: version)
        blocks.removeAll { $0.version == version }
        if let known, known.cause != .damagedFiles {
            // One that was good and blocked by hand is good.
            records.removeAll { $0.version == version && $0.goodSince == nil }
            if let launch, launch.name == .installed(version), launch.verdict == .faulty { self.launch = nil }
        }
        return known != nil
    }
}

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
    mutating func begin(_ claim: LaunchClaim, at: Timestamp, awaitsPage: Bool = false) {
        let name = claim.name
        let launch = Launch(
            name: name, tokenSha256: claim.tokenSha256, at: at, isTrial: isOnTrial(name), verdict: nil,
            awaitsPage: awaitsPage)
        select(name)
        if pending == name { pending = nil }
        self.launch = launch
    }

    /// Counts a trial as failed that its shell did not survive. One whose page never reported is a trial again at its next launch.
    mutating func settleInterrupted(at: Timestamp) {
        guard let launch, launch.isOpenTrial else { return }
        if launch.awaitsPage { return abandonTrial() }
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
        guard let launch else { return }
        self.launch?.verdict = .faulty
        if let version = launch.name.version { fail(version, failure.of(launch)) }
    }

    /// A start of `version` has failed: it is retried once, then blocked.
    mutating func fail(_ version: ClientVersion, _ failure: StartFailure) {
        let name = ClientName.installed(version)
        var record = record(of: version) ?? StartRecord(version: version, goodSince: nil, failures: [])
        // A client that could not be prepared did not start: once its files are mended, it is as good as before.
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

    /// Whether an operator went back from `name`.
    func isLeftByHand(_ name: ClientName) -> Bool { name.version.flatMap(block)?.cause == .byHand }

    /// Goes back to `target` by hand: every version of `newer` is blocked, so that no update undoes it, and how the last launch ended
    /// decides nothing. A version that failed before keeps its evidence.
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
