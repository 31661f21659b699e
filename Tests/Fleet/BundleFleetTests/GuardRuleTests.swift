import BundleTesting
import BundleValues
import Glibc
import Testing

@testable import BundlePublish
@testable import BundleFleet

@Suite("GuardRule") struct GuardRuleTests {
    private static let twoPercent = GuardRule.rate(permille: 20)

    private static func finding(_ confirmed: Int, _ failed: Int, _ rule: GuardRule = twoPercent)
        -> GuardRule.GuardFinding
    {
        rule.finding(FirstVerdicts(confirmed: confirmed, failed: failed))
    }

    @Test(arguments: [(10, 149), (20, 74), (25, 59), (50, 29)])
    func `needs ln 0.05 / ln(1 - 2 * rate) starts without a failure`(permille: Int, starts: Int) {
        let rule = GuardRule.rate(permille: permille)
        #expect(Self.finding(starts, 0, rule) == .proven)
        #expect(Self.finding(starts - 1, 0, rule) == .undecided(missing: 1))
        #expect(Self.finding(0, 0, rule) == .undecided(missing: starts))
    }

    @Test func `stops a release that fails on half of the devices after ten starts`() {
        #expect(Self.finding(5, 5) == .tooMany)
        #expect(Self.finding(0, 2) != .tooMany)
        #expect(Self.finding(0, 3) == .tooMany)
    }

    /// Compared with the direct sum.
    @Test func `computes the tail of the binomial distribution`() {
        func choose(_ count: Int, _ number: Int) -> Double {
            (0..<number).reduce(1.0) { $0 * Double(count - $1) / Double($1 + 1) }
        }
        for (failed, count, rate) in [(0, 10, 0.3), (2, 40, 0.1), (3, 200, 0.04), (7, 60, 0.2)] {
            let sum = (0...failed).reduce(0.0) {
                $0 + choose(count, $1) * pow(rate, Double($1)) * pow(1 - rate, Double(count - $1))
            }
            #expect(abs(GuardRule.tail(atMost: failed, of: count, rate: rate) / sum - 1) < 1e-9)
        }
    }

    @Test func `never improves with more failures or fewer confirmed starts`() {
        var numbers = SeededGenerator(seed: 17)
        func rank(_ finding: GuardRule.GuardFinding) -> Int {
            switch finding {
            case .tooMany: Int.max
            case .undecided(let missing): missing
            case .proven: 0
            }
        }
        for _ in 0..<2_000 {
            let size = Int.random(in: 1...7, using: &numbers)
            let good = Int.random(in: 0...Int(pow(10, Double(size))), using: &numbers)
            let failed = Int.random(in: 0...max(1, good / 20), using: &numbers)
            let rule = GuardRule.rate(permille: Int.random(in: 1...450, using: &numbers))
            let found = rank(Self.finding(good, failed, rule))
            #expect(rank(Self.finding(good, failed + 1, rule)) >= found)
            #expect(rank(Self.finding(good + 1, failed, rule)) <= found)
        }
    }

    @Test func `judges ten million devices like ten`() {
        #expect(Self.finding(10_000_000, 0) == .proven)
        #expect(Self.finding(9_800_000, 200_000) == .proven)
        #expect(Self.finding(9_700_000, 300_000) == .tooMany)
        #expect(Self.finding(0, 10_000_000) == .tooMany)
    }

    /// `SWAP_CLIENTS_GUARD_ROLLOUTS=10000` creates the table in the documentation.
    @Test(arguments: [0, 10, 20, 40, 80, 500])
    func `stops bad releases with at most one false stop in a hundred`(permille: Int) {
        let rollouts = getenv("SWAP_CLIENTS_GUARD_ROLLOUTS").flatMap { Int(String(cString: $0)) } ?? 200
        var numbers = SeededGenerator(seed: UInt64(permille) + 1)
        var stops: [Int] = []
        var isProvenFalsely = 0
        for _ in 0..<rollouts {
            var failed = 0
            var isProven = false
            starts: for start in 1...2_000 {
                if Int.random(in: 0..<1000, using: &numbers) < permille { failed += 1 }
                guard start % 10 == 0 else { continue }
                switch Self.finding(start - failed, failed) {
                case .tooMany:
                    stops.append(start)
                    break starts
                case .proven: isProven = true
                case .undecided: break
                }
            }
            if isProven && permille >= 40 { isProvenFalsely += 1 }
        }
        stops.sort()
        let share = Double(stops.count) / Double(rollouts)
        if rollouts > 1000 {
            print(
                "| \(permille) | \(share) | \(stops.isEmpty ? "-" : "\(stops[stops.count / 2])") | \(isProvenFalsely) |"
            )
        }
        if permille <= 20 { #expect(share <= (rollouts > 1000 ? 0.01 : 0.03)) }
        if permille >= 80 { #expect(share == 1) }
        if permille == 500 { #expect(stops.last ?? 0 <= 30) }
    }

    // MARK: Decisions

    private static let plan = GuardDecision.RolloutPlan(
        steps: [10, 50, 1000], bake: .seconds(3600), rule: .rate(permille: 20))

    private static func decide(
        _ rollout: Int, _ verdicts: FirstVerdicts?, isHeld: Bool = false, sinceChange: Duration = .seconds(7200)
    ) -> GuardDecision {
        GuardDecision.decide(
            GuardDecision.Situation(
                rollout: rollout, isHeld: isHeld, sinceChange: sinceChange,
                counted: verdicts.map(VerdictQuery.Counted.verdicts) ?? .nothing),
            by: plan)
    }

    @Test func `advances from step to step and ends at the last`() {
        let good = FirstVerdicts(confirmed: 500, failed: 1)
        #expect(Self.decide(10, good) == .advance(to: 50))
        #expect(Self.decide(30, good) == .advance(to: 50))
        #expect(Self.decide(50, good) == .advance(to: 1000))
        #expect(Self.decide(1000, good) == .complete)
    }

    @Test func `does not advance without data, too early, or after a manual stop`() {
        let good = FirstVerdicts(confirmed: 500, failed: 1)
        #expect(Self.decide(10, nil) == .noData)
        #expect(Self.decide(0, FirstVerdicts(confirmed: 0, failed: 0)) == .notYet)
        #expect(Self.decide(10, good, sinceChange: .seconds(600)) == .bake(.seconds(3000)))
        #expect(Self.decide(10, good, isHeld: true) == .held)
        #expect(Self.decide(10, FirstVerdicts(confirmed: 70, failed: 0)) == .missing(4))
    }

    @Test func `stops a release for groups only, and never opens it to other devices`() throws {
        func decide(_ verdicts: FirstVerdicts) -> GuardDecision {
            var situation = GuardDecision.Situation(
                rollout: 0, isHeld: false, sinceChange: .seconds(7200), counted: .verdicts(verdicts), devices: 2000)
            situation.isForNamedAlone = true
            return GuardDecision.decide(situation, by: Self.plan)
        }
        #expect(decide(FirstVerdicts(confirmed: 500, failed: 0)) == .forGroupsAlone)
        #expect(decide(FirstVerdicts(confirmed: 2, failed: 8)) == .stop)
        #expect(decide(FirstVerdicts(confirmed: 0, failed: 0)) == .notYet)
        let situation = GuardDecision.Situation(rollout: 0, isHeld: false, sinceChange: .zero, counted: .nothing)
        let version = try SemanticVersion(parsing: "1.1.0")
        #expect(GuardDecision.forGroupsAlone.change(version, recalls: true, in: situation) == nil)
    }

    @Test func `adds named devices to the expected number of devices`() {
        var situation = GuardDecision.Situation(
            rollout: 10, isHeld: false, sinceChange: .seconds(7200),
            counted: .verdicts(FirstVerdicts(confirmed: 100, failed: 0)), devices: 2000)
        #expect(situation.mostDevices == 38)
        #expect(GuardDecision.decide(situation, by: Self.plan) == .tooManyDevices(most: 38))
        situation.named = 100
        #expect(situation.mostDevices == 137)
        #expect(GuardDecision.decide(situation, by: Self.plan) == .advance(to: 50))
        situation.named = 9000
        #expect(situation.mostDevices == 2000)
    }

    @Test func `stops at once, even before the step ends`() {
        let bad = FirstVerdicts(confirmed: 2, failed: 8)
        #expect(Self.decide(10, bad, sinceChange: .zero) == .stop)
        #expect(Self.decide(1000, bad) == .stopByHand)
        #expect(Self.decide(10, bad, isHeld: true) == .held)
    }

    @Test func `stops above a fixed threshold`() {
        #expect(Self.finding(100, 3, .simple(starts: 3, permille: 0)) == .proven)
        #expect(Self.finding(100, 4, .simple(starts: 3, permille: 0)) == .tooMany)
        #expect(Self.finding(0, 0, .simple(starts: 3, permille: 0)) == .undecided(missing: 3))
        #expect(Self.finding(0, 3, .simple(starts: 3, permille: 0)) == .tooMany)
        #expect(Self.finding(2, 3, .simple(starts: 3, permille: 0)) == .tooMany)
        #expect(Self.finding(95, 5, .simple(starts: 0, permille: 50)) == .proven)
        #expect(Self.finding(94, 6, .simple(starts: 0, permille: 50)) == .tooMany)
    }

    private static let fleets: [Int?] = [nil, 1, 2, 3, 4, 5, 8, 20, 40, 60, 500]

    private static let rules: [GuardRule] = [
        .simple(starts: 0, permille: 0), .simple(starts: 1, permille: 0), .simple(starts: 3, permille: 0),
        .simple(starts: 20, permille: 0), .simple(starts: 0, permille: 100), .simple(starts: 0, permille: 1000),
        .rate(permille: 1), .rate(permille: 20), .rate(permille: 50), .rate(permille: 450),
    ]

    @Test(arguments: rules, fleets)
    func `advances a rollout only after most devices reported, and most of these confirmed`(
        rule: GuardRule, devices: Int?
    ) {
        for confirmed in 0...20 {
            for failed in 0...20 {
                let verdicts = FirstVerdicts(confirmed: confirmed, failed: failed)
                let finding = rule.finding(verdicts, of: devices)
                let fixed = rule.exceedsFixedThreshold(verdicts)
                let proof = GuardRule.rate(permille: rule.provableRate).finding(verdicts)
                #expect((finding == .tooMany) == (fixed == true || proof == .tooMany), "\(verdicts)")
                if finding == .proven, proof != .proven || fixed != nil {
                    #expect(confirmed > failed, "\(verdicts)")
                    #expect(verdicts.count >= min(3, devices ?? 3), "\(verdicts)")
                    #expect(verdicts.count * 2 > devices ?? 0, "\(verdicts)")
                }
                if finding == .proven { #expect(fixed != true && confirmed > failed, "\(verdicts)") }
                if case .undecided(let missing) = finding {
                    func later(_ more: Int) -> GuardRule.GuardFinding {
                        rule.finding(FirstVerdicts(confirmed: confirmed + more, failed: failed), of: devices)
                    }
                    #expect(later(missing) == .proven && later(missing - 1) != .proven, "\(verdicts) \(missing)")
                }
            }
        }
    }

    @Test func `advances at steps of few devices after most of them started the release without a failure`() {
        func finding(_ confirmed: Int, _ failed: Int, of devices: Int) -> GuardRule.GuardFinding {
            Self.twoPercent.finding(FirstVerdicts(confirmed: confirmed, failed: failed), of: devices)
        }
        #expect(finding(2, 0, of: 5) == .undecided(missing: 1))
        #expect(finding(3, 0, of: 5) == .proven)
        #expect(finding(4, 1, of: 5) == .undecided(missing: 45))
        #expect(finding(25, 0, of: 50) == .undecided(missing: 1))
        #expect(finding(26, 0, of: 50) == .proven)
        #expect(finding(73, 0, of: 147) == .undecided(missing: 1) && finding(73, 0, of: 5000) == .undecided(missing: 1))
    }

    @Test func `expects the share of the devices, and the named devices`() {
        var situation = GuardDecision.Situation(
            rollout: 100, isHeld: false, sinceChange: .zero, counted: .nothing, devices: 50)
        #expect(situation.expectedDevices == 5)
        situation.named = 10
        #expect(situation.expectedDevices == 14)
        situation.rollout = 1000
        #expect(situation.expectedDevices == 50)
        (situation.rollout, situation.named) = (1, 0)
        #expect(situation.expectedDevices == 1)
        situation.devices = nil
        #expect(situation.expectedDevices == nil)
    }

    // MARK: Responses of Prometheus

    private static func response(_ series: String...) -> [UInt8] {
        Array(#"{"status":"success","data":{"resultType":"vector","result":[\#(series.joined(separator: ","))]}}"#.utf8)
    }

    @Test func `neither stops nor advances a rollout after a counter reset`() {
        let before = ["started": 100, "confirmed": 90, "failed": 1]
        let after = VerdictQuery.verdicts(["started": 120, "confirmed": 95, "failed": 1], before: before)
        #expect(after?.confirmed == 95 && after?.failed == 5)
        #expect(VerdictQuery.verdicts(["started": 3, "confirmed": 0], before: before) == nil)
        #expect(VerdictQuery.verdicts([:], before: before) == nil)
        #expect(VerdictQuery.verdicts(["started": 3], before: [:])?.failed == 0)
    }

    private static func facts(_ response: [UInt8]) throws -> [String: Int]? {
        try VerdictQuery.facts(try MetricsEngine.series(parsing: response, of: "http://h"), of: "http://h")
    }

    @Test func `reads counts from a vector`() throws {
        let facts = try Self.facts(
            Self.response(
                #"{"metric":{"fact":"started"},"value":[1700000000,"12"]}"#,
                #"{"metric":{"fact":"failed"},"value":[1700000000,"2.4"]}"#))
        #expect(facts == ["started": 12, "failed": 2])
        #expect(try Self.facts(Self.response()) == nil)
    }

    @Test(arguments: [
        #"{"metric":{"fact":"failed"},"value":[1700000000,"NaN"]}"#,
        #"{"metric":{"fact":"failed"},"value":[1700000000,"-1"]}"#,
        #"{"metric":{"fact":"failed"},"value":[1700000000,"+Inf"]}"#,
        #"{"metric":{},"value":[1700000000,"1"]}"#, #"{"metric":{"fact":"failed"},"value":[]}"#, "7",
        #"{"metric":{"fact":"failed"},"value":[1,"1"]},{"metric":{"fact":"failed"},"value":[1,"2"]}"#,
    ])
    func `rejects a series that is not a count`(series: String) {
        #expect(throws: UpdateFailure.self) { try Self.facts(Self.response(series)) }
    }

    @Test(arguments: ["", "[]", "<html>", #"{"status":"error","error":"bad"}"#, #"{"status":"success","data":{}}"#])
    func `rejects a response that is not a vector`(response: String) {
        #expect(throws: UpdateFailure.self) { try Self.facts(Array(response.utf8)) }
    }
}
