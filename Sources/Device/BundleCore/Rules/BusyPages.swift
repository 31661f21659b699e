import BundleFormats

/// Pages on which a user is busy, for example with a payment or a scan. For a limited time they delay a change of the
/// client.
///
/// The limit applies to the launch, not to a page: it runs from the first report of a busy page until no page is
/// busy.
package struct BusyPages: Sendable {
    /// The limit if the channel does not set one.
    package static let standard = Duration.seconds(600)
    /// The largest limit for a client that must not run.
    package static let longestForRecall = Duration.seconds(60)

    private struct BusyPage {
        let load: String
        var number: Int
        /// The start of the busy time; nil if the page is not busy.
        var since: Duration?

        func isBusy(at now: Duration, _ limit: Duration) -> Bool { since.map { now - $0 < limit } ?? false }
    }

    /// The most recently loaded page is last.
    private var pages: [BusyPage] = []
    private static let remembered = 16
    /// The moment since which at least one page was busy without a break; nil if no page was busy at the last
    /// inspection.
    private var since: Duration?

    package init() {}

    /// Returns the limit for `seconds` of a channel, at most `ChannelDocument.longestBusyLimit`.
    package static func limit(_ seconds: Int?) -> Duration {
        seconds.map { .seconds(min(max($0, 0), ChannelDocument.longestBusyLimit)) } ?? standard
    }

    /// Records whether the page that was loaded as `load` is busy, by its report `number`. A repeated report does not
    /// extend the busy time.
    package mutating func report(_ isBusy: Bool, load: String, number: Int, at now: Duration) {
        let index = pages.firstIndex { $0.load == load }
        // Reports may arrive out of order.
        if let index, pages[index].number >= number { return }
        if isBusy, since == nil { since = now }
        guard let index else {
            pages.append(BusyPage(load: load, number: number, since: isBusy ? now : nil))
            if pages.count > Self.remembered { pages.removeFirst() }
            return
        }
        pages[index].number = number
        pages[index].since = isBusy ? pages[index].since ?? now : nil
    }

    /// Records that the page was closed.
    package mutating func leave(load: String) {
        for index in pages.indices where pages[index].load == load { pages[index].since = nil }
    }

    /// Records that the caller inspected the store at `now` and made the pending change if it could. A page that has
    /// been busy for longer than `limit` does not count as busy: it may have closed without a report.
    package mutating func inspected(at now: Duration, limit: Duration) {
        if !pages.contains(where: { $0.isBusy(at: now, limit) }) { since = nil }
    }

    /// Returns whether a change has to wait at `now`, if all pages together may delay it for `limit`.
    package func holds(at now: Duration, limit: Duration) -> Bool {
        guard let since, now - since < limit else { return false }
        return pages.contains { $0.isBusy(at: now, limit) }
    }

    /// Returns whether the removal of a client that must not run has to wait.
    package func holdsRecall(at now: Duration, limit: Duration) -> Bool {
        holds(at: now, limit: min(limit, Self.longestForRecall))
    }
}
