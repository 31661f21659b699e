package import BundleValues
package import BundleSigning

/// A channel document with as many valid signatures as its role requires. Only `ChannelVerifier` makes one.
package struct VerifiedChannelDocument: Sendable {
    package let document: ChannelDocument
    package let signers: [PublicKey]
    /// The SHA-256 of the signed bytes.
    package let payloadSha256: SHA256Digest

    fileprivate init(_ document: ChannelDocument, signers: [PublicKey], payloadSha256: SHA256Digest) {
        self.document = document
        self.signers = signers
        self.payloadSha256 = payloadSha256
    }
}

/// Verifies channel documents for devices and publishers. This is the only way to a `VerifiedChannelDocument`.
package enum ChannelVerifier {
    /// Returns the document if the required number of `trusted` keys signed it and it is for the channel `name`.
    package static func verify(
        _ envelope: SignedEnvelope, channel name: String, trusted: TrustedKeys
    ) throws -> VerifiedChannelDocument {
        let signers = try trusted.signers(
            envelope.signatures, over: envelope.message, of: "document of channel \(name)")
        let document = try ChannelFormat.parse(envelope).claims
        if document.channel != name {
            throw DocumentRefusal(
                "channel document", problem: "is for the channel \(document.channel), not for \(name)")
        }
        return VerifiedChannelDocument(
            document, signers: signers, payloadSha256: try SHA256Digest.of(envelope.payload))
    }

    /// Throws if a device that accepted `known` would refuse `verified` at `now`: its sequence is lower or too far
    /// ahead, or it has expired.
    package static func requireFresh(
        _ verified: VerifiedChannelDocument, after known: VerifiedChannelDocument?, trusted: TrustedKeys, now: Timestamp
    ) throws {
        let freshness = FreshnessRule.judge(
            verified.document, payloadSha256: verified.payloadSha256,
            known: known?.record.counting(trusting: trusted.keys.map(\.id)),
            now: TrustedTime.at(now, knowing: FeedMemory()))
        if let failure = freshness.failure(of: verified.document, clock: now) { throw failure }
    }
}

extension VerifiedChannelDocument {
    /// The part that every device stores, without its own rollout state.
    fileprivate var record: FeedMemory.ChannelMemory {
        FeedMemory.ChannelMemory(
            name: document.channel, sequence: document.sequence, payloadSha256: payloadSha256,
            signers: signers.map(\.id), issuedAt: document.issuedAt, expires: document.expires,
            recalled: document.recalled, reinstated: document.reinstated, minimumVersion: document.minimumVersion,
            leftOut: [])
    }
}
