import BundlePush

/// How long things take, and when they are tried again (METEOR section 7.5).
enum DDPTimers {
    /// From the beginning of a connection to the open socket, and from there to the server's `connected`.
    static let connect = Duration.seconds(10)
    /// How long the server may say nothing before it is asked.
    static let idle = Duration.milliseconds(17_500)
    /// How long it may take to answer then.
    static let answer = Duration.seconds(15)
    /// How long a subscription must last for the connection to count as a success.
    static let success = Duration.seconds(10)
    /// When to connect again; losses count from the last success.
    static let reconnect = backoff { $0.soonLosses = 2 }
    /// When to subscribe again; refusals count from the last success, and the first of them as one.
    static let resubscribe = backoff { $0.first = .seconds(30) }

    private static func backoff(_ change: (inout BackoffRule) -> Void) -> BackoffRule {
        var rule = BackoffRule()
        rule.factor = 2.2
        rule.spread = 0.75...1.25
        change(&rule)
        return rule
    }
}
