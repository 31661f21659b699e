@testable import ArchiveSource
@testable import BundleFleet
@testable import BundleValues

/// A release and what is done about it.
struct Scenario {
    /// Of 1,000 devices, those that cannot start it.
    let failing: Int
    /// Whether the guard moves the rollout; else everybody may have the release at once.
    let isGuarded: Bool

    static let all =
        [0, 20, 100, 500].map { Scenario(failing: $0, isGuarded: true) }
        + [Scenario(failing: 500, isGuarded: false)]
}

/// Whoever is responsible for the channel: the guard every ten minutes, and a person. What they do is what `clientctl release` does.
struct Operators {
    /// What happened, for people.
    struct Event {
        let at: Int
        let what: String
    }

    static let releaseAt = 3600
    private static let guardEvery = 600
    private static let steps = [10, 50, 250, 1000]
    private static let plan = GuardDecision.Plan(steps: steps, bake: .seconds(7200), rule: .rate(permille: 20))
    /// A start without a verdict for so long has failed.
    private static let patience = 600
    /// After the guard has stopped a release, or a person has seen that it fails.
    private static let recallAfter = 1800
    private static let mendAfter = 7200
    /// A release that few devices cannot start goes to everybody; what mends it comes later.
    private static let mendLater = 14_400
    /// A release that a small fleet neither stops nor proves.
    private static let longestWait = 86_400
    /// Without a guard, it takes a person so long to see that half of the screens fall back.
    private static let noticeAfter = 3600

    let scenario: Scenario
    private(set) var events: [Event] = []
    /// When nothing more is going to be done.
    private(set) var end: Int?
    /// When the last document was signed.
    private(set) var lastChange = 0
    /// When each of `Feed.staged` was published.
    private(set) var published: [Int?] = [nil, nil]
    private var active = 0
    private var recall: Int?
    private var mend: Int?
    private var isDecided = false

    init(_ scenario: Scenario) { self.scenario = scenario }

    /// The release that everybody is to have in the end.
    var target: Int { scenario.failing == 0 ? 0 : 1 }

    mutating func act(at now: Int, _ time: Timestamp, _ feed: Feed, _ reports: [Reports]) throws {
        if now == Self.releaseAt { try publish(0, at: now, time, feed) }
        if now == mend { try publish(1, at: now, time, feed) }
        if now == recall {
            try feed.edit(.revoke(try version(0), reason: "it does not start"), at: time)
            note("\(Feed.staged[0]) is recalled by a person", now)
        }
        let isTick = now > Self.releaseAt && (now - Self.releaseAt) % Self.guardEvery == 0
        if scenario.isGuarded, isTick, !isDecided { try look(at: now, time, feed, reports[active]) }
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

    private mutating func look(at now: Int, _ time: Timestamp, _ feed: Feed, _ reports: Reports) throws {
        guard let document = feed.issues.last?.document else { throw Wrong("the feed has no document") }
        let facts = reports.facts(at: now)
        let verdicts =
            facts.isEmpty ? nil : VerdictQuery.verdicts(facts, before: reports.facts(at: now - Self.patience))
        let version = try version(active)
        let situation = try GuardDecision.Situation(version, in: document, at: time, verdicts: verdicts)
        let decision = GuardDecision.decide(situation, by: Self.plan)
        if let change = decision.change(version, revokes: false, situation) { try feed.edit(change, at: time) }
        let counts = "\(situation.verdicts?.good ?? 0) good starts, \(situation.verdicts?.failed ?? 0) failed"
        switch decision {
        case .advance(let step):
            note("the guard raises \(version) to \(RolloutPercentage(permille: step)) (\(counts))", now)
        case .stop:
            note("the guard pauses \(version) (\(counts))", now)
            decide(recall: now + Self.recallAfter, mend: now + Self.mendAfter)
        case .stopByHand:
            note("the guard calls for a person: \(version) fails and is everybody's (\(counts))", now)
            decide(recall: now + Self.recallAfter, mend: now + Self.mendAfter)
        case .complete:
            note("the guard finds \(version) complete (\(counts))", now)
            decide(recall: nil, mend: now + Self.mendLater)
        case .held, .forGroupsAlone, .bake, .missing, .tooManyDevices, .noData:
            if active == target || now - lastChange < Self.longestWait { return }
            note("a person sees that \(version) goes on no more (\(counts))", now)
            decide(recall: nil, mend: now + Self.mendAfter)
        }
    }

    /// The guard has nothing more to do; a person has, unless this is what everybody is to have.
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
