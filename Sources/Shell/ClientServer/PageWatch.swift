import BundleValues
import BundleShell

/// Detects a lost page. It expects nothing until a page of this device reports or a browser is started.
struct PageWatch {
    /// The loss of the page.
    struct Loss: Equatable {
        let reason: String
        /// Whether the page was loaded, so a client on trial has failed. False for a page that is only out of sight.
        let isOfPage: Bool
    }

    /// A page that left for another site, for example to log in, may be away for this multiple of the timeout.
    private static let timesAway = 10
    /// The time in which a browser has to load the page, at least. It doubles after each start without a page.
    private static let shortestStart = Duration.seconds(30)
    private static let longestStart = Duration.seconds(300)
    /// The time in which a page has to begin a reload, at most.
    private static let longestReload = Duration.seconds(20)
    /// The time in which a page that must no longer be shown has to be replaced.
    private static let longestReplacement = Duration.seconds(2)

    /// The time in which a page has to connect again after its connection ended, or another one has to load.
    static let longestGap = Duration.seconds(4)
    /// The time for which a page that loads may be the successor of one whose connection ends.
    private static let longestSuccession = Duration.seconds(10)
    /// The largest number of pages that are remembered.
    private static let rememberedPages = 16

    /// A page of this device that has reported.
    private struct WatchedPage {
        enum Sight {
            /// It has to report by this time.
            case seen(until: Duration)
            case hidden
            case gone
            /// It has not reported yet, or has to reload.
            case unknown
        }

        enum Link {
            /// It reports by single requests.
            case requests
            case open
            case ended
        }

        let name: String
        let since: Duration
        /// The number of its last numbered report.
        var number = 0
        var sight: Sight
        var link = Link.requests

        var isSeen: Bool { if case .seen = sight { true } else { false } }

        var hasEnded: Bool { if case .ended = link { true } else { false } }

        func isOverdue(at now: Duration) -> Bool {
            if case .seen(let deadline) = sight { now >= deadline } else { false }
        }
    }

    private let timeout: Duration
    /// Whether the screen has no other window than the page's.
    private let isKiosk: Bool
    /// The youngest page is the last.
    private var pages: [WatchedPage] = []
    /// The time by which a page has to follow; nil if none is expected.
    private var expected: (deadline: Duration, loss: Loss)?
    /// The time of the last load.
    private var lastLoad: Duration?
    private var hasReported = false
    /// Whether a loss was reported, so a browser may be starting.
    private var isLost = false
    private var startTime: Duration

    /// Creates a watch. A page that reports nothing for `timeout` is lost. The only window of a kiosk is also lost if
    /// it is out of sight for that time.
    init(timeout: Duration, isKiosk: Bool = false) {
        (self.timeout, self.isKiosk) = (timeout, isKiosk)
        startTime = max(timeout, Self.shortestStart)
    }

    /// Records the start of a browser, which has to load the page.
    mutating func starts(at now: Duration) {
        (pages, isLost) = ([], true)
        expect(
            now, startTime, "the browser was started, and has loaded no page within \(DurationText(startTime))",
            isOfPage: false)
        startTime = min(startTime * 2, max(timeout, Self.longestStart))
    }

    /// Excludes `time`, for which the process and its pages were suspended.
    mutating func exclude(_ time: Duration) {
        expected?.deadline += time
        for index in pages.indices {
            if case .seen(let deadline) = pages[index].sight { pages[index].sight = .seen(until: deadline + time) }
        }
    }

    /// Records a report of a page, with its number if it has one. A page out of sight need not report again, unless it has
    /// the only window.
    mutating func reports(_ name: String, number: Int? = nil, isSeen: Bool, at now: Duration) {
        let index = index(of: name) ?? add(name, at: now)
        if let number {
            if number <= pages[index].number { return }
            pages[index].number = number
        }
        let before = pages[index].sight
        // Only a numbered report shows that an unloaded page has returned from the cache of the browser.
        if case .gone = before, number == nil || !isSeen { return }
        pages[index].sight = isSeen ? .seen(until: now + timeout) : .hidden
        switch before {
        case _ where isSeen:
            leaveReplaced(by: index)
            expected = nil
        // Another page is visible, or has to follow.
        case _ where isAnySeen: return
        case .seen where expected != nil: return
        case .hidden: return
        case _ where isKiosk:
            expect(
                now, timeout, "its window has been out of sight for \(DurationText(timeout))", isOfPage: false)
        default: expected = nil
        }
        (hasReported, isLost) = (true, false)
        startTime = max(timeout, Self.shortestStart)
    }

    /// Records that a page leaves, for `place` if that is another site. Unless another one is visible, a page has to follow.
    mutating func leaves(_ name: String, number: Int? = nil, for place: String, at now: Duration) {
        let index = index(of: name) ?? add(name, at: now)
        if let number {
            if number <= pages[index].number { return }
            pages[index].number = number
        }
        let wasSeen = isAnySeen
        pages[index].sight = .gone
        guard wasSeen, !isAnySeen else { return }
        let time = place.isEmpty ? timeout : timeout * Self.timesAway
        let aim = place.isEmpty ? "" : " for \(UntrustedName.display(place))"
        expect(now, time, "it left\(aim), and no page of this device followed within \(DurationText(time))")
    }

    /// Records that a page opened its connection.
    mutating func connects(_ name: String, at now: Duration) {
        let index = index(of: name) ?? add(name, at: now)
        pages[index].link = .open
        if case .seen = pages[index].sight { pages[index].sight = .seen(until: now + timeout) }
    }

    /// Records that the connection of a page ended. Without a report, its process has ended, unless it connects again or
    /// another page is loaded. `isOurs` if the server ended the connection.
    mutating func disconnects(_ name: String, isOurs: Bool = false, at now: Duration) {
        guard let index = index(of: name) else { return }
        pages[index].link = .requests
        guard !isOurs, case .seen(let deadline) = pages[index].sight else { return }
        // Its successor was loaded before. A page that hangs reports no unload, and that of a page of another launch is refused.
        if let lastLoad, lastLoad > pages[index].since, now - lastLoad < Self.longestSuccession {
            pages[index].sight = .unknown
            return
        }
        pages[index].link = .ended
        pages[index].sight = .seen(until: min(deadline, now + Self.longestGap))
    }

    /// Records that a browser loads a page.
    mutating func loads(at now: Duration) {
        lastLoad = now
        guard hasReported || isLost else { return }
        isLost = false
        for index in pages.indices {
            if pages[index].hasEnded { pages[index].sight = .unknown }
        }
        expect(now, timeout, "it was loaded, and has said nothing for \(DurationText(timeout))")
    }

    /// Records that the visible pages have to reload. A page in the background reloads when it becomes visible.
    mutating func isSentAway(at now: Duration) {
        guard !isLost, isAnySeen || expected != nil || pages.isEmpty else { return }
        forgetSeen()
        let time = min(timeout, Self.longestReload)
        expect(now, time, "it did not load itself again within \(DurationText(time))")
    }

    /// Records that the visible pages are not for the next user: a browser has to load another one at once, in any window.
    mutating func isReplaced(at now: Duration) {
        guard hasReported, !isLost else { return }
        forgetSeen()
        expect(
            now, Self.longestReplacement,
            "it is still there \(DurationText(Self.longestReplacement)) after it was to go")
    }

    /// Returns each new loss once.
    mutating func loss(at now: Duration) -> Loss? {
        let loss: Loss
        if let expected, now >= expected.deadline {
            loss = expected.loss
        } else if let silent = pages.first(where: { $0.isOverdue(at: now) }) {
            let text =
                silent.hasEnded
                ? "its connection ended, and no page followed within \(DurationText(Self.longestGap))"
                : "it has said nothing for \(DurationText(timeout))"
            loss = Loss(reason: text, isOfPage: true)
        } else {
            return nil
        }
        (expected, pages, isLost) = (nil, [], true)
        return loss
    }

    // MARK: Pages

    private func index(of name: String) -> Int? { pages.firstIndex { $0.name == name } }

    private var isAnySeen: Bool { pages.contains(where: \.isSeen) }

    /// Adds a page that has not reported whether it is visible.
    private mutating func add(_ name: String, at now: Duration) -> Int {
        if pages.count == Self.rememberedPages { pages.remove(at: pages.firstIndex { !$0.isSeen } ?? 0) }
        pages.append(WatchedPage(name: name, since: now, sight: .unknown))
        return pages.count - 1
    }

    /// Forgets the visible pages that a page which reports may have replaced. A page with an open connection is still there. One
    /// whose connection ended was not replaced unless a page was loaded: another window may have ended with its process.
    private mutating func leaveReplaced(by index: Int) {
        for other in pages.indices where other != index && pages[other].isSeen {
            if case .requests = pages[other].link { pages[other].sight = .unknown }
        }
    }

    private mutating func forgetSeen() {
        for index in pages.indices where pages[index].isSeen { pages[index].sight = .unknown }
    }

    private mutating func expect(_ now: Duration, _ time: Duration, _ reason: String, isOfPage: Bool = true) {
        expected = (now + time, Loss(reason: reason, isOfPage: isOfPage))
    }
}
