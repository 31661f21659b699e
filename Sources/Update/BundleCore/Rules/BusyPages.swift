/// Pages that somebody is in the middle of something with: a payment, a scan. A value; for a while they keep the client from being
/// changed under a person's hands.
package struct BusyPages: Sendable {
    /// How long, where the channel does not say.
    package static let standard = Duration.seconds(600)
    /// The longest that a channel may allow, in seconds.
    package static let longest = 3600

    private struct Page {
        let load: String
        var number: Int
        /// Since when it is busy; nil where it is not.
        var since: Duration?
    }

    /// The youngest is last.
    private var pages: [Page] = []
    private static let remembered = 16

    /// No page is busy.
    package init() {}

    /// How long a page keeps the client from being changed: `seconds` as a channel says, at most `longest`.
    package static func limit(_ seconds: Int?) -> Duration {
        seconds.map { .seconds(min(max($0, 0), longest)) } ?? standard
    }

    /// The page that was loaded as `load` says so, in its report `number`; one that says again that it is busy is no longer so for that.
    package mutating func report(_ isBusy: Bool, load: String, number: Int, at now: Duration) {
        guard let index = pages.firstIndex(where: { $0.load == load }) else {
            pages.append(Page(load: load, number: number, since: isBusy ? now : nil))
            if pages.count > Self.remembered { pages.removeFirst() }
            return
        }
        // Reports may overtake each other.
        if pages[index].number >= number { return }
        pages[index].number = number
        pages[index].since = isBusy ? pages[index].since ?? now : nil
    }

    /// The page is gone.
    package mutating func leave(load: String) {
        for index in pages.indices where pages[index].load == load { pages[index].since = nil }
    }

    /// Whether what is to be changed at `now` has to wait, where each page counts for `limit`.
    package func holds(at now: Duration, limit: Duration) -> Bool {
        pages.contains { page in page.since.map { now - $0 < limit } ?? false }
    }
}
