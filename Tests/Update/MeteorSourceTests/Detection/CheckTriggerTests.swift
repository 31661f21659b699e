import BundleValues
import Testing

@testable import MeteorSource

@Suite struct `A version that the server states` {
    let one: MeteorVersion
    let two: MeteorVersion
    let three: MeteorVersion

    init() throws {
        one = try MeteorVersion(parsing: "one")
        two = try MeteorVersion(parsing: "two")
        three = try MeteorVersion(parsing: "three")
    }

    /// A trigger whose waits are all that they may be, in parts of `random`.
    private func trigger(random: Double = 0) -> CheckTrigger {
        CheckTrigger(pace: CheckTrigger.Pace()) { range in
            range.lowerBound + random * (range.upperBound - range.lowerBound)
        }
    }

    /// The server states `version` to a new subscription, and the trigger decides when it wants to; nil when it does not.
    private func subscribe(
        _ trigger: inout CheckTrigger, _ version: MeteorVersion, running: MeteorVersion?, at second: Int
    ) -> CheckTrigger.Answer? {
        trigger.subscribed()
        return change(&trigger, version, running: running, at: second)
    }

    private func change(
        _ trigger: inout CheckTrigger, _ version: MeteorVersion, running: MeteorVersion?, at second: Int
    ) -> CheckTrigger.Answer? {
        trigger.state(version, at: .seconds(second))
        guard let due = trigger.due else { return nil }
        return trigger.decide(running: running, at: due)
    }

    @Test func `is checked for when another runs, also an older one, and when it is not known what runs`() {
        for (stated, running) in [(two, one), (one, two), (one, nil)] as [(MeteorVersion, MeteorVersion?)] {
            var trigger = trigger()
            #expect(subscribe(&trigger, stated, running: running, at: 0) == .check(stated))
        }
    }

    @Test func `is not checked for when it runs`() {
        var trigger = trigger()
        #expect(subscribe(&trigger, one, running: one, at: 0) == .rest)
        #expect(change(&trigger, two, running: one, at: 10) == .check(two))
    }

    @Test func `is checked for once while nothing else is stated`() {
        var trigger = trigger()
        #expect(subscribe(&trigger, two, running: one, at: 0) == .check(two))
        #expect(change(&trigger, two, running: one, at: 100) == nil)
    }

    @Test func `P31 that no check leads to is checked for twice, then no more until something changes`() throws {
        var trigger = trigger()
        #expect(subscribe(&trigger, two, running: one, at: 0) == .check(two))
        #expect(subscribe(&trigger, two, running: one, at: 100) == .check(two))
        guard case .stop(let reason?)? = subscribe(&trigger, two, running: one, at: 200) else {
            Issue.record("a third check")
            return
        }
        #expect(reason.contains("two") && reason.contains("one"))
        for second in 300..<400 { #expect(subscribe(&trigger, two, running: one, at: second) == .stop(nil)) }
        // Another version that runs, another one that is stated.
        #expect(subscribe(&trigger, two, running: three, at: 1000) == .check(two))
        #expect(subscribe(&trigger, two, running: three, at: 1100) == .check(two))
        #expect(change(&trigger, one, running: three, at: 1200) == .check(one))
        // Progress: it runs. Going back is another matter.
        #expect(subscribe(&trigger, one, running: one, at: 1300) == .rest)
        #expect(subscribe(&trigger, one, running: three, at: 1400) == .check(one))
        #expect(subscribe(&trigger, one, running: three, at: 1500) == .check(one))
    }

    @Test(arguments: [(0.0, 0), (0.5, 15), (1.0, 30)])
    func `is checked for after a random wait`(random: Double, seconds: Int) {
        var trigger = trigger(random: random)
        trigger.state(two, at: .seconds(100))
        #expect(trigger.due == .seconds(100 + seconds))
        // What is stated meanwhile does not put it off, and takes its place.
        trigger.state(three, at: .seconds(101))
        #expect(trigger.due == .seconds(100 + seconds))
        #expect(trigger.decide(running: one, at: .seconds(130)) == .check(three))
        #expect(trigger.due == nil)
    }

    @Test func `that is taken back during the wait is not checked for`() {
        var trigger = trigger(random: 1)
        trigger.state(two, at: .zero)
        trigger.state(one, at: .seconds(1))
        #expect(trigger.decide(running: one, at: .seconds(30)) == .rest)
    }

    @Test func `is not checked for more often than every few seconds, however often it changes`() {
        var trigger = trigger()
        #expect(change(&trigger, two, running: one, at: 100) == .check(two))
        trigger.state(three, at: .seconds(101))
        #expect(trigger.due == .seconds(105))
    }
}
