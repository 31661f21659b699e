import BundleSigning
import BundleValues

/// The events that Capgo's plugin reports, as reports of a device.
enum PhoneEvents {
    /// The events that mean something for a release. All others are dropped.
    private static let facts: [String: [(fact: DeviceReport.Fact, code: DeviceReport.Code?)]] = [
        "set": [(.installed, nil), (.started, nil)],
        "app_launch_ready": [(.confirmed, nil)],
        "update_fail": [(.failed, .notConfirmed)],
        "app_launch_timeout": [(.failed, .notConfirmed)],
        "reset": [(.rolledBack, nil)],
        "checksum_fail": [(.failed, .digestMismatch)],
        "unzip_fail": [(.failed, .archiveRejected)],
        "download_fail": [(.failed, .networkUnavailable)],
    ]

    /// Returns the reports in a body: an event, or a list of them. Throws if it is neither. `channel` is the channel of the address;
    /// without one, each event names its own, or else belongs to `standard`.
    static func reports(in body: [UInt8], channel: String?, standard: String) throws -> [DeviceReport] {
        let value = try JSONScanner.parse(body, maximumBytes: body.count)
        guard let events = value.arrayValue ?? value.objectValue.map({ [.object($0)] }) else {
            throw MemberReader.Refusal(member: "statistics", problem: "are neither an event nor a list of events")
        }
        return try events.compactMap(\.objectValue).flatMap { event in
            let named = event["defaultChannel"]?.stringValue.flatMap { ChannelFileName.isName($0) ? $0 : nil }
            return try reports(of: event, channel: channel ?? named ?? standard)
        }
    }

    private static func reports(of event: JSONObject, channel: String) throws -> [DeviceReport] {
        func text(_ member: String) -> String? { event[member]?.stringValue }
        func version(_ member: String) -> SemanticVersion? {
            text(member).flatMap { try? SemanticVersion(parsing: $0) }
        }
        guard let action = text("action"), let facts = facts[action], let device = text("device_id"), !device.isEmpty,
            let platform = text("platform").flatMap(DeviceReport.Platform.init)
        else { return [] }
        // After a reset, the version that the phone left is the old one.
        let isReset = action == "reset"
        guard let version = isReset ? version("old_version_name") : version("version_name") else { return [] }
        return try facts.map { fact, code in
            DeviceReport(
                id: try id(device, version, fact, channel), fact: fact, version: version, channel: channel, code: code,
                platform: platform)
        }
    }

    /// Returns the ID by which a fact about a version counts once for a device. It does not reveal the device's own ID.
    private static func id(
        _ device: String, _ version: SemanticVersion, _ fact: DeviceReport.Fact, _ channel: String
    ) throws -> String {
        let text = [device, version.description, fact.rawValue, channel].joined(separator: "\0")
        return String(try SHA256Digest.of(Array(text.utf8)).hex.prefix(32))
    }
}
