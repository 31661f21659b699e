import BundleCore
package import BundleValues
import BundleSigning

/// What a device trusts at present: the pinned anchor, or the newest root that a chain from it has led to.
struct CurrentTrust: Sendable {
    private let anchor: TrustAnchor
    /// The root, and the digests of the chain to it; nil where plain keys are trusted.
    private var chain: (root: VerifiedTrustRoot, digests: [SHA256Digest])?

    /// Goes on from what is remembered, if that began with the pinned root.
    ///
    /// Throws `rollbackAttempt` where the pinned root is older than the remembered one and no part of its chain.
    init(_ anchor: TrustAnchor, memory: FeedMemory) throws {
        self.anchor = anchor
        guard case .root(let pinned) = anchor else { return }
        guard let known = memory.trust, pinned.root.version <= known.version else {
            // The first one, or that of a newer shell: whoever pins decides.
            chain = (pinned, [pinned.payloadSha256])
            let before = memory.trust.flatMap { try? TrustRootFormat.parse($0.document) }
            turnsTimeBack = before.map { pinned.root.issued < $0.claims.issued } ?? false
            return
        }
        guard known.chain.contains(pinned.payloadSha256) else {
            throw UpdateFailure(
                .rollbackAttempt, subject: "trust root",
                "The store has followed another line of trust roots up to version \(known.version), the one given has version "
                    + "\(pinned.root.version): give the one that the line began with, or one with a higher version.")
        }
        chain = (try TrustChain.start(try TrustRootFormat.parse(known.document)), known.chain)
    }

    /// Whether a root was issued before the one that it replaces: its signers have found that the time was wrong.
    private var turnsTimeBack = false

    /// The root; nil where plain keys are trusted.
    var root: VerifiedTrustRoot? { chain?.root }

    /// What is to be remembered; nil where plain keys are trusted.
    var record: FeedMemory.Trust? {
        chain.map { root, digests in
            FeedMemory.Trust(
                version: root.root.version, document: root.document, chain: digests, revokedKeys: root.root.revoked)
        }
    }

    /// Whether somebody may hold a channel's releases.
    var hasGuard: Bool { root?.root.roles[.guard] != nil }

    /// The keys of `role` at `time`.
    func keys(for role: TrustRole, at time: Timestamp) -> TrustedKeys {
        root?.root.trusted(for: role, at: time) ?? anchor.keys(for: role, at: time)
    }

    /// The latest signed time that counts. What a channel key has signed that was replaced since does not: it may have been
    /// meant to make everything else look expired. Nor does the time of a trust root after one that was issued earlier.
    func clock(_ memory: FeedMemory) -> Timestamp? {
        let trusted = root?.root.trusted(for: .channel, at: nil) ?? anchor.keys(for: .channel, at: TrustedTime.built)
        let counting = memory.channels.compactMap { $0.counting(trusting: trusted.keys.map(\.id)) }
        let isWhole = counting.count == memory.channels.count && !turnsTimeBack
        let times = isWhole ? [memory.clock] : counting.map(\.issuedAt)
        return (times + [root?.root.issued]).compactMap(\.self).max()
    }

    /// Follows the chain by one root.
    mutating func advance(to next: UnverifiedTrustRoot) throws {
        guard let chain else { return }
        let root = try TrustChain.step(from: chain.root, to: next)
        // All of them: devices may be pinned to any, and one that is forgotten would count as another line.
        self.chain = (root, chain.digests + [root.payloadSha256])
        if root.root.issued < chain.root.root.issued { turnsTimeBack = true }
    }

    /// Refuses a root that is out of date at `time`, where the machine's clock says `clock`; only the last one of the chain is
    /// asked.
    func requireFresh(at time: Timestamp, clock: Timestamp) throws {
        guard let root = root?.root, root.expires <= time else { return }
        throw UpdateFailure(
            .expired, subject: "trust root",
            "The trust root \(root.version) expired at \(root.expires). "
                + TrustedTime.advice(at: time, clock: clock, "sign the next one with `clientctl trust`"))
    }
}

/// Brings the roots that follow the one a device has.
struct TrustUpdate: Sendable {
    let source: FetchURL
    let folder: String
    let fetcher: any Fetcher

    /// The trust once it has followed the chain by one root, which is to be remembered before the next one is fetched; nil at
    /// the end of the chain.
    func next(after known: CurrentTrust) async throws -> CurrentTrust? {
        guard let root = known.root, let document = try await fetch(version: root.root.version + 1) else { return nil }
        var trust = known
        try trust.advance(to: try TrustRootFormat.parse(document))
        return trust
    }

    private func fetch(version: Int) async throws -> [UInt8]? {
        let url = try source.resolve(relative: "\(folder)/\(version).json")
        do {
            let bytes = try await fetcher.fetchBytes(url, maximumBytes: TrustRootFormat.maximumBytes)
            return try ManifestRequest.document(bytes, of: url)
        } catch FetchError.httpStatus(let status, _, _) where [403, 404, 410].contains(status) {
            // The newest root has none after it. Some object stores say 403 for what is not there.
            return nil
        } catch FetchError.fileMissing {
            return nil
        } catch FetchError.tooLarge {
            throw DocumentRefusal("trust root", problem: "is longer than \(TrustRootFormat.maximumBytes) bytes")
        }
    }
}

extension TrustChain {
    /// Follows the chain from `known` as far as the feed at `folder`, an address that ends in a slash, has it: the newest root,
    /// which is not out of date at `now`.
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
