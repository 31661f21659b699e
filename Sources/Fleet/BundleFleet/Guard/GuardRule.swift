import BundlePublish
import Glibc

/// What the devices that started a release have said of it, each once.
package struct FirstVerdicts: Sendable, Equatable {
    /// Starts that were confirmed.
    package let good: Int
    /// Starts that failed, and those without a verdict in good time.
    package let failed: Int

    /// Both counts, 0 or more.
    package init(good: Int, failed: Int) {
        self.good = max(0, good)
        self.failed = max(0, failed)
    }

    /// Both together.
    package var count: Int { good + failed }
}

/// Which releases may go on, by the first verdicts of devices. A pure rule.
package enum GuardRule: Sendable, Equatable {
    /// At most so many of 1,000 starts may fail, 1...450.
    case rate(permille: Int)
    /// At most so many starts may fail, and no more than that share of all, in thousandths. No statistics.
    case simple(starts: Int, permille: Int)

    /// What the rule finds.
    package enum Finding: Sendable, Equatable {
        /// More starts fail than may.
        case tooMany
        /// Few enough fail: the next step is safe.
        case proven
        /// Neither is known; `missing` further good starts would prove it.
        case undecided(missing: Int)
    }

    /// False alarms are at most 1 in this many, however often one looks (Ville's inequality).
    private static let stoppingEvidence = 100.0
    /// The chance to go on with a release that fails twice as often as it may, at one look.
    static let risk = 0.05
    /// How much worse a bad release is thought to be.
    private static let excesses = [1.5, 2, 4, 8, 16]

    /// What `verdicts` show.
    package func finding(_ verdicts: FirstVerdicts) -> Finding {
        switch self {
        case .simple(let starts, let permille):
            let allowed = max(Double(starts), Double(verdicts.count) * Double(permille) / 1000)
            if Double(verdicts.failed) > allowed { return .tooMany }
            return verdicts.count > 0 ? .proven : .undecided(missing: 1)
        case .rate(let permille):
            let rate = Double(permille) / 1000
            if Self.logEvidence(verdicts, against: rate) >= log(Self.stoppingEvidence) { return .tooMany }
            let missing = Self.missing(verdicts, below: 2 * rate)
            return missing == 0 ? .proven : .undecided(missing: missing)
        }
    }

    /// How much likelier the verdicts are under a higher rate than under `rate`: the mean over some higher rates, its logarithm.
    static func logEvidence(_ verdicts: FirstVerdicts, against rate: Double) -> Double {
        let terms = excesses.map { $0 * rate }.filter { $0 < 0.95 }.map { worse in
            Double(verdicts.failed) * log(worse / rate) + Double(verdicts.good) * (log1p(-worse) - log1p(-rate))
        }
        let highest = terms.max() ?? 0
        return highest + log(terms.reduce(0) { $0 + exp($1 - highest) } / Double(max(1, terms.count)))
    }

    /// How many more good starts it takes until "it fails at `rate` or more" can be rejected.
    static func missing(_ verdicts: FirstVerdicts, below rate: Double) -> Int {
        func isRejected(_ more: Int) -> Bool {
            tail(atMost: verdicts.failed, of: verdicts.count + more, rate: rate) <= risk
        }
        if isRejected(0) { return 0 }
        var upper = 1
        while !isRejected(upper) { upper *= 2 }
        var lower = upper / 2
        while upper - lower > 1 {
            let middle = (lower + upper) / 2
            if isRejected(middle) { upper = middle } else { lower = middle }
        }
        return upper
    }

    /// The probability of at most `failed` failures in `count` starts that fail at `rate`. Summed from the largest term, which is the
    /// last one as long as it decides anything: above the mean the answer is 1.
    static func tail(atMost failed: Int, of count: Int, rate: Double) -> Double {
        guard Double(failed) < Double(count) * rate else { return 1 }
        var sign: Int32 = 0
        func logFactorial(_ number: Int) -> Double { lgamma_r(Double(number) + 1, &sign) }
        let last =
            logFactorial(count) - logFactorial(failed) - logFactorial(count - failed) + Double(failed) * log(rate)
            + Double(count - failed) * log1p(-rate)
        var term = 1.0
        var sum = 1.0
        var index = failed
        while index > 0, term > sum * 1e-16 {
            term *= Double(index) / Double(count - index + 1) * (1 - rate) / rate
            sum += term
            index -= 1
        }
        return min(1, exp(last + log(sum)))
    }
}

/// What is done about a rollout. A pure rule.
package enum GuardDecision: Sendable, Equatable {
    /// What is known of the release.
    package struct Situation: Sendable {
        /// The devices that may have it, in thousandths.
        package var rollout: Int
        /// Whether it is paused or recalled.
        package var isHeld: Bool
        /// Whether it is recalled.
        package var isRecalled = false
        /// How long ago its channel was changed last.
        package var sinceChange: Duration
        /// What devices said; nil where nobody counts.
        package var verdicts: FirstVerdicts?
        /// How many devices there are; nil where nobody says.
        package var devices: Int?
        /// How many of them the release names, by groups or one by one; whatever the draw says, they may have it.
        package var named = 0
        /// Whether it names groups, whose devices nobody has counted here.
        package var namesGroups = false
        /// Whether it is for the devices that it names, and for no others.
        package var isForNamedAlone = false

        /// States what is known.
        package init(
            rollout: Int, isHeld: Bool, sinceChange: Duration, verdicts: FirstVerdicts?, devices: Int? = nil
        ) {
            self.rollout = rollout
            self.isHeld = isHeld
            self.sinceChange = sinceChange
            self.verdicts = verdicts
            self.devices = devices
        }

        /// The most devices that the rollout can have reached: what is drawn differs from its share by four standard deviations in
        /// one of 30,000 rollouts, and what is named comes on top. Nil where nobody says how many there are.
        package var mostDevices: Int? {
            guard let devices else { return nil }
            let named = min(devices, max(0, named))
            let share = Double(min(1000, max(0, rollout))) / 1000
            let mean = Double(devices - named) * share
            return min(devices, named + Int((mean + 4 * (mean * (1 - share)).squareRoot()).rounded(.up)))
        }
    }

    /// What is wanted.
    package struct Plan: Sendable {
        /// The shares, in thousandths, ascending.
        package var steps: [Int]
        /// How long each step lasts at least.
        package var bake: Duration
        /// Which releases go on.
        package var rule: GuardRule

        /// States a plan.
        package init(steps: [Int], bake: Duration, rule: GuardRule) {
            self.steps = steps
            self.bake = bake
            self.rule = rule
        }
    }

    /// Too many starts fail: the rollout is stopped.
    case stop
    /// Too many starts fail, and every device may have it: a person decides about a recall.
    case stopByHand
    /// Somebody stopped it already.
    case held
    /// The next step, in thousandths.
    case advance(to: Int)
    /// It is for groups alone: a person opens it to others.
    case forGroupsAlone
    /// The last step is reached, and few enough starts fail.
    case complete
    /// It goes on in so long.
    case bake(Duration)
    /// So many good starts are missing.
    case missing(Int)
    /// More devices have spoken than can have the release: somebody reports who is no device.
    case tooManyDevices(most: Int)
    /// Nobody counts, or nothing was counted.
    case noData

    /// What `plan` says in `situation`. It never goes on without data.
    package static func decide(_ situation: Situation, by plan: Plan) -> GuardDecision {
        if situation.isHeld { return .held }
        guard let verdicts = situation.verdicts else { return .noData }
        let finding = plan.rule.finding(verdicts)
        let isForAll = situation.rollout >= 1000
        if finding == .tooMany { return isForAll ? .stopByHand : .stop }
        guard verdicts.count > 0 else { return .noData }
        if situation.isForNamedAlone { return .forGroupsAlone }
        if let most = situation.mostDevices, verdicts.count > most { return .tooManyDevices(most: most) }
        if situation.sinceChange < plan.bake { return .bake(plan.bake - situation.sinceChange) }
        switch finding {
        case .tooMany: return .stop
        case .undecided(let missing): return .missing(missing)
        case .proven: return plan.steps.first { $0 > situation.rollout }.map { .advance(to: $0) } ?? .complete
        }
    }
}
