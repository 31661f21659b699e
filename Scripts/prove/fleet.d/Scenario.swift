@testable import BundleFormats
@testable import ArchiveSource
@testable import BundleFleet
@testable import BundlePublish
@testable import BundleValues

/// A release and the reaction to it.
struct Scenario {
    /// The devices of 1,000 that cannot start the release.
    let failing: Int
    /// Whether the guard controls the rollout; otherwise all devices may install the release at once.
    let isGuarded: Bool

    static let all =
        [0, 20, 100, 500].map { Scenario(failing: $0, isGuarded: true) }
        + [Scenario(failing: 500, isGuarded: false)]
}

/// The operators of the channel: the guard every ten minutes, and a person. Both act with the code of `clientctl release`.
struct Operators {
    /// An event for the tables.
    struct Event {
        let at: Int
        let what: String
    }

    static let releaseAt = 3600
    private static let guardEvery = 600
    private static let steps = [10, 50, 250, 1000]
    private static let plan = GuardDecision.RolloutPlan(steps: steps, bake: .seconds(7200), rule: .rate(permille: 20))
    /// The seconds after which a start without a verdict counts as failed.
    private static let verdictTimeout = 600
    /// The delays after the guard stopped a release, or a person saw that it fails.
    private static let recallAfter = 1800
    private static let mendAfter = 7200
    /// The delay of the fix for a release that few devices cannot start, which all devices receive.
    private static let mendLater = 14_400
    /// The longest wait for a decision in a small fleet.
    private static let longestWait = 86_400
    /// The delay until a person sees without a guard that half of the devices fall back.
    private static let noticeAfter = 3600

    let scenario: Scenario
    private(set) var events: [Event] = []
    /// The time of the last action, once it is known.
    private(set) var end: Int?
    /// The time of the last signed document.
    private(set) var lastChange = 0
    /// The time at which each of `Feed.staged` was published.
    private(set) var published: [Int?] = [nil, nil]
    private var active = 0
    private var recall: Int?
    private var mend: Int?
    private var isDecided = false

    init(_ scenario: Scenario) { self.scenario = scenario }

    /// The release that all devices should have at the end.
    var target: Int { scenario.failing == 0 ? 0 : 1 }

    mutating func act(at now: Int, _ time: Timestamp, _ feed: Feed, _ reports: [Reports]) throws {
        if now == Self.releaseAt { try publish(0, at: now, time, feed) }
        if now == mend { try publish(1, at: now, time, feed) }
        if now == recall {
            try feed.edit(.recall(try version(0), reason: "it does not start"), at: time)
            note("a person recalls \(Feed.staged[0])", now)
        }
        let isTick = now > Self.releaseAt && (now - Self.releaseAt) % Self.guardEvery == 0
        if scenario.isGuarded, isTick, !isDecided { try guardRollout(at: now, time, feed, reports[active]) }
    }

    private func version(_ release: Int) throws -> SemanticVersion {
        try SemanticVersion(parsing: Feed.staged[release])
    }

    private mutating func note(_ what: String, _ now: Int) {
        events.append(Event(at: now, what: what))
        lastChange = now
    }

    private mutating func publish(_ release: Int, at now: Int, _ time: Timestamp, _ feed: Feed) throws {
        let share = scenario.isGuarded ? Self.steps[0] : ChannelDocument.Release.allDevices
        try feed.publish(Feed.staged[release], rollout: share, at: time)
        (active, isDecided) = (release, false)
        published[release] = now
        note("\(Feed.staged[release]) is published, for \(RolloutPercentage(permille: share)) of the devices", now)
        if scenario.isGuarded { return }
        if release == target {
            end = now
        } else {
            recall = now + Self.noticeAfter
            mend = now + Self.noticeAfter + Self.mendAfter
        }
    }

    private mutating func guardRollout(at now: Int, _ time: Timestamp, _ feed: Feed, _ reports: Reports) throws {
        guard let document = feed.issues.last?.document else {
            throw SimulationError("the feed does not contain a document")
        }
        let facts = reports.facts(at: now)
        let counted: VerdictQuery.Counted =
            facts.isEmpty
            ? .otherReleases
            : VerdictQuery.verdicts(facts, before: reports.facts(at: now - Self.verdictTimeout))
                .map(VerdictQuery.Counted.verdicts) ?? .restarted
        let version = try version(active)
        let situation = try GuardDecision.Situation(version, in: document, at: time, counted: counted)
        let decision = GuardDecision.decide(situation, by: Self.plan)
        if let change = decision.change(version, recalls: false, in: situation) { try feed.edit(change, at: time) }
        let counts = "\(situation.verdicts?.confirmed ?? 0) confirmed starts, \(situation.verdicts?.failed ?? 0) failed"
        switch decision {
        case .advance(let step):
            note("the guard raises \(version) to \(RolloutPercentage(permille: step)) (\(counts))", now)
        case .stop:
            note("the guard pauses \(version) (\(counts))", now)
            decide(recall: now + Self.recallAfter, mend: now + Self.mendAfter)
        case .stopByHand:
            note("the guard asks a person to act: all devices may install \(version), which fails (\(counts))", now)
            decide(recall: now + Self.recallAfter, mend: now + Self.mendAfter)
        case .complete:
            note("the guard reports \(version) as complete (\(counts))", now)
            decide(recall: nil, mend: now + Self.mendLater)
        case .held, .forGroupsAlone, .bake, .missing, .tooManyDevices, .notYet, .noData:
            if active == target || now - lastChange < Self.longestWait { return }
            note("a person sees that the rollout of \(version) does not continue (\(counts))", now)
            decide(recall: nil, mend: now + Self.mendAfter)
        }
    }

    /// Ends the work of the guard. A person acts next, unless this is the target release.
    private mutating func decide(recall: Int?, mend: Int) {
        isDecided = true
        if active == target {
            end = lastChange
            return
        }
        self.recall = recall
        self.mend = mend
    }
}
