import BundleCore
package import BundleValues
package import BundleSigning

/// A channel document that enough trusted keys have signed; only `ChannelVerifier` makes one.
package struct VerifiedChannelDocument: Sendable {
    /// Its values.
    package let document: ChannelDocument
    /// The keys that signed it.
    package let signers: [PublicKey]
    /// SHA-256 of the signed bytes.
    package let payloadSha256: SHA256Digest

    fileprivate init(_ document: ChannelDocument, signers: [PublicKey], payloadSha256: SHA256Digest) {
        self.document = document
        self.signers = signers
        self.payloadSha256 = payloadSha256
    }
}

/// Signature before use: the one door from an envelope to a channel document, for devices and for whoever edits one.
package enum ChannelVerifier {
    /// The document, if as many of `trusted` as must have signed it, and it is that of the channel `name`.
    package static func verify(
        _ envelope: SignedEnvelope, channel name: String, trusted: TrustedKeys
    ) throws -> VerifiedChannelDocument {
        let signers = try trusted.signers(
            envelope.signatures, over: envelope.message, of: "document of channel \(name)")
        let document = try ChannelFormat.parse(envelope).claims
        if document.channel != name {
            throw DocumentRefusal(
                "channel document", problem: "is that of the channel \(document.channel), \(name) was asked for")
        }
        return VerifiedChannelDocument(
            document, signers: signers, payloadSha256: try SHA256Digest.of(envelope.payload))
    }

    /// Refuses what a device that has taken `known` would refuse at `now`: a sequence that goes back or jumps, an expired
    /// document.
    package static func requireFresh(
        _ verified: VerifiedChannelDocument, after known: VerifiedChannelDocument?, trusted: TrustedKeys, now: Timestamp
    ) throws {
        let freshness = FreshnessRule.judge(
            verified.document, payloadSha256: verified.payloadSha256,
            known: known?.record.counting(trusting: trusted.keys.map(\.id)), now: TrustedTime.at(now, FeedMemory()))
        if let failure = freshness.failure(of: verified.document, clock: now) { throw failure }
    }
}

extension VerifiedChannelDocument {
    /// What a device remembers of it, whoever the device is.
    fileprivate var record: FeedMemory.Channel {
        FeedMemory.Channel(
            name: document.channel, sequence: document.sequence, payloadSha256: payloadSha256,
            signers: signers.map(\.id), issuedAt: document.issuedAt, expires: document.expires,
            revoked: document.revoked, reinstated: document.reinstated, minimumVersion: document.minimumVersion,
            leftOut: [])
    }
}
