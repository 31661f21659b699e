package import BundleValues

/// Why a start counts as failed, with its evidence.
package struct StartFailure: Sendable, Equatable {
    /// What kind of failure it was; the words stand in the ledger and in answers.
    package enum Cause: String, Sendable, CaseIterable {
        /// The start was not confirmed in time.
        case notConfirmed
        /// The shell ended, or the power went, before the start was confirmed.
        case interrupted
        /// The shell said so.
        case reported
        /// It could not be made ready to be shown, so nobody saw it.
        case notPrepared
    }

    /// The kind.
    package let cause: Cause
    /// What was seen, for people; one line.
    package let detail: String
    /// When it was noticed.
    package let at: Timestamp

    /// States a failure; `detail` may come from a page, so it is cut to one printable line.
    package init(_ cause: Cause, detail: String, at: Timestamp) {
        self.init(written: cause, detail: UntrustedName.display(detail, limit: 400), at: at)
    }

    /// A failure as it was written before.
    init(written cause: Cause, detail: String, at: Timestamp) {
        self.cause = cause
        self.detail = detail
        self.at = at
    }
}

extension StartFailure: CustomStringConvertible {
    /// What happened, and when.
    package var description: String {
        let what =
            switch cause {
            case .notConfirmed: "was not confirmed in time"
            case .interrupted: "ended before it was confirmed"
            case .reported: "was reported as failed"
            case .notPrepared: "could not be prepared"
            }
        return "its start at \(at) \(what)" + (detail.isEmpty ? "" : ": \(detail)")
    }
}
