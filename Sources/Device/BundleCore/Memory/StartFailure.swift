package import BundleValues

/// A failed start of a client.
package struct StartFailure: Sendable, Equatable {
    /// The kind of failure. The words are part of the ledger and of the JSON output.
    package enum Cause: String, Sendable, CaseIterable {
        /// The start was not confirmed in time.
        case notConfirmed
        /// The shell ended, or the power failed, before the start was confirmed.
        case interrupted
        /// The shell reported the failure.
        case reported
        /// The client could not be prepared, so it was never shown.
        case notPrepared
        /// The page confirmed the start, and its screen stayed blank. In the ledger and in reports, it is `reported`: programs of
        /// 0.9.0 refuse unknown words.
        case blankScreen

        /// Whether the failure rests on the word of a page.
        package var isOfPage: Bool { self == .reported || self == .blankScreen }
    }

    package let cause: Cause
    /// A line of details for people.
    package let detail: String
    /// The time at which the failure was detected.
    package let at: Timestamp
    /// The time of the launch; nil for a client that was never shown, and before the ledger sets it.
    package let startedAt: Timestamp?
    /// The time before which the shell that detected the failure does not start the second trial; nil if it does not
    /// wait.
    package let retryAt: Timestamp?

    /// Creates a failure. `detail` may come from a page, so it is cut to one printable line.
    package init(_ cause: Cause, detail: String, at: Timestamp, retryAt: Timestamp? = nil) {
        self.init(
            written: cause, detail: UntrustedName.display(detail, limit: 400), at: at, startedAt: nil, retryAt: retryAt)
    }

    /// Creates a failure from its members in the ledger.
    init(written cause: Cause, detail: String, at: Timestamp, startedAt: Timestamp?, retryAt: Timestamp?) {
        self.cause = cause
        self.detail = detail
        self.at = at
        self.startedAt = startedAt
        self.retryAt = retryAt
    }

    /// Returns the failure with the start time of `launch`.
    func of(_ launch: Launch) -> StartFailure {
        StartFailure(written: cause, detail: detail, at: at, startedAt: launch.at, retryAt: retryAt)
    }

    /// The end of a sentence about a client after its first failure: a second trial follows, and when.
    package var sequel: String {
        let time =
            retryAt.map { "with a check after \($0) or the next start of the shell" }
            ?? "with the next check or the next start of the shell"
        return "failed once, and is tried once more \(time)"
    }
}

extension StartFailure: CustomStringConvertible {
    /// The failure and its time. A started client has the time of its launch.
    package var description: String {
        let start = "its start" + (startedAt.map { " at \($0)" } ?? "")
        let what =
            switch cause {
            case .notConfirmed: "\(start) was not confirmed in time"
            case .interrupted: "\(start) ended before it was confirmed"
            case .reported: "\(start) was reported as failed"
            case .notPrepared: "it could not be prepared at \(at)"
            case .blankScreen: "\(start) was confirmed with a blank screen"
            }
        return what + (detail.isEmpty ? "" : ": \(detail)")
    }
}
