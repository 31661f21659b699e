/// Takes what devices report, and tells what they have reported.
package protocol ReportReceiver: Sendable {
    /// Takes the body of one message; what is taken is on the disk when this returns.
    func take(_ message: [UInt8]) async -> ReportVerdict
    /// All that was taken, counted, in the text format of Prometheus.
    func metrics() async -> String
}

/// What became of a message.
package enum ReportVerdict: Sendable, Equatable {
    /// So many of its reports count; the others were known, or are about nothing that the feed has.
    case taken(counted: Int)
    /// It is no message, because of that.
    case malformed(String)
    /// Too many came; the sender comes again after so many seconds.
    case tooMany(retryAfter: Int)
    /// The disk does not take it.
    case failed
}
