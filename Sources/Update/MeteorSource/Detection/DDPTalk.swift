/// What is known of a connection once the server has said `connected`.
struct DDPTalk: Sendable {
    /// When the server last said anything.
    var heard: Duration
    /// When it was asked whether it is there, while it has not answered.
    var pinged: Duration?
    /// The present subscription, counted from 1.
    var subscription = 1
    /// When to subscribe once more.
    var subscribeAgain: Duration?
    /// When the first subscription was answered.
    var readySince: Duration?

    /// When something is to be done although nothing happens.
    var deadline: Duration {
        let silence = pinged.map { $0 + DDPTimers.answer } ?? heard + DDPTimers.idle
        return min(silence, subscribeAgain ?? silence)
    }
}
