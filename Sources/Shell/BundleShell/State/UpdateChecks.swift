import BundleCore
import BundleValues

/// The checks for updates of a shell: periodic, and early after a notification.
actor UpdateChecks {
    /// The shortest time over which devices spread their downloads when the hours begin.
    private static let shortestSpread = Duration.seconds(60)

    private let step: UpdateStep?
    private let environment: Environment
    private let stopwatch: Stopwatch
    private var polls: PollClock?
    /// The sleep until the next check. An earlier request cancels it.
    private var sleep: Task<Void, Never>?

    /// Checks with `step` as `polling` plans; only on request if `polling` is nil.
    init(
        _ step: UpdateStep?, _ polling: ShellConfiguration.Polling?, _ environment: Environment,
        _ stopwatch: Stopwatch
    ) {
        self.step = step
        self.environment = environment
        self.stopwatch = stopwatch
        isPolling = step != nil && polling != nil
        polls = polling.map { PollClock($0, now: .zero, fraction: environment.random(0...1)) }
    }

    /// Whether periodic checks are planned.
    nonisolated let isPolling: Bool

    /// Runs `check` whenever one is due, until it is cancelled. Returns at once if none is planned.
    func run(_ check: @escaping @Sendable () async -> Void) async {
        await withDiscardingTaskGroup { group in
            // Checks may overlap: during a long download a newer release may appear.
            while await sleepUntilCheck() { group.addTask { await check() } }
        }
    }

    /// Waits for the next check. Returns false if the shell ends.
    private func sleepUntilCheck() async -> Bool {
        while !Task.isCancelled, let polls {
            let left = polls.next - stopwatch.elapsed
            if left <= .zero {
                self.polls?.begin(now: stopwatch.elapsed)
                return true
            }
            let sleep = Task { [clock = environment.clock] in _ = try? await clock.sleep(for: left) }
            self.sleep = sleep
            await withTaskCancellationHandler {
                await sleep.value
            } onCancel: {
                sleep.cancel()
            }
        }
        return false
    }

    /// Requests a check at a random moment within `limit`, or within the channel's jitter; an urgent one within a
    /// minute at most.
    func request(within limit: Duration?, isUrgent: Bool = false) {
        // Another random delay would bring the check forward with every repeated notification.
        guard let polls, limit != nil || isUrgent || !polls.isRequested else { return }
        let spread = limit ?? (isUrgent ? min(polls.spread, PollRule.longestUrgent) : polls.spread)
        self.polls?.request(by: stopwatch.elapsed + max(spread, .zero) * environment.random(0...1))
        sleep?.cancel()
    }

    /// Runs the step. Without one, another process fills the store.
    nonisolated func update() async -> CheckResult {
        await step?() ?? CheckResult(failures: [], hasResponse: true, pace: nil)
    }

    /// Records the end of a check. Returns the time until the next one; nil if none is planned.
    func ended(_ result: CheckResult) -> Duration? {
        polls?.ended(result.outcome, asked: result.pace, now: stopwatch.elapsed, fraction: environment.random(0...1))
        if let resumes = result.resumesIn, let polls {
            // The hours begin on all devices at once.
            let spread = max(polls.spread, Self.shortestSpread)
            self.polls?.request(by: stopwatch.elapsed + resumes + spread * environment.random(0...1))
        }
        sleep?.cancel()
        return polls.map { max($0.next - stopwatch.elapsed, .zero) }
    }
}

/// The time of the next check, as readings of a shell's clock.
struct PollClock {
    private let polling: ShellConfiguration.Polling
    private var rule = PollRule()
    private var asked: PollPace?
    private var due: Duration
    private var requested: Duration?
    /// The server accepts no check before this moment, even after a notification.
    private var earliest = Duration.zero

    init(_ polling: ShellConfiguration.Polling, now: Duration, fraction: Double) {
        self.polling = polling
        due = now + rule.first(polling.pace, random: fraction)
    }

    private var pace: PollPace { polling.yields ? asked ?? polling.pace : polling.pace }

    var next: Duration { requested.map { min(max($0, earliest), due) } ?? due }

    /// Whether a check is requested before its planned time.
    var isRequested: Bool { requested != nil }

    /// The time over which devices spread their checks after a notification, as the channel requests.
    var spread: Duration { asked?.jitter ?? .zero }

    /// Requests a check at `moment` at the latest.
    mutating func request(by moment: Duration) { requested = min(requested ?? moment, moment) }

    /// Records the start of a check.
    mutating func begin(now: Duration) {
        requested = nil
        due = now + pace.interval
    }

    /// Records the end of a check. `asked` is the pace that the channel requested in its last response.
    mutating func ended(_ outcome: PollRule.PollOutcome, asked: PollPace?, now: Duration, fraction: Double) {
        self.asked = asked
        due = now + rule.wait(after: outcome, pace, random: fraction)
        if case .interrupted(let wait?) = outcome, wait > .zero { earliest = due } else { earliest = .zero }
    }
}
