package import BundleValues

/// The reason why a device does not download a release yet.
package struct FetchWait: Sendable, Equatable {
    /// The condition that is not met. The words are part of JSON output.
    package enum WaitCause: String, Sendable, CaseIterable {
        /// The hours for downloads have not begun.
        case hours
        /// The budget of a metered link is too small.
        case budget
        /// Only deltas, or no deltas, are downloaded.
        case deltas
    }

    package let reason: WaitCause
    /// The details, for people. They are equal in each check, so that a store is not written again.
    package let detail: String
    /// The minutes until the hours begin; nil for other reasons.
    package let minutes: Int?

    package init(_ reason: WaitCause, _ detail: String, minutes: Int? = nil) {
        self.reason = reason
        self.detail = detail
        self.minutes = minutes
    }
}

extension FetchWait: CustomStringConvertible {
    package var description: String {
        detail + (minutes.map { "; they begin in \(Self.words(minutes: $0))" } ?? "")
    }

    /// Returns a duration in its two largest units, such as `16h 59m`.
    private static func words(minutes: Int) -> String {
        let (days, hours, rest) = (minutes / 1440, minutes / 60 % 24, minutes % 60)
        let parts = days > 0 ? [(days, "d"), (hours, "h")] : [(hours, "h"), (rest, "m")]
        let words = parts.filter { $0.0 > 0 }.map { "\($0)\($1)" }.joined(separator: " ")
        return words.isEmpty ? "0m" : words
    }
}

/// The bytes on metered links in a calendar month (UTC).
package struct MeteredUse: Sendable, Equatable {
    /// The month, such as 2026-11.
    package let month: String
    package let bytes: Int

    /// Returns the bytes of the month of `time`; 0 if the count is of another month.
    package static func bytes(of use: MeteredUse?, at time: Timestamp) -> Int {
        use.map { $0.month == month(of: time) ? $0.bytes : 0 } ?? 0
    }

    /// Returns the count after `bytes` more, in the month of `time`. A negative number gives back bytes that were reserved.
    static func adding(_ bytes: Int, to use: MeteredUse?, at time: Timestamp) -> MeteredUse {
        let (sum, overflow) = Self.bytes(of: use, at: time).addingReportingOverflow(bytes)
        return MeteredUse(month: month(of: time), bytes: overflow ? .max : max(0, sum))
    }

    private static func month(of time: Timestamp) -> String { String(time.description.prefix(7)) }
}

/// An offer that waits for its download.
package struct WaitingOffer: Sendable, Equatable {
    package let version: ClientVersion
    package let reason: FetchWait.WaitCause
    /// The details, for people.
    package let detail: String
    /// The time since which the offer waits for this reason.
    package let since: Timestamp
}

extension WaitingOffer: CustomStringConvertible {
    package var description: String {
        "\(ClientName.installed(version)) waits for its download since \(since): \(detail)"
    }
}

extension WaitingOffer {
    init(_ reader: MemberReader) throws {
        self.init(
            version: try reader.clientVersion(), reason: try reader.word("reason", try reader.string("reason")),
            detail: try reader.string("detail"), since: try reader.timestamp("since"))
    }

    /// The members of the ledger and of JSON output.
    package var json: JSONValue {
        .object([
            "version": .string(version.description), "source": .string(version.source.rawValue),
            "reason": .string(reason.rawValue), "detail": .string(detail), "since": .string(since.description),
        ])
    }
}

extension MeteredUse {
    init(_ reader: MemberReader) throws {
        self.init(month: try reader.string("month"), bytes: try reader.integer("bytes"))
    }

    /// The members of the ledger and of JSON output.
    package var json: JSONValue { .object(["month": .string(month), "bytes": .integer(bytes)]) }
}
