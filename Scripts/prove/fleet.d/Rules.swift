@testable import ArchiveSource
@testable import BundleCore
@testable import BundleSigning
@testable import BundleValues

/// What devices do, by the code that devices run. A million devices are in a few hundred different situations: each one that occurs is
/// put to the rules once, signatures included, and its answer kept.
final class Rules {
    static let shell = "1.0.0"
    /// What a check comes to.
    struct Check {
        /// The device's memory from then on.
        let next: UInt16
        let outcome: PollRule.Outcome
        /// The release that it downloads.
        let release: SemanticVersion?
        /// Whether by a delta: where there is memory for it, and where there is little.
        let delta: (usual: Bool, small: Bool)
        /// Whether another client than the one that runs is to run next.
        let isPending: Bool
    }

    /// What a start comes to, with the one that follows a failure.
    struct Start {
        let next: UInt16
        /// The client that was on trial, and whether it failed.
        let trial: (version: SemanticVersion, isGood: Bool)?
        let runs: SemanticVersion?
    }

    private static let mostStates = 2048
    private static let mostIssues = 64
    private static let masks = 4
    /// What a delta needs, and what small devices give.
    private static let deltaMemory = (needed: 48 << 20, small: 32 << 20)

    private let feed: Feed
    private let time: Timestamp
    private let version: SemanticVersion
    private let claims: [SemanticVersion]
    private var states: [Ledger] = []
    private var checks: [Check?]
    private var starts: [Start?]
    /// How many situations were put to the rules.
    private(set) var asked = 0

    /// The rules for devices that all have the base, confirmed; times in memories are all `time`.
    init(_ feed: Feed, at time: Timestamp) throws {
        self.feed = feed
        self.time = time
        version = try SemanticVersion(parsing: Self.shell)
        claims = try Feed.staged.map { try SemanticVersion(parsing: $0) }
        checks = Array(repeating: nil, count: Self.mostStates * Self.mostIssues * Self.masks)
        starts = Array(repeating: nil, count: Self.mostStates * 2)
        let base = try SemanticVersion(parsing: Feed.base)
        let launch = try claim(.installed(.archive(base)))
        _ = try intern(
            try applying(
                [
                    .bound(appId: Feed.appId), .started(seed: try SHA256Digest.of([0x53]), facts: nil, at: time),
                    .installed(try entry(base)), .selected(shell: version),
                    .launched(launch, shell: version, at: time), .confirmed(launch, at: time),
                ], to: Ledger()))
    }

    func memory(_ state: UInt16) -> FeedMemory { states[Int(state)].feed }

    // MARK: Checks

    /// A check of a device in `state` that is served the document `issue`. `mask` has a bit for each staged release whose rollout leaves
    /// the device out; `clock` and `id` are those of the device.
    func check(_ state: UInt16, _ issue: Int, mask: Int, clock: @autoclosure () -> Timestamp, id: Int) throws -> Check {
        let place = (Int(state) * Self.mostIssues + issue) * Self.masks + mask
        if let known = checks[place] { return known }
        let check = try ask(state, issue, mask, clock(), Traits.id(id))
        checks[place] = check
        return check
    }

    /// The line of `Updater`, without its disk and its network.
    private func ask(_ state: UInt16, _ issue: Int, _ mask: Int, _ clock: Timestamp, _ id: String) throws -> Check {
        guard issue < Self.mostIssues else { throw Wrong("the channel has more than \(Self.mostIssues) documents") }
        asked += 1
        let before = inventory(states[Int(state)])
        let look = try FeedPoll(
            feed.anchor, OfferRequest(inventory: before, shell: version, appId: Feed.appId), clock: clock)
        let offer = try look.offer(
            of: feed.issues[issue].envelope, channel: Feed.channel, deviceId: .init(given: id))
        guard let news = offer.feed else { throw Wrong("a channel document is not remembered") }
        try requireMask(mask, news.after)
        var after = news.after
        // The draw is the only thing that tells devices apart, and the mask has it.
        after.deviceId = nil
        var ledger = try applying(
            [.recorded(FeedUpdate(before: news.before, after: after)), .selected(shell: version)], to: before.ledger)
        let verdict = offer.decide(inventory(ledger), shell: version, appId: Feed.appId).verdict
        let failure = verdict.failure(of: offer.clientVersion)
        var release: SemanticVersion?
        if case .install = verdict, let semantic = offer.clientVersion.semantic {
            release = semantic
            ledger = try applying([.installed(try entry(semantic)), .selected(shell: version)], to: ledger)
        }
        return Check(
            next: try intern(ledger), outcome: failure.map { PollRule.Outcome($0, asked: nil) } ?? .answered,
            release: release, delta: try release.map { try delta(to: $0, on: before) } ?? (false, false),
            isPending: ledger.pending != nil)
    }

    /// The fleet draws for itself, a million times; where that is not what the device finds, nothing here counts.
    private func requireMask(_ mask: Int, _ memory: FeedMemory) throws {
        for (bit, version) in claims.enumerated() {
            let isLeftOut = memory.followed?.leftOut.contains(version) == true
            if isLeftOut != (mask & 1 << bit != 0) {
                throw Wrong("the fleet draws \(version) otherwise than devices do")
            }
        }
    }

    private func delta(to release: SemanticVersion, on inventory: Inventory) throws -> (usual: Bool, small: Bool) {
        let list = try deltas(to: release)
        let bases = inventory.bundles.map(\.entry.contentSha256)
        func isDelta(_ memory: Int) -> Bool {
            guard case .delta = DeltaRule.choose(list, bases: bases, memory: memory, tried: { _ in nil }) else {
                return false
            }
            return true
        }
        return (isDelta(ArchiveLimits().deltaMemory), isDelta(Self.deltaMemory.small))
    }

    /// A list with a delta from each release before.
    func deltas(to release: SemanticVersion) throws -> DeltaList {
        let before = try ([Feed.base] + Feed.staged).map { try SemanticVersion(parsing: $0) }.filter { $0 < release }
        return DeltaList(
            version: release, contentSha256: try Self.content(release),
            deltas: try before.map {
                DeltaList.Delta(
                    baseVersion: $0, baseContentSha256: try Self.content($0), url: "from-\($0).delta",
                    size: Wire.deltaBytes, sha256: try SHA256Digest.of(Array("\($0) \(release)".utf8)),
                    memory: Self.deltaMemory.needed)
            })
    }

    // MARK: Starts

    /// The shell starts what the rules choose; `fails` says whether the first staged release fails on this device.
    func start(_ state: UInt16, fails: Bool) throws -> Start {
        let place = Int(state) * 2 + (fails ? 1 : 0)
        if let known = starts[place] { return known }
        asked += 1
        var ledger = states[Int(state)]
        var trial: (version: SemanticVersion, isGood: Bool)?
        var isDone = false
        while !isDone {
            let choice = SelectionRule.select(inventory(ledger), shell: version)
            let claim = try claim(choice?.name ?? .embedded)
            ledger = try applying([.launched(claim, shell: version, at: time)], to: ledger)
            isDone = true
            if ledger.launch?.isTrial == true, let tried = claim.name.version?.semantic {
                isDone = !(fails && tried == claims[0])
                trial = trial ?? (tried, isDone)
                ledger = try applying(
                    isDone
                        ? [.confirmed(claim, at: time)]
                        : [.failed(claim, StartFailure(.notConfirmed, detail: "", at: time))], to: ledger)
            }
        }
        let start = Start(next: try intern(ledger), trial: trial, runs: ledger.current.version?.semantic)
        starts[place] = start
        return start
    }

    // MARK: Memories

    private func claim(_ name: ClientName) throws -> LaunchClaim { try LaunchClaim(name, LaunchToken(text: "fleet")) }

    private static func content(_ version: SemanticVersion) throws -> SHA256Digest {
        try SHA256Digest.of(Array("the files of \(version)".utf8))
    }

    private func entry(_ version: SemanticVersion) throws -> Ledger.Entry {
        Ledger.Entry(
            identity: BundleIdentity(version: version, shells: try ShellRange(minimum: self.version)),
            contentSha256: try Self.content(version), installedSize: Wire.archiveBytes, fileCount: 1, installedAt: time)
    }

    private func inventory(_ ledger: Ledger) -> Inventory { trees(ledger.entries.map(\.version)).inventory(of: ledger) }

    private func trees(_ versions: [ClientVersion]) -> StoredTrees {
        StoredTrees(path: "store", names: Set(versions.map { StoreLayout.tree($0) }))
    }

    private func applying(_ changes: [LedgerChange], to ledger: Ledger) throws -> Ledger {
        let versions = try ([Feed.base] + Feed.staged).map { ClientVersion.archive(try SemanticVersion(parsing: $0)) }
        switch ledger.applying(changes, in: trees(versions)) {
        case .accepted(let next): return next
        case .refused(let refusal): throw Wrong("a ledger refuses \(changes): \(refusal)")
        }
    }

    private func intern(_ ledger: Ledger) throws -> UInt16 {
        if let known = states.firstIndex(of: ledger) { return UInt16(known) }
        guard states.count < Self.mostStates else { throw Wrong("more than \(Self.mostStates) situations") }
        states.append(ledger)
        return UInt16(states.count - 1)
    }
}
