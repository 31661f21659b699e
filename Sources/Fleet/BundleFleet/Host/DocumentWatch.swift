import BundleTransport

/// Decides when a relay polls a channel file of its upstream, and which sequences it announces.
struct DocumentWatch {
    /// The result of one poll.
    enum Answer: Equatable {
        /// The file has this sequence, and this entity tag if the server sent one.
        case document(sequence: Int, tag: String?)
        /// The known entity tag is still current.
        case unchanged
        /// The response is not a file of this channel.
        case unreadable(String, tag: String?)
        /// The server responded that the file does not exist.
        case missing(retryAfter: Duration?)
        /// There was no response or one without content.
        case failed(String, retryAfter: Duration?)
    }

    /// A change to log.
    enum Report: Equatable {
        case watched(sequence: Int, hasTag: Bool)
        case older(sequence: Int, than: Int)
        case unreadable(String)
        case missing
        case failed(String)
    }

    /// The actions after a poll.
    struct WatchStep: Equatable {
        var announced: Int?
        var report: Report?
        /// The wait before the next poll.
        var wait: Duration
        /// The finding for `Subscriptions`. It is `.something` if the channel existed before, or if the poll failed.
        var found = Subscriptions.Finding.something
    }

    /// The shortest time between the starts of two polls.
    static let interval = Duration.seconds(1)
    private static let backoff: BackoffRule = {
        var rule = BackoffRule()
        rule.first = .seconds(2)
        rule.longest = .seconds(60)
        // The same limit as on devices: four of the longest waits. A waiting relay announces no recall.
        rule.longestAsked = rule.longest * 4
        rule.spread = 0.5...1
        return rule
    }()

    /// The entity tag of the latest file.
    private(set) var tag: String?
    private var newest: Int?
    private var content: Report?
    private var lastReport: Report?
    private var failures = 0

    /// `newest` is the last announced sequence.
    init(newest: Int?) { self.newest = newest }

    /// Handles the result of a poll that lasted `took`. `random` returns a number in a range.
    mutating func handle(_ answer: Answer, took: Duration, random: (ClosedRange<Double>) -> Double) -> WatchStep {
        switch answer {
        case .document(let sequence, let tag):
            self.tag = tag
            return found(sequence, took: took)
        case .unchanged:
            return WatchStep(report: report(content), wait: pause(after: took))
        case .unreadable(let reason, let tag):
            self.tag = tag
            content = .unreadable(reason)
            return found(nothing: failed(.unreadable(reason), asked: nil, random: random))
        case .missing(let asked):
            tag = nil
            return found(nothing: failed(.missing, asked: asked, random: random))
        case .failed(let reason, let asked):
            return failed(.failed(reason), asked: asked, random: random)
        }
    }

    /// Does not announce an older sequence, which would make devices check for nothing.
    private mutating func found(_ sequence: Int, took: Duration) -> WatchStep {
        let isOlder = sequence < newest ?? 0
        let isNewer = sequence > newest ?? 0
        content =
            isOlder ? .older(sequence: sequence, than: newest ?? 0) : .watched(sequence: sequence, hasTag: tag != nil)
        if isNewer { newest = sequence }
        let report = report(content)
        return WatchStep(announced: isNewer ? sequence : nil, report: report, wait: pause(after: took))
    }

    private func found(nothing step: WatchStep) -> WatchStep {
        var step = step
        if newest == nil { step.found = .nothing(isLasting: step.wait >= Self.backoff.longest / 2) }
        return step
    }

    private mutating func pause(after took: Duration) -> Duration {
        failures = 0
        return max(.zero, Self.interval - took)
    }

    private mutating func failed(
        _ report: Report, asked: Duration?, random: (ClosedRange<Double>) -> Double
    ) -> WatchStep {
        defer { failures += 1 }
        return WatchStep(
            report: self.report(report), wait: Self.backoff.wait(losses: failures, asked: asked, random))
    }

    /// Returns the report if it differs in kind from the last one.
    private mutating func report(_ report: Report?) -> Report? {
        defer { lastReport = report ?? lastReport }
        return report?.kind == lastReport?.kind ? nil : report
    }
}

extension DocumentWatch.Report {
    fileprivate enum Kind: Equatable { case watched, older(Int), unreadable, missing, failed }

    fileprivate var kind: Kind {
        switch self {
        case .watched: .watched
        case .older(let sequence, _): .older(sequence)
        case .unreadable: .unreadable
        case .missing: .missing
        case .failed: .failed
        }
    }
}
