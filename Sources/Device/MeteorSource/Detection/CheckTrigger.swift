import BundleValues

/// Decides whether a version that the server reports needs an update check (METEOR section 7.4).
///
/// All clients of a fleet receive a deployment at the same moment, so each waits a random time. A check that does not
/// lead to the version is repeated once after the next subscription, and then not again: a server can report a version
/// that it does not have (P31).
struct CheckTrigger: Sendable {
    /// The timing of checks.
    struct TriggerPace: Sendable, Equatable {
        /// The longest random wait before a check.
        var spread = Duration.seconds(30)
        /// The shortest time between two checks.
        var apart = Duration.seconds(5)
    }

    /// The decision about the latest reported version.
    enum CheckDecision: Sendable, Equatable {
        /// Nothing, because the version runs.
        case rest
        case check(MeteorVersion)
        /// No more checks. The first time it has a sentence for the log.
        case stop(String?)
    }

    private static let mostChecks = 2

    private let pace: TriggerPace
    private let environment: Environment
    private var stated: MeteorVersion?
    private var isAnew = false
    private var last: Duration?
    private var checked: (target: MeteorVersion, running: MeteorVersion?, times: Int)?
    /// The time at which to call `decide`; nil if there is nothing to decide.
    private(set) var due: Duration?

    init(pace: TriggerPace, environment: Environment) {
        self.pace = pace
        self.environment = environment
    }

    /// A subscription started: its first version counts even if it was reported before.
    mutating func subscribed() {
        isAnew = true
    }

    /// The server reported a version at the time `now`.
    mutating func state(_ version: MeteorVersion, at now: Duration) {
        guard isAnew || version != stated else { return }
        isAnew = false
        stated = version
        guard due == nil else { return }
        let moment = now + pace.spread * environment.random(0...1)
        due = max(moment, last.map { $0 + pace.apart } ?? moment)
    }

    /// Decides about the reported version. `running` is the version that runs, if known.
    mutating func decide(running: MeteorVersion?, at now: Duration) -> CheckDecision {
        due = nil
        guard let stated, stated != running else {
            checked = nil
            return .rest
        }
        var times = 0
        if let checked, checked.target == stated, checked.running == running { times = checked.times }
        checked = (stated, running, times + 1)
        guard times < Self.mostChecks else {
            return .stop(times == Self.mostChecks ? reason(stated: stated, running: running) : nil)
        }
        last = now
        return .check(stated)
    }

    private func reason(stated: MeteorVersion, running: MeteorVersion?) -> String {
        "the server reports version \(stated), but \(Self.mostChecks) checks did not lead to it from "
            + "\(running.map { "version \($0)" } ?? "an unknown version"); no more checks for it until either changes"
    }
}
