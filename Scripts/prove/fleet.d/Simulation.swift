@testable import BundleFormats
@testable import ArchiveSource
@testable import BundleCore
@testable import BundleSigning
@testable import BundleValues

/// A simulation of the fleet in one scenario, in steps of one second.
struct Simulation {
    /// A device, in few bytes, because a million devices determine the speed.
    private struct Device {
        var poll = PollRule()
        /// The next device with an event in the same second.
        var next: Int32 = -1
        /// The time at which the device turns off; the maximum if it is always on.
        var offAt = UInt32.max
        var state: UInt16 = 0
        /// The buckets of the device for the staged releases.
        var buckets: (UInt16, UInt16)
        let edge: UInt8
        var marks: Marks
        /// The running staged release, or -1 for the base.
        var runs: Int8 = -1
    }

    private struct Marks: OptionSet {
        let rawValue: UInt8
        static let hasWrongClock = Marks(rawValue: 2)
        /// The first staged release fails on the device.
        static let fails = Marks(rawValue: 4)
        static let ranBad = Marks(rawValue: 8)
        static let hasTarget = Marks(rawValue: 16)
        static let isStarting = Marks(rawValue: 32)
        /// The device rejects documents because of its clock.
        static let isShutOut = Marks(rawValue: 64)
    }

    static let horizon = 16 * 86_400
    /// The checks of 1,000 that fail in the network.
    private static let spoilt: UInt64 = 5
    /// The longest time from a download to the start. Devices that turn off earlier start the release when they turn on.
    private static let longestStart = 300
    /// The startup timeout of a page.
    private static let verdictAfter = 10
    /// The time in which every running device checks again. Later, only devices without the target release are simulated.
    private static let quiet = 3600

    let scenario: Scenario
    private let world: World
    private let pace = PollPace(every: .seconds(900))
    private let feed: Feed
    private let rules: Rules
    private let versions: [SemanticVersion]
    private var operators: Operators
    private var edges = Edges()
    private var reports: [Reports]
    private var chance: Chance
    private var devices: [Device] = []
    private var heads: [Int32]
    private var startHeads: [Int32]
    private var startNext: [Int32]
    private var left = 0
    private var running: [Int]
    private(set) var tally = Tally()

    init(_ scenario: Scenario, _ world: World, number: Int, in folder: String) throws {
        self.scenario = scenario
        self.world = world
        feed = try Feed(in: folder, client: world.client, at: world.start)
        rules = try Rules(feed, at: world.start)
        versions = try Feed.staged.map { try SemanticVersion(parsing: $0) }
        operators = Operators(scenario)
        reports = versions.map { _ in Reports(seconds: Self.horizon) }
        chance = Chance(seed: world.seed &+ UInt64(number) << 40)
        heads = Array(repeating: -1, count: Self.horizon)
        startHeads = heads
        startNext = Array(repeating: -1, count: world.devices)
        running = Array(repeating: 0, count: versions.count)
        for index in 0..<world.devices { makeDevice(index) }
    }

    private mutating func makeDevice(_ index: Int) {
        let traits = Traits(index, seed: world.seed)
        var marks: Marks = []
        if traits.hasWrongClock { marks.insert(.hasWrongClock) }
        if traits.fails(permille: scenario.failing) { marks.insert(.fails) }
        devices.append(
            Device(
                buckets: (world.buckets[0][index], world.buckets[1][index]), edge: UInt8(traits.edge(of: Edges.count)),
                marks: marks))
        left += 1
        var begun = 0
        if case .some(let length, let period) = traits.habit {
            // The position in its period when the simulation starts.
            begun = traits.phase(period)
            devices[index].offAt = begun < length ? UInt32(length - begun) : 0
            if begun >= length { return enter(index, at: period - begun) }
        }
        // Running devices check at a random time.
        let longest = pace.interval + pace.jitter
        wait(index, from: 0, .seconds(chance.seconds(below: Int(longest.components.seconds))))
    }

    // MARK: Steps

    mutating func run() throws -> Tally {
        var now = 0
        while now < Self.horizon, left > 0 {
            try operators.act(at: now, world.time(now), feed, reports)
            try start(at: now)
            try poll(at: now)
            now += 1
        }
        return finish()
    }

    private mutating func start(at now: Int) throws {
        var index = Int(startHeads[now])
        while index >= 0 {
            let next = Int(startNext[index])
            devices[index].marks.remove(.isStarting)
            try start(index, at: now)
            index = next
        }
    }

    private mutating func poll(at now: Int) throws {
        var index = Int(heads[now])
        while index >= 0 {
            let next = Int(devices[index].next)
            if now >= Int(devices[index].offAt) {
                guard case .some(let length, _) = Traits(index, seed: world.seed).habit else {
                    throw SimulationError("a device that is always on turned off")
                }
                devices[index].offAt = UInt32(now + length)
                devices[index].poll = PollRule()
                try start(index, at: now)
                // The shell restarts, so its poll rule restarts too.
                wait(index, from: now, devices[index].poll.first(pace, random: chance.share()))
            } else {
                try check(index, at: now)
            }
            index = next
        }
    }

    private mutating func enter(_ index: Int, at time: Int) {
        guard time < Self.horizon else {
            left -= 1
            return
        }
        devices[index].next = heads[time]
        heads[time] = Int32(index)
    }

    /// Schedules the next check, or the time at which the device turns on.
    private mutating func wait(_ index: Int, from now: Int, _ wait: Duration) {
        let time = now + max(1, Int(wait.components.seconds))
        let isOn = time < Int(devices[index].offAt)
        enter(index, at: isOn ? time : nextOn(index))
    }

    private func nextOn(_ index: Int) -> Int {
        let traits = Traits(index, seed: world.seed)
        guard case .some(let length, let period) = traits.habit else { return Self.horizon }
        return Int(devices[index].offAt) - length + period
    }

    // MARK: Checks

    private mutating func check(_ index: Int, at now: Int) throws {
        let outcome = try outcome(index, at: now)
        if let end = operators.end, now >= max(end, operators.lastChange) + Self.quiet,
            !devices[index].marks.isDisjoint(with: [.hasTarget, .isShutOut])
        {
            left -= 1
            return
        }
        let wait = devices[index].poll.wait(after: outcome, pace, random: chance.share())
        self.wait(index, from: now, wait)
    }

    private mutating func outcome(_ index: Int, at now: Int) throws -> PollRule.PollOutcome {
        if chance.next() % 1000 < Self.spoilt { return .interrupted(asked: nil) }
        let device = devices[index]
        let number = edges.document(Int(device.edge), newest: feed.issues.count - 1, at: now)
        if device.marks.contains(.hasWrongClock), let refused = refusal(index, number, at: now) { return refused }
        let check = try rules.check(
            device.state, number, mask: mask(device, number), clock: clock(index, at: now), id: index)
        devices[index].state = check.next
        if check.isPending { startSoon(index, at: now) }
        return check.outcome
    }

    /// Returns the staged releases that exclude the device. `Rules` compares the result with the decision of the
    /// device.
    private func mask(_ device: Device, _ issue: Int) -> Int {
        let rollouts = feed.issues[issue].rollouts
        return (Int(device.buckets.0) >= rollouts[0] ? 1 : 0) | (Int(device.buckets.1) >= rollouts[1] ? 2 : 0)
    }

    private func clock(_ index: Int, at now: Int) -> Timestamp {
        let traits = Traits(index, seed: world.seed)
        return world.time(now + (traits.hasWrongClock ? traits.clockError : 0))
    }

    /// Returns the failure that a wrong clock causes, or nil.
    private mutating func refusal(_ index: Int, _ number: Int, at now: Int) -> PollRule.PollOutcome? {
        let memory = rules.memory(devices[index].state)
        let issue = feed.issues[number]
        let freshness = FreshnessRule.judge(
            issue.document, payloadSha256: issue.payloadSha256, known: memory.followed,
            now: TrustedTime.at(clock(index, at: now), knowing: memory))
        guard let failure = freshness.failure(of: issue.document, clock: clock(index, at: now)) else { return nil }
        devices[index].marks.insert(.isShutOut)
        return PollRule.PollOutcome(failure, asked: nil)
    }

    // MARK: Starts

    private mutating func startSoon(_ index: Int, at now: Int) {
        let time = now + 1 + chance.seconds(below: Self.longestStart)
        if devices[index].marks.contains(.isStarting) || time >= Int(devices[index].offAt) || time >= Self.horizon {
            return
        }
        devices[index].marks.insert(.isStarting)
        startNext[index] = startHeads[time]
        startHeads[time] = Int32(index)
    }

    private mutating func start(_ index: Int, at now: Int) throws {
        let before = devices[index]
        let start = try rules.start(before.state, fails: before.marks.contains(.fails))
        devices[index].state = start.next
        if let trial = start.trial, let place = versions.firstIndex(of: trial.version) {
            tried(index, place, isGood: trial.isGood, at: now)
        }
        move(index, to: start.runs.flatMap { versions.firstIndex(of: $0) })
    }

    private mutating func tried(_ index: Int, _ place: Int, isGood: Bool, at now: Int) {
        let isBad = place != operators.target
        // A device reports each fact once.
        if isBad, devices[index].marks.contains(.ranBad) { return }
        reports[place].add(isGood: isGood, at: reportTime(index, now))
        if isBad {
            devices[index].marks.insert(.ranBad)
            tally.ranBad += 1
            if !isGood { tally.failed += 1 }
        } else if isGood, devices[index].marks.insert(.hasTarget).inserted {
            tally.reached.append(UInt32(now))
        }
    }

    /// Returns the time of a report. A device that turns off earlier reports when it turns on.
    private mutating func reportTime(_ index: Int, _ now: Int) -> Int {
        let wait = Self.verdictAfter + chance.seconds(below: Reports.longestWait)
        let offAt = Int(devices[index].offAt)
        return now + wait < offAt ? now + wait : nextOn(index) + wait
    }

    /// Sets the running staged release, or the base if `place` is nil.
    private mutating func move(_ index: Int, to place: Int?) {
        let before = Int(devices[index].runs)
        if before >= 0 { running[before] -= 1 }
        if let place { running[place] += 1 }
        devices[index].runs = Int8(place ?? -1)
        tally.mostOnBad = max(tally.mostOnBad, running[0])
    }

    private func finish() -> Tally {
        var tally = tally
        tally.operators = operators
        tally.endsOnBad = scenario.failing == 0 ? 0 : running[0]
        for device in devices where !device.marks.contains(.hasTarget) {
            guard device.marks.contains(.isShutOut) else {
                tally.missed += 1
                continue
            }
            tally.shutOut += 1
            if scenario.failing > 0, device.runs == 0 { tally.shutOutOnBad += 1 }
        }
        return tally
    }
}
