import BundleCore

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
