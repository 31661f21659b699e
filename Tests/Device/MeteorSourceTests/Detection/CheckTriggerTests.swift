import BundleValues
import Testing

@testable import MeteorSource

@Suite("CheckTrigger") struct CheckTriggerTests {
    let one: MeteorVersion
    let two: MeteorVersion
    let three: MeteorVersion

    init() throws {
        one = try MeteorVersion(parsing: "one")
        two = try MeteorVersion(parsing: "two")
        three = try MeteorVersion(parsing: "three")
    }

    /// Returns a trigger whose random waits are `random` times their maximum.
    private func trigger(random: Double = 0) -> CheckTrigger {
        CheckTrigger(
            pace: CheckTrigger.TriggerPace(),
            environment: Environment(random: { $0.lowerBound + random * ($0.upperBound - $0.lowerBound) }))
    }

    /// Reports `version` in a new subscription and lets the trigger decide at its due time. Returns nil if there is none.
    private func subscribe(
        _ trigger: inout CheckTrigger, _ version: MeteorVersion, running: MeteorVersion?, at second: Int
    ) -> CheckTrigger.CheckDecision? {
        trigger.subscribed()
        return change(&trigger, version, running: running, at: second)
    }

    private func change(
        _ trigger: inout CheckTrigger, _ version: MeteorVersion, running: MeteorVersion?, at second: Int
    ) -> CheckTrigger.CheckDecision? {
        trigger.state(version, at: .seconds(second))
        guard let due = trigger.due else { return nil }
        return trigger.decide(running: running, at: due)
    }

    @Test func `checks when another version runs, even a newer one, or when the running version is unknown`() {
        for (stated, running) in [(two, one), (one, two), (one, nil)] as [(MeteorVersion, MeteorVersion?)] {
            var trigger = trigger()
            #expect(subscribe(&trigger, stated, running: running, at: 0) == .check(stated))
        }
    }

    @Test func `does not check when the version runs`() {
        var trigger = trigger()
        #expect(subscribe(&trigger, one, running: one, at: 0) == .rest)
        #expect(change(&trigger, two, running: one, at: 10) == .check(two))
    }

    @Test func `checks once for each reported version`() {
        var trigger = trigger()
        #expect(subscribe(&trigger, two, running: one, at: 0) == .check(two))
        #expect(change(&trigger, two, running: one, at: 100) == nil)
    }

    @Test func `P31: checks twice for a version that is not installed, then not again until something changes`() throws
    {
        var trigger = trigger()
        #expect(subscribe(&trigger, two, running: one, at: 0) == .check(two))
        #expect(subscribe(&trigger, two, running: one, at: 100) == .check(two))
        guard case .stop(let reason?)? = subscribe(&trigger, two, running: one, at: 200) else {
            Issue.record("a third check")
            return
        }
        #expect(reason.contains("two") && reason.contains("one"))
        for second in 300..<400 { #expect(subscribe(&trigger, two, running: one, at: second) == .stop(nil)) }
        // Another version runs, and another one is reported.
        #expect(subscribe(&trigger, two, running: three, at: 1000) == .check(two))
        #expect(subscribe(&trigger, two, running: three, at: 1100) == .check(two))
        #expect(change(&trigger, one, running: three, at: 1200) == .check(one))
        // The version runs. The return to an earlier one is a new case.
        #expect(subscribe(&trigger, one, running: one, at: 1300) == .rest)
        #expect(subscribe(&trigger, one, running: three, at: 1400) == .check(one))
        #expect(subscribe(&trigger, one, running: three, at: 1500) == .check(one))
    }

    @Test(arguments: [(0.0, 0), (0.5, 15), (1.0, 30)])
    func `checks after a random wait`(random: Double, seconds: Int) {
        var trigger = trigger(random: random)
        trigger.state(two, at: .seconds(100))
        #expect(trigger.due == .seconds(100 + seconds))
        // A newly reported version replaces the earlier one without another wait.
        trigger.state(three, at: .seconds(101))
        #expect(trigger.due == .seconds(100 + seconds))
        #expect(trigger.decide(running: one, at: .seconds(130)) == .check(three))
        #expect(trigger.due == nil)
    }

    @Test func `does not check for a version that is withdrawn during the wait`() {
        var trigger = trigger(random: 1)
        trigger.state(two, at: .zero)
        trigger.state(one, at: .seconds(1))
        #expect(trigger.decide(running: one, at: .seconds(30)) == .rest)
    }

    @Test func `limits the rate of checks however often the version changes`() {
        var trigger = trigger()
        #expect(change(&trigger, two, running: one, at: 100) == .check(two))
        trigger.state(three, at: .seconds(101))
        #expect(trigger.due == .seconds(105))
    }
}
