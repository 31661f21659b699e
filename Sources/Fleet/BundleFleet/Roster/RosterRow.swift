package import BundleValues

/// One device of a roster: its last message, and the record of the host.
package struct RosterRow: Sendable, Equatable {
    package let post: RosterPost
    /// The time of the last message, by the clock of the host.
    package let seen: Timestamp
    /// The time of the first message.
    package let first: Timestamp
    /// The time since which the device reports the version that runs.
    package let since: Timestamp
    /// The last time at which another key signed a message of this device; nil if none did.
    package let conflict: Timestamp?
    /// The number of such messages.
    package let conflicts: Int

    /// The group that a release targets to reach only this device.
    package var target: String { "device:\(post.device)" }

    /// The row as JSON: the members of the message without `schema`, and those of the host.
    package func json(at now: Timestamp) -> JSONObject {
        var object = post.json
        object["schema"] = nil
        object["target"] = .string(target)
        object["seen"] = .string(seen.description)
        object["first"] = .string(first.description)
        object["since"] = .string(since.description)
        object["silent"] = .bool(RosterRule.isSilent(self, at: now))
        object["reasons"] = .array(RosterRule.reasons(self, at: now).map(JSONValue.string))
        object["conflict"] = .string(orNull: conflict?.description)
        object["conflicts"] = .integer(conflicts)
        return object
    }

    package init(
        post: RosterPost, seen: Timestamp, first: Timestamp, since: Timestamp, conflict: Timestamp?, conflicts: Int
    ) {
        self.post = post
        self.seen = seen
        self.first = first
        self.since = since
        self.conflict = conflict
        self.conflicts = conflicts
    }

    /// Parses a row of `GET /roster.json`. Throws `MemberReader.Refusal`.
    package init(_ value: JSONValue) throws {
        let reader = try MemberReader(value, of: "device")
        var message: JSONObject = ["schema": .integer(1)]
        for name in RosterPost.members.dropFirst() { message[name] = reader.object[name] ?? .null }
        self.init(
            post: try RosterPost(parsing: JSONWriter.bytes(of: .object(message))), seen: try reader.timestamp("seen"),
            first: try reader.timestamp("first"), since: try reader.timestamp("since"),
            conflict: reader.optional("conflict") == nil ? nil : try reader.timestamp("conflict"),
            conflicts: try reader.integer("conflicts"))
    }
}

/// The limits of a roster, and when a device is silent.
package enum RosterRule {
    /// The largest number of devices.
    package static let most = 100_000
    /// The time after which a device without messages is forgotten, in seconds.
    static let forgottenAfter = 90 * 86_400

    /// Returns whether the device sent nothing for two of its intervals.
    package static func isSilent(_ row: RosterRow, at now: Timestamp) -> Bool {
        now.secondsSinceEpoch - row.seen.secondsSinceEpoch > 2 * row.post.interval
    }

    /// The result of a message from the device with the key `key`.
    enum Verdict: Equatable {
        /// The first message of the device, whose key is pinned.
        case new
        case known
        /// Another key is pinned for the device.
        case impostor
        /// The roster has no room for another device.
        case full
    }

    /// Decides on a message that `key` signed. `pinned` is the key of the device; nil if the roster does not have the device.
    static func verdict(on key: String, pinned: String?, devices count: Int) -> Verdict {
        guard let pinned else { return count < most ? .new : .full }
        return pinned == key ? .known : .impostor
    }

    /// Returns the reason why a device needs attention, in a few words each, the most important reason first.
    package static func reasons(_ row: RosterRow, at now: Timestamp) -> [String] {
        let post = row.post
        let general: [String?] = [
            row.conflict == nil ? nil : "another key signs for it", isSilent(row, at: now) ? "silent" : nil,
            post.screen.flatMap(reason), clockError(row).map { "clock \($0)" }, post.code,
            newestBlocked(post).map { "blocked \($0)" }, post.waiting.map(reason),
            post.state == .failed || post.state == .blocked ? post.state.rawValue : nil,
        ]
        return general.compactMap(\.self) + post.findings
    }

    /// Returns the most important reason why a device needs attention; nil if it does not.
    package static func reason(_ row: RosterRow, at now: Timestamp) -> String? { reasons(row, at: now).first }

    private static func reason(_ screen: RosterPost.ShownScreen) -> String? {
        switch screen {
        case .locked: "locked"
        case .maintenance: "maintenance"
        case .failure: "shows nothing"
        case .signedOut: "signed out"
        case .starting, .client, .guests, .updateRequired, .waiting: nil
        }
    }

    private static func reason(_ waiting: RosterPost.WaitReason) -> String {
        switch waiting {
        case .window: "waits for an activation window"
        case .page: "waits for its page"
        case .rollout: "not in the rollout"
        case .paused: "its release is paused"
        case .shell: "needs a newer shell"
        case .hours: "waits for the download hours"
        case .budget: "waits for the metered budget"
        case .deltas: "waits for a delta"
        }
    }

    /// Returns the last blocked version that is newer than the client that runs.
    private static func newestBlocked(_ post: RosterPost) -> String? {
        let runs = version(post.runs)
        return post.blocked.last { text in
            guard let runs, let blocked = version(text) else { return true }
            return blocked > runs
        }
    }

    private static func version(_ text: String?) -> SemanticVersion? {
        text.flatMap { try? SemanticVersion(parsing: $0) }
    }

    /// The smallest reported difference of a clock that is ahead, in seconds.
    private static let clockSkew = 300

    /// Returns the difference between the clocks of the device and of the host; nil if there is no certain one. The last check was
    /// before the last message, by at most some intervals.
    private static func clockError(_ row: RosterRow) -> String? {
        guard let checked = row.post.checked else { return nil }
        let ahead = checked.secondsSinceEpoch - row.seen.secondsSinceEpoch
        if ahead > clockSkew { return "\(span(ahead)) ahead" }
        return -ahead > 86_400 + 8 * row.post.interval ? "\(span(-ahead)) behind" : nil
    }

    /// Returns a time in its largest unit, such as `3 days`.
    package static func span(_ seconds: Int) -> String {
        for (unit, length) in [("day", 86_400), ("hour", 3600), ("minute", 60)] where seconds >= length {
            return counted(seconds / length, unit)
        }
        return counted(max(0, seconds), "second")
    }
}

/// The devices that a question is about.
package struct RosterFilter: Sendable, Equatable {
    /// Only devices without a message for this time.
    package var silent: Duration?
    package var version: String?
    package var state: String?
    /// A part of the name, in any case; or a device.
    package var name: String?
    /// Only devices after this one.
    package var after: String?

    package init() {}

    /// Parses the query of a URL, with or without its question mark. Returns nil for an unknown name, a repeated one or an invalid value;
    /// empty values are ignored, because a form sends them.
    package init?(query: some StringProtocol) {
        var seen: Set<String> = []
        for pair in query.drop(while: { $0 == "?" }).split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.decoded(parts[0]), let value = parts.count > 1 ? Self.decoded(parts[1]) : "",
                seen.insert(name).inserted
            else { return nil }
            if value.isEmpty { continue }
            switch name {
            case "silent":
                guard let duration = try? DurationText(parsing: value).duration else { return nil }
                silent = duration
            case "version": version = value
            case "state": state = value
            case "name": self.name = value
            case "after": after = value
            default: return nil
            }
        }
    }

    /// The query without a question mark.
    package var query: String {
        let pairs = [
            ("silent", silent.map { DurationText($0).description }), ("version", version), ("state", state),
            ("name", name), ("after", after),
        ]
        return pairs.compactMap { name, value in value.map { "\(name)=\(Self.encoded($0))" } }.joined(separator: "&")
    }

    private static func decoded(_ text: some StringProtocol) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%") {
                guard rest.count >= 2, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
                else {
                    return nil
                }
                bytes.append(value)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte == UInt8(ascii: "+") ? UInt8(ascii: " ") : byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func encoded(_ text: String) -> String {
        text.utf8.map { byte in
            let isPlain =
                (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
                || "-._~".utf8.contains(byte)
            let digits = String(byte, radix: 16, uppercase: true)
            return isPlain ? String(UnicodeScalar(byte)) : "%" + (digits.utf8.count == 1 ? "0" : "") + digits
        }.joined()
    }
}
