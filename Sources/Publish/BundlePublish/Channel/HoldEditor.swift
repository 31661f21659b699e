package import BundleFormats
import BundleSigning
package import BundleValues

/// Reads and writes the holds of a feed's channels. A hold pauses a release until it is lifted.
package struct HoldEditor {
    private let location: any FeedLocation
    private let terms: ChannelTerms

    /// Edits the holds in `location`. The signers of `terms` are guards.
    package init(_ location: any FeedLocation, terms: ChannelTerms) {
        self.location = location
        self.terms = terms
    }

    static func path(of channel: String) -> String {
        "\(ChannelWriter.folder)/\(ChannelFileName.holdFile(of: channel))"
    }

    /// Returns the effect of the feed's hold on `document`, judged as devices do. Without a trust root in `trust`, the
    /// feed's own root names the guards: an attacker who can replace that root can also block the feed.
    package static func judge(
        _ document: ChannelDocument, in location: any FeedLocation, trust: TrustAnchor?, clock: Timestamp
    ) throws -> HoldRule {
        guard let trusted = try guards(in: location, trust: trust, clock: clock) else { return .none }
        return HoldRule.judge(
            try present(document.channel, in: location, trusted: trusted)?.hold, on: document, at: clock)
    }

    private static func guards(
        in location: any FeedLocation, trust: TrustAnchor?, clock: Timestamp
    ) throws -> TrustedKeys? {
        var root = try FeedTrust(in: location, clock: clock)?.root
        if case .root(let given)? = trust { root = given.root }
        guard let root, root.roles[.guard] != nil else { return nil }
        return root.trusted(for: .guard, at: clock)
    }

    /// Returns the hold in the feed, nil if it is invalid, and the file's version.
    private static func present(
        _ channel: String, in location: any FeedLocation, trusted: TrustedKeys
    ) throws -> (hold: VerifiedHold?, version: FeedVersion)? {
        guard let record = try location.read(path(of: channel), maximumBytes: HoldFormat.maximumBytes) else {
            return nil
        }
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
        if let trusted = try Self.guards(in: location, trust: terms.trust, clock: terms.clock) { return trusted }
        throw UpdateFailure(
            .keyUnknown, subject: "\(location.address)",
            "No trust root of \(location.address) names a guard, so devices would ignore the hold. Run `clientctl trust add-key --role guard`, "
                + "then sign and publish the trust root.")
    }

    /// Throws if devices would ignore a hold by these signers.
    package func requireSigners(of channel: String) throws {
        let trusted = try trusted()
        if trusted.count(of: terms.signers) < trusted.threshold {
            throw Self.ignoredSignature(of: "hold of channel \(channel)", trusted: trusted)
        }
    }

    private static func ignoredSignature(of subject: String, trusted: TrustedKeys) -> UpdateFailure {
        let ids = trusted.keys.map(\.id)
        let wanted =
            trusted.threshold == 1
            ? ids.joined(separator: " or ") : "\(trusted.threshold) of \(ids.joined(separator: ", "))"
        return UpdateFailure(
            .keyUnknown, subject: subject,
            "No device would accept this signature, so the hold was not written. Sign it with \(wanted), which the trust root names as guards."
        )
    }

    /// Holds `version` until a channel key signs a newer file of `channel`.
    package func hold(_ version: SemanticVersion, of channel: String, reason: String) throws -> HoldDocument {
        let trusted = try trusted()
        return try location.change(terms.wait, channels: [], draft: { nil as Bool? }) { _ in
            let document = try ChannelEditor.read(channel, in: location, trust: terms.trust, clock: terms.clock)
            _ = try document.index(of: version)
            if let expected = terms.expectedSequence, expected != document.sequence {
                throw UpdateFailure(
                    .rollbackAttempt, subject: "channel \(channel)",
                    "Channel \(channel) has sequence \(document.sequence), not \(expected) as expected: another publisher changed it."
                )
            }
            let present = try Self.present(channel, in: location, trusted: trusted)
            let next = next(version, in: document, after: present?.hold, reason: reason)
            let bytes = try terms.signers.sign(HoldFormat.envelope(next)).document
            try check(bytes, of: channel, trusted: trusted)
            if !terms.isDryRun {
                try location.replace(Self.path(of: channel), with: bytes, version: present?.version)
                // If the location cannot lock out other publishers, a concurrent channel file has ended this hold,
                // which is for the file before it.
                let now = try ChannelEditor.read(channel, in: location, trust: terms.trust, clock: terms.clock)
                if now.sequence != document.sequence {
                    throw FeedConflict(ChannelWriter.path(of: channel), in: location)
                }
            }
            return next
        }
    }

    /// Returns whether the hold of `version` expires soon, so that a guard that still finds too many failures renews
    /// it.
    package func isDue(_ version: SemanticVersion, of channel: String) throws -> Bool {
        let document = try ChannelEditor.read(channel, in: location, trust: terms.trust, clock: terms.clock)
        guard let hold = try Self.present(channel, in: location, trusted: try trusted())?.hold,
            HoldRule.judge(hold, on: document, at: terms.clock).isHolding(version)
        else { return false }
        return hold.document.expires < terms.clock.adding(.seconds(HoldDocument.longest / 2))
    }

    private func next(
        _ version: SemanticVersion, in document: ChannelDocument, after present: VerifiedHold?, reason: String
    ) -> HoldDocument {
        if let present = present?.document, present.sequence == document.sequence {
            return present.adding(version, at: terms.issuedAt, reason: reason)
        }
        return HoldDocument(
            appId: document.appId, channel: document.channel, sequence: document.sequence, issuedAt: terms.issuedAt,
            releases: [version], reason: reason)
    }

    /// Verifies the hold as a device would.
    private func check(_ bytes: [UInt8], of channel: String, trusted: TrustedKeys) throws {
        do {
            _ = try HoldVerifier.verify(try HoldFormat.envelope(parsing: bytes), channel: channel, trusted: trusted)
        } catch let failure as UpdateFailure where failure.code == .keyUnknown {
            throw Self.ignoredSignature(of: failure.subject, trusted: trusted)
        }
    }
}

extension ChannelDocument {
    /// Pauses the releases that a guard holds, so that they stay paused when the file is signed at `time`. Returns
    /// the changes in words.
    mutating func apply(_ rule: HoldRule, at time: Timestamp) throws -> [String] {
        guard case .holds(let versions, let since) = rule else { return [] }
        return try zip(versions, since).filter { held, _ in releases.contains { $0.version == held } }.flatMap {
            try pause($0, at: min(holdBegins($1), time)).map { "\($0), as the guard holds it" }
        }
    }
}
