import CLibrary

/// The first verdicts of the devices that started a release.
package struct FirstVerdicts: Sendable, Equatable {
    package let confirmed: Int
    /// The number of starts that failed or had no verdict in time.
    package let failed: Int

    package init(confirmed: Int, failed: Int) {
        self.confirmed = max(0, confirmed)
        self.failed = max(0, failed)
    }

    package var count: Int { confirmed + failed }
}

/// Decides from the first verdicts whether a rollout may advance.
package enum GuardRule: Sendable, Equatable {
    /// The highest rate of failed starts, in thousandths, 1...450.
    case rate(permille: Int)
    /// A fixed threshold: the highest number of failed starts, and their highest rate in thousandths. It only stops a
    /// rollout earlier; it proves nothing.
    case simple(starts: Int, permille: Int)

    /// The result of the rule.
    package enum GuardFinding: Sendable, Equatable {
        /// Too many starts fail.
        case tooMany
        /// Few enough starts fail to advance.
        case proven
        /// Not decided; `missing` further confirmed starts would allow the next step.
        case undecided(missing: Int)
    }

    /// At most 1 in this many alarms is false, however often the rule runs (Ville's inequality).
    private static let stoppingEvidence = 100.0
    /// The probability of advancing, in one run, a release that fails more often than allowed.
    static let risk = 0.05
    /// The assumed failure rates of bad releases, as multiples of the allowed rate.
    private static let excesses = [1.5, 2, 4, 8, 16]
    /// The default of the highest rate of failed starts, in thousandths.
    package static let standardRate = 20
    /// The least number of verdicts that stand for a group of devices, if so many devices have the release.
    private static let leastVerdicts = 3

    /// Returns the finding if about `devices` devices have the release; nil if their number is not known.
    package func finding(_ verdicts: FirstVerdicts, of devices: Int? = nil) -> GuardFinding {
        if isStopped(verdicts) { return .tooMany }
        let proof =
            switch self {
            case .simple: Self.most(of: devices) - verdicts.count
            case .rate(let permille):
                min(
                    Self.missing(verdicts, below: 2 * Double(permille) / 1000),
                    Self.missingOfFew(verdicts, permille: permille, of: devices) ?? .max)
            }
        let missing = max(proof, verdicts.failed + 1 - verdicts.confirmed)
        return missing <= 0 ? .proven : .undecided(missing: missing)
    }

    private func isStopped(_ verdicts: FirstVerdicts) -> Bool {
        exceedsFixedThreshold(verdicts) == true
            || Self.logEvidence(verdicts, against: Double(provableRate) / 1000) >= log(Self.stoppingEvidence)
    }

    /// Whether more starts failed than a fixed threshold allows; nil if the rule has none.
    func exceedsFixedThreshold(_ verdicts: FirstVerdicts) -> Bool? {
        guard case .simple(let starts, let permille) = self else { return nil }
        return Double(verdicts.failed) > max(Double(starts), Double(verdicts.count) * Double(permille) / 1000)
    }

    /// The rate in thousandths that statistics compare with.
    var provableRate: Int {
        switch self {
        case .rate(let permille): permille
        case .simple(_, let permille): min(450, max(Self.standardRate, permille))
        }
    }

    /// Returns how many verdicts are most of `devices`.
    package static func most(of devices: Int?) -> Int {
        guard let devices else { return leastVerdicts }
        return max(min(leastVerdicts, devices), devices / 2 + 1)
    }

    /// Whether `devices` are so few that verdicts of most of them decide instead of statistics: they are fewer than the
    /// starts without a failure that statistics need.
    package static func areFew(_ devices: Int, permille: Int) -> Bool {
        most(of: devices) < missing(FirstVerdicts(confirmed: 0, failed: 0), below: 2 * Double(permille) / 1000)
    }

    /// Returns how many more confirmed starts are needed until most of a few devices have a verdict and at most
    /// `permille` of these have failed; nil if the devices are not few.
    private static func missingOfFew(_ verdicts: FirstVerdicts, permille: Int, of devices: Int?) -> Int? {
        guard let devices, areFew(devices, permille: permille) else { return nil }
        let diluted = (verdicts.failed * 1000 + permille - 1) / permille
        return max(0, max(most(of: devices), diluted) - verdicts.count)
    }

    /// Returns the logarithm of the likelihood ratio of higher rates, averaged, against `rate`.
    static func logEvidence(_ verdicts: FirstVerdicts, against rate: Double) -> Double {
        let terms = excesses.map { $0 * rate }.filter { $0 < 0.95 }.map { worse -> Double in
            let failed = Double(verdicts.failed) * log(worse / rate)
            return failed + Double(verdicts.confirmed) * (log1p(-worse) - log1p(-rate))
        }
        let highest = terms.max() ?? 0
        return highest + log(terms.reduce(0) { $0 + exp($1 - highest) } / Double(max(1, terms.count)))
    }

    /// Returns how many more confirmed starts are needed to reject the hypothesis that the failure rate is `rate` or
    /// more.
    package static func missing(_ verdicts: FirstVerdicts, below rate: Double) -> Int {
        func isRejected(_ more: Int) -> Bool {
            tail(atMost: verdicts.failed, of: verdicts.count + more, rate: rate) <= risk
        }
        if isRejected(0) { return 0 }
        var upper = 1
        while !isRejected(upper) { upper *= 2 }
        return least(above: upper / 2, upTo: upper, where: isRejected)
    }

    /// Returns the least number for which `isTrue`, which is false for `lower` and true for `upper`, by bisection.
    static func least(above lower: Int, upTo upper: Int, where isTrue: (Int) -> Bool) -> Int {
        var (lower, upper) = (lower, upper)
        while upper - lower > 1 {
            let middle = (lower + upper) / 2
            if isTrue(middle) { upper = middle } else { lower = middle }
        }
        return upper
    }

    /// Returns the probability of at most `failed` failures in `count` starts at the failure rate `rate`. The sum
    /// starts at the largest term; above the mean the result is 1.
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

/// The next step of a guarded rollout.
package enum GuardDecision: Sendable, Equatable {
    /// The known state of the release.
    package struct Situation: Sendable {
        /// The rollout percentage, in thousandths of all devices.
        package var rollout: Int
        /// Whether the release is paused or recalled.
        package var isHeld: Bool
        package var isRecalled = false
        /// The time since the last change of the channel.
        package var sinceChange: Duration
        /// The verdicts of devices, or why there are none.
        package var counted: VerdictQuery.Counted
        /// The number of devices; nil if it is not known.
        package var devices: Int?
        /// The number of devices that get the release outside the percentage: by a named group, or by name.
        package var named = 0
        /// Whether the release names groups, whose size is not known here.
        package var namesGroups = false
        /// Whether only the named devices get the release.
        package var isForNamedAlone = false

        package init(
            rollout: Int, isHeld: Bool, sinceChange: Duration, counted: VerdictQuery.Counted, devices: Int? = nil
        ) {
            self.rollout = rollout
            self.isHeld = isHeld
            self.sinceChange = sinceChange
            self.counted = counted
            self.devices = devices
        }

        package var verdicts: FirstVerdicts? {
            if case .verdicts(let verdicts) = counted { verdicts } else { nil }
        }

        /// The number of devices that can be expected to have the release; nil if the number of devices is not known.
        package var expectedDevices: Int? {
            guard let devices else { return nil }
            let named = min(devices, max(0, named))
            let share = Double(min(1000, max(0, rollout))) / 1000
            return max(1, named + Int((Double(devices - named) * share).rounded()))
        }

        /// The highest number of devices that the rollout can have reached: the expected number plus four standard
        /// deviations (one rollout in 30,000 exceeds it), plus the named devices. nil if the number of devices is not
        /// known.
        package var mostDevices: Int? {
            guard let devices else { return nil }
            let named = min(devices, max(0, named))
            let share = Double(min(1000, max(0, rollout))) / 1000
            let mean = Double(devices - named) * share
            return min(devices, named + Int((mean + 4 * (mean * (1 - share)).squareRoot()).rounded(.up)))
        }
    }

    /// The plan of a rollout.
    package struct RolloutPlan: Sendable {
        /// The percentages, in thousandths, ascending.
        package var steps: [Int]
        /// The minimum duration of each step.
        package var bake: Duration
        package var rule: GuardRule

        package init(steps: [Int], bake: Duration, rule: GuardRule) {
            self.steps = steps
            self.bake = bake
            self.rule = rule
        }
    }

    /// Too many starts fail: stop the rollout.
    case stop
    /// Too many starts fail on a release for every device: a person decides about a recall.
    case stopByHand
    /// The release is already stopped.
    case held
    /// The next step, in thousandths.
    case advance(to: Int)
    /// The release is for groups only: a person opens it to other devices.
    case forGroupsAlone
    /// The last step is reached, and few enough starts fail.
    case complete
    /// The remaining duration of the current step.
    case bake(Duration)
    /// The number of confirmed starts that are missing.
    case missing(Int)
    /// More devices report the release than can have it: some reports are forged.
    case tooManyDevices(most: Int)
    /// Devices report other releases, and no start of this one.
    case notYet
    /// The verdicts are not known.
    case noData

    /// Decides the next step of `plan`. It never advances without data.
    package static func decide(_ situation: Situation, by plan: RolloutPlan) -> GuardDecision {
        if situation.isHeld { return .held }
        let verdicts: FirstVerdicts
        switch situation.counted {
        case .nothing, .restarted: return .noData
        case .otherReleases: return .notYet
        case .verdicts(let counted): verdicts = counted
        }
        let finding = plan.rule.finding(verdicts, of: situation.expectedDevices)
        let isForAll = situation.rollout >= 1000
        if finding == .tooMany { return isForAll ? .stopByHand : .stop }
        guard verdicts.count > 0 else { return .notYet }
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
