import BundleCore
package import BundleSigning
package import BundleValues

/// What a guard says of a channel document: that no further device takes some of its releases.
///
/// It can take away and never add. It counts for the document that the guard saw, and for older ones; the next one that a channel
/// key signs is somebody's who knew better.
package struct HoldDocument: Sendable, Equatable {
    /// The application; nil where the channel names none.
    package let appId: String?
    /// The channel.
    package let channel: String
    /// The sequence of the channel document that the guard saw; 1 or more.
    package let sequence: Int
    /// When it was signed.
    package let issuedAt: Timestamp
    /// From then on it holds nothing.
    package let expires: Timestamp
    /// The releases that are held, each once; at least one.
    package let releases: [SemanticVersion]
    /// When each of them was held; its ramp stands still since.
    package let since: [Timestamp]
    /// Why, for people.
    package let reason: String

    /// The longest time, in seconds, for which a hold counts: 7 days.
    package static let longest = 7 * 86_400

    /// States a hold that expires after the longest time; of all releases `since` it was signed, unless stated otherwise.
    package init(
        appId: String?, channel: String, sequence: Int, issuedAt: Timestamp, expires: Timestamp? = nil,
        releases: [SemanticVersion], since: [Timestamp]? = nil, reason: String
    ) {
        self.appId = appId
        self.channel = channel
        self.sequence = sequence
        self.issuedAt = issuedAt
        self.expires = expires ?? Timestamp(clamping: issuedAt.secondsSinceEpoch + Self.longest)
        self.releases = releases
        self.since = since ?? releases.map { _ in issuedAt }
        self.reason = reason
    }

    /// The hold with `release` in it, too, for a document of `sequence`.
    package func adding(_ release: SemanticVersion, at time: Timestamp, reason: String) -> HoldDocument {
        let (others, before) = (zip(releases, since).filter { $0.0 != release }, since(of: release))
        return HoldDocument(
            appId: appId, channel: channel, sequence: sequence, issuedAt: time,
            releases: others.map(\.0) + [release], since: others.map(\.1) + [min(before ?? time, time)], reason: reason)
    }

    private func since(of release: SemanticVersion) -> Timestamp? {
        zip(releases, since).first { $0.0 == release }?.1
    }
}

/// A hold that enough guards have signed; only `HoldVerifier` makes one.
package struct VerifiedHold: Sendable {
    /// Its values.
    package let document: HoldDocument
    /// The keys that signed it.
    package let signers: [PublicKey]

    fileprivate init(_ document: HoldDocument, signers: [PublicKey]) {
        self.document = document
        self.signers = signers
    }
}

/// Signature before use: the one door from an envelope to a hold.
package enum HoldVerifier {
    /// The hold, if as many of `trusted` as must have signed it, and it is for the channel `name`.
    package static func verify(
        _ envelope: SignedEnvelope, channel name: String, trusted: TrustedKeys
    ) throws -> VerifiedHold {
        let signers = try trusted.signers(envelope.signatures, over: envelope.message, of: "hold of channel \(name)")
        let document = try HoldFormat.parse(envelope)
        if document.channel != name {
            throw DocumentRefusal("hold", problem: "is that of the channel \(document.channel), \(name) was asked for")
        }
        return VerifiedHold(document, signers: signers)
    }
}

/// A hold on the wire: a DSSE envelope of at most 64 KiB, beside the channel document as `channels/NAME.hold.json`.
package enum HoldFormat {
    /// The longest document, in bytes.
    package static let maximumBytes = 64 << 10
    /// The payload's type.
    package static let payloadType = "application/vnd.swap-clients.hold.v1+json"

    private static let name = "hold"
    private static let maximumReleases = 100
    private static let members = [
        "schema", "appId", "channel", "sequence", "issuedAt", "expires", "releases", "since", "reason",
    ]

    /// The envelope alone: its signatures come before its payload is read.
    package static func envelope(parsing document: [UInt8]) throws(DocumentRefusal) -> SignedEnvelope {
        try SignedEnvelope(parsing: document, payloadType: payloadType, maximumBytes: maximumBytes, name: name)
    }

    /// Reads the payload strictly; members that this version does not know are none.
    package static func parse(_ envelope: SignedEnvelope) throws(DocumentRefusal) -> HoldDocument {
        do {
            return try read(
                try MemberReader(try JSONScanner.parse(envelope.payload, maximumBytes: maximumBytes), of: name))
        } catch {
            throw DocumentRefusal(name, error)
        }
    }

    private static func read(_ reader: MemberReader) throws -> HoldDocument {
        guard try reader.integer("schema") == 1 else {
            throw reader.refusal("schema", "is not 1: this clientctl is too old for it")
        }
        if let stranger = reader.object.members.first(where: { !members.contains($0.name) }) {
            throw reader.refusal(UntrustedName.display(stranger.name), "is no member of a hold")
        }
        let hold = HoldDocument(
            appId: try reader.optionalString("appId"), channel: try reader.string("channel"),
            sequence: try reader.integer("sequence"), issuedAt: try reader.timestamp("issuedAt"),
            expires: try reader.timestamp("expires"),
            releases: try reader.strings("releases").map { text in
                do { return try SemanticVersion(parsing: text) } catch { throw reader.refusal("releases", "\(error)") }
            },
            since: try reader.strings("since").map { text in
                do { return try Timestamp(parsing: text) } catch { throw reader.refusal("since", "\(error)") }
            }, reason: try reader.string("reason"))
        if !ChannelFileName.isName(hold.channel) { throw reader.refusal("channel", ChannelFileName.rule) }
        let life = hold.expires.secondsSinceEpoch - hold.issuedAt.secondsSinceEpoch
        if !(1...HoldDocument.longest).contains(life) {
            throw reader.refusal("expires", "is not up to 7 days later than issuedAt")
        }
        if hold.sequence == 0 { throw reader.refusal("sequence", "is 0: the first document has 1") }
        guard (1...maximumReleases).contains(hold.releases.count), Set(hold.releases).count == hold.releases.count
        else {
            throw reader.refusal("releases", "is not 1 to \(maximumReleases) versions, each once")
        }
        if hold.since.count != hold.releases.count { throw reader.refusal("since", "is not one time for each release") }
        return hold
    }

    /// An unsigned envelope around `hold`.
    package static func envelope(_ hold: HoldDocument) -> SignedEnvelope {
        var object: JSONObject = ["schema": .integer(1)]
        object["appId"] = hold.appId.map(JSONValue.string)
        object["channel"] = .string(hold.channel)
        object["sequence"] = .integer(hold.sequence)
        object["issuedAt"] = .string(hold.issuedAt.description)
        object["expires"] = .string(hold.expires.description)
        object["releases"] = .array(hold.releases.map { .string($0.description) })
        object["since"] = .array(hold.since.map { .string($0.description) })
        object["reason"] = .string(hold.reason)
        return SignedEnvelope(
            payloadType: payloadType, payload: JSONWriter.bytes(of: .object(object), layout: .pretty))
    }
}

/// What a hold does to a channel document. A pure rule.
package enum HoldRule: Sendable, Equatable {
    /// The feed has none.
    case none
    /// These releases are held, each since its time.
    case holds([SemanticVersion], since: [Timestamp])
    /// A channel key signed a newer channel document since: the hold is over.
    case over(since: Int)
    /// It has expired.
    case expired(Timestamp)
    /// It is for a document that the channel is far from: a stolen guard's key must not hold a channel for good.
    case ahead(of: Int)
    /// It was signed at this time, after its document had expired: a guard's key must not hold a channel by a date to come.
    case late(Timestamp)
    /// It is for another application.
    case otherApp

    /// How far a hold may be ahead of a document, which a cache may have kept for a while.
    package static let longestLead = 16

    /// What `hold` does to `document` at the trusted time `time`.
    package static func judge(_ hold: VerifiedHold?, on document: ChannelDocument, at time: Timestamp) -> HoldRule {
        guard let hold = hold?.document else { return .none }
        if hold.appId.map({ Array($0.utf8) }) != document.appId.map({ Array($0.utf8) }) { return .otherApp }
        if document.sequence > hold.sequence { return .over(since: document.sequence) }
        if hold.sequence - document.sequence > longestLead { return .ahead(of: document.sequence) }
        if hold.issuedAt > document.expires { return .late(hold.issuedAt) }
        if hold.expires <= time { return .expired(hold.expires) }
        return .holds(hold.releases, since: hold.since)
    }

    /// Whether it holds `version`.
    package func isHolding(_ version: SemanticVersion) -> Bool {
        if case .holds(let versions, _) = self { versions.contains(version) } else { false }
    }

    /// The same without `version`.
    package func releasing(_ version: SemanticVersion?) -> HoldRule {
        guard case .holds(let versions, let since) = self else { return self }
        let rest = zip(versions, since).filter { $0.0 != version }
        return .holds(rest.map(\.0), since: rest.map(\.1))
    }
}

extension HoldRule {
    /// Whether it keeps devices from something.
    var isHolding: Bool { if case .holds = self { true } else { false } }

    /// What the rule says of `hold`, for people.
    func detail(_ hold: HoldDocument) -> String {
        switch self {
        case .none: "there is none"
        case .holds(let versions, let since):
            zip(versions, since).map { "\($0) held since \($1)" }.joined(separator: ", ") + ": "
                + UntrustedName.display(hold.reason, limit: 400)
        case .over(let sequence): "the hold of sequence \(hold.sequence) is over since \(sequence)"
        case .expired(let time): "the hold of sequence \(hold.sequence) expired at \(time)"
        case .ahead(let sequence):
            "the hold is for sequence \(hold.sequence), far above \(sequence), so it does not count"
        case .late(let time): "the hold was signed at \(time), after its document had expired, so it does not count"
        case .otherApp: "the hold is for \(hold.appId ?? "no named application")"
        }
    }
}

extension ChannelDocument {
    /// The document with the releases paused that `rule` holds, and their ramps held.
    package func held(by rule: HoldRule) -> ChannelDocument {
        guard case .holds(let versions, let since) = rule else { return self }
        var document = self
        for (version, time) in zip(versions, since) {
            for index in document.releases.indices where document.releases[index].version == version {
                document.releases[index].isPaused = true
                document.releases[index].ramp = document.releases[index].ramp?.holding(at: holdBegins(time))
            }
        }
        return document
    }

    /// When a hold of `time` holds ramps. A guard that dates it back must not undo what was signed later.
    package func holdBegins(_ time: Timestamp) -> Timestamp { max(time, issuedAt) }
}
