public import BundleValues

/// Consecutive rejections of a session's token by the feed's server.
///
/// A single rejection does not end a session: otherwise a server that fails for a minute, or responds instead of the
/// feed, would sign out every device.
public struct SessionRejections: Sendable, Equatable {
    /// The smallest number of rejections that ends a session.
    private static let enough = 3
    /// The shortest time between the first and the last rejection that end a session, in seconds.
    package static let shortest = 300
    /// The longest time between two consecutive rejections, in seconds. Devices check at least once a day.
    private static let longest = 7 * 86_400

    /// The number of rejections.
    public let count: Int
    /// The time of the first rejection.
    public let first: Timestamp
    /// The time of the last rejection.
    public let last: Timestamp

    /// Creates a series of rejections.
    public init(count: Int, first: Timestamp, last: Timestamp) {
        (self.count, self.first, self.last) = (count, first, last)
    }

    /// The result of another rejection.
    public enum CheckOutcome: Sendable, Equatable {
        /// The session continues.
        case sessionContinues(SessionRejections)
        /// The session ends: the server has rejected its token repeatedly over some minutes.
        case sessionEnds
    }

    /// Returns the result of a rejection at `time` after those in `before`.
    public static func outcome(at time: Timestamp, after before: SessionRejections?) -> CheckOutcome {
        guard let before, time >= before.last, time.secondsSinceEpoch - before.last.secondsSinceEpoch <= longest else {
            return .sessionContinues(SessionRejections(count: 1, first: time, last: time))
        }
        let count = before.count + 1
        let isLong = time.secondsSinceEpoch - before.first.secondsSinceEpoch >= shortest
        return count >= enough && isLong
            ? .sessionEnds : .sessionContinues(SessionRejections(count: count, first: before.first, last: time))
    }
}
