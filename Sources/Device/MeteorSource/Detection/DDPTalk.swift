/// The state of a connection after the server's `connected`.
struct DDPTalk: Sendable {
    /// The time of the last frame from the server.
    var lastReceived: Duration
    /// The time of an unanswered ping.
    var pinged: Duration?
    /// The number of the present subscription, from 1.
    var subscription = 1
    /// The time of the next attempt to subscribe.
    var subscribeAgain: Duration?
    /// The time at which the first subscription became ready.
    var readySince: Duration?

    /// The time of the next action without an event.
    var deadline: Duration {
        let silence = pinged.map { $0 + DDPTimers.answer } ?? lastReceived + DDPTimers.idle
        return min(silence, subscribeAgain ?? silence)
    }
}
