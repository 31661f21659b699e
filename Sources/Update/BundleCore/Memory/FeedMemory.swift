package import BundleValues
package import BundleSigning

/// What a store remembers about its feed, so that a replay of older documents takes nothing back (SECURITY section 2): the newest
/// trust root, the highest sequences, the latest signed time, and recalls.
package struct FeedMemory: Sendable, Equatable {
    /// A version that must not run, wherever it is.
    package struct Revocation: Sendable, Equatable {
        /// The version.
        package let version: SemanticVersion
        /// Why, for people.
        package let reason: String
        /// The sequence of the last document that had it; nil in a document, and for the newest one that was accepted.
        package let sequence: Int?

        /// States a revocation.
        package init(version: SemanticVersion, reason: String, sequence: Int? = nil) {
            self.version = version
            self.reason = reason
            self.sequence = sequence
        }
    }

    /// A version whose recall a document takes back.
    package struct Reinstatement: Sendable, Equatable {
        /// The version.
        package let version: SemanticVersion
        /// The sequence of the document that took it back first. Recalls of later documents stay.
        package let sequence: Int

        /// States a reinstatement.
        package init(version: SemanticVersion, sequence: Int) {
            self.version = version
            self.sequence = sequence
        }
    }

    /// How often a version that failed is tried once more.
    package struct Retry: Sendable, Equatable {
        /// The version.
        package let version: SemanticVersion
        /// How often, counted from the first retry on.
        package let count: Int

        /// States how often `version` is tried once more.
        package init(_ version: SemanticVersion, _ count: Int) {
            self.version = version
            self.count = count
        }
    }

    /// The newest trust root that the chain from the pinned one has led to.
    package struct Trust: Sendable, Equatable {
        /// Its version.
        package let version: Int
        /// The whole document, signatures included.
        package let document: [UInt8]
        /// SHA-256 of the signed bytes of every root of the chain, the pinned one first, this one last.
        package let chain: [SHA256Digest]
        /// Ids of the keys that it has revoked.
        package let revokedKeys: [String]

        /// States a trust root.
        package init(version: Int, document: [UInt8], chain: [SHA256Digest], revokedKeys: [String]) {
            self.version = version
            self.document = document
            self.chain = chain
            self.revokedKeys = revokedKeys
        }
    }

    /// The newest document of a channel that the device accepted, with the recalls and the floor of those before it.
    package struct Channel: Sendable, Equatable {
        /// Recalls of earlier documents that are remembered beside those of the newest one.
        package static let mostCarried = 1024
        /// The longest reason, in characters, that is remembered of a recall of an earlier document.
        package static let longestReason = 400

        /// The channel's name.
        package let name: String
        /// Its sequence.
        package let sequence: Int
        /// SHA-256 of its signed bytes.
        package let payloadSha256: SHA256Digest
        /// Ids of the keys that signed it; the sequence counts as long as they are trusted.
        package let signers: [String]
        /// When it was signed.
        package let issuedAt: Timestamp
        /// From then on nothing new is installed by it.
        package let expires: Timestamp
        /// What must not run: the recalls of the newest document, and those of earlier ones that none has reinstated since.
        package private(set) var revoked: [Revocation]
        /// The versions whose recall the newest document takes back.
        package let reinstated: [Reinstatement]
        /// Everything below it must not run; it never goes down.
        package private(set) var minimumVersion: SemanticVersion?
        /// Versions whose rollout leaves this device out.
        package let leftOut: [SemanticVersion]
        /// Versions that are shown as soon as they are ready.
        package let urgent: [SemanticVersion]
        /// How long a page that is busy keeps the client from being changed, in seconds; nil where the channel does not say.
        package let busyLimit: Int?
        /// Versions that devices try once more after they have blocked them, each once.
        package let retries: [Retry]

        /// States a document that the device accepted.
        package init(
            name: String, sequence: Int, payloadSha256: SHA256Digest, signers: [String], issuedAt: Timestamp,
            expires: Timestamp, revoked: [Revocation], reinstated: [Reinstatement] = [],
            minimumVersion: SemanticVersion?, leftOut: [SemanticVersion], urgent: [SemanticVersion] = [],
            busyLimit: Int? = nil, retries: [Retry] = []
        ) {
            self.name = name
            self.sequence = sequence
            self.payloadSha256 = payloadSha256
            self.signers = signers
            self.issuedAt = issuedAt
            self.expires = expires
            self.revoked = revoked
            self.reinstated = reinstated
            self.minimumVersion = minimumVersion
            self.leftOut = leftOut
            self.urgent = urgent
            self.busyLimit = busyLimit
            self.retries = retries
        }

        /// Itself where `trusted` are the ids of the channel's keys, nil where one of its signers is not among them: what a key
        /// has signed that was replaced since binds nobody, so that whoever stole it can be undone.
        package func counting(trusting trusted: [String]) -> Channel? {
            signers.allSatisfy(trusted.contains) ? self : nil
        }

        /// The document after `earlier`, whose recalls it keeps unless it reinstates them later, and whose floor it never lowers. Of recalls
        /// that the document itself does not have, the `mostCarried` highest versions are kept.
        package func following(_ earlier: Channel?) -> Channel {
            guard let earlier else { return self }
            var next = self
            next.minimumVersion = [minimumVersion, earlier.minimumVersion].compactMap(\.self).max()
            let own = Set(revoked.map(\.version))
            let carried = earlier.revoked.filter { !own.contains($0.version) }.map { recall in
                Revocation(
                    version: recall.version, reason: String(recall.reason.prefix(Self.longestReason)),
                    sequence: recall.sequence ?? earlier.sequence)
            }
            next.revoked +=
                carried.filter { !reinstates($0) }.sorted { $0.version > $1.version }.prefix(Self.mostCarried)
            return next
        }

        private func reinstates(_ recall: Revocation) -> Bool {
            reinstated.contains { $0.version == recall.version && $0.sequence > recall.sequence ?? 0 }
        }
    }

    /// Why the followed channel keeps a version from running.
    package enum Withdrawal: Sendable, Equatable {
        /// The channel has revoked it.
        case revoked(reason: String)
        /// It is lower than the channel allows.
        case belowFloor(SemanticVersion)
        /// Its rollout leaves this device out.
        case leftOut
    }

    /// Channels that are remembered beside the followed one.
    private static let rememberedChannels = 16

    /// The newest trust root; nil where plain keys are trusted, or before the first.
    package var trust: Trust?
    /// The latest time that anything signed has named: a clock that is behind it is wrong.
    package var clock: Timestamp?
    /// Where the id of a device comes from.
    package enum DeviceIdSource: String, Sendable, CaseIterable {
        /// The operator's settings.
        case given
        /// The machine's id. A store that is copied to another machine gets the id of that machine.
        case machine
        /// Chance, because the machine does not have an id.
        case drawn
    }

    /// The id that rollouts draw this device by; nil until the first channel document.
    package var deviceId: String?
    /// Where `deviceId` comes from.
    package var deviceIdSource: DeviceIdSource?
    /// The groups that this device is in, sorted; releases may name them.
    package var groups: [String] = []
    /// The shell that the best release of the feed needs, at the last look, where nothing but the age of the shell speaks against
    /// it; nil where there is none.
    package var neededShell: SemanticVersion?
    /// The channels, the followed one last.
    package private(set) var channels: [Channel] = []
    /// The retries of the followed channel that this device has made use of.
    private(set) var usedRetries: [Retry] = []

    /// Remembers nothing.
    package init() {}

    /// The channel that was followed last.
    package var followed: Channel? { channels.last }

    /// What is remembered of the channel `name`.
    package func channel(_ name: String) -> Channel? { channels.first { $0.name == name } }

    /// Follows the channel of a document that was taken.
    package mutating func follow(_ channel: Channel) {
        channels.removeAll { $0.name == channel.name }
        channels.append(channel)
        if channels.count > Self.rememberedChannels { channels.removeFirst() }
        clock = max(clock ?? channel.issuedAt, channel.issuedAt)
    }

    /// Whether the followed channel keeps `version` from running.
    package func withdrawal(of version: SemanticVersion) -> Withdrawal? {
        guard let followed else { return nil }
        if let revocation = followed.revoked.first(where: { $0.version == version }) {
            return .revoked(reason: revocation.reason)
        }
        if let floor = followed.minimumVersion, version < floor { return .belowFloor(floor) }
        return followed.leftOut.contains(version) ? .leftOut : nil
    }

    /// Whether the followed channel wants `version` to be shown as soon as it is ready.
    package func isUrgent(_ version: SemanticVersion) -> Bool { followed?.urgent.contains(version) ?? false }

    /// Whether the followed channel lets `version` run once more, though its starts failed here. Each of its retries counts once.
    mutating func takeRetry(of version: SemanticVersion) -> Bool {
        guard let granted = followed?.retries.first(where: { $0.version == version }) else { return false }
        let used = usedRetries.first { $0.version == version }?.count ?? 0
        guard granted.count > used else { return false }
        // What the channel does not name cannot be granted, so it need not be remembered.
        let named = followed?.retries.map(\.version) ?? []
        usedRetries.removeAll { $0.version == version || !named.contains($0.version) }
        usedRetries.append(Retry(version, granted.count))
        return true
    }

    /// Whether every key that signed a client has been revoked.
    package func isDistrusted(_ identity: BundleIdentity) -> Bool {
        guard let trust, !identity.signers.isEmpty else { return false }
        return identity.signers.allSatisfy(trust.revokedKeys.contains)
    }
}

extension FeedMemory.Withdrawal: CustomStringConvertible {
    /// The reason in words.
    package var description: String {
        switch self {
        case .revoked(let reason): "recalled by its channel" + (reason.isEmpty ? "" : ": \(reason)")
        case .belowFloor(let floor): "below \(floor), the lowest version that its channel allows"
        case .leftOut: "not for this device: its rollout leaves it out"
        }
    }
}

/// What a look at a feed adds to the memory.
package struct FeedUpdate: Sendable, Equatable {
    /// The memory that the feed was judged by.
    package let before: FeedMemory
    /// The memory from then on.
    package let after: FeedMemory

    /// States what was learnt.
    package init(before: FeedMemory, after: FeedMemory) {
        self.before = before
        self.after = after
    }

    /// The memory after this, added to what another process has learnt in the meantime: of the trust root, each channel and the clock,
    /// the newer.
    func added(to memory: FeedMemory) -> FeedMemory {
        var known = memory
        if memory.deviceId == before.deviceId {
            (known.deviceId, known.deviceIdSource) = (after.deviceId, after.deviceIdSource)
        }
        if after.groups != before.groups { known.groups = after.groups }
        if after.channels != before.channels, let channel = after.followed {
            known.follow(newer(of: channel, in: memory))
        }
        known.trust =
            memory.trust == before.trust || rootVersion(memory) <= rootVersion(after) ? after.trust : memory.trust
        if after.neededShell != before.neededShell { known.neededShell = after.neededShell }
        // It goes back where the key that drove it up was replaced.
        known.clock = memory.clock == before.clock ? after.clock : [memory.clock, after.clock].compactMap(\.self).max()
        return known
    }

    private func rootVersion(_ memory: FeedMemory) -> Int { memory.trust?.version ?? 0 }

    /// `channel` as it was learnt, unless another process has learnt something newer of it: by a newer root, else a higher sequence. The
    /// newer one keeps the recalls and the floor of the older one.
    private func newer(of channel: FeedMemory.Channel, in memory: FeedMemory) -> FeedMemory.Channel {
        guard let other = memory.channel(channel.name), other != before.channel(channel.name) else { return channel }
        if rootVersion(memory) != rootVersion(after) {
            return rootVersion(memory) > rootVersion(after) ? other : channel
        }
        return other.sequence >= channel.sequence ? other.following(channel) : channel.following(other)
    }
}

// MARK: The memory as JSON

extension FeedMemory {
    init(_ reader: MemberReader) throws {
        trust = try reader.optional("trust").map { try Trust(MemberReader($0, of: "ledger.feed.trust")) }
        clock = reader.optional("clock") == nil ? nil : try reader.timestamp("clock")
        deviceId = try reader.optionalString("deviceId")
        deviceIdSource = try reader.optionalString("deviceIdSource").flatMap(DeviceIdSource.init)
        groups = try reader.strings("groups")
        if !groups.allSatisfy(DeviceGroup.isName) { throw reader.refusal("groups", "names what is no group") }
        neededShell = try reader.optionalVersion("neededShell")
        channels = try reader.objects("channels").map(Channel.init)
        usedRetries = try Self.retries("usedRetries", reader)
        if Set(channels.map(\.name)).count != channels.count { throw reader.refusal("channels", "names one twice") }
    }

    var json: JSONValue {
        .object([
            "trust": trust.map(\.json) ?? .null, "clock": .string(orNull: clock?.description),
            "deviceId": .string(orNull: deviceId), "deviceIdSource": .string(orNull: deviceIdSource?.rawValue),
            "groups": .array(groups.map(JSONValue.string)),
            "neededShell": .string(orNull: neededShell?.description),
            "channels": .array(channels.map(\.json)), "usedRetries": Self.json(of: usedRetries),
        ])
    }

    fileprivate static func retries(_ member: String, _ reader: MemberReader) throws -> [Retry] {
        if reader.optional(member) == nil { return [] }
        return try reader.objects(member).map { Retry(try $0.version("version"), try $0.integer("count")) }
    }

    fileprivate static func json(of retries: [Retry]) -> JSONValue {
        .array(
            retries.map { .object(["version": .string($0.version.description), "count": .integer($0.count)]) })
    }
}

extension FeedMemory.Trust {
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

extension FeedMemory.Channel {
    init(_ reader: MemberReader) throws {
        self.init(
            name: try reader.string("name"), sequence: try reader.integer("sequence"),
            payloadSha256: try reader.digest("payloadSha256"), signers: try reader.strings("signers"),
            issuedAt: try reader.timestamp("issuedAt"), expires: try reader.timestamp("expires"),
            revoked: try reader.objects("revoked").map {
                FeedMemory.Revocation(
                    version: try $0.version("version"), reason: try $0.string("reason"),
                    sequence: try $0.optionalInteger("sequence"))
            },
            reinstated: try (reader.optional("reinstated") == nil ? [] : reader.objects("reinstated")).map {
                FeedMemory.Reinstatement(version: try $0.version("version"), sequence: try $0.integer("sequence"))
            },
            minimumVersion: try reader.optionalVersion("minimumVersion"), leftOut: try Self.versions("leftOut", reader),
            urgent: try Self.versions("urgent", reader), busyLimit: try reader.optionalInteger("busyLimit"),
            retries: try FeedMemory.retries("retries", reader))
    }

    private static func versions(_ member: String, _ reader: MemberReader) throws -> [SemanticVersion] {
        try reader.strings(member).map { text in
            do { return try SemanticVersion(parsing: text) } catch {
                throw reader.refusal(member, "is refused: \(error)")
            }
        }
    }

    var json: JSONValue {
        .object([
            "name": .string(name), "sequence": .integer(sequence), "payloadSha256": .string(payloadSha256.hex),
            "signers": .array(signers.map(JSONValue.string)), "issuedAt": .string(issuedAt.description),
            "expires": .string(expires.description),
            "revoked": .array(
                revoked.map { recall in
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
            "urgent": .array(urgent.map { .string($0.description) }),
            "busyLimit": busyLimit.map(JSONValue.integer) ?? .null, "retries": FeedMemory.json(of: retries),
        ])
    }
}
