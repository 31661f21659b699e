import BundleSigning
package import BundleValues

extension FeedMemory {
    package init(_ reader: MemberReader) throws {
        trust = try reader.optional("trust").map { try TrustMemory(MemberReader($0, of: "ledger.feed.trust")) }
        clock = reader.optional("clock") == nil ? nil : try reader.timestamp("clock")
        deviceId = try reader.optionalString("deviceId")
        deviceIdSource = try reader.optionalString("deviceIdSource").flatMap(DeviceIdSource.init)
        groups = try reader.strings("groups")
        if !groups.allSatisfy(DeviceGroup.isName) { throw reader.refusal("groups", "has an invalid group name") }
        neededShell = try reader.optionalVersion("neededShell")
        channels = try reader.objects("channels").map(ChannelMemory.init)
        usedRetries = try Self.retries("usedRetries", from: reader)
        if Set(channels.map(\.name)).count != channels.count {
            throw reader.refusal("channels", "names a channel twice")
        }
    }

    package var json: JSONValue {
        .object([
            "trust": trust.map(\.json) ?? .null, "clock": .string(orNull: clock?.description),
            "deviceId": .string(orNull: deviceId), "deviceIdSource": .string(orNull: deviceIdSource?.rawValue),
            "groups": .array(groups.map(JSONValue.string)),
            "neededShell": .string(orNull: neededShell?.description),
            "channels": .array(channels.map(\.json)), "usedRetries": Self.json(of: usedRetries),
        ])
    }

    fileprivate static func retries(_ member: String, from reader: MemberReader) throws -> [Retry] {
        if reader.optional(member) == nil { return [] }
        return try reader.objects(member).map { Retry(try $0.version("version"), try $0.integer("count")) }
    }

    fileprivate static func json(of retries: [Retry]) -> JSONValue {
        .array(
            retries.map { .object(["version": .string($0.version.description), "count": .integer($0.count)]) })
    }
}

extension FeedMemory.TrustMemory {
    init(_ reader: MemberReader) throws {
        var chain: [SHA256Digest] = []
        for text in try reader.strings("chain") {
            do { chain.append(try SHA256Digest(parsingHex: text)) } catch {
                throw reader.refusal("chain", "is refused: \(error)")
            }
        }
        guard let document = try? Base64.decode(try reader.string("document")) else {
            throw reader.refusal("document", "is not standard base64")
        }
        self.init(
            version: try reader.integer("version"), document: document, chain: chain,
            revokedKeys: try reader.strings("revokedKeys"))
    }

    var json: JSONValue {
        .object([
            "version": .integer(version), "document": .string(Base64.encode(document)),
            "chain": .array(chain.map { .string($0.hex) }), "revokedKeys": .array(revokedKeys.map(JSONValue.string)),
        ])
    }
}

extension FeedMemory.ChannelMemory {
    init(_ reader: MemberReader) throws {
        self.init(
            name: try reader.string("name"), sequence: try reader.integer("sequence"),
            payloadSha256: try reader.digest("payloadSha256"), signers: try reader.strings("signers"),
            issuedAt: try reader.timestamp("issuedAt"), expires: try reader.timestamp("expires"),
            recalled: try reader.objects("recalled").map {
                FeedMemory.Recall(
                    version: try $0.version("version"), reason: try $0.string("reason"),
                    sequence: try $0.optionalInteger("sequence"))
            },
            reinstated: try (reader.optional("reinstated") == nil ? [] : reader.objects("reinstated")).map {
                FeedMemory.Reinstatement(version: try $0.version("version"), sequence: try $0.integer("sequence"))
            },
            minimumVersion: try reader.optionalVersion("minimumVersion"),
            leftOut: try Self.versions("leftOut", from: reader),
            paused: try Self.versions("paused", from: reader), urgent: try Self.versions("urgent", from: reader),
            busyLimit: try reader.optionalInteger("busyLimit"),
            retries: try FeedMemory.retries("retries", from: reader),
            undoneMinimum: try reader.optionalVersion("undoneMinimum"))
    }

    private static func versions(_ member: String, from reader: MemberReader) throws -> [SemanticVersion] {
        try reader.strings(member).map { text in
            do { return try SemanticVersion(parsing: text) } catch {
                throw reader.refusal(member, "is refused: \(error)")
            }
        }
    }

    var json: JSONValue {
        var object: JSONObject = [
            "name": .string(name), "sequence": .integer(sequence), "payloadSha256": .string(payloadSha256.hex),
            "signers": .array(signers.map(JSONValue.string)), "issuedAt": .string(issuedAt.description),
            "expires": .string(expires.description),
            "recalled": .array(
                recalled.map { recall in
                    var object: JSONObject = [
                        "version": .string(recall.version.description), "reason": .string(recall.reason),
                    ]
                    object["sequence"] = recall.sequence.map(JSONValue.integer)
                    return .object(object)
                }),
            "reinstated": .array(
                reinstated.map {
                    .object(["version": .string($0.version.description), "sequence": .integer($0.sequence)])
                }),
            "minimumVersion": .string(orNull: minimumVersion?.description),
            "leftOut": .array(leftOut.map { .string($0.description) }),
            "paused": .array(paused.map { .string($0.description) }),
            "urgent": .array(urgent.map { .string($0.description) }),
            "busyLimit": busyLimit.map(JSONValue.integer) ?? .null, "retries": FeedMemory.json(of: retries),
        ]
        object["undoneMinimum"] = (undoneMinimum?.description).map(JSONValue.string)
        return .object(object)
    }
}
