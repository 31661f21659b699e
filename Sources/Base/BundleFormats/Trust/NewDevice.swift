package import BundleValues

/// A device without a store, with which publishers check a feed.
///
/// It uses the same code as a device (`FeedVerifier`), so a check fails for the same reasons as on a device.
package struct NewDevice: Sendable {
    package private(set) var trust: CurrentTrust
    private let given: TrustAnchor
    package let clock: Timestamp

    package init(trusting anchor: TrustAnchor, clock: Timestamp) throws {
        try self.init(trusting: anchor, knowing: FeedMemory(), clock: clock)
    }

    /// Creates a device that continues the chain of trust roots in `memory`, which begins with `anchor`.
    package init(trusting anchor: TrustAnchor, knowing memory: FeedMemory, clock: Timestamp) throws {
        given = anchor
        self.clock = clock
        trust = try CurrentTrust(anchor, memory: memory)
    }

    // MARK: Trust roots

    /// The path of the next trust root below the feed; nil if plain keys are trusted.
    package var nextRoot: String? { trust.root.map { "trust/\($0.root.version + 1).json" } }

    /// Advances the chain of trust roots by one.
    package mutating func advance(toRoot document: [UInt8]) throws {
        try trust.advance(to: try TrustRootFormat.parse(document))
    }

    /// Advances the chain to its end. `read` returns the file at a path below the feed, or nil if it does not exist.
    package mutating func follow(_ read: (String) throws -> [UInt8]?) throws {
        for _ in 0..<TrustChain.mostSteps {
            guard let name = nextRoot, let document = try read(name) else { return }
            try advance(toRoot: document)
        }
    }

    /// Advances the chain to its end in the feed at `folder`, a URL that ends in a slash.
    package mutating func follow(inFeed folder: FetchURL, with fetcher: any Fetcher) async throws {
        let update = TrustUpdate(source: folder, folder: "trust", fetcher: fetcher)
        for _ in 0..<TrustChain.mostSteps {
            guard let next = try await update.next(after: trust) else { return }
            trust = next
        }
    }

    /// The current trust of the device.
    package var anchor: TrustAnchor { trust.root.map(TrustAnchor.root) ?? given }

    /// Returns the keys for releases of a kind that are not revoked, including those that no longer sign new releases.
    package func keysOfAnyTime(for kind: ReleaseKind) -> TrustedKeys {
        trust.root?.root.trusted(for: kind.role, at: nil) ?? given.keys(for: kind.role, at: clock)
    }

    /// Throws `expired` if the last root of the chain is out of date.
    package func requireFresh() throws { try trust.requireFresh(at: verifier.time, clock: clock) }

    // MARK: Documents

    /// Returns the manifest if release keys signed it and it is for the application of the trust root.
    package func verify(_ manifest: UnverifiedManifest) throws -> VerifiedManifest {
        let verified = try verifier.verify(manifest)
        try requireApp(of: verified)
        return verified
    }

    /// Throws `appMismatch` if a manifest is not for the application of the trust root.
    package func requireApp(of verified: VerifiedManifest) throws {
        if let other = WrongApplication(of: verified.appId, on: appId) {
            throw other.failure(of: .archive(verified.version))
        }
    }

    /// Returns the channel document if channel keys signed it and it is for the channel `name` and the application of
    /// the trust root. The caller checks its expiry.
    package func verify(_ envelope: SignedEnvelope, channel name: String) throws -> VerifiedChannelDocument {
        try verifier.verify(envelope, channel: name)
    }

    /// Whether the device requests holds.
    package var hasGuard: Bool { trust.hasGuard }

    /// Returns the hold if the guard signed it and it is for the channel `name`.
    package func verify(hold bytes: [UInt8], channel name: String) throws -> VerifiedHold {
        try verifier.verify(hold: bytes, channel: name)
    }

    /// A release of a channel document that the device refuses.
    package struct DeviceRefusal: Sendable {
        package let version: SemanticVersion
        package let failure: UpdateFailure
        package let isRevoked: Bool
        /// Whether the refusal affects the device: the release is not recalled, and no valid release is above it.
        package let isMissed: Bool
    }

    /// Returns the releases of a channel document that the device refuses, in the document's order.
    package func refused(of document: ChannelDocument) -> [DeviceRefusal] {
        let failures = document.releases.map { release in
            do {
                _ = try verify(release.manifest)
                return UpdateFailure?.none
            } catch {
                return UpdateFailure(error)
            }
        }
        let allowed = zip(document.releases, failures).filter { release, _ in
            !document.recalled.contains { $0.version == release.version }
        }
        let best = allowed.filter { $0.1 == nil }.map(\.0.version).max()
        return zip(document.releases, failures).compactMap { release, failure in
            failure.map { failure in
                let isAllowed = allowed.contains { $0.0.version == release.version }
                return DeviceRefusal(
                    version: release.version, failure: failure, isRevoked: revocation(of: release.manifest) != nil,
                    isMissed: isAllowed && best.map { release.version > $0 } ?? true)
            }
        }
    }

    /// Returns the reason why the device ignores the signatures of `manifest` if their keys are revoked; nil otherwise.
    package func revocation(of manifest: UnverifiedManifest) -> String? {
        let ids = ([manifest.claims.keyId] + manifest.signatures.map(\.keyId)).compactMap(\.self)
        return trust.keys(for: manifest.claims.kind.role, at: verifier.time).revocation(of: ids)
    }

    package var appId: String? { trust.root?.root.appId }

    package var verifier: FeedVerifier { FeedVerifier(trust, of: appId, knowing: FeedMemory(), clock: clock) }
}
