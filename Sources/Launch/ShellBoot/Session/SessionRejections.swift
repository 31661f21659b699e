public import BundleValues

/// The answers with which the feed's server refused the token of a session, one after the other.
///
/// A single one ends no session: a server that fails for a minute, or answers in place of the feed, would sign out every device.
public struct SessionRejections: Sendable, Equatable {
    /// How many end a session at least.
    private static let enough = 3
    /// The seconds between the first and the last that end one, at least.
    package static let shortest = 300
    /// One that comes later than so many seconds after the one before is the first again: devices check once a day at the least.
    private static let longest = 7 * 86_400

    /// How many there were.
    public let count: Int
    /// When the first one came.
    public let first: Timestamp
    /// When the last one came.
    public let last: Timestamp

    /// States them.
    public init(count: Int, first: Timestamp, last: Timestamp) {
        (self.count, self.first, self.last) = (count, first, last)
    }

    /// What one more comes to.
    public enum Outcome: Sendable, Equatable {
        /// The session goes on.
        case sessionGoesOn(SessionRejections)
        /// The server has refused the token several times over some minutes.
        case sessionEnds
    }

    /// What a refusal at `time` comes to after those `before`. Pure.
    public static func outcome(at time: Timestamp, after before: SessionRejections?) -> Outcome {
        guard let before, time >= before.last, time.secondsSinceEpoch - before.last.secondsSinceEpoch <= longest else {
            return .sessionGoesOn(SessionRejections(count: 1, first: time, last: time))
        }
        let count = before.count + 1
        let isLong = time.secondsSinceEpoch - before.first.secondsSinceEpoch >= shortest
        return count >= enough && isLong
            ? .sessionEnds : .sessionGoesOn(SessionRejections(count: count, first: before.first, last: time))
    }
}
