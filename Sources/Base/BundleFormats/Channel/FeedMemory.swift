package import BundleSigning
package import BundleValues

/// The state of the feed that a store keeps, so that replayed older files change nothing (SECURITY section 2): the
/// newest trust root, the highest sequences, the latest signed time, and the recalls.
package struct FeedMemory: Sendable, Equatable {
    /// A recalled version, which must not run.
    package struct Recall: Sendable, Equatable {
        package let version: SemanticVersion
        /// The reason, for people.
        package let reason: String
        /// The sequence of the last channel file with this recall; nil in a channel file and for the newest accepted
        /// one.
        package let sequence: Int?

        package init(version: SemanticVersion, reason: String, sequence: Int? = nil) {
            self.version = version
            self.reason = reason
            self.sequence = sequence
        }
    }

    /// A version whose recall a channel file cancels.
    package struct Reinstatement: Sendable, Equatable {
        package let version: SemanticVersion
        /// The sequence of the first channel file that cancels the recall. Recalls of later files stay.
        package let sequence: Int

        package init(version: SemanticVersion, sequence: Int) {
            self.version = version
            self.sequence = sequence
        }
    }

    /// The number of retries that a channel grants to a failed version.
    package struct Retry: Sendable, Equatable {
        package let version: SemanticVersion
        /// The total number of retries so far.
        package let count: Int

        package init(_ version: SemanticVersion, _ count: Int) {
            self.version = version
            self.count = count
        }
    }

    /// The newest trust root that follows from the pinned one.
    package struct TrustMemory: Sendable, Equatable {
        package let version: Int
        /// The whole file, including its signatures.
        package let document: [UInt8]
        /// The SHA-256 of the signed bytes of every root from the pinned one to this one.
        package let chain: [SHA256Digest]
        /// The ids of the keys that the root revokes.
        package let revokedKeys: [String]

        package init(version: Int, document: [UInt8], chain: [SHA256Digest], revokedKeys: [String]) {
            self.version = version
            self.document = document
            self.chain = chain
            self.revokedKeys = revokedKeys
        }
    }

    /// The newest accepted channel file, with the recalls and the minimum version of earlier ones.
    package struct ChannelMemory: Sendable, Equatable {
        /// The largest number of recalls that are kept from earlier channel files.
        package static let mostCarried = 1024
        /// The longest reason, in characters, that is kept for a recall of an earlier channel file.
        package static let longestReason = 400

        package let name: String
        package let sequence: Int
        /// The SHA-256 of the signed bytes.
        package let payloadSha256: SHA256Digest
        /// The ids of the keys that signed the file. The sequence is valid while these keys are trusted.
        package let signers: [String]
        /// The time of the signature.
        package let issuedAt: Timestamp
        /// The time after which the device installs nothing new by this file.
        package let expires: Timestamp
        /// The recalled versions of this file, and those of earlier files that no file has reinstated.
        package private(set) var recalled: [Recall]
        /// The versions whose recall this file cancels.
        package let reinstated: [Reinstatement]
        /// The lowest version that may run. Only `undoneMinimum` lowers one that an earlier file set.
        package private(set) var minimumVersion: SemanticVersion?
        /// The minimum version up to which this file cancels those of earlier files.
        package let undoneMinimum: SemanticVersion?
        /// The versions whose rollout excludes this device.
        package let leftOut: [SemanticVersion]
        /// The versions that are paused or held, so that a device without them does not install them.
        package let paused: [SemanticVersion]
        /// The versions that are shown as soon as they are ready.
        package let urgent: [SemanticVersion]
        /// The time for which a busy page may delay a change of the client, in seconds; nil if the channel does not set it.
        package let busyLimit: Int?
        /// The versions for which devices get another retry after they blocked them.
        package let retries: [Retry]

        package init(
            name: String, sequence: Int, payloadSha256: SHA256Digest, signers: [String], issuedAt: Timestamp,
            expires: Timestamp, recalled: [Recall], reinstated: [Reinstatement] = [],
            minimumVersion: SemanticVersion?, leftOut: [SemanticVersion], paused: [SemanticVersion] = [],
            urgent: [SemanticVersion] = [], busyLimit: Int? = nil, retries: [Retry] = [],
            undoneMinimum: SemanticVersion? = nil
        ) {
            self.name = name
            self.sequence = sequence
            self.payloadSha256 = payloadSha256
            self.signers = signers
            self.issuedAt = issuedAt
            self.expires = expires
            self.recalled = recalled
            self.reinstated = reinstated
            self.minimumVersion = minimumVersion
            self.undoneMinimum = undoneMinimum
            self.leftOut = leftOut
            self.paused = paused
            self.urgent = urgent
            self.busyLimit = busyLimit
            self.retries = retries
        }

        /// Returns itself, or nil if a signer is not among the `trusted` keys. The files of a replaced key do not
        /// bind devices, so that a publisher can undo the files of a stolen key.
        package func counting(trusting trusted: [String]) -> ChannelMemory? {
            signers.allSatisfy(trusted.contains) ? self : nil
        }

        /// Returns this file with the recalls of `earlier` that it does not reinstate, and with the higher minimum
        /// version that it does not undo. Of the recalls that it does not list, the `mostCarried` highest versions are kept.
        package func following(_ earlier: ChannelMemory?) -> ChannelMemory {
            guard let earlier else { return self }
            var next = self
            let kept = earlier.minimumVersion.flatMap { floor in
                undoneMinimum.map { floor <= $0 } == true ? nil : floor
            }
            next.minimumVersion = [minimumVersion, kept].compactMap(\.self).max()
            let own = Set(recalled.map(\.version))
            let carried = earlier.recalled.filter { !own.contains($0.version) }.map { recall in
                Recall(
                    version: recall.version, reason: String(recall.reason.prefix(Self.longestReason)),
                    sequence: recall.sequence ?? earlier.sequence)
            }
            next.recalled +=
                carried.filter { !reinstates($0) }.sorted { $0.version > $1.version }.prefix(Self.mostCarried)
            return next
        }

        private func reinstates(_ recall: Recall) -> Bool {
            reinstated.contains { $0.version == recall.version && $0.sequence > recall.sequence ?? 0 }
        }
    }

    /// The reason why the followed channel does not allow a version to run.
    package enum Withdrawal: Sendable, Equatable {
        /// The channel recalled the version.
        case recalled(reason: String)
        /// The version is below the channel's minimum version.
        case belowFloor(SemanticVersion)
        /// The rollout excludes this device.
        case leftOut
    }

    /// The largest number of channels.
    private static let rememberedChannels = 16

    /// The newest trust root; nil if the device trusts plain keys, or has not stored one yet.
    package var trust: TrustMemory?
    /// The latest signed time. A device clock behind it is wrong.
    package var clock: Timestamp?
    /// The source of a device id.
    package enum DeviceIdSource: String, Sendable, CaseIterable {
        /// The operator's settings.
        case given
        /// The machine's id. A store that is copied to another machine gets that machine's id.
        case machine
        /// A random id, because the machine does not have one.
        case drawn
    }

    /// The id that selects this device for rollouts; nil before the first channel file.
    package var deviceId: String?
    /// The source of `deviceId`.
    package var deviceIdSource: DeviceIdSource?
    /// The groups of this device, sorted. Releases may target them.
    package var groups: [String] = []
    /// The shell version that the best release of the feed needed at the last scan, if an older shell was the only
    /// reason against it.
    package var neededShell: SemanticVersion?
    /// The known channels; the followed one is last.
    package internal(set) var channels: [ChannelMemory] = []
    /// The retries of the followed channel that this device has used.
    private var usedRetries: [Retry] = []

    /// Creates an empty memory.
    package init() {}

    /// The channel of the last accepted channel file.
    package var followed: ChannelMemory? { channels.last }

    /// Returns the stored file of the channel `name`.
    package func channel(_ name: String) -> ChannelMemory? { channels.first { $0.name == name } }

    /// Stores an accepted channel file and follows its channel.
    package mutating func follow(_ channel: ChannelMemory) {
        channels.removeAll { $0.name == channel.name }
        channels.append(channel)
        if channels.count > Self.rememberedChannels { channels.removeFirst() }
        clock = max(clock ?? channel.issuedAt, channel.issuedAt)
    }

    /// Returns the reason why the followed channel does not allow `version` to run; nil if it does.
    package func withdrawal(of version: SemanticVersion) -> Withdrawal? {
        guard let followed else { return nil }
        if let recall = followed.recalled.first(where: { $0.version == version }) {
            return .recalled(reason: recall.reason)
        }
        if let floor = followed.minimumVersion, version < floor { return .belowFloor(floor) }
        return followed.leftOut.contains(version) ? .leftOut : nil
    }

    /// Returns whether the followed channel marks `version` as urgent.
    package func isUrgent(_ version: SemanticVersion) -> Bool { followed?.urgent.contains(version) ?? false }

    /// Uses a retry that the followed channel grants to `version`. Returns false if there is none left.
    package mutating func useRetry(of version: SemanticVersion) -> Bool {
        guard let granted = followed?.retries.first(where: { $0.version == version }) else { return false }
        let used = usedRetries.first { $0.version == version }?.count ?? 0
        guard granted.count > used else { return false }
        // Only a version that the channel names can get a retry, so the others are removed.
        let named = followed?.retries.map(\.version) ?? []
        usedRetries.removeAll { $0.version == version || !named.contains($0.version) }
        usedRetries.append(Retry(version, granted.count))
        return true
    }

    /// Returns whether every one of the keys that signed a client has been revoked.
    package func isDistrusted(signers: [String]) -> Bool {
        guard let trust, !signers.isEmpty else { return false }
        return signers.allSatisfy(trust.revokedKeys.contains)
    }
}

extension FeedMemory.Withdrawal: CustomStringConvertible {
    package var description: String {
        switch self {
        case .recalled(let reason): "recalled by its channel" + (reason.isEmpty ? "" : ": \(reason)")
        case .belowFloor(let floor): "below \(floor), the lowest version that its channel allows"
        case .leftOut: "not for this device: its rollout excludes it"
        }
    }
}

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
