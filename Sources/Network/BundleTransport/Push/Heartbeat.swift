/// Decides when to ping a silent peer and when to abandon the connection. Times are relative to any fixed start.
///
/// Only time spent waiting for messages counts as silence. While a message is processed, nothing is received.
struct Heartbeat {
    enum HeartbeatStep: Equatable {
        /// There is nothing to do before this time.
        case wait(until: Duration)
        /// Send a ping.
        case ping
        /// The peer did not answer a ping in time.
        case dead
    }

    private let rule: HeartbeatRule
    private var lastReceived: Duration
    private var pinged: Duration?
    private var isProcessing = false

    init(_ rule: HeartbeatRule, now: Duration) {
        self.rule = rule
        lastReceived = now
    }

    /// A frame arrived.
    mutating func received(_ now: Duration) {
        lastReceived = now
        pinged = nil
    }

    /// The processing of a message starts.
    mutating func beginProcessing() { isProcessing = true }

    /// The processing of a message ended.
    mutating func endProcessing(_ now: Duration) {
        isProcessing = false
        received(now)
    }

    /// Returns the next step. The caller must send the returned `ping`.
    mutating func step(_ now: Duration) -> HeartbeatStep {
        if isProcessing { return .wait(until: now + rule.idle) }
        if let pinged {
            return now >= pinged + rule.answer ? .dead : .wait(until: pinged + rule.answer)
        }
        if now < lastReceived + rule.idle { return .wait(until: lastReceived + rule.idle) }
        pinged = now
        return .ping
    }
}

/// The limits for a silent peer.
package struct HeartbeatRule: Sendable, Equatable {
    /// The silence after which a ping is sent.
    package var idle = Duration.seconds(30)
    /// The time in which the peer must answer.
    package var answer = Duration.seconds(15)

    package init() {}
}
