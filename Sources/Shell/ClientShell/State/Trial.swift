import BundleCore
import BundleValues

/// A launch awaiting confirmation: its remaining time and the reports of its pages. Time passes only while a user can see
/// the page.
struct Trial: Sendable {
    /// The largest number of page loads that are remembered. The youngest is the last.
    private static let rememberedLoads = 16
    private static let keptPageErrors = 3

    private var watchdog: StartupWatchdog
    /// The reading of the clock at which the time is over; nil while it is paused.
    private var end: Duration?
    /// The time after which a page in a browser counts as visible without a report; nil if every page counts.
    private let longestSilence: Duration?
    private var silence: Duration?
    private var isInBrowser = false
    private var hasReported = false
    /// Whether the ledger still has to record the first report.
    private var awaitsReport: Bool
    private var loads: [PageReport] = []
    private let timeout: Duration
    /// The last page that was unloaded, its target, and the moment by which a page of the client has to follow.
    private var unload: (load: String, place: String, end: Duration)?
    private var pageErrors: [String] = []
    /// The number of grave errors that its pages reported.
    private(set) var errorCount = 0

    /// The end of a trial without a verdict of its page.
    enum TrialEnd: Equatable {
        case failed(StartFailure.Cause, String)
        /// A page was loaded, and no page has reported since the shell started.
        case silent
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
    var wake: Duration? { [end, silence, unload?.end].compactMap(\.self).min() }

    /// The first page errors. Several are kept, because the decisive one may follow another.
    var failureDetail: String? { pageErrors.isEmpty ? nil : pageErrors.joined(separator: "; ") }

    /// Records that a user loads the page.
    mutating func isLoaded(at now: Duration) {
        unload = nil
        guard let longestSilence, !isInBrowser else { return }
        isInBrowser = true
        if !hasReported { silence = now + longestSilence }
    }

    /// Ends the startup timeout, because the page confirmed its start. Returns false if it had ended before.
    mutating func confirm(at now: Duration) -> Bool {
        silence = nil
        return apply(.confirmed, at: now) == .settle(.healthy)
    }

    /// Records that a page was shown or hidden. Reports of older loads are ignored: the unload of a reloaded page arrives late.
    mutating func show(_ isShown: Bool, _ report: PageReport?, at now: Duration) {
        if let report, !isNew(report) { return }
        hasReported = true
        silence = nil
        if isShown || report?.load != unload?.load { unload = nil }
        _ = apply(isShown ? .resumed : .paused, at: now)
    }

    /// Records that a page leaves for `place`. A page of the client has to follow within the startup timeout.
    mutating func leave(for place: String, _ report: PageReport, at now: Duration) {
        guard isNew(report) else { return }
        unload = (report.load, place, now + timeout)
        _ = apply(.paused, at: now)
    }

    /// Excludes `time`, for which the process and its pages were suspended until now.
    mutating func exclude(_ time: Duration, at now: Duration) {
        if end != nil {
            _ = apply(.paused, at: now - time)
            _ = apply(.resumed, at: now)
        }
        silence = silence.map { $0 + time }
        unload?.end += time
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
        if let unload, now >= unload.end {
            let place = unload.place.isEmpty ? "" : " for \(unload.place)"
            return .failed(
                .reported, "its page left\(place), and none of its pages followed within \(DurationText(timeout))")
        }
        if let silence, now >= silence {
            self.silence = nil
            if !afterReports { return .silent }
            _ = apply(.resumed, at: now)
        }
        guard case .settle(.faulty(let cause, let what))? = apply(.woken, at: now) else { return nil }
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

    /// Returns true if `report` is from the youngest load, or from a load that has not reported before.
    private mutating func isNew(_ report: PageReport) -> Bool {
        guard let index = loads.firstIndex(where: { $0.load == report.load }) else {
            loads.append(report)
            if loads.count > Self.rememberedLoads { loads.removeFirst() }
            return true
        }
        if loads[index].number >= report.number { return false }
        loads[index] = report
        return index == loads.count - 1
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
