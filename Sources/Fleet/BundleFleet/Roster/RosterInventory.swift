import BundleDisk
package import BundleValues

/// The names of the devices that an operator expects, of `--expect`.
package struct ExpectedDevices: Sendable {
    private static let maximumBytes = 32 << 20

    /// The names or IDs, without duplicates.
    package let names: Set<String>

    /// Reads a file with one name or ID per line.
    package init(file path: String) throws {
        let content = try File.open(reading: path).readAll(maximumBytes: Self.maximumBytes)
        let bytes = try EditedText.bytes(of: content, in: path)
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) is not UTF-8 text. Correct it.")
        }
        var names: Set<String> = []
        for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            let name = Self.trimmed(line)
            if name.isEmpty { continue }
            guard RosterPost.isShort(name), names.count < RosterRule.most else {
                throw UpdateFailure(
                    .configInvalid, subject: "\(path):\(index + 1)",
                    "Line \(index + 1) of \(path) is not the name of a device: write at most \(RosterRule.most) names of at most "
                        + "\(RosterPost.longestName) characters, one per line.")
            }
            names.insert(name)
        }
        self.names = names
    }

    /// Returns `text` without the spaces around it, which people do not see.
    static func trimmed(_ text: some StringProtocol) -> String {
        String(text.drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
    }
}

/// The devices of a roster in numbers: how many have the newest release of their channel, and why the others do not.
package struct RosterInventory: Sendable, Equatable {
    /// The devices of one channel.
    struct Line: Sendable, Equatable {
        let newest: RosterRow.NewestRelease
        var devices = 0
        var have = 0
        var behind = 0
        var causes: [String: Int] = [:]
    }

    package private(set) var devices = 0
    private(set) var groups: [RosterGroup: Int] = [:]
    /// The numbers of devices by the version that runs; empty in an inventory from a host.
    private(set) var versions: [String: Int] = [:]
    /// The lines by channel; empty for devices without one.
    private(set) var lines: [String: Line] = [:]
    /// The expected devices that no row has so far; nil without a list.
    private var missing: Set<String>?

    package init(expecting expected: ExpectedDevices?) { missing = expected?.names }

    /// The number of devices, with those that were never seen.
    package var total: Int { devices + (missing?.count ?? 0) }

    /// The expected devices that were never seen, by name; nil without a list of expected devices.
    package var neverSeen: [String]? { missing?.sorted() }

    /// Counts a device.
    package mutating func add(_ row: RosterRow, at now: Timestamp) {
        devices += 1
        versions[row.post.runs ?? "", default: 0] += 1
        if missing?.isEmpty == false {
            for name in [ExpectedDevices.trimmed(row.post.name), row.post.device, row.target] { missing?.remove(name) }
        }
        let reasons = row.reasons(at: now)
        for group in RosterGroup.allCases where row.isIn(group, at: now, reasons) { groups[group, default: 0] += 1 }
        guard let newest = row.newest else { return }
        var line = lines[row.post.channel ?? ""] ?? Line(newest: newest)
        line.devices += 1
        if row.isBehind {
            line.behind += 1
            let cause = reasons.first?.kind.cause ?? RosterRule.waits(row).map { "wait for \($0)" } ?? "on their way"
            line.causes[cause, default: 0] += 1
        } else if RosterRule.has(row.post, newest.version) {
            line.have += 1
        }
        lines[row.post.channel ?? ""] = line
    }

    /// Returns the number of devices of `group`, with those that were never seen.
    package func count(of group: RosterGroup) -> Int {
        switch group {
        case .never: missing?.count ?? 0
        case .attention: (groups[group] ?? 0) + (missing?.count ?? 0)
        case .failed, .silent, .waits, .behind: groups[group] ?? 0
        }
    }

    /// The inventory in one sentence.
    package var text: String {
        let never = missing.flatMap { $0.isEmpty ? nil : "\($0.count) never seen" }
        let parts: [String] =
            switch lines.count {
            case 0: [counted(total, "device")]
            case 1: lines.values.flatMap { Self.parts($0, of: total) }
            default:
                lines.sorted { $0.key < $1.key }.map { channel, line in
                    let parts = Self.parts(line, of: line.devices).joined(separator: ", ")
                    return "\(channel.isEmpty ? "no channel" : channel): \(parts)"
                }
            }
        return (parts + [never].compactMap(\.self)).joined(separator: "; ")
    }

    private static func parts(_ line: Line, of total: Int) -> [String] {
        let have = "\(line.have) of \(total) \(line.have == 1 ? "has" : "have") \(line.newest.version)"
        if line.behind == 0 { return [have] }
        let causes = line.causes.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { "\($0.value) \($0.key)" }
        let day = line.newest.since.description.prefix(10)
        return [have, "\(line.behind) behind since \(day) (\(causes.joined(separator: ", ")))"]
    }
}

// MARK: JSON

extension RosterInventory {
    package var json: JSONObject {
        var groups: JSONObject = [:]
        for group in RosterGroup.allCases where group != .never || missing != nil {
            groups[group.rawValue] = .integer(count(of: group))
        }
        let channels = lines.sorted { $0.key < $1.key }.map { channel, line in
            var causes: JSONObject = [:]
            for cause in line.causes.sorted(by: { $0.key < $1.key }) { causes[cause.key] = .integer(cause.value) }
            return JSONValue.object([
                "channel": .string(orNull: channel.isEmpty ? nil : channel),
                "newest": .string(line.newest.version.description), "since": .string(line.newest.since.description),
                "devices": .integer(line.devices), "have": .integer(line.have), "behind": .integer(line.behind),
                "causes": .object(causes),
            ])
        }
        return [
            "text": .string(text), "devices": .integer(devices), "groups": .object(groups),
            "channels": .array(channels), "neverSeen": neverSeen.map { .array($0.map(JSONValue.string)) } ?? .null,
        ]
    }

    /// Parses the inventory of a host. Throws `MemberReader.Refusal`.
    package init(_ reader: MemberReader) throws {
        devices = try reader.integer("devices")
        missing = reader.optional("neverSeen") == nil ? nil : Set(try reader.strings("neverSeen"))
        let groups = try reader.optionalObject("groups")
        for group in RosterGroup.allCases {
            self.groups[group] = try groups?.optionalInteger(group.rawValue)
        }
        self.groups[.attention, default: 0] -= missing?.count ?? 0
        for channel in try reader.objects("channels") {
            let newest = RosterRow.NewestRelease(
                version: try channel.version("newest"), since: try channel.timestamp("since"))
            var line = Line(newest: newest)
            line.devices = try channel.integer("devices")
            line.have = try channel.integer("have")
            line.behind = try channel.integer("behind")
            for cause in try channel.optionalObject("causes")?.object.members ?? [] {
                line.causes[UntrustedName.display(cause.name, limit: 40)] = cause.value.integerValue ?? 0
            }
            lines[try channel.optionalString("channel") ?? ""] = line
        }
    }
}

extension RosterFile {
    /// Returns the inventory of the whole roster, and calls `body` with each device that `filter` selects.
    package func inventory(
        expecting expected: ExpectedDevices?, at now: Timestamp, selecting filter: RosterFilter = RosterFilter(),
        _ body: (RosterRow) -> Void = { _ in }
    ) throws -> RosterInventory {
        var inventory = RosterInventory(expecting: expected)
        try each(RosterFilter(), at: now) { row in
            inventory.add(row, at: now)
            if filter.isByGroup && filter.includes(row, at: now) { body(row) }
            return true
        }
        if !filter.isByGroup {
            try each(filter, at: now) { row in
                body(row)
                return true
            }
        }
        return inventory
    }
}

extension [RosterRow] {
    /// The devices with those first that need attention, then by name.
    package func placed(at now: Timestamp) -> [RosterRow] {
        let places = map { $0.place(at: now) }
        return indices.sorted { places[$0] < places[$1] }.map { self[$0] }
    }
}
