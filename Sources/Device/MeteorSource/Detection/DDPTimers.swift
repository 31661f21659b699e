import BundleTransport

/// The timeouts and retries of a conversation (METEOR section 7.5).
enum DDPTimers {
    /// The timeout for opening the socket, and then for the server's `connected`.
    static let connect = Duration.seconds(10)
    /// The silence after which the client sends a ping.
    static let idle = Duration.milliseconds(17_500)
    /// The timeout of the answer.
    static let answer = Duration.seconds(15)
    /// The duration of a subscription after which its connection counts as successful.
    static let success = Duration.seconds(10)
    /// The waits before a reconnection, counted from the last successful connection.
    static let reconnect = backoff { $0.soonLosses = 2 }
    /// The waits before another subscription, counted from the last successful connection. The first refusal counts as
    /// one loss.
    static let resubscribe = backoff { $0.first = .seconds(30) }

    private static func backoff(_ change: (inout BackoffRule) -> Void) -> BackoffRule {
        var rule = BackoffRule()
        rule.factor = 2.2
        rule.spread = 0.75...1.25
        change(&rule)
        return rule
    }
}
