import BundleValues

/// When a version that the server states is a reason to check for updates (METEOR section 7.4).
///
/// All clients of a fleet learn of a deploy at the same moment, so each waits a while of its own. A check that does not lead
/// to the version is repeated once, with the next subscription, and then no more: a server may state a version that it does
/// not have (P31).
struct CheckTrigger: Sendable {
    /// How soon and how often.
    struct Pace: Sendable, Equatable {
        /// The longest random wait before a check.
        var spread = Duration.seconds(30)
        /// The shortest time between two checks.
        var apart = Duration.seconds(5)
    }

    /// What to do about the version stated last.
    enum Answer: Sendable, Equatable {
        /// Nothing: it runs.
        case rest
        /// Check for updates.
        case check(MeteorVersion)
        /// Nothing more; one sentence for people the first time.
        case stop(String?)
    }

    private static let mostChecks = 2

    private let pace: Pace
    private let random: @Sendable (ClosedRange<Double>) -> Double
    private var stated: MeteorVersion?
    private var isAnew = false
    private var last: Duration?
    private var checked: (target: MeteorVersion, running: MeteorVersion?, times: Int)?
    /// When to ask `decide`; nil for not at all.
    private(set) var due: Duration?

    init(pace: Pace, random: @escaping @Sendable (ClosedRange<Double>) -> Double) {
        self.pace = pace
        self.random = random
    }

    /// A subscription has begun: what is stated now counts although it was stated before.
    mutating func subscribed() {
        isAnew = true
    }

    /// The server states a version at the clock's reading `now`.
    mutating func state(_ version: MeteorVersion, at now: Duration) {
        guard isAnew || version != stated else { return }
        isAnew = false
        stated = version
        guard due == nil else { return }
        let moment = now + pace.spread * random(0...1)
        due = max(moment, last.map { $0 + pace.apart } ?? moment)
    }

    /// Decides at `due`, with the version that runs at that moment; nil when it is not known.
    mutating func decide(running: MeteorVersion?, at now: Duration) -> Answer {
        due = nil
        guard let stated, stated != running else {
            checked = nil
            return .rest
        }
        var times = 0
        if let checked, checked.target == stated, checked.running == running { times = checked.times }
        checked = (stated, running, times + 1)
        guard times < Self.mostChecks else { return .stop(times == Self.mostChecks ? reason(stated, running) : nil) }
        last = now
        return .check(stated)
    }

    private func reason(_ stated: MeteorVersion, _ running: MeteorVersion?) -> String {
        "the server states version \(stated), and \(Self.mostChecks) checks did not lead there from "
            + "\(running.map { "version \($0)" } ?? "an unknown version"); no more checks for it until either changes"
    }
}
