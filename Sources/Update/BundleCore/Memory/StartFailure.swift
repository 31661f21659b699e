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
    /// When the start began; nil for a client that was never shown, and before the ledger adds it.
    package let startedAt: Timestamp?

    /// States a failure; `detail` may come from a page, so it is cut to one printable line.
    package init(_ cause: Cause, detail: String, at: Timestamp) {
        self.init(written: cause, detail: UntrustedName.display(detail, limit: 400), at: at, startedAt: nil)
    }

    /// Reads a failure as the ledger has it.
    init(written cause: Cause, detail: String, at: Timestamp, startedAt: Timestamp?) {
        self.cause = cause
        self.detail = detail
        self.at = at
        self.startedAt = startedAt
    }

    /// Returns the failure of `launch`.
    func of(_ launch: Launch) -> StartFailure {
        StartFailure(written: cause, detail: detail, at: at, startedAt: launch.at)
    }
}

extension StartFailure: CustomStringConvertible {
    /// What happened, and when: a start has the time at which it began.
    package var description: String {
        let start = "its start" + (startedAt.map { " at \($0)" } ?? "")
        let what =
            switch cause {
            case .notConfirmed: "\(start) was not confirmed in time"
            case .interrupted: "\(start) ended before it was confirmed"
            case .reported: "\(start) was reported as failed"
            case .notPrepared: "it could not be prepared at \(at)"
            }
        return what + (detail.isEmpty ? "" : ": \(detail)")
    }
}
