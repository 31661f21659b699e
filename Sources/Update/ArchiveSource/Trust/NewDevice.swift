package import BundleCore
package import BundleValues

/// A device that knows nothing of a feed yet and has no store: what publishers check a feed with.
///
/// It judges by the same code as a device (`FeedPoll`), so a check refuses what a device refuses, for the same reason.
package struct NewDevice: Sendable {
    private var trust: CurrentTrust
    private let given: TrustAnchor
    private let request: OfferRequest
    private let clock: Timestamp

    /// A device with what `anchor` vouches for, at `clock`.
    package init(trusting anchor: TrustAnchor, clock: Timestamp) throws {
        try self.init(trusting: anchor, knowing: FeedMemory(), clock: clock)
    }

    /// A device that goes on from the trust roots that `memory` has followed from `anchor`.
    package init(trusting anchor: TrustAnchor, knowing memory: FeedMemory, clock: Timestamp) throws {
        given = anchor
        self.clock = clock
        request = OfferRequest(inventory: .empty, shell: try SemanticVersion(parsing: "0.0.0"), appId: nil)
        trust = try CurrentTrust(anchor, memory: memory)
    }

    // MARK: Trust roots

    /// The file of the trust root that follows, below the feed; nil where plain keys are trusted.
    package var nextRoot: String? { trust.root.map { "trust/\($0.root.version + 1).json" } }

    /// Follows the chain of trust roots by one.
    package mutating func take(root document: [UInt8]) throws {
        try trust.advance(to: try TrustRootFormat.parse(document))
    }

    /// Follows the chain to its end by `read`, which returns the file of that name below the feed, or nil where there is none.
    package mutating func follow(_ read: (String) throws -> [UInt8]?) throws {
        for _ in 0..<OfferRequest.maximumSteps {
            guard let name = nextRoot, let document = try read(name) else { return }
            try take(root: document)
        }
    }

    /// Follows the chain to its end in the feed at `folder`, an address that ends in a slash.
    package mutating func follow(inFeed folder: FetchURL, with fetcher: any Fetcher) async throws {
        let update = TrustUpdate(source: folder, folder: "trust", fetcher: fetcher)
        for _ in 0..<OfferRequest.maximumSteps {
            guard let next = try await update.next(after: trust) else { return }
            trust = next
        }
    }

    /// What the device trusts now.
    package var anchor: TrustAnchor { trust.root.map(TrustAnchor.root) ?? given }

    /// The release keys that are not revoked, whether or not they may sign new releases now.
    package var releaseKeysOfAnyTime: TrustedKeys {
        trust.root?.root.trusted(for: .release, at: nil) ?? given.keys(for: .release, at: clock)
    }

    /// Throws `expired` if the last root of the chain is out of date.
    package func requireFresh() throws { try trust.requireFresh(at: poll.time, clock: clock) }

    // MARK: Documents

    /// Returns the manifest if release keys signed it and it is of the application of the trust root.
    package func take(_ manifest: UnverifiedManifest) throws -> VerifiedManifest {
        let verified = try poll.take(manifest)
        try requireApp(of: verified)
        return verified
    }

    /// Throws `appMismatch` if a manifest is not of the application of the trust root.
    package func requireApp(of verified: VerifiedManifest) throws {
        let decision = AcceptanceRule.decide(
            verified, inventory: .empty, shell: verified.shells.minimum, appId: appId)
        if case .wrongApp = decision.verdict, let failure = decision.verdict.failure(of: verified.clientVersion) {
            throw failure
        }
    }

    /// Returns the channel document if channel keys signed it and it is that of the channel `name` and of the application of the trust
    /// root. Its expiry is for the caller.
    package func take(_ envelope: SignedEnvelope, channel name: String) throws -> VerifiedChannelDocument {
        try poll.take(envelope, channel: name)
    }

    /// Whether the device looks for holds.
    package var hasGuard: Bool { trust.hasGuard }

    /// Returns the hold if the guard signed it and it is that of the channel `name`.
    package func take(hold bytes: [UInt8], channel name: String) throws -> VerifiedHold {
        try poll.take(hold: bytes, channel: name)
    }

    /// A release of a channel document that the device does not take.
    package struct RefusedRelease: Sendable {
        /// Its version.
        package let version: SemanticVersion
        /// Why the device does not take it.
        package let failure: UpdateFailure
        /// Whether the keys that signed it are revoked.
        package let isRevoked: Bool
        /// Whether the device would take it otherwise: it is not recalled, and no release above it counts.
        package let isMissed: Bool
    }

    /// Returns the releases of a channel document that the device does not take, in the document's order.
    package func refused(of document: ChannelDocument) -> [RefusedRelease] {
        let failures = document.releases.map { release in
            do {
                _ = try take(release.manifest)
                return UpdateFailure?.none
            } catch {
                return UpdateFailure(error)
            }
        }
        let allowed = zip(document.releases, failures).filter { release, _ in
            !document.revoked.contains { $0.version == release.version }
        }
        let best = allowed.filter { $0.1 == nil }.map(\.0.version).max()
        return zip(document.releases, failures).compactMap { release, failure in
            failure.map { failure in
                let isAllowed = allowed.contains { $0.0.version == release.version }
                return RefusedRelease(
                    version: release.version, failure: failure, isRevoked: revocation(of: release.manifest) != nil,
                    isMissed: isAllowed && best.map { release.version > $0 } ?? true)
            }
        }
    }

    /// Why the device ignores the signatures of `manifest`, where their keys are revoked; nil where they are not.
    package func revocation(of manifest: UnverifiedManifest) -> String? {
        let ids = ([manifest.claims.keyId] + manifest.signatures.map(\.keyId)).compactMap(\.self)
        return trust.keys(for: .release, at: poll.time).revocation(of: ids)
    }

    private var appId: String? { trust.root?.root.appId }

    private var poll: FeedPoll { FeedPoll(trust, request, clock: clock) }
}
