package import BundleSigning
package import BundleValues

/// The releases of a channel that a guard holds, so that further devices do not install them.
///
/// A hold can only exclude releases. It applies to the document that the guard saw and to older ones; the next document
/// of a channel key overrides it.
package struct HoldDocument: Sendable, Equatable {
    /// The application; nil if the channel does not name one.
    package let appId: String?
    package let channel: String
    /// The sequence of the channel document that the guard saw, 1 or more.
    package let sequence: Int
    /// The time of the signature.
    package let issuedAt: Timestamp
    /// The time from which the hold has no effect.
    package let expires: Timestamp
    /// The held releases, at least one and without duplicates.
    package let releases: [SemanticVersion]
    /// The time at which each release was held. Its ramp stops then.
    package let since: [Timestamp]
    /// The reason, for a human reader.
    package let reason: String

    /// The longest validity of a hold: 7 days, in seconds.
    package static let longest = 7 * 86_400

    /// Creates a hold. By default it expires after `longest`, and every release is held since `issuedAt`.
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

    /// Returns the hold with `release` added, for a document of `sequence`.
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

/// A hold with as many valid signatures as the guard role requires. Only `HoldVerifier` makes one.
package struct VerifiedHold: Sendable {
    package let document: HoldDocument
    package let signers: [PublicKey]

    fileprivate init(_ document: HoldDocument, signers: [PublicKey]) {
        self.document = document
        self.signers = signers
    }
}

/// Verifies holds. This is the only way to a `VerifiedHold`.
package enum HoldVerifier {
    /// Returns the hold if the required number of `trusted` keys signed it and it is for the channel `name`.
    package static func verify(
        _ envelope: SignedEnvelope, channel name: String, trusted: TrustedKeys
    ) throws -> VerifiedHold {
        let signers = try trusted.signers(envelope.signatures, over: envelope.message, of: "hold of channel \(name)")
        let document = try HoldFormat.parse(envelope)
        if document.channel != name {
            throw DocumentRefusal("hold", problem: "is for the channel \(document.channel), not for \(name)")
        }
        return VerifiedHold(document, signers: signers)
    }
}

/// The file format of a hold: a DSSE envelope of at most 64 KiB, in `channels/NAME.hold.json` beside the channel
/// document.
package enum HoldFormat {
    /// The largest document, in bytes.
    package static let maximumBytes = 64 << 10
    package static let payloadType = "application/vnd.swap-clients.hold.v1+json"

    private static let name = "hold"
    private static let maximumReleases = 100
    private static let members = [
        "schema", "appId", "channel", "sequence", "issuedAt", "expires", "releases", "since", "reason",
    ]

    /// Parses the envelope only. Callers verify its signatures before they parse the payload.
    package static func envelope(parsing document: [UInt8]) throws(DocumentRefusal) -> SignedEnvelope {
        try SignedEnvelope(parsing: document, payloadType: payloadType, maximumBytes: maximumBytes, name: name)
    }

    /// Parses the payload. Throws for unknown members.
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
        try reader.requireOnly(members, of: "hold")
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
            throw reader.refusal("expires", "is not within 7 days after issuedAt")
        }
        if hold.sequence == 0 { throw reader.refusal("sequence", "is 0: the first document has 1") }
        guard (1...maximumReleases).contains(hold.releases.count), Set(hold.releases).count == hold.releases.count
        else {
            throw reader.refusal("releases", "does not have 1 to \(maximumReleases) distinct versions")
        }
        if hold.since.count != hold.releases.count {
            throw reader.refusal("since", "does not have one time for each release")
        }
        return hold
    }

    /// Returns an unsigned envelope of `hold`.
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

/// The effect of a hold on a channel document.
package enum HoldRule: Sendable, Equatable {
    /// The feed does not have a hold.
    case none
    /// The releases are held, each since its time.
    case holds([SemanticVersion], since: [Timestamp])
    /// A channel key signed a newer document, which ends the hold.
    case over(since: Int)
    /// The hold has expired.
    case expired(Timestamp)
    /// The hold is for a sequence too far ahead, so it is ignored: a stolen guard key must not hold a channel
    /// permanently.
    case ahead(of: Int)
    /// The hold was signed after its document had expired, so it is ignored: a guard key must not hold a channel with a
    /// future date.
    case late(Timestamp)
    /// The hold is for another application.
    case otherApp

    /// The largest lead of a hold's sequence over that of a document, which may come from a cache.
    package static let longestLead = 16

    /// Returns the effect of `hold` on `document` at the trusted time `time`.
    package static func judge(_ hold: VerifiedHold?, on document: ChannelDocument, at time: Timestamp) -> HoldRule {
        guard let hold = hold?.document else { return .none }
        if hold.appId.map({ Array($0.utf8) }) != document.appId.map({ Array($0.utf8) }) { return .otherApp }
        if document.sequence > hold.sequence { return .over(since: document.sequence) }
        if hold.sequence - document.sequence > longestLead { return .ahead(of: document.sequence) }
        if hold.issuedAt > document.expires { return .late(hold.issuedAt) }
        if hold.expires <= time { return .expired(hold.expires) }
        return .holds(hold.releases, since: hold.since)
    }

    /// Returns whether the rule holds `version`.
    package func isHolding(_ version: SemanticVersion) -> Bool {
        if case .holds(let versions, _) = self { versions.contains(version) } else { false }
    }

    /// Returns the rule without `version`.
    package func releasing(_ version: SemanticVersion?) -> HoldRule {
        guard case .holds(let versions, let since) = self else { return self }
        let rest = zip(versions, since).filter { $0.0 != version }
        return .holds(rest.map(\.0), since: rest.map(\.1))
    }
}

extension HoldRule {
    /// Whether the rule holds any release.
    package var isHolding: Bool { if case .holds = self { true } else { false } }

    /// Returns a description of the effect of `hold`.
    package func detail(_ hold: HoldDocument) -> String {
        switch self {
        case .none: "no hold"
        case .holds(let versions, let since):
            zip(versions, since).map { "\($0) held since \($1)" }.joined(separator: ", ") + ": "
                + UntrustedName.display(hold.reason, limit: 400)
        case .over(let sequence): "the hold of sequence \(hold.sequence) ended with \(sequence)"
        case .expired(let time): "the hold of sequence \(hold.sequence) expired at \(time)"
        case .ahead(let sequence):
            "the hold is for sequence \(hold.sequence), far above \(sequence), so it is ignored"
        case .late(let time): "the hold was signed at \(time), after its document had expired, so it is ignored"
        case .otherApp: "the hold is for \(hold.appId ?? "no named application")"
        }
    }
}

extension ChannelDocument {
    /// Returns the document with the releases that `rule` holds paused and their ramps stopped.
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

    /// Returns the time at which a hold of `time` stops ramps. A backdated hold must not undo later changes.
    package func holdBegins(_ time: Timestamp) -> Timestamp { max(time, issuedAt) }
}

extension FetchError {
    /// Whether a device treats the error as the absence of a hold. Servers respond differently to a missing file, but
    /// responses about a token or an overload do not mean that the file is missing.
    package var isAbsenceOfHold: Bool {
        switch self {
        case .fileMissing: true
        case .httpStatus(let status, _, _): (400...499).contains(status) && ![401, 408, 429].contains(status)
        default: false
        }
    }
}
