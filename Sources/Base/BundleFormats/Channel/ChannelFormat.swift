import BundleSigning
import BundleValues

/// The file format of a channel document: a DSSE envelope of at most 1 MiB.
package enum ChannelFormat {
    /// The largest document, in bytes.
    package static let maximumBytes = 1 << 20
    package static let payloadType = "application/vnd.swap-clients.channel.v1+json"

    /// The largest number of versions that a document reinstates.
    package static let mostReinstated = 1024

    private static let name = "channel document"
    private static let members = [
        "schema", "appId", "channel", "sequence", "previous", "issuedAt", "expires", "minimumVersion", "undoneMinimum",
        "poll",
        "busyLimit", "network",
        "recalled", "reinstated", "releases",
    ]
    private static let releaseMembers = ["rollout", "ramp", "groups", "only", "urgent", "retries", "salt", "paused"]

    /// Parses the envelope only. Callers verify its signatures before they parse the payload.
    package static func envelope(parsing document: [UInt8]) throws(DocumentRefusal) -> SignedEnvelope {
        try SignedEnvelope(parsing: document, payloadType: payloadType, maximumBytes: maximumBytes, name: name)
    }

    /// Parses the payload. Throws for a member with an invalid value and keeps unknown members.
    package static func parse(_ envelope: SignedEnvelope) throws(DocumentRefusal) -> UnverifiedChannelDocument {
        do {
            let value = try JSONScanner.parse(envelope.payload, maximumBytes: maximumBytes)
            let claims = try read(try MemberReader(value, of: name))
            return UnverifiedChannelDocument(claims: claims, envelope: envelope)
        } catch {
            throw DocumentRefusal(name, error)
        }
    }

    /// Returns the document in the bytes of a channel file, unverified.
    package static func document(in bytes: [UInt8]) throws(DocumentRefusal) -> ChannelDocument {
        try parse(envelope(parsing: bytes)).claims
    }

    private static func read(_ reader: MemberReader) throws -> ChannelDocument {
        var document = try identity(reader)
        document.previous = try reader.optionalDigest("previous")
        document.minimumVersion = try reader.optionalVersion("minimumVersion")
        document.undoneMinimum = try reader.optionalVersion("undoneMinimum")
        document.poll = try reader.optional("poll").map { try poll(try MemberReader($0, of: "\(name).poll")) }
        document.busyLimit = try reader.optionalInteger("busyLimit")
        if let limit = document.busyLimit, limit > ChannelDocument.longestBusyLimit {
            throw reader.refusal("busyLimit", "is more than \(ChannelDocument.longestBusyLimit) seconds")
        }
        document.network =
            try reader.optional("network").map { try FetchPolicy(MemberReader($0, of: "\(name).network")) }
            ?? FetchPolicy()
        document.recalled = reader.optional("recalled") == nil ? [] : try reader.objects("recalled").map(recall)
        document.reinstated = try reinstated(reader, in: document)
        document.releases = try releases(reader)
        for member in reader.object.members where !members.contains(where: { $0.utf8.elementsEqual(member.name.utf8) })
        {
            document.others[member.name] = member.value
        }
        return document
    }

    /// Reads the schema, the names, the sequence and the times.
    private static func identity(_ reader: MemberReader) throws -> ChannelDocument {
        if let schema = reader.optional("schema"), schema != .integer(1) {
            throw reader.refusal("schema", "is not 1: this clientctl is too old for it")
        }
        let document = ChannelDocument(
            appId: try reader.optionalString("appId"), channel: try reader.string("channel"),
            sequence: try reader.integer("sequence"), issuedAt: try reader.timestamp("issuedAt"),
            expires: try reader.timestamp("expires"))
        if document.appId?.isEmpty == true { throw reader.refusal("appId", "is empty; leave it out instead") }
        if !ChannelFileName.isName(document.channel) { throw reader.refusal("channel", ChannelFileName.rule) }
        if document.sequence == 0 { throw reader.refusal("sequence", "is 0: the first document has 1") }
        if document.expires <= document.issuedAt { throw reader.refusal("expires", "is not later than issuedAt") }
        return document
    }

    private static func reinstated(
        _ reader: MemberReader, in document: ChannelDocument
    ) throws -> [FeedMemory.Reinstatement] {
        let reinstated = reader.optional("reinstated") == nil ? [] : try reader.objects("reinstated").map(reinstatement)
        if reinstated.contains(where: { !(1...document.sequence).contains($0.sequence) }) {
            throw reader.refusal("reinstated", "has a sequence that is not 1 to that of the document")
        }
        if reinstated.count > mostReinstated {
            throw reader.refusal("reinstated", "names more than \(mostReinstated) versions")
        }
        let recalled = Set(document.recalled.map(\.version))
        if let both = reinstated.map(\.version).first(where: recalled.contains) {
            throw reader.refusal("reinstated", "names \(both), which recalled also names")
        }
        return reinstated
    }

    private static func releases(_ reader: MemberReader) throws -> [ChannelDocument.Release] {
        var releases: [ChannelDocument.Release] = []
        for (index, entry) in try reader.objects("releases").enumerated() {
            let release = try release(entry, of: "\(name).releases[\(index)]")
            if releases.contains(where: { $0.version == release.version }) {
                throw reader.refusal("releases", "has version \(release.version) twice")
            }
            releases.append(release)
        }
        return releases
    }

    private static func release(_ reader: MemberReader, of path: String) throws -> ChannelDocument.Release {
        var manifest = reader.object
        for member in releaseMembers { manifest[member] = nil }
        let rollout = try reader.optionalInteger("rollout") ?? ChannelDocument.Release.allDevices
        if rollout > ChannelDocument.Release.allDevices {
            throw reader.refusal("rollout", "is more than 1000 thousandths")
        }
        let isPaused = try flag("paused", of: reader)
        var release = ChannelDocument.Release(
            try ManifestFormat.parse(.object(manifest), of: path), rollout: rollout,
            salt: try reader.optionalString("salt") ?? "", isPaused: isPaused)
        release.ramp = try reader.optional("ramp").map { try Ramp(MemberReader($0, of: "\(path).ramp")) }
        if let ramp = release.ramp {
            if reader.optional("rollout") != nil {
                throw reader.refusal("ramp", "cannot be combined with rollout: remove one of them")
            }
            if (ramp.heldAt != nil) != isPaused {
                throw reader.refusal("ramp", "must have heldAt if and only if the release is paused")
            }
        }
        (release.groups, release.isOnlyForGroups) = try groups(reader)
        release.isUrgent = try flag("urgent", of: reader)
        release.retries = try reader.optionalInteger("retries") ?? 0
        if release.retries > ChannelDocument.Release.mostRetries {
            throw reader.refusal("retries", "is more than \(ChannelDocument.Release.mostRetries)")
        }
        return release
    }

    private static func flag(_ member: String, of reader: MemberReader) throws -> Bool {
        guard let value = reader.optional(member) else { return false }
        guard let flag = value.boolValue else { throw reader.refusal(member, "is neither true nor false") }
        return flag
    }

    private static func groups(_ reader: MemberReader) throws -> ([String], isOnly: Bool) {
        let groups = try reader.strings("groups")
        let isOnly = try flag("only", of: reader)
        if groups.count > ChannelDocument.Release.mostGroups {
            throw reader.refusal("groups", "names more than \(ChannelDocument.Release.mostGroups)")
        }
        if !groups.allSatisfy(DeviceGroup.isNamedByReleases) {
            throw reader.refusal("groups", "names an invalid group: \(DeviceGroup.rule); or device: and 16 hex digits")
        }
        if Set(groups).count != groups.count { throw reader.refusal("groups", "names a group twice") }
        if isOnly, groups.isEmpty { throw reader.refusal("only", "is true, but no groups are named") }
        return (groups, isOnly)
    }

    private static func recall(_ reader: MemberReader) throws -> FeedMemory.Recall {
        FeedMemory.Recall(
            version: try reader.version("version"), reason: try reader.optionalString("reason") ?? "")
    }

    private static func reinstatement(_ reader: MemberReader) throws -> FeedMemory.Reinstatement {
        FeedMemory.Reinstatement(
            version: try reader.version("version"), sequence: try reader.integer("sequence"))
    }

    private static func poll(_ reader: MemberReader) throws -> ChannelDocument.Poll {
        let interval = try reader.integer("interval")
        if interval == 0 { throw reader.refusal("interval", "is 0: devices would poll without a pause") }
        return ChannelDocument.Poll(interval: interval, jitter: try reader.optionalInteger("jitter") ?? 0)
    }

    /// Returns the payload of `document` with the members in a fixed order and unknown members last.
    package static func payload(_ document: ChannelDocument) -> [UInt8] {
        var object: JSONObject = ["schema": .integer(1)]
        object["appId"] = document.appId.map(JSONValue.string)
        object["channel"] = .string(document.channel)
        object["sequence"] = .integer(document.sequence)
        object["previous"] = document.previous.map { .string($0.hex) }
        object["issuedAt"] = .string(document.issuedAt.description)
        object["expires"] = .string(document.expires.description)
        object["minimumVersion"] = (document.minimumVersion?.description).map(JSONValue.string)
        object["undoneMinimum"] = (document.undoneMinimum?.description).map(JSONValue.string)
        object["poll"] = document.poll.map {
            .object(["interval": .integer($0.interval), "jitter": .integer($0.jitter)])
        }
        object["busyLimit"] = document.busyLimit.map(JSONValue.integer)
        object["network"] = document.network.json
        object["recalled"] = .array(
            document.recalled.map {
                .object(["version": .string($0.version.description), "reason": .string($0.reason)])
            })
        if !document.reinstated.isEmpty {
            object["reinstated"] = .array(
                document.reinstated.map {
                    .object(["version": .string($0.version.description), "sequence": .integer($0.sequence)])
                })
        }
        object["releases"] = .array(document.releases.map { .object(self.release($0)) })
        for member in document.others.members { object[member.name] = member.value }
        return JSONWriter.bytes(of: .object(object))
    }

    private static func release(_ release: ChannelDocument.Release) -> JSONObject {
        var object = release.manifest.document.objectValue ?? [:]
        if release.ramp == nil, release.rollout != ChannelDocument.Release.allDevices {
            object["rollout"] = .integer(release.rollout)
        }
        object["ramp"] = release.ramp?.json
        if !release.groups.isEmpty { object["groups"] = .array(release.groups.map(JSONValue.string)) }
        if release.isOnlyForGroups { object["only"] = .bool(true) }
        if release.isUrgent { object["urgent"] = .bool(true) }
        if release.retries > 0 { object["retries"] = .integer(release.retries) }
        if !release.salt.isEmpty { object["salt"] = .string(release.salt) }
        if release.isPaused { object["paused"] = .bool(true) }
        return object
    }

    /// Returns an unsigned envelope of `document`.
    package static func envelope(_ document: ChannelDocument) -> SignedEnvelope {
        SignedEnvelope(payloadType: payloadType, payload: payload(document))
    }
}
