@testable import BundleFormats
@testable import ArchiveSource
@testable import BundleCore
@testable import BundleSigning
@testable import BundleValues

/// The results of checks and starts, computed by the code of devices. A million devices have a few hundred different
/// situations, so each situation is evaluated only once, including its signatures.
final class Rules {
    static let shell = "1.0.0"
    /// The result of a check.
    struct Check {
        /// The next state of the device.
        let next: UInt16
        let outcome: PollRule.PollOutcome
        /// Whether the next start selects another client.
        let isPending: Bool
    }

    /// The result of a start, including the start after a failure.
    struct Start {
        let next: UInt16
        /// The client that was on trial, and whether it started.
        let trial: (version: SemanticVersion, isGood: Bool)?
        let runs: SemanticVersion?
    }

    private static let mostStates = 2048
    private static let mostIssues = 64
    private static let masks = 4
    private static let installedSize = 30_000_000

    private let feed: Feed
    private let time: Timestamp
    private let version: SemanticVersion
    private let claims: [SemanticVersion]
    private var states: [Ledger] = []
    private var checks: [Check?]
    private var starts: [Start?]

    /// Creates the rules for devices with the confirmed base release. All stored times are `time`.
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

    /// Returns the result of a check in `state` with the document `issue`. `mask` has a bit for each staged release whose rollout
    /// excludes the device; `clock` and `id` are those of the device.
    func check(_ state: UInt16, _ issue: Int, mask: Int, clock: @autoclosure () -> Timestamp, id: Int) throws -> Check {
        let place = (Int(state) * Self.mostIssues + issue) * Self.masks + mask
        if let known = checks[place] { return known }
        let check = try evaluate(state, issue, mask, clock(), Traits.id(id))
        checks[place] = check
        return check
    }

    /// Evaluates a check with the steps of `Updater`, without disk and network.
    private func evaluate(_ state: UInt16, _ issue: Int, _ mask: Int, _ clock: Timestamp, _ id: String) throws -> Check
    {
        guard issue < Self.mostIssues else {
            throw SimulationError("the channel has more than \(Self.mostIssues) documents")
        }
        let before = inventory(states[Int(state)])
        let poll = try FeedPoll(
            feed.anchor, OfferRequest(inventory: before, shell: version, appId: Feed.appId), clock: clock)
        let offer = try poll.offer(
            of: feed.issues[issue].envelope, channel: Feed.channel, deviceId: .init(given: id))
        guard let update = offer.feed else { throw SimulationError("the check did not store the channel document") }
        try requireMask(mask, update.after)
        var after = update.after
        // Devices differ in their bucket only, which the mask contains.
        after.deviceId = nil
        var ledger = try applying(
            [.recorded(FeedUpdate(before: update.before, after: after)), .selected(shell: version)], to: before.ledger)
        let verdict = offer.decide(inventory(ledger), shell: version, appId: Feed.appId).verdict
        let failure = verdict.failure(of: offer.clientVersion)
        if case .install = verdict, let semantic = offer.clientVersion.semantic {
            ledger = try applying([.installed(try entry(semantic)), .selected(shell: version)], to: ledger)
        }
        return Check(
            next: try intern(ledger), outcome: failure.map { PollRule.PollOutcome($0, asked: nil) } ?? .answered,
            isPending: ledger.pending != nil)
    }

    /// Throws if the mask of the simulation differs from the rollout decision of the device.
    private func requireMask(_ mask: Int, _ memory: FeedMemory) throws {
        for (bit, version) in claims.enumerated() {
            let isLeftOut = memory.followed?.leftOut.contains(version) == true
            if isLeftOut != (mask & 1 << bit != 0) {
                throw SimulationError("the bucket for \(version) differs from that of the device")
            }
        }
    }

    // MARK: Starts

    /// Returns the result of a start in `state`; `fails` says whether the first staged release fails on this device.
    func start(_ state: UInt16, fails: Bool) throws -> Start {
        let place = Int(state) * 2 + (fails ? 1 : 0)
        if let known = starts[place] { return known }
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
            contentSha256: try Self.content(version), installedSize: Self.installedSize, fileCount: 1, installedAt: time
        )
    }

    private func inventory(_ ledger: Ledger) -> Inventory { trees(ledger.entries.map(\.version)).inventory(of: ledger) }

    private func trees(_ versions: [ClientVersion]) -> StoredTrees {
        StoredTrees(path: "store", names: Set(versions.map { StoreLayout.tree($0) }))
    }

    private func applying(_ changes: [LedgerChange], to ledger: Ledger) throws -> Ledger {
        let versions = try ([Feed.base] + Feed.staged).map { ClientVersion.archive(try SemanticVersion(parsing: $0)) }
        switch ledger.applying(changes, in: trees(versions)) {
        case .accepted(let next): return next
        case .refused(let refusal): throw SimulationError("the ledger refuses \(changes): \(refusal)")
        }
    }

    private func intern(_ ledger: Ledger) throws -> UInt16 {
        if let known = states.firstIndex(of: ledger) { return UInt16(known) }
        guard states.count < Self.mostStates else { throw SimulationError("more than \(Self.mostStates) situations") }
        states.append(ledger)
        return UInt16(states.count - 1)
    }
}
