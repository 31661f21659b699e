/// Pages that somebody is in the middle of something with: a payment, a scan. A value; for a while they keep the client from being
/// changed under a person's hands.
///
/// Pages name themselves, so the time counts for the launch: from when any page was busy until nobody was.
package struct BusyPages: Sendable {
    /// How long, where the channel does not say.
    package static let standard = Duration.seconds(600)
    /// The longest that a channel may allow, in seconds.
    package static let longest = 3600
    /// The longest for a client that must not run.
    package static let longestForRecall = Duration.seconds(60)

    private struct Page {
        let load: String
        var number: Int
        /// Since when it is busy; nil where it is not.
        var since: Duration?

        func isBusy(at now: Duration, _ limit: Duration) -> Bool { since.map { now - $0 < limit } ?? false }
    }

    /// The youngest is last.
    private var pages: [Page] = []
    private static let remembered = 16
    /// Since when some page was busy at every moment; nil where nobody was at the last inspection.
    private var since: Duration?

    /// No page is busy.
    package init() {}

    /// How long pages keep the client from being changed: `seconds` as a channel says, at most `longest`.
    package static func limit(_ seconds: Int?) -> Duration {
        seconds.map { .seconds(min(max($0, 0), longest)) } ?? standard
    }

    /// The page that was loaded as `load` says so, in its report `number`; one that says again that it is busy is no longer so for that.
    package mutating func report(_ isBusy: Bool, load: String, number: Int, at now: Duration) {
        let index = pages.firstIndex { $0.load == load }
        // Reports may overtake each other.
        if let index, pages[index].number >= number { return }
        if isBusy, since == nil { since = now }
        guard let index else {
            pages.append(Page(load: load, number: number, since: isBusy ? now : nil))
            if pages.count > Self.remembered { pages.removeFirst() }
            return
        }
        pages[index].number = number
        pages[index].since = isBusy ? pages[index].since ?? now : nil
    }

    /// The page is gone.
    package mutating func leave(load: String) {
        for index in pages.indices where pages[index].load == load { pages[index].since = nil }
    }

    /// The store was inspected at `now`, so whatever waited for nobody to be busy is done. A page that has been busy for longer than
    /// `limit` is nobody: it may have gone without a word.
    package mutating func inspected(at now: Duration, limit: Duration) {
        if !pages.contains(where: { $0.isBusy(at: now, limit) }) { since = nil }
    }

    /// Whether what is to be changed at `now` has to wait, where pages count for `limit` together.
    package func holds(at now: Duration, limit: Duration) -> Bool {
        guard let since, now - since < limit else { return false }
        return pages.contains { $0.isBusy(at: now, limit) }
    }

    /// The same for a client that must not run.
    package func holdsRecall(at now: Duration, limit: Duration) -> Bool {
        holds(at: now, limit: min(limit, Self.longestForRecall))
    }
}
