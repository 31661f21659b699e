import BundleCore

/// A start that has to prove itself: how much of its time is left, and what its pages reported. Its time runs only while
/// somebody can see it.
struct Trial: Sendable {
    /// Page loads that are remembered; the last one is the youngest.
    private static let rememberedLoads = 16

    private var watchdog: StartupWatchdog
    /// When its time is over; nil while that stands still.
    private var end: Duration?
    /// How long a page in a browser may report nothing before it counts as seen; nil where every page counts.
    private let longestSilence: Duration?
    private var silence: Duration?
    private var isInBrowser = false
    private var hasReported = false
    private var loads: [PageReport] = []
    /// The first complaint of a page.
    private(set) var evidence: String?

    /// A start that begins at the clock's reading `now`.
    init(_ timeout: StartupTimeout, _ visibility: ShellConfiguration.Visibility, at now: Duration) {
        watchdog = StartupWatchdog(timeout: timeout)
        longestSilence = visibility == .reported ? timeout.duration * 3 : nil
        _ = apply(.started, now)
        if longestSilence != nil { _ = apply(.paused, now) }
    }

    /// When it has to be woken; nil where nothing is waited for.
    var wake: Duration? { end.map { end in silence.map { min($0, end) } ?? end } ?? silence }

    /// Somebody loads the page to look at it.
    mutating func isLoaded(at now: Duration) {
        guard let longestSilence, !isInBrowser else { return }
        isInBrowser = true
        if !hasReported { silence = now + longestSilence }
    }

    /// A page went out of sight or came into it. One that is loaded again says farewell late: only the youngest counts.
    mutating func show(_ isShown: Bool, _ report: PageReport?, at now: Duration) {
        if let report, !isNew(report) { return }
        hasReported = true
        silence = nil
        _ = apply(isShown ? .resumed : .paused, now)
    }

    mutating func complain(_ complaint: String) { if evidence == nil { evidence = complaint } }

    /// Why the start has failed, if it has by now.
    mutating func wake(at now: Duration) -> (cause: StartFailure.Cause, what: String)? {
        if let silence, now >= silence {
            self.silence = nil
            _ = apply(.resumed, now)
        }
        guard case .settle(.faulty(let cause, let what))? = apply(.woken, now) else { return nil }
        return (cause, what)
    }

    private mutating func apply(_ event: StartupWatchdog.Event, _ now: Duration) -> StartupWatchdog.Action? {
        let action = watchdog.handle(event, at: now)
        switch action {
        case .wake(let moment)?: end = moment
        case .sleep?, .settle?: end = nil
        case nil: break
        }
        return action
    }

    /// Whether this comes from the youngest load: the last one, or one never heard of.
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

/// Which load of a page reports, and how often it has: reports may overtake each other.
public struct PageReport: Sendable, Equatable {
    /// The load: a name of its own for each.
    public let load: String
    /// Counts up with each report of this load.
    public let number: Int

    /// States where a report comes from.
    public init(load: String, number: Int) {
        self.load = load
        self.number = number
    }
}
