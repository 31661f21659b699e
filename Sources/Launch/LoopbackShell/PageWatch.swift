import BundleValues

/// Whether the page on the screen still lives: a value. It expects nothing until a page of this device reports, or a browser is started.
struct PageWatch {
    /// Why the page is lost.
    struct Loss: Equatable {
        let reason: String
        /// Whether the page was loaded, and is not only out of sight: a client on trial has failed then.
        let isOfPage: Bool
    }

    /// A page that left for another place, such as to log in, may be away for so many times as long.
    private static let timesAway = 10
    /// A browser has at least this time to load the page, and twice as long after each start without a page.
    private static let shortestStart = Duration.seconds(30)
    private static let longestStart = Duration.seconds(300)
    /// A page that is told to load itself again needs no longer to begin.
    private static let longestReload = Duration.seconds(20)
    /// A page that must not be seen any longer.
    private static let longestReplacement = Duration.seconds(2)

    private let patience: Duration
    /// Whether the screen has nothing but the page's window.
    private let isKiosk: Bool
    /// The page that spoke last; nil where one is being loaded.
    private var page: String?
    /// The page that left last.
    private var gone: String?
    private var hasSpoken = false
    /// Whether somebody was told that it is lost, and may be starting a browser.
    private var isLost = false
    /// When it has to have spoken again; nil where nothing is expected.
    private var deadline: Duration?
    private var reason = ""
    private var isOfPage = true
    private var startTime: Duration

    /// A page may report nothing for `patience`. Of a kiosk's only window it is lost, too, when it is out of sight for as long.
    init(patience: Duration, isKiosk: Bool = false) {
        (self.patience, self.isKiosk) = (patience, isKiosk)
        startTime = max(patience, Self.shortestStart)
    }

    /// A browser is started, which is to load the page.
    mutating func starts(at now: Duration) {
        (page, isLost) = (nil, true)
        wait(
            now, startTime, "the browser was started, and has loaded no page within \(DurationText(startTime))",
            isOfPage: false)
        startTime = min(startTime * 2, max(patience, Self.longestStart))
    }

    /// The process stood still for `time`, and so did the page.
    mutating func standsStill(for time: Duration) { deadline = deadline.map { $0 + time } }

    /// A page reports. Of one that is out of sight nothing more is expected, unless it has the only window.
    mutating func speaks(_ name: String, isSeen: Bool, at now: Duration) {
        // One on its way out says so late, and one in the back is not the one in front.
        if !isSeen && (name == gone || (page ?? name) != name) { return }
        (page, gone, hasSpoken, isLost) = (name, nil, true, false)
        startTime = max(patience, Self.shortestStart)
        if isSeen {
            wait(now, patience, "it has said nothing for \(DurationText(patience))")
        } else {
            wait(
                isKiosk ? now : nil, patience, "its window has been out of sight for \(DurationText(patience))",
                isOfPage: false)
        }
    }

    /// A page leaves, for `place` where that is not one of ours, and another one is to follow.
    mutating func leaves(_ name: String, for place: String, at now: Duration) {
        guard isInFront(name) else { return }
        gone = name
        let time = place.isEmpty ? patience : patience * Self.timesAway
        let aim = place.isEmpty ? "" : " for \(UntrustedName.display(place))"
        wait(now, time, "it left\(aim), and no page of this device followed within \(DurationText(time))")
    }

    /// Somebody loads a page of ours.
    mutating func loads(at now: Duration) {
        guard hasSpoken || isLost else { return }
        (page, isLost) = (nil, false)
        wait(now, patience, "it was loaded, and has said nothing for \(DurationText(patience))")
    }

    /// The page in front is to load itself again; in the back it does so when somebody looks.
    mutating func isSentAway(at now: Duration) {
        guard !isLost, page == nil || deadline != nil else { return }
        let time = min(patience, Self.longestReload)
        wait(now, time, "it did not load itself again within \(DurationText(time))")
    }

    /// The page in front is none of the next user: a browser has to load another one at once, wherever it is.
    mutating func isReplaced(at now: Duration) {
        guard hasSpoken, !isLost else { return }
        page = nil
        wait(
            now, Self.longestReplacement,
            "it is still there \(DurationText(Self.longestReplacement)) after it was to go")
    }

    /// Why the page is lost by now, once.
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
