package import ArchiveSource
import BundleSigning
package import BundleValues

/// Reads and writes what a guard says of a feed's channels.
package struct HoldDesk {
    private let place: any FeedPlace
    private let terms: ChannelTerms

    /// For `place`; the signers of `terms` are guards.
    package init(_ place: any FeedPlace, _ terms: ChannelTerms) {
        self.place = place
        self.terms = terms
    }

    static func path(of channel: String) -> String { "\(ChannelDesk.folder)/\(ChannelFileName.holdFile(of: channel))" }

    /// What the feed's hold does to `document`, as devices judge it. Where `trust` is no trust root, the feed's own says who is a
    /// guard: whoever could lie by it could also keep devices from the feed.
    static func judge(
        _ document: ChannelDocument, in place: any FeedPlace, trust: TrustAnchor?, clock: Timestamp
    ) throws -> HoldRule {
        guard let trusted = try guards(in: place, trust: trust, clock: clock) else { return .none }
        return HoldRule.judge(try present(document.channel, in: place, trusted)?.hold, on: document, at: clock)
    }

    private static func guards(
        in place: any FeedPlace, trust: TrustAnchor?, clock: Timestamp
    ) throws -> TrustedKeys? {
        var root = try FeedTrust(in: place, clock: clock)?.root
        if case .root(let given)? = trust { root = given.root }
        guard let root, root.roles[.guard] != nil else { return nil }
        return root.trusted(for: .guard, at: clock)
    }

    /// The hold in the feed; nil for one that does not count.
    private static func present(
        _ channel: String, in place: any FeedPlace, _ trusted: TrustedKeys
    ) throws -> (hold: VerifiedHold?, version: FeedVersion)? {
        guard let record = try place.read(path(of: channel), maximumBytes: HoldFormat.maximumBytes) else { return nil }
        do {
            let envelope = try HoldFormat.envelope(parsing: record.bytes)
            return (try HoldVerifier.verify(envelope, channel: channel, trusted: trusted), record.version)
        } catch is DocumentRefusal {
            return (nil, record.version)
        } catch let failure as UpdateFailure where [.signatureInvalid, .keyUnknown].contains(failure.code) {
            return (nil, record.version)
        }
    }

    private func trusted() throws -> TrustedKeys {
        if let trusted = try Self.guards(in: place, trust: terms.trust, clock: terms.clock) { return trusted }
        throw UpdateFailure(
            .keyUnknown, subject: place.address,
            "No trust root of \(place.address) names a guard, so no device would heed it: `clientctl trust add-key --role guard`, "
                + "then have the root signed and published.")
    }

    /// Refuses signers whose holds no device would heed, before there is anything to hold.
    package func requireSigners(of channel: String) throws {
        let trusted = try trusted()
        if trusted.count(of: terms.signers) < trusted.threshold {
            throw Self.unheeded("hold of channel \(channel)", trusted)
        }
    }

    private static func unheeded(_ subject: String, _ trusted: TrustedKeys) -> UpdateFailure {
        let ids = trusted.keys.map(\.id)
        let wanted =
            trusted.threshold == 1
            ? ids.joined(separator: " or ") : "\(trusted.threshold) of \(ids.joined(separator: ", "))"
        return UpdateFailure(
            .keyUnknown, subject: subject,
            "Devices would not heed this, so it was not written: sign it with \(wanted), which the trust root names as guards."
        )
    }

    /// Keeps further devices from `version` until a channel key signs a newer document of `channel`. Returns the hold.
    package func hold(_ version: SemanticVersion, of channel: String, reason: String) throws -> HoldDocument {
        let trusted = try trusted()
        return try place.change(terms.wait, channels: [], draft: { nil as Bool? }) { _ in
            let document = try ChannelEditor.read(channel, in: place, trust: terms.trust, clock: terms.clock)
            _ = try document.index(of: version)
            if let expected = terms.expectedSequence, expected != document.sequence {
                throw UpdateFailure(
                    .rollbackAttempt, subject: "channel \(channel)",
                    "Channel \(channel) has sequence \(document.sequence), not \(expected) as expected: somebody changed it meanwhile."
                )
            }
            let present = try Self.present(channel, in: place, trusted)
            let next = next(version, document, after: present?.hold, reason)
            let bytes = try terms.signers.sign(HoldFormat.envelope(next)).document
            try check(bytes, channel, trusted)
            if !terms.isDryRun {
                try place.replace(Self.path(of: channel), with: bytes, version: present?.version)
                try place.settle(ChannelDesk.folder)
                // Where others cannot be kept out, a document that came between has ended this hold: it is for the one before.
                let now = try ChannelEditor.read(channel, in: place, trust: terms.trust, clock: terms.clock)
                if now.sequence != document.sequence { throw FeedConflict(ChannelDesk.path(of: channel), in: place) }
            }
            return next
        }
    }

    /// Whether the hold that keeps devices from `version` expires soon, so that a guard which still finds too many failures renews it.
    package func isDue(_ version: SemanticVersion, of channel: String) throws -> Bool {
        let document = try ChannelEditor.read(channel, in: place, trust: terms.trust, clock: terms.clock)
        guard let hold = try Self.present(channel, in: place, try trusted())?.hold,
            HoldRule.judge(hold, on: document, at: terms.clock).isHolding(version)
        else { return false }
        return hold.document.expires < terms.clock.adding(.seconds(HoldDocument.longest / 2))
    }

    private func next(
        _ version: SemanticVersion, _ document: ChannelDocument, after present: VerifiedHold?, _ reason: String
    ) -> HoldDocument {
        if let present = present?.document, present.sequence == document.sequence {
            return present.adding(version, at: terms.issuedAt, reason: reason)
        }
        return HoldDocument(
            appId: document.appId, channel: document.channel, sequence: document.sequence, issuedAt: terms.issuedAt,
            releases: [version], reason: reason)
    }

    /// What no device would heed does not leave here.
    private func check(_ bytes: [UInt8], _ channel: String, _ trusted: TrustedKeys) throws {
        do {
            _ = try HoldVerifier.verify(try HoldFormat.envelope(parsing: bytes), channel: channel, trusted: trusted)
        } catch let failure as UpdateFailure where failure.code == .keyUnknown {
            throw Self.unheeded(failure.subject, trusted)
        }
    }
}

extension ChannelDocument {
    /// Takes in what a guard holds, so that it stays held when this is signed again at `time`; what is different, for people.
    mutating func takeIn(_ rule: HoldRule, at time: Timestamp) throws -> [String] {
        guard case .holds(let versions, let since) = rule else { return [] }
        return try zip(versions, since).filter { held, _ in releases.contains { $0.version == held } }.flatMap {
            try pause($0, at: min(holdBegins($1), time)).map { "\($0), as the guard holds it" }
        }
    }
}
