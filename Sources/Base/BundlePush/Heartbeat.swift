/// When to ask a silent other side for a sign of life, and when to give it up. Moments count from any beginning.
///
/// Silence is only what is listened to: while a message is being worked on, nothing is received, and nothing is missed.
struct Heartbeat {
    enum Step: Equatable {
        /// Nothing to do before this moment.
        case wait(until: Duration)
        /// Ask now.
        case ping
        /// It was asked, and did not answer in time.
        case dead
    }

    private let rule: HeartbeatRule
    private var lastLife: Duration
    private var asked: Duration?
    private var isWorking = false

    init(_ rule: HeartbeatRule, now: Duration) {
        self.rule = rule
        lastLife = now
    }

    /// Something came.
    mutating func heard(_ now: Duration) {
        lastLife = now
        asked = nil
    }

    /// What came is being worked on, until `rested`.
    mutating func works() { isWorking = true }

    /// What came is worked on, and it is listened again.
    mutating func rested(_ now: Duration) {
        isWorking = false
        heard(now)
    }

    /// What to do now; a `ping` counts as done.
    mutating func step(_ now: Duration) -> Step {
        if isWorking { return .wait(until: now + rule.idle) }
        if let asked {
            return now >= asked + rule.answer ? .dead : .wait(until: asked + rule.answer)
        }
        if now < lastLife + rule.idle { return .wait(until: lastLife + rule.idle) }
        asked = now
        return .ping
    }
}

/// How long the other side may be silent.
package struct HeartbeatRule: Sendable, Equatable {
    /// After this long without anything it is asked.
    package var idle = Duration.seconds(30)
    /// This long it may take to answer.
    package var answer = Duration.seconds(15)

    /// The rule as it is recommended.
    package init() {}
}
