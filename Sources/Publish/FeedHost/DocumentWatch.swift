import BundlePush

/// When a channel document of an upstream is asked for again, and what is announced of it. Pure.
struct DocumentWatch {
    /// What one look at the document brought.
    enum Answer: Equatable {
        /// It has this sequence, and this entity tag if the server gave it one.
        case document(sequence: Int, tag: String?)
        /// It still has the tag that was known.
        case unchanged
        /// Something is there that is no document of the channel.
        case unreadable(String, tag: String?)
        /// The server says that it is not there.
        case missing(retryAfter: Duration?)
        /// There is no answer, or one that brings nothing.
        case failed(String, retryAfter: Duration?)
    }

    /// What people are told, once for each change.
    enum Report: Equatable {
        case watched(sequence: Int, hasTag: Bool)
        case older(sequence: Int, than: Int)
        case unreadable(String)
        case missing
        case failed(String)
    }

    /// What follows from a look.
    struct Step: Equatable {
        var announced: Int?
        var report: Report?
        /// Until the next look begins.
        var wait: Duration
        /// Something, too, where the channel was there before, or nobody knows.
        var found = Subscriptions.Finding.something
    }

    /// From the beginning of one look to that of the next, at least.
    static let interval = Duration.seconds(1)
    private static let backoff: BackoffRule = {
        var rule = BackoffRule()
        rule.first = .seconds(2)
        rule.longest = .seconds(60)
        // As devices do: four of the longest waits. A relay that waits longer announces no recall.
        rule.longestAsked = rule.longest * 4
        rule.spread = 0.5...1
        return rule
    }()

    /// The entity tag of the document that came last.
    private(set) var tag: String?
    private var newest: Int?
    private var content: Report?
    private var told: Report?
    private var failures = 0

    /// A watch of a document whose sequence was announced as `newest`.
    init(newest: Int?) { self.newest = newest }

    /// Takes in what a look brought, which lasted `took`. `random` draws from a range.
    mutating func take(_ answer: Answer, took: Duration, _ random: (ClosedRange<Double>) -> Double) -> Step {
        switch answer {
        case .document(let sequence, let tag):
            self.tag = tag
            return found(sequence, took)
        case .unchanged:
            return Step(report: report(content), wait: pause(after: took))
        case .unreadable(let reason, let tag):
            self.tag = tag
            content = .unreadable(reason)
            return found(nothing: failed(.unreadable(reason), nil, random))
        case .missing(let asked):
            tag = nil
            return found(nothing: failed(.missing, asked, random))
        case .failed(let reason, let asked):
            return failed(.failed(reason), asked, random)
        }
    }

    /// A copy that is older than what was announced sends devices to look for nothing.
    private mutating func found(_ sequence: Int, _ took: Duration) -> Step {
        let isOlder = sequence < newest ?? 0
        let isNews = sequence > newest ?? 0
        content =
            isOlder ? .older(sequence: sequence, than: newest ?? 0) : .watched(sequence: sequence, hasTag: tag != nil)
        if isNews { newest = sequence }
        let report = report(content)
        return Step(announced: isNews ? sequence : nil, report: report, wait: pause(after: took))
    }

    private func found(nothing step: Step) -> Step {
        var step = step
        if newest == nil { step.found = .nothing(isLasting: step.wait >= Self.backoff.longest / 2) }
        return step
    }

    private mutating func pause(after took: Duration) -> Duration {
        failures = 0
        return max(.zero, Self.interval - took)
    }

    private mutating func failed(
        _ report: Report, _ asked: Duration?, _ random: (ClosedRange<Double>) -> Double
    ) -> Step {
        defer { failures += 1 }
        return Step(
            report: self.report(report), wait: Self.backoff.wait(losses: failures, asked: asked, random))
    }

    /// The report, where people have not been told of the like last.
    private mutating func report(_ report: Report?) -> Report? {
        defer { told = report ?? told }
        return report?.kind == told?.kind ? nil : report
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
