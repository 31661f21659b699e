/// How long things take, and when they are tried again (METEOR section 7.5). `jitter` is in 0.75…1.25.
enum DDPTimers {
    /// From the beginning of a connection to the open socket, and from there to the server's `connected`.
    static let connect = Duration.seconds(10)
    /// How long the server may say nothing before it is asked.
    static let idle = Duration.milliseconds(17_500)
    /// How long it may take to answer then.
    static let answer = Duration.seconds(15)
    /// How long a subscription must last for the connection to count as a success.
    static let success = Duration.seconds(10)
    /// The longest wait, before jitter.
    static let longest = Duration.seconds(300)
    static let jitter = 0.75...1.25

    /// The wait before the next connection, in whole milliseconds; `attempt` counts those since the last success, from 0.
    static func reconnect(attempt: Int, jitter: Double) -> Duration {
        attempt < 2 ? .milliseconds(10) : grown(.seconds(1), attempt, jitter)
    }

    /// The wait before the next subscription, in whole milliseconds; `attempt` counts those since the last success, from 1.
    static func resubscribe(attempt: Int, jitter: Double) -> Duration {
        grown(.seconds(30), max(1, attempt), jitter)
    }

    private static func grown(_ wait: Duration, _ attempt: Int, _ jitter: Double) -> Duration {
        var wait = wait
        for _ in 0..<attempt where wait < longest { wait = wait * 2.2 }
        return .milliseconds(Int((min(wait, longest) * jitter / .milliseconds(1)).rounded()))
    }
}
