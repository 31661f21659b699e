import BundleCore
import BundleValues

/// A launch awaiting confirmation: its remaining time and the reports of its pages. Time passes while a user can see one of
/// them. It is paused when all are hidden or gone.
struct Trial: Sendable {
    /// The largest number of pages that are remembered.
    private static let rememberedPages = 16
    private static let keptPageErrors = 3
    /// The time for the looks of a page with an empty screen, which take 3 s.
    private static let longestLook = Duration.seconds(6)
    /// The failure of a page that shows nothing.
    static let blankScreen =
        "the page called startupDidComplete(), and then showed no text, image or color for 3 s"

    /// A page load that has reported.
    private struct TrialPage {
        enum Sight { case shown, hidden, gone }

        let load: String
        /// The number of its last report.
        var number: Int
        var sight: Sight
        /// The reading of the clock at its first report.
        let since: Duration
    }

    private var watchdog: StartupWatchdog
    /// The reading of the clock at which the time is over; nil while it is paused.
    private var end: Duration?
    /// The time after which a page in a browser counts as visible without a report; nil if every page counts.
    private let longestSilence: Duration?
    private var silence: Duration?
    /// Whether the ledger still has to record the first report.
    private var awaitsReport: Bool
    /// The youngest page is the last.
    private var pages: [TrialPage] = []
    private let timeout: Duration
    /// The departure of the last visible page, and the moment by which a page of the client has to follow.
    private var departure: (text: String, end: Duration)?
    private var isConfirmed = false
    /// Whether its page has confirmed the start with an empty screen, so its end waits for what the page shows.
    private var awaitsContent = false
    /// Whether the screen stayed blank, in a trial that only its timeout may fail.
    private var isBlank = false
    private var pageErrors: [String] = []
    /// The number of grave errors that its pages reported.
    private(set) var errorCount = 0

    /// The end of a trial without a verdict of its page.
    enum TrialEnd: Equatable {
        case failed(StartFailure.Cause, String)
        /// A page was loaded, and no page has reported since the shell started.
        case silent
        /// The page has confirmed its start, and nothing has become known of its screen.
        case confirmed
    }

    /// Begins a trial at the clock's reading `now`.
    init(_ timeout: StartupTimeout, _ visibility: ShellConfiguration.Visibility, at now: Duration) {
        awaitsReport = visibility == .reported
        watchdog = StartupWatchdog(timeout: timeout)
        self.timeout = timeout.duration
        longestSilence = visibility == .reported ? timeout.duration * 3 : nil
        _ = apply(.started, at: now)
        if longestSilence != nil { _ = apply(.paused, at: now) }
    }

    /// The reading of the clock at which `wake` has to be called; nil if the trial waits for no deadline.
    var wake: Duration? { [end, silence, departure?.end].compactMap(\.self).min() }

    /// The first page errors. Several are kept, because the decisive one may follow another.
    var failureDetail: String? { pageErrors.isEmpty ? nil : pageErrors.joined(separator: "; ") }

    /// Records that a user loads the page. Unless another page is visible, it has to report, or else it counts as visible.
    mutating func isLoaded(at now: Duration) {
        departure = nil
        guard let longestSilence, end == nil, !isConfirmed, silence == nil else { return }
        silence = now + longestSilence
    }

    /// Ends the startup timeout, because the page confirmed its start. Returns false if it had ended before.
    mutating func confirm(at now: Duration) -> Bool {
        (silence, isConfirmed) = (nil, true)
        return apply(.confirmed, at: now) == .settle(.healthy)
    }

    /// Records that the page has confirmed its start with an empty screen, which it looks at for some time.
    mutating func awaitContent(at now: Duration) {
        guard !isConfirmed else { return }
        awaitsContent = true
        _ = apply(.extended(Self.longestLook), at: now)
    }

    /// Records that the screen stayed blank. The timeout decides.
    mutating func noteBlankScreen() { isBlank = awaitsContent }

    /// Ends the wait for content. Returns true if the page has confirmed its start and is not known to be blank.
    mutating func endLook() -> Bool {
        defer { awaitsContent = awaitsContent && isBlank }
        return awaitsContent && !isBlank
    }

    /// Records that a page was shown or hidden. Without a `report`, it is the only view of a shell.
    mutating func show(_ isShown: Bool, _ report: PageReport?, at now: Duration) {
        let (index, isNew) = page(report, at: now)
        guard let index else { return }
        if isShown || isNew { (silence, departure) = (nil, nil) }
        // An unloaded page may report late that it is hidden. One that returns from the cache of the browser is shown.
        if isShown || pages[index].sight != .gone { pages[index].sight = isShown ? .shown : .hidden }
        pauseUnlessSeen(at: now)
    }

    /// Records that a page leaves for `place`. Unless another one is visible, a page of the client has to follow within the
    /// startup timeout.
    mutating func leave(for place: String, _ report: PageReport, at now: Duration) {
        guard let index = page(report, at: now).index else { return }
        depart(index, "its page left\(place.isEmpty ? "" : " for \(place)")", at: now)
    }

    /// Records that the connection of a page ended without a report. If the page was visible, another one has to follow. A
    /// hidden page was closed.
    mutating func vanish(load: String, at now: Duration) {
        guard let index = pages.firstIndex(where: { $0.load == load }) else { return }
        switch pages[index].sight {
        case .shown: depart(index, "its page ended", at: now)
        case .hidden: pages[index].sight = .gone
        case .gone: break
        }
    }

    private mutating func depart(_ index: Int, _ text: String, at now: Duration) {
        pages[index].sight = .gone
        pauseUnlessSeen(at: now)
        // The report of a page that follows may arrive before that of the unload.
        let isFollowed = pages[(index + 1)...].contains { $0.sight != .gone && now - $0.since < timeout }
        if !isSeen && !isFollowed { departure = (text, now + timeout) }
    }

    /// Excludes `time`, for which the process and its pages were suspended until now.
    mutating func exclude(_ time: Duration, at now: Duration) {
        if end != nil {
            _ = apply(.paused, at: now - time)
            _ = apply(.resumed, at: now)
        }
        silence = silence.map { $0 + time }
        departure?.end += time
    }

    /// Records a report of a page. Returns true for the first one, if pages report at all.
    mutating func recordReport() -> Bool {
        defer { awaitsReport = false }
        return awaitsReport
    }

    mutating func addPageError(_ text: String) {
        errorCount += 1
        if pageErrors.count < Self.keptPageErrors { pageErrors.append(text) }
    }

    /// Returns how the trial has ended; nil if it continues. With `afterReports`, pages of another client have reported, so
    /// silence is a failure of this client.
    mutating func wake(at now: Duration, afterReports: Bool) -> TrialEnd? {
        if let departure, now >= departure.end {
            return .failed(
                .reported, "\(departure.text), and none of its pages followed within \(DurationText(timeout))")
        }
        if let silence, now >= silence {
            self.silence = nil
            if !afterReports { return .silent }
            _ = apply(.resumed, at: now)
        }
        guard case .settle(.faulty(let cause, let what))? = apply(.woken, at: now) else { return nil }
        if awaitsContent { return isBlank ? .failed(.blankScreen, Self.blankScreen) : .confirmed }
        return .failed(cause, what)
    }

    private mutating func apply(
        _ event: StartupWatchdog.WatchdogEvent, at now: Duration
    ) -> StartupWatchdog.WatchdogAction? {
        let action = watchdog.handle(event, at: now)
        switch action {
        case .wake(let moment)?: end = moment
        case .sleep?, .settle?: end = nil
        case nil: break
        }
        return action
    }

    /// Whether a page is visible.
    private var isSeen: Bool { pages.contains { $0.sight == .shown } }

    private mutating func pauseUnlessSeen(at now: Duration) {
        _ = apply(isSeen ? .resumed : .paused, at: now)
    }

    /// Returns the index of the page that sent `report`, and whether it has not reported before. The index is nil if a later
    /// report of the page arrived before.
    private mutating func page(_ report: PageReport?, at now: Duration) -> (index: Int?, isNew: Bool) {
        let load = report?.load ?? ""
        guard let index = pages.firstIndex(where: { $0.load == load }) else {
            if pages.count == Self.rememberedPages {
                pages.remove(
                    at: pages.firstIndex { $0.sight == .gone } ?? pages.firstIndex { $0.sight == .hidden } ?? 0)
            }
            pages.append(TrialPage(load: load, number: report?.number ?? 0, sight: .hidden, since: now))
            return (pages.count - 1, true)
        }
        guard let report else { return (index, false) }
        if pages[index].number >= report.number { return (nil, false) }
        pages[index].number = report.number
        return (index, false)
    }
}

/// The origin of a report: reports of one page may arrive out of order.
public struct PageReport: Sendable, Equatable {
    /// A unique name of the page load.
    public let load: String
    /// The number of the report. It increases with each report of this load.
    public let number: Int

    /// Creates the origin of report `number` of a page load.
    public init(load: String, number: Int) {
        self.load = load
        self.number = number
    }
}
