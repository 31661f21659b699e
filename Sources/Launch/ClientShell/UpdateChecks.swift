import BundleCore

/// When a shell checks for updates: from time to time, and soon where somebody says that there is one.
actor UpdateChecks {
    private let step: UpdateStep?
    private let clock: any Clock<Duration>
    private let reading: @Sendable () -> Duration
    private let random: @Sendable (ClosedRange<Double>) -> Double
    private var polls: PollClock?
    /// The sleep until the next check, which ends early when one is wanted sooner.
    private var nap: Task<Void, Never>?

    /// Checks by `step`, as often as `polling` says; only when asked where that is nil.
    init(
        _ step: UpdateStep?, _ polling: ShellConfiguration.Polling?, clock: any Clock<Duration>,
        reading: @escaping @Sendable () -> Duration, random: @escaping @Sendable (ClosedRange<Double>) -> Double
    ) {
        self.step = step
        self.clock = clock
        self.reading = reading
        self.random = random
        isPolling = step != nil && polling != nil
        polls = polling.map { PollClock($0, now: .zero, draw: random(0...1)) }
    }

    /// Whether checks are planned.
    nonisolated let isPolling: Bool

    /// Has `check` made whenever it is time, until it is cancelled; returns at once where nothing is planned.
    func run(_ check: @escaping @Sendable () async -> Void) async {
        await withDiscardingTaskGroup { group in
            // A download may take long; what is offered then may be newer.
            while await sleepUntilCheck() { group.addTask { await check() } }
        }
    }

    /// Whether it is time for a check; not where the shell ends.
    private func sleepUntilCheck() async -> Bool {
        while !Task.isCancelled, let polls {
            let left = polls.next - reading()
            if left <= .zero {
                self.polls?.begin(now: reading())
                return true
            }
            let nap = Task { [clock] in _ = try? await clock.sleep(for: left) }
            self.nap = nap
            await withTaskCancellationHandler {
                await nap.value
            } onCancel: {
                nap.cancel()
            }
        }
        return false
    }

    /// A check is wanted at a random moment within `limit`, or within the jitter that the channel asks for; one that is urgent within
    /// a minute at most.
    func want(within limit: Duration?, isUrgent: Bool = false) {
        // Drawing again would bring forward whatever is said often.
        guard let polls, limit != nil || isUrgent || !polls.isWanted else { return }
        let spread = limit ?? (isUrgent ? min(polls.spread, PollRule.longestUrgent) : polls.spread)
        self.polls?.want(by: reading() + max(spread, .zero) * random(0...1))
        nap?.cancel()
    }

    /// Takes the step; without one, others fill the store.
    nonisolated func update() async -> CheckResult {
        await step?() ?? CheckResult(failures: [], hasResponse: true, pace: nil)
    }

    /// A check is over; how long it is until the next one, nil where none is planned.
    func ended(_ result: CheckResult) -> Duration? {
        polls?.ended(result.outcome, asked: result.pace, now: reading(), draw: random(0...1))
        nap?.cancel()
        return polls.map { max($0.next - reading(), .zero) }
    }
}

/// When the next check for updates is, in readings of a shell's clock.
struct PollClock {
    private let polling: ShellConfiguration.Polling
    private var rule = PollRule()
    private var asked: PollPace?
    private var due: Duration
    private var wanted: Duration?
    /// Before this the server wants to hear nothing, whoever says that there are news.
    private var earliest = Duration.zero

    init(_ polling: ShellConfiguration.Polling, now: Duration, draw: Double) {
        self.polling = polling
        due = now + rule.first(polling.pace, draw: draw)
    }

    private var pace: PollPace { polling.yields ? asked ?? polling.pace : polling.pace }

    /// The next check.
    var next: Duration { wanted.map { min(max($0, earliest), due) } ?? due }

    /// Whether one is wanted before its time.
    var isWanted: Bool { wanted != nil }

    /// How far the checks of devices that hear of news at one moment are to be spread: as the channel asks.
    var spread: Duration { asked?.jitter ?? .zero }

    /// A check is wanted then, at the latest.
    mutating func want(by moment: Duration) { wanted = min(wanted ?? moment, moment) }

    /// The next check begins.
    mutating func begin(now: Duration) {
        wanted = nil
        due = now + pace.interval
    }

    /// A check is over. `asked` is what the channel asked for when it answered last.
    mutating func ended(_ outcome: PollRule.Outcome, asked: PollPace?, now: Duration, draw: Double) {
        self.asked = asked
        due = now + rule.wait(after: outcome, pace, draw: draw)
        if case .interrupted(let wait?) = outcome, wait > .zero { earliest = due } else { earliest = .zero }
    }
}
