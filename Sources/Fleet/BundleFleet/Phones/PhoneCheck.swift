import ArchiveSource
import BundleFormats
import BundleCore
import BundleValues

/// A phone's request for updates, in the terms of either plugin.
struct PhoneCheck: Sendable {
    let phone: StatedPhone
    /// The application that the phone names; nil if it does not.
    let appId: String?
    /// The id of the public key in the phone's configuration; nil without a key.
    let keyId: String?

    /// The largest number of bytes of an ID.
    private static let longestID = 128

    /// Reads the body of Capgo's plugin. Unknown members are ignored. `usesGroups` reads the groups of the phone from `custom_id`.
    init(capgo body: [UInt8], usesGroups: Bool) throws {
        let reader = try MemberReader(JSONScanner.parse(body, maximumBytes: body.count), of: "request")
        // A configuration without an ID or a key may send an empty text.
        func text(_ member: String) throws(MemberReader.Refusal) -> String? {
            try reader.optionalString(member).flatMap { $0.isEmpty ? nil : $0 }
        }
        try self.init(
            id: text("device_id"), shell: text("version_build"), running: text("version_name"),
            custom: usesGroups ? text("custom_id") : nil, appId: text("app_id"), keyId: text("key_id"))
    }

    /// Reads the query of Capawesome's plugin, which has `deviceId`, `appVersionName`, `appVersionCode`, `bundleId` and `customId`.
    init(capawesome query: PhoneQuery, usesGroups: Bool) throws {
        try self.init(
            id: query["deviceId"], shell: query["appVersionName"] ?? query["appVersionCode"],
            running: query["bundleId"],
            custom: usesGroups ? query["customId"] : nil, appId: nil, keyId: nil)
    }

    private init(id: String?, shell: String?, running: String?, custom: String?, appId: String?, keyId: String?) throws
    {
        guard let id, id.utf8.count <= Self.longestID else {
            throw MemberReader.Refusal(
                member: "request", problem: "has no ID of the device with 1 to \(Self.longestID) bytes")
        }
        guard let version = shell.flatMap(StatedPhone.shell) else {
            throw MemberReader.Refusal(
                member: "request",
                problem: "has no version of the app such as 1.2.3: set versionName, or MARKETING_VERSION")
        }
        phone = StatedPhone(
            id: id, groups: custom.flatMap(DeviceGroup.list) ?? [], shell: version,
            // A bundle of another server, and the files in the app, have no version of ours.
            running: running.flatMap { try? SemanticVersion(parsing: $0) })
        (self.appId, self.keyId) = (appId, keyId)
    }
}

/// The query of a request, decoded.
struct PhoneQuery {
    private let values: [String: String]

    init(parsing bytes: [UInt8]) throws(MemberReader.Refusal) {
        var values: [String: String] = [:]
        for part in bytes.split(separator: UInt8(ascii: "&")) {
            let pair = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            let words = pair.map { word in
                PercentEncoding.decodeStrictly(word[...].map { $0 == UInt8(ascii: "+") ? 0x20 : $0 }[...])
                    .flatMap { String(validating: $0, as: UTF8.self) }
            }
            guard let name = words.first ?? nil, words.allSatisfy({ $0 != nil }) else {
                throw MemberReader.Refusal(member: "query", problem: "is not percent-encoded UTF-8")
            }
            if pair.count == 2 { values[name] = words[1] }
        }
        self.values = values
    }

    /// The value of `name`; nil if it is absent or empty.
    subscript(_ name: String) -> String? { values[name].flatMap { $0.isEmpty ? nil : $0 } }
}
