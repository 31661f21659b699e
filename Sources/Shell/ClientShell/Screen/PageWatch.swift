import BundleValues

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

    private let timeout: Duration
    /// Whether the screen has no other window than the page's.
    private let isKiosk: Bool
    /// The page that reported last; nil while one is being loaded.
    private var page: String?
    /// The page that left last.
    private var gone: String?
    private var hasReported = false
    /// Whether a loss was reported, so a browser may be starting.
    private var isLost = false
    /// The time by which the page has to report again; nil if no report is expected.
    private var deadline: Duration?
    private var reason = ""
    private var isOfPage = true
    private var startTime: Duration

    /// Creates a watch. A page that reports nothing for `timeout` is lost. The only window of a kiosk is also lost if
    /// it is out of sight for that time.
    init(timeout: Duration, isKiosk: Bool = false) {
        (self.timeout, self.isKiosk) = (timeout, isKiosk)
        startTime = max(timeout, Self.shortestStart)
    }

    /// Records the start of a browser, which has to load the page.
    mutating func starts(at now: Duration) {
        (page, isLost) = (nil, true)
        wait(
            now, startTime, "the browser was started, and has loaded no page within \(DurationText(startTime))",
            isOfPage: false)
        startTime = min(startTime * 2, max(timeout, Self.longestStart))
    }

    /// Excludes `time`, for which the process and its page were suspended.
    mutating func exclude(_ time: Duration) { deadline = deadline.map { $0 + time } }

    /// Records a report of a page. A page out of sight need not report again, unless it has the only window.
    mutating func reports(_ name: String, isSeen: Bool, at now: Duration) {
        // An unloading page reports late, and a page in the background is not the one in front.
        if !isSeen && (name == gone || (page ?? name) != name) { return }
        (page, gone, hasReported, isLost) = (name, nil, true, false)
        startTime = max(timeout, Self.shortestStart)
        if isSeen {
            wait(now, timeout, "it has said nothing for \(DurationText(timeout))")
        } else {
            wait(
                isKiosk ? now : nil, timeout, "its window has been out of sight for \(DurationText(timeout))",
                isOfPage: false)
        }
    }

    /// Records that a page leaves, for `place` if that is another site. Another page has to follow.
    mutating func leaves(_ name: String, for place: String, at now: Duration) {
        guard isInFront(name) else { return }
        gone = name
        let time = place.isEmpty ? timeout : timeout * Self.timesAway
        let aim = place.isEmpty ? "" : " for \(UntrustedName.display(place))"
        wait(now, time, "it left\(aim), and no page of this device followed within \(DurationText(time))")
    }

    /// Records that a browser loads a page.
    mutating func loads(at now: Duration) {
        guard hasReported || isLost else { return }
        (page, isLost) = (nil, false)
        wait(now, timeout, "it was loaded, and has said nothing for \(DurationText(timeout))")
    }

    /// Records that the page in front has to reload. A page in the background reloads when it becomes visible.
    mutating func isSentAway(at now: Duration) {
        guard !isLost, page == nil || deadline != nil else { return }
        let time = min(timeout, Self.longestReload)
        wait(now, time, "it did not load itself again within \(DurationText(time))")
    }

    /// Records that the page in front is not for the next user: a browser has to load another one at once, in any
    /// window.
    mutating func isReplaced(at now: Duration) {
        guard hasReported, !isLost else { return }
        page = nil
        wait(
            now, Self.longestReplacement,
            "it is still there \(DurationText(Self.longestReplacement)) after it was to go")
    }

    /// Returns each new loss once.
    mutating func loss(at now: Duration) -> Loss? {
        guard let deadline, now >= deadline else { return nil }
        (self.deadline, page, isLost) = (nil, nil, true)
        return Loss(reason: reason, isOfPage: isOfPage)
    }

    private func isInFront(_ name: String) -> Bool { page == nil || page == name && deadline != nil }

    private mutating func wait(_ now: Duration?, _ time: Duration, _ reason: String, isOfPage: Bool = true) {
        deadline = now.map { $0 + time }
        (self.reason, self.isOfPage) = (reason, isOfPage)
    }
}
