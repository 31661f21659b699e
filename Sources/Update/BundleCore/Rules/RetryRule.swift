/// When a client whose start failed once is offered again, while another one runs. A pure rule.
///
/// What a page needs, such as its backend, may be away for a while. A page that asks for the client at once would use up both of its
/// trials in seconds. An operator who starts the shell does not wait.
public enum RetryRule {
    /// What the rule answers.
    package enum Answer: Sendable, Equatable {
        /// The client is offered now.
        case offered
        /// It is offered when so much time has passed.
        case waits(Duration)
    }

    /// The pause where the shell states none.
    public static let standardPause = Duration.seconds(900)

    /// Answers at `now` for a start that failed at `failure`, both readings of one clock; nil where it failed before this clock
    /// began.
    package static func answer(failedAt failure: Duration?, now: Duration, pause: Duration) -> Answer {
        guard let failure else { return .offered }
        let left = failure + pause - now
        return left > .zero ? .waits(left) : .offered
    }
}
