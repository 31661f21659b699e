/// What whoever keeps a connection tells people about it.
package enum LinkReport: Sendable, Equatable {
    /// There is one, and the other side answers.
    case connected
    /// There is none, or no longer, for this reason.
    case lost(String)
    /// One sentence about something else.
    case note(String)
}

/// Makes one report of each change: a place that cannot be reached is tried for days, and that is one piece of news.
package struct LinkEvent: Sendable {
    private var isConnected: Bool?

    /// Nothing is known yet: whatever comes first is news.
    package init() {}

    /// There is a connection; nil where that was known.
    package mutating func connected() -> LinkReport? { turn(true, .connected) }

    /// There is none; nil where that was known, whatever the reason is this time.
    package mutating func lost(_ reason: @autoclosure () -> String) -> LinkReport? { turn(false, .lost(reason())) }

    private mutating func turn(_ now: Bool, _ report: @autoclosure () -> LinkReport) -> LinkReport? {
        defer { isConnected = now }
        return isConnected == now ? nil : report()
    }
}
