package import BundleValues
package import BundleSigning

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

        /// Its version.
        package var version: ClientVersion { identity.version }
        /// The shells that it is for; nil where its source does not say.
        package var shells: ShellRange? { identity.shells }

        /// States what to remember.
        package init(
            identity: BundleIdentity, contentSha256: SHA256Digest, installedSize: Int, fileCount: Int,
            installedAt: Timestamp
        ) {
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
            /// Somebody went back from it by hand.
            case byHand
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

    /// What is known about the starts of `version`.
    package func record(of version: ClientVersion) -> StartRecord? { records.first { $0.version == version } }

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
        let good = records.filter { entry($0.version) != nil && block(on: $0.version) == nil }
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

    /// Lets `version` run again, as if it had never failed; false where nothing blocked it.
    mutating func unblock(_ version: ClientVersion) -> Bool {
        let isBlocked = block(on: version) != nil
        blocks.removeAll { $0.version == version }
        if isBlocked {
            // One that was good and blocked by hand is good.
            records.removeAll { $0.version == version && $0.goodSince == nil }
            if let launch, launch.name == .installed(version), launch.verdict == .faulty { self.launch = nil }
        }
        return isBlocked
    }
}
