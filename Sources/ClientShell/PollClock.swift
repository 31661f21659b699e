import BundleCore

/// When the next check for updates is, in readings of a shell's clock.
struct PollClock {
    private let polling: ShellConfiguration.Polling
    private var rule = PollRule()
    private var asked: PollPace?
    private var due: Duration
    private var wanted: Duration?

    init(_ polling: ShellConfiguration.Polling, now: Duration, draw: Double) {
        self.polling = polling
        due = now + rule.first(polling.pace, draw: draw)
    }

    private var pace: PollPace { polling.yields ? asked ?? polling.pace : polling.pace }

    /// The next check.
    var next: Duration { wanted.map { min($0, due) } ?? due }

    /// How far the checks of devices that hear of news at one moment are to be spread: as the channel asks.
    var spread: Duration { asked?.jitter ?? .zero }

    /// A check is wanted then, at the latest.
    mutating func want(by moment: Duration) { wanted = min(wanted ?? moment, moment) }

    /// The next check begins.
    mutating func begin(now: Duration) {
        wanted = nil
        due = now + pace.interval
    }

    /// A check is over. `asked` is what the channel asked for when it answered.
    mutating func ended(_ outcome: PollRule.Outcome, asked: PollPace?, now: Duration, draw: Double) {
        if outcome == .answered { self.asked = asked }
        due = now + rule.wait(after: outcome, pace, draw: draw)
    }
}
