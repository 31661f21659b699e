/// Stores the reports of devices and returns their totals.
package protocol ReportReceiver: Sendable {
    /// Stores the body of one message. The reports are on the disk when it returns.
    func take(_ message: [UInt8]) async -> ReportVerdict
    /// Returns the totals of all reports in the text format of Prometheus.
    func metrics() async -> String
}

/// The result of a message.
package enum ReportVerdict: Sendable, Equatable {
    /// The number of reports that count. The others were known, or concern versions that the feed does not have.
    case taken(counted: Int)
    /// The message is invalid, for this reason.
    case malformed(String)
    /// There were too many messages. The sender may retry after this number of seconds.
    case tooMany(retryAfter: Int)
    /// The disk accepts no writes.
    case failed
}
