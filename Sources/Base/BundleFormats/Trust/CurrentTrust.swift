package import BundleValues
import BundleSigning

/// The current trust of a device: the pinned anchor, or the newest root of the chain that begins with it.
package struct CurrentTrust: Sendable {
    private let anchor: TrustAnchor
    /// The root and the digests of its chain; nil if plain keys are trusted.
    private var chain: (root: VerifiedTrustRoot, digests: [SHA256Digest])?

    /// Continues the chain in `memory` if it began with the pinned root.
    ///
    /// Throws `rollbackAttempt` if the pinned root is older than the stored one and not part of its chain.
    package init(_ anchor: TrustAnchor, memory: FeedMemory) throws {
        self.anchor = anchor
        guard case .root(let pinned) = anchor else { return }
        guard let known = memory.trust, pinned.root.version <= known.version else {
            // There is no chain yet, or a newer shell pins a newer root.
            chain = (pinned, [pinned.payloadSha256])
            let before = memory.trust.flatMap { try? TrustRootFormat.parse($0.document) }
            turnsTimeBack = before.map { pinned.root.issued < $0.claims.issued } ?? false
            return
        }
        guard known.chain.contains(pinned.payloadSha256) else {
            throw UpdateFailure(
                .rollbackAttempt, subject: "trust root",
                "The store has accepted another chain of trust roots up to version \(known.version), and the given root has version "
                    + "\(pinned.root.version). Give the first root of that chain, or a root with a higher version.")
        }
        chain = (try TrustChain.start(try TrustRootFormat.parse(known.document)), known.chain)
    }

    /// Whether a root has an earlier time than its predecessor, because its signers found that the time was wrong.
    private var turnsTimeBack = false

    /// The root; nil if plain keys are trusted.
    package var root: VerifiedTrustRoot? { chain?.root }

    /// The state to store; nil if plain keys are trusted.
    package var record: FeedMemory.TrustMemory? {
        chain.map { root, digests in
            FeedMemory.TrustMemory(
                version: root.root.version, document: root.document, chain: digests, revokedKeys: root.root.revoked)
        }
    }

    /// Whether the trust root names a guard, which may hold releases.
    package var hasGuard: Bool { root?.root.roles[.guard] != nil }

    package func keys(for role: TrustRole, at time: Timestamp) -> TrustedKeys {
        root?.root.trusted(for: role, at: time) ?? anchor.keys(for: role, at: time)
    }

    /// Returns the latest valid signed time. Ignores times signed by a replaced channel key, which an attacker may have
    /// used to make other documents look expired, and the time of a root that its successor predates.
    package func clock(_ memory: FeedMemory) -> Timestamp? {
        let trusted = root?.root.trusted(for: .channel, at: nil) ?? anchor.keys(for: .channel, at: TrustedTime.built)
        let counting = memory.channels.compactMap { $0.counting(trusting: trusted.keys.map(\.id)) }
        let isWhole = counting.count == memory.channels.count && !turnsTimeBack
        let times = isWhole ? [memory.clock] : counting.map(\.issuedAt)
        return (times + [root?.root.issued]).compactMap(\.self).max()
    }

    /// Advances the chain by one root.
    package mutating func advance(to next: UnverifiedTrustRoot) throws {
        guard let chain else { return }
        let root = try TrustChain.step(from: chain.root, to: next)
        // Keeps all digests: a device may pin any root, and an unknown one would count as another chain.
        self.chain = (root, chain.digests + [root.payloadSha256])
        if root.root.issued < chain.root.root.issued { turnsTimeBack = true }
    }

    /// Throws `expired` if the last root of the chain is out of date at `time`. The machine's clock reports `clock`.
    package func requireFresh(at time: Timestamp, clock: Timestamp) throws {
        guard let root = root?.root, root.expires <= time else { return }
        throw UpdateFailure(
            .expired, subject: "trust root",
            "The trust root \(root.version) expired at \(root.expires). "
                + TrustedTime.advice(at: time, clock: clock, "sign the next one with `clientctl trust`"))
    }
}

/// Downloads the roots after the current one.
package struct TrustUpdate: Sendable {
    private let source: FetchURL
    private let folder: String
    private let fetcher: any Fetcher

    /// Creates a search in `folder`, a name relative to `source`.
    package init(source: FetchURL, folder: String, fetcher: any Fetcher) {
        self.source = source
        self.folder = folder
        self.fetcher = fetcher
    }

    /// Returns the trust after one more root, which the caller stores before the next call; nil at the end of the
    /// chain.
    package func next(after known: CurrentTrust) async throws -> CurrentTrust? {
        guard let root = known.root, let document = try await fetch(version: root.root.version + 1) else { return nil }
        var trust = known
        try trust.advance(to: try TrustRootFormat.parse(document))
        return trust
    }

    private func fetch(version: Int) async throws -> [UInt8]? {
        let url = try source.file("\(folder)/\(version).json")
        do {
            return try await fetcher.fetchDocument(url, maximumBytes: TrustRootFormat.maximumBytes)
        } catch FetchError.httpStatus(let status, _, _) where [403, 404, 410].contains(status) {
            // The chain ends here. Some object stores return 403 for a missing file.
            return nil
        } catch FetchError.fileMissing {
            return nil
        } catch FetchError.tooLarge {
            throw DocumentRefusal("trust root", problem: "is longer than \(TrustRootFormat.maximumBytes) bytes")
        }
    }
}

extension TrustChain {
    /// Returns the newest root of the chain from `known` in the feed at `folder`, a URL that ends in a slash. Throws
    /// `expired` if it is out of date at `now`.
    package static func newest(
        after known: VerifiedTrustRoot, inFeed folder: FetchURL, fetcher: any Fetcher, now: Timestamp
    ) async throws -> VerifiedTrustRoot {
        var device = try NewDevice(trusting: .root(known), clock: now)
        try await device.follow(inFeed: folder, with: fetcher)
        try device.requireFresh()
        guard case .root(let newest) = device.anchor else { return known }
        return newest
    }
}
