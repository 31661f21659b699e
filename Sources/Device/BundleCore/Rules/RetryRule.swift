/// Decides when a client whose start failed once is offered again, while another client runs.
///
/// A page may fail because its backend is unavailable for a while. Without a pause, a page that requests the client
/// at once would use both of its trials within seconds. A restart of the shell by an operator does not wait.
public enum RetryRule {
    package enum Availability: Sendable, Equatable {
        /// The client is offered now.
        case offered
        /// The client is offered after this time.
        case waits(Duration)
    }

    /// The pause if the shell does not set one.
    public static let standardPause = Duration.seconds(900)

    /// Returns the answer at `now` for a start that failed at `failure`; both are times of one clock. `failure` is
    /// nil if the start failed before this clock started.
    package static func answer(failedAt failure: Duration?, now: Duration, pause: Duration) -> Availability {
        guard let failure else { return .offered }
        let left = failure + pause - now
        return left > .zero ? .waits(left) : .offered
    }
}
