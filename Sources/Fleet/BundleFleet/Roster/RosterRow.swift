import ArchiveSource
import BundleCore
package import BundleValues

/// One device of a roster: its last message, and the record of the host.
package struct RosterRow: Sendable, Equatable {
    /// The newest release that the host's feed offers in the channel of a device.
    package struct NewestRelease: Sendable, Equatable {
        package let version: SemanticVersion
        /// The time at which the host saw it first.
        package let since: Timestamp
    }

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
    /// The ID of the pinned key, and that of the last other key; nil if the host does not send them.
    package let key: String?
    package let refusedKey: String?
    /// The time at which the host refused a message that is older than the last one; nil if a newer one came since.
    package let older: Timestamp?
    /// The times at which the present reasons began, by the key of the reason.
    package let began: [String: Timestamp]
    /// nil if the host does not know it.
    package let newest: NewestRelease?
    /// The times at which the host received the last picture and that of the last failed start; nil without one.
    package let pictured: Timestamp?
    package let failurePictured: Timestamp?

    /// The group that a release targets to reach only this device.
    package var target: String { "device:\(post.device)" }

    /// The kind and the time of the newest picture; nil if the roster has none.
    var newestPicture: (kind: PicturePost.Kind, seen: Timestamp)? {
        [(PicturePost.Kind.last, pictured), (.failed, failurePictured)].compactMap { kind, seen in
            seen.map { (kind: kind, seen: $0) }
        }.max { $0.seen < $1.seen }
    }

    /// The row as JSON: the members of the message without `schema`, and those of the host.
    package func json(at now: Timestamp) -> JSONObject {
        var object = post.json
        object["schema"] = nil
        (object["groups"], object["tags"]) = (
            .array(post.groups.map(JSONValue.string)), .array(post.tags.map(JSONValue.string))
        )
        object["failure"] = .string(orNull: post.failure)
        object["target"] = .string(target)
        object["seen"] = .string(seen.description)
        object["first"] = .string(first.description)
        object["since"] = .string(since.description)
        object["silent"] = .bool(RosterRule.isSilent(self, at: now))
        let reasons = reasons(at: now)
        object["reasons"] = .array(reasons.map { .string($0.words) })
        object["conflict"] = .string(orNull: conflict?.description)
        object["conflicts"] = .integer(conflicts)
        object["waitsFor"] = .string(orNull: RosterRule.waits(self))
        object["key"] = .string(orNull: key)
        object["refusedKey"] = .string(orNull: refusedKey)
        object["older"] = .string(orNull: older?.description)
        object["attention"] = .array(
            reasons.map { reason in
                .object([
                    "reason": .string(reason.key), "words": .string(reason.words),
                    "since": .string(orNull: reason.since?.description), "remedy": .string(reason.remedy),
                    "code": .string(orNull: reason.code),
                ])
            })
        object["newest"] = .string(orNull: newest?.version.description)
        object["newestSince"] = .string(orNull: newest?.since.description)
        object["behind"] = .bool(isBehind)
        object["picture"] = .string(orNull: pictured?.description)
        object["failedPicture"] = .string(orNull: failurePictured?.description)
        return object
    }

    /// The reasons for which the device needs attention, the most important one first.
    package func reasons(at now: Timestamp) -> [RosterReason] { RosterReason.all(self, at: now) }

    /// Whether the device does not run the newest release of its channel.
    package var isBehind: Bool { newest.map { RosterRule.isBehind(post, $0.version) } ?? false }

    /// Returns whether the device, with these reasons, is in `group`.
    package func isIn(_ group: RosterGroup, at now: Timestamp, _ reasons: [RosterReason]) -> Bool {
        switch group {
        case .attention: !reasons.isEmpty
        case .failed: reasons.contains { [.failed, .blocked].contains($0.kind) }
        case .silent: RosterRule.isSilent(self, at: now)
        case .waits: RosterRule.waits(self) != nil
        case .behind: isBehind
        case .never: false
        }
    }

    /// The place of the device in a list: those that need attention first, then by name.
    package func place(at now: Timestamp) -> RosterPlace {
        let kind = reasons(at: now).first?.kind
        return RosterPlace(
            rank: kind?.rawValue ?? RosterReason.Kind.allCases.count, isUrgent: kind?.isUrgent ?? false,
            name: post.name.lowercased(), device: post.device)
    }

    package init(
        post: RosterPost, seen: Timestamp, first: Timestamp, since: Timestamp, conflict: Timestamp?, conflicts: Int,
        key: String? = nil, refusedKey: String? = nil, older: Timestamp? = nil, began: [String: Timestamp] = [:],
        newest: NewestRelease? = nil, pictured: Timestamp? = nil, failurePictured: Timestamp? = nil
    ) {
        self.post = post
        self.seen = seen
        self.first = first
        self.since = since
        self.conflict = conflict
        self.conflicts = conflicts
        self.key = key
        self.refusedKey = refusedKey
        self.older = older
        self.began = began
        self.newest = newest
        self.pictured = pictured
        self.failurePictured = failurePictured
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
            conflicts: try reader.integer("conflicts"), key: try reader.optionalString("key"),
            refusedKey: try reader.optionalString("refusedKey"),
            older: reader.optional("older") == nil ? nil : try reader.timestamp("older"),
            began: try Self.began(reader), newest: try Self.newest(reader),
            pictured: reader.optional("picture") == nil ? nil : try reader.timestamp("picture"),
            failurePictured: reader.optional("failedPicture") == nil ? nil : try reader.timestamp("failedPicture"))
    }

    private static func began(_ reader: MemberReader) throws -> [String: Timestamp] {
        // A host of clientctl 0.9.0 does not send it.
        guard reader.optional("attention") != nil else { return [:] }
        var began: [String: Timestamp] = [:]
        for reason in try reader.objects("attention") where reason.optional("since") != nil {
            began[try reason.string("reason")] = try reason.timestamp("since")
        }
        // Silence begins with the last message.
        began["silent"] = nil
        return began
    }

    private static func newest(_ reader: MemberReader) throws -> NewestRelease? {
        guard let version = try reader.optionalVersion("newest") else { return nil }
        return NewestRelease(version: version, since: try reader.timestamp("newestSince"))
    }
}

/// The place of a device in a list.
package struct RosterPlace: Sendable, Equatable, Comparable {
    let rank: Int
    /// Whether it belongs before the devices that were never seen.
    package let isUrgent: Bool
    let name: String
    let device: String

    package static func < (left: RosterPlace, right: RosterPlace) -> Bool {
        (left.rank, left.name, left.device) < (right.rank, right.name, right.device)
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
        /// The message is older than the last one of the device.
        case older
        /// The roster has no room for another device.
        case full
    }

    /// The last accepted message of a device: the key that is pinned for it, the time of its check, and the time by the host's clock.
    struct LastPost {
        let key: String
        let checked: Timestamp?
        let seen: Timestamp
    }

    /// Decides on `post`, which `key` signed. `last` is the last message of the device; nil if the roster does not have the device.
    static func verdict(on post: RosterPost, by key: String, after last: LastPost?, devices count: Int) -> Verdict {
        guard let last else { return count < most ? .new : .full }
        if last.key != key { return .impostor }
        guard let checked = last.checked else { return .known }
        // A device whose clock was ahead may return to the right time.
        let bound = min(checked, Timestamp(clamping: last.seen.secondsSinceEpoch + clockSkew))
        return post.checked.map { $0 >= bound } == true ? .known : .older
    }

    /// Returns what the device rightly waits for; nil if it waits for nothing.
    package static func waits(_ row: RosterRow) -> String? {
        switch row.post.waiting {
        case .window: "an activation window"
        case .page: "a page reload"
        case .rollout: "the rollout"
        case .paused: "its paused release"
        case .hours: "the download hours"
        case .budget: "the metered budget"
        case .deltas: "a delta"
        case .shell, nil: nil
        }
    }

    /// Returns the last blocked version that is newer than the client that runs.
    static func newestBlocked(_ post: RosterPost) -> String? {
        if post.blocked.isEmpty { return nil }
        let runs = version(post.runs)
        return post.blocked.last { text in
            guard let runs, let blocked = version(text) else { return true }
            return blocked > runs
        }
    }

    private static func version(_ text: String?) -> SemanticVersion? {
        text.flatMap { try? SemanticVersion(parsing: $0) }
    }

    /// Compares the version that runs with `newest`; nil if it has no order. Most devices run `newest`, whose text is the same.
    private static func isOlder(_ post: RosterPost, than newest: SemanticVersion) -> Bool? {
        post.runs == newest.description ? false : version(post.runs).map { $0 < newest }
    }

    /// The states of a client that can be the newest release: the version of a seed is that of the shell.
    private static let running: Set<RosterPost.ClientState> = [.good, .trial]

    /// Returns whether the device runs `newest` or a newer version, which did not fail.
    static func has(_ post: RosterPost, _ newest: SemanticVersion) -> Bool {
        running.contains(post.state) && isOlder(post, than: newest) == false
    }

    /// Returns whether the device runs nothing, its seed, a version that failed, or an older version than `newest`. The versions of
    /// Meteor have no order.
    static func isBehind(_ post: RosterPost, _ newest: SemanticVersion) -> Bool {
        !running.contains(post.state) || isOlder(post, than: newest) == true
    }

    /// Returns the highest release of a channel that devices may install without a group; nil if there is none.
    static func newest(of channel: ChannelDocument, at time: Timestamp) -> SemanticVersion? {
        channel.releases.filter { release in
            !release.isPaused && release.share(at: time) > 0
                && !channel.recalled.contains { $0.version == release.version }
        }.map(\.version).max()
    }

    /// The smallest reported difference of a clock that is ahead, in seconds.
    static let clockSkew = 300

    /// Returns the difference between the clocks of the device and of the host; nil if there is no certain one. The last check was
    /// before the last message, by at most some intervals.
    static func clockError(_ row: RosterRow) -> String? {
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

/// The devices in the same situation.
package enum RosterGroup: String, Sendable, CaseIterable {
    /// A person must do something.
    case attention
    /// A version failed or is blocked.
    case failed
    /// No message for two intervals.
    case silent
    /// The device works as intended and waits for something.
    case waits
    /// The device does not run the newest release of its channel.
    case behind
    /// The device is expected and was never seen.
    case never
}

/// The devices that a question is about.
package struct RosterFilter: Sendable, Equatable {
    /// Only devices without a message for this time.
    package var silent: Duration?
    package var version: String?
    package var state: String?
    /// A part of the name, in any case; or a device.
    package var name: String?
    /// Only devices that are in all of these groups.
    package var groups: Set<RosterGroup> = []
    /// Only devices of this group of releases.
    package var memberOf: String?
    /// Only devices after this one.
    package var after: String?

    package init() {}

    /// Whether it selects by groups only.
    var isByGroup: Bool {
        silent == nil && version == nil && state == nil && name == nil && after == nil && memberOf == nil
    }

    /// Returns whether the groups include the device.
    func includes(_ row: RosterRow, at now: Timestamp) -> Bool {
        if let memberOf, !row.post.groups.contains(memberOf) { return false }
        if groups.isEmpty { return true }
        let reasons = row.reasons(at: now)
        return groups.allSatisfy { row.isIn($0, at: now, reasons) }
    }

    /// Returns those of `names` that the filter selects: expected devices that were never seen.
    package func neverSeen(_ names: [String]) -> [String] {
        guard silent == nil, version == nil, state == nil, memberOf == nil,
            groups.isSubset(of: [.never, .attention])
        else { return [] }
        guard let name = name?.lowercased() else { return names }
        return names.filter { $0.lowercased().contains(name) }
    }

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
            case "only":
                let groups = value.split(separator: ",", omittingEmptySubsequences: false).map {
                    RosterGroup(rawValue: String($0))
                }
                guard !groups.contains(nil) else { return nil }
                self.groups = Set(groups.compactMap(\.self))
            case "group": memberOf = value
            case "after": after = value
            default: return nil
            }
        }
    }

    /// The query without a question mark.
    package var query: String {
        let pairs = [
            ("silent", silent.map { DurationText($0).description }), ("version", version), ("state", state),
            ("name", name), ("only", groups.isEmpty ? nil : groups.map(\.rawValue).sorted().joined(separator: ",")),
            ("group", memberOf), ("after", after),
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
