/// The message of a device to a roster. Unlike a report, it names the device.
///
/// `Guide/guides/roster.md` explains each member; a test compares the two lists.
package struct RosterPost: Sendable, Equatable {
    /// The largest size of a message in bytes.
    package static let maximumBytes = 8192
    /// The largest number of characters of a name.
    package static let longestName = 64
    /// The number of hex digits of a device.
    package static let deviceDigits = 16
    /// The largest number of blocked versions and of findings.
    package static let most = 24
    /// The largest number of tags, and the size of the text about a failed start in bytes.
    package static let mostTags = 8
    package static let longestFailure = 300
    /// The names of all members, in the order of the message.
    package static let members = [
        "schema", "appId", "device", "name", "runs", "state", "next", "waiting", "screen", "shell", "channel",
        "sequence",
        "checked", "code", "blocked", "findings", "program", "interval", "groups", "tags", "failure",
    ]
    /// The members that a message has only if they say something: a host of clientctl 0.9.0 refuses them.
    private static let optionalMembers: Set = ["groups", "tags", "failure"]

    /// The state of the client that runs.
    package enum ClientState: String, Sendable, CaseIterable {
        /// The client was launched for the first time and awaits its confirmation.
        case trial
        /// The client confirmed a start.
        case good
        /// The client failed once.
        case failed
        /// The client is blocked, and no other one could be launched.
        case blocked
        /// The client of the shell runs.
        case seed
        /// No client was launched.
        case none
    }

    /// The reason why the device does not show its next client, or does not install the newest one.
    package enum WaitReason: String, Sendable, CaseIterable {
        /// The activation windows are closed.
        case window
        /// A page has to reload, or the shell has to start.
        case page
        /// The rollout excludes the device for now.
        case rollout
        /// The newest release is paused or held.
        case paused
        /// The newest client needs a newer shell.
        case shell
        /// The hours for downloads have not begun.
        case hours
        /// The budget of a metered network is too small for the download.
        case budget
        /// The device downloads only deltas, or none, and the release does not have such a download.
        case deltas
    }

    /// The state of the screen, as in the metric `clientctl_screen_state`.
    package enum ShownScreen: String, Sendable, CaseIterable {
        case starting, client, guests, signedOut, locked, maintenance, updateRequired, waiting, failure
    }

    /// The application of the device; nil if it has no client.
    package var appId: String?
    /// The 16 hex digits of the group that contains only this device.
    package var device: String
    /// The name that the operator gave the device; empty without one.
    package var name: String
    /// The version that runs; nil if no client was launched.
    package var runs: String?
    package var state: ClientState
    /// The version that is launched next, if it is another one.
    package var next: String?
    package var waiting: WaitReason?
    /// The state of the screen; nil if the device does not run `serve`.
    package var screen: ShownScreen?
    package var shell: SemanticVersion?
    /// The channel that the device follows, and the sequence of its newest file.
    package var channel: String?
    package var sequence: Int?
    /// The time of the last check, by the clock of the device.
    package var checked: Timestamp?
    /// The public code of the last check's failure, with a status or version after a colon; nil if it did not fail.
    package var code: String?
    /// The blocked versions.
    package var blocked: [String]
    /// The codes of the doctor's findings that need attention.
    package var findings: [String]
    /// The version of clientctl.
    package var program: String
    /// The longest time between two messages in seconds.
    package var interval: Int
    /// The groups of the device, and what the operator wrote about it, such as `site=Lisbon`.
    package var groups: [String]
    package var tags: [String]
    /// The newest failed start: the version, the kind of failure, and the last line of the page's error; nil if there is none.
    package var failure: String?

    package init(
        device: String, name: String, state: ClientState, program: String, interval: Int, appId: String? = nil,
        runs: String? = nil, next: String? = nil, waiting: WaitReason? = nil, screen: ShownScreen? = nil,
        shell: SemanticVersion? = nil, channel: String? = nil, sequence: Int? = nil, checked: Timestamp? = nil,
        code: String? = nil, blocked: [String] = [], findings: [String] = [], groups: [String] = [],
        tags: [String] = [], failure: String? = nil
    ) {
        self.appId = appId
        self.device = device
        self.name = name
        self.runs = runs
        self.state = state
        self.next = next
        self.waiting = waiting
        self.screen = screen
        self.shell = shell
        self.channel = channel
        self.sequence = sequence
        self.checked = checked
        self.code = code
        self.blocked = Array(blocked.suffix(Self.most))
        self.findings = Array(findings.prefix(Self.most))
        self.program = program
        self.interval = interval
        self.groups = Array(groups.prefix(Self.most))
        self.tags = Array(tags.prefix(Self.mostTags))
        self.failure = failure.map(Self.cut)
    }

    /// The message for a host of clientctl 0.9.0; nil if it is the same.
    package var forFirstHosts: RosterPost? {
        if groups.isEmpty && tags.isEmpty && failure == nil { return nil }
        var post = self
        (post.groups, post.tags, post.failure) = ([], [], nil)
        return post
    }

    /// Returns the first characters of `text` that fit into the message.
    private static func cut(_ text: String) -> String {
        var (cut, bytes) = ("", 0)
        for scalar in text.unicodeScalars {
            bytes += UTF8.width(scalar)
            if bytes > longestFailure { break }
            cut.unicodeScalars.append(scalar)
        }
        return cut
    }

    /// Whether `text` can be a tag: a name of letters, digits, `-`, `_` and `.`, an equals sign, and a value of at most 64 visible
    /// characters without spaces.
    package static func isTag(_ text: String) -> Bool {
        guard let sign = text.firstIndex(of: "="), text.utf8.count <= longestTag else { return false }
        let (name, value) = (text[..<sign], text[text.index(after: sign)...])
        return !name.isEmpty && !value.isEmpty
            && name.utf8.allSatisfy {
                (48...57).contains($0) || (65...90).contains($0) || (97...122).contains($0) || "-_.".utf8.contains($0)
            } && text.unicodeScalars.allSatisfy { !$0.properties.isWhitespace && PrintableText.prints($0) }
    }

    /// Whether `text` is the identity of a device: 16 lower-case hex digits.
    package static func isDevice(_ text: String) -> Bool {
        text.utf8.count == deviceDigits
            && text.utf8.allSatisfy { (48...57).contains($0) || (97...102).contains($0) }
    }

    /// Whether `text` can be the name of a device. A name in the form of an identity could stand for another device.
    package static func isName(_ text: String) -> Bool {
        let plain = text.filter { !$0.isWhitespace }.lowercased()
        return isShort(text) && !isDevice(plain) && !plain.hasPrefix("device:")
    }

    /// Whether `text` is not longer than a name. A roster of clientctl 0.9.0 may have other names than `isName` permits.
    package static func isShort(_ text: String) -> Bool { text.unicodeScalars.count <= longestName }

    /// Returns a code with a value, such as `httpStatus:404`, or without it if that is too long.
    package static func code(_ code: String, value: String?) -> String {
        guard let value, code.utf8.count + 1 + value.utf8.count <= longestCode else { return code }
        return "\(code):\(value)"
    }
}

// MARK: JSON

extension RosterPost {
    private static let schema = 1
    /// Longer than every version of a feed: the digest of a Meteor version has 40 digits.
    private static let longestVersion = 64
    private static let longestCode = 32
    private static let longestTag = 128
    private static let longestAppId = 255
    private static let longestInterval = 31 * 86_400

    /// Parses a message. Throws `JSONError` or `MemberReader.Refusal` for one that no device sends, including one with an unknown
    /// member.
    package init(parsing bytes: [UInt8]) throws {
        let value = try JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes, maximumDepth: 2)
        let reader = try MemberReader(value, of: "message")
        if let unknown = reader.object.members.first(where: { !Self.members.contains($0.name) }) {
            throw reader.refusal(UntrustedName.display(unknown.name, limit: 40), "is not a member of a message")
        }
        guard try reader.integer("schema") == Self.schema else { throw reader.refusal("schema", "is not 1") }
        let device = try reader.string("device")
        if !Self.isDevice(device) { throw reader.refusal("device", "is not 16 hex digits") }
        let name = try reader.string("name")
        if !Self.isShort(name) { throw reader.refusal("name", "has more than \(Self.longestName) characters") }
        let interval = try reader.integer("interval")
        if !(1...Self.longestInterval).contains(interval) {
            throw reader.refusal("interval", "is not 1 to \(Self.longestInterval)")
        }
        let channel = try reader.optionalString("channel")
        if let channel, !ChannelFileName.isName(channel) { throw reader.refusal("channel", ChannelFileName.rule) }
        self.init(
            device: device, name: name, state: try Self.required("state", reader),
            program: try Self.word("program", from: reader, limit: Self.longestCode) ?? "", interval: interval,
            appId: try Self.word("appId", from: reader, limit: Self.longestAppId),
            runs: try Self.word("runs", from: reader, limit: Self.longestVersion),
            next: try Self.word("next", from: reader, limit: Self.longestVersion),
            waiting: try Self.optional("waiting", reader),
            screen: try Self.optional("screen", reader), shell: try reader.optionalVersion("shell"), channel: channel,
            sequence: try reader.optionalInteger("sequence"),
            checked: reader.optional("checked") == nil ? nil : try reader.timestamp("checked"),
            code: try Self.word("code", from: reader, limit: Self.longestCode),
            blocked: try Self.words("blocked", from: reader, limit: Self.longestVersion),
            findings: try Self.words("findings", from: reader, limit: Self.longestCode),
            groups: reader.optional("groups") == nil
                ? [] : try Self.words("groups", from: reader, limit: Self.longestVersion),
            tags: try Self.tags(reader), failure: try Self.failure(reader))
    }

    private static func tags(_ reader: MemberReader) throws(MemberReader.Refusal) -> [String] {
        guard reader.optional("tags") != nil else { return [] }
        let tags = try reader.strings("tags")
        guard tags.count <= mostTags, tags.allSatisfy(isTag) else {
            throw reader.refusal("tags", "is not a list of at most \(mostTags) tags such as site=Lisbon")
        }
        return tags
    }

    private static func failure(_ reader: MemberReader) throws(MemberReader.Refusal) -> String? {
        guard let text = try reader.optionalString("failure") else { return nil }
        guard (1...longestFailure).contains(text.utf8.count), text.unicodeScalars.allSatisfy(PrintableText.prints)
        else { throw reader.refusal("failure", "is not one line of at most \(longestFailure) bytes") }
        return text
    }

    private static func required<Value: RawRepresentable<String>>(
        _ member: String, _ reader: MemberReader
    ) throws(MemberReader.Refusal) -> Value {
        guard let value = Value(rawValue: try reader.string(member)) else {
            throw reader.refusal(member, "is not a known value")
        }
        return value
    }

    private static func optional<Value: RawRepresentable<String>>(
        _ member: String, _ reader: MemberReader
    ) throws(MemberReader.Refusal) -> Value? {
        reader.optional(member) == nil ? nil : try required(member, reader)
    }

    /// Returns a text of visible ASCII characters; nil if the member is absent or null.
    private static func word(
        _ member: String, from reader: MemberReader, limit: Int
    ) throws(MemberReader.Refusal) -> String? {
        guard let text = try reader.optionalString(member) else { return nil }
        guard isWord(text, limit) else { throw reader.refusal(member, "is not 1 to \(limit) visible ASCII characters") }
        return text
    }

    private static func words(
        _ member: String, from reader: MemberReader, limit: Int
    ) throws(MemberReader.Refusal) -> [String] {
        let texts = try reader.strings(member)
        guard texts.count <= most, texts.allSatisfy({ isWord($0, limit) }) else {
            throw reader.refusal(member, "is not a list of at most \(most) words")
        }
        return texts
    }

    private static func isWord(_ text: String, _ limit: Int) -> Bool {
        (1...limit).contains(text.utf8.count) && text.utf8.allSatisfy { 0x21 <= $0 && $0 < 0x7F }
    }

    /// The message as an object.
    package var json: JSONObject {
        let values: [JSONValue] = [
            .integer(Self.schema), .string(orNull: appId), .string(device), .string(name), .string(orNull: runs),
            .string(state.rawValue), .string(orNull: next), .string(orNull: waiting?.rawValue),
            .string(orNull: screen?.rawValue), .string(orNull: shell?.description), .string(orNull: channel),
            sequence.map(JSONValue.integer) ?? .null, .string(orNull: checked?.description), .string(orNull: code),
            .array(blocked.map(JSONValue.string)), .array(findings.map(JSONValue.string)), .string(program),
            .integer(interval), .array(groups.map(JSONValue.string)), .array(tags.map(JSONValue.string)),
            .string(orNull: failure),
        ]
        var object: JSONObject = [:]
        for (name, value) in zip(Self.members, values) {
            if Self.optionalMembers.contains(name), value == .null || value == .array([]) { continue }
            object[name] = value
        }
        return object
    }

    /// The body of the message.
    package var bytes: [UInt8] { JSONWriter.bytes(of: .object(json)) }
}
