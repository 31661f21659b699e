import BundleFormats
package import BundleValues
import BundleSigning

/// Publishes trust roots, each under its own number, so that devices can follow the chain.
package struct TrustPublisher {
    /// The result of a publication.
    package struct PublishedRoot: Sendable {
        /// Whether the feed has a new root.
        package let isNew: Bool
        /// Whether the feed's `trust.json` was missing or outdated, and was written.
        package let isCompleted: Bool
        package let version: Int
        /// The channels whose current file the root does not authorize: they must be signed again.
        package let channelsToSign: [String]
        /// The offered releases that the root does not authorize: they must be published again.
        package let refused: [RefusedRelease]
        /// The IDs of its release keys.
        package let releaseKeys: [String]

        /// The files of which caches may have an older state.
        package var documents: [String] { [FeedTrust.fileName, TrustPublisher.path(of: version)] }
    }

    /// An offered release that devices refuse with a trust root.
    package struct RefusedRelease: Sendable, Equatable {
        /// The file that offers it: `manifest.json`, or a channel file.
        package let document: String
        package let version: SemanticVersion
        /// `appMismatch` for another application or none, otherwise the failure of its signatures.
        package let code: FailureCode
        /// The application of the release.
        package let appId: String?
        package let expected: String?
    }

    static let folder = "trust"
    private static let suffix = ".json"

    private let feed: any FeedLocation
    private let now: Timestamp
    private let isClockAccepted: Bool
    private let wait: FeedWait

    /// Publishes to `feed`, which is created if it is missing, at the time `now`. `isClockAccepted` states that the
    /// operator has checked the clock.
    package init(
        feed: any FeedLocation, now: Timestamp = .now, isClockAccepted: Bool = false, wait: FeedWait = FeedWait()
    ) {
        self.feed = feed
        self.now = now
        self.isClockAccepted = isClockAccepted
        self.wait = wait
    }

    /// Publishes `file` as the successor of the feed's newest root, or as its first.
    package func publish(_ file: TrustFile) throws -> PublishedRoot {
        try feed.change(wait, channels: [], draft: { () -> Never? in nil }) { _ in try publishAlone(file) }
    }

    private func publishAlone(_ file: TrustFile) throws -> PublishedRoot {
        let shown = try feed.read(FeedTrust.fileName, maximumBytes: TrustRootFormat.maximumBytes)
        let chain = try chain()
        let version = file.claims.version
        if let same = chain.first(where: { $0.root.version == version }) {
            return try confirm(same, file: file, newest: chain.last ?? same, shown: shown)
        }
        let root: VerifiedTrustRoot
        if let newest = chain.last {
            if let first = chain.first, version < first.root.version {
                throw UpdateFailure(
                    .rollbackAttempt, subject: "trust root \(version)",
                    "The feed's chain of trust roots starts with version \(first.root.version), so \(version) cannot be added."
                )
            }
            root = try Self.refusing { try TrustChain.step(from: newest, to: file.root) }
        } else {
            root = try Self.refusing { try TrustChain.start(file.root) }
        }
        try requirePlausibleTime(of: root.root, after: chain.last?.root)
        if root.root.expires <= now {
            throw UpdateFailure(
                .expired, subject: "trust root \(version)",
                "The trust root \(version) expired at \(root.root.expires). Create the next one with a longer --expires-in."
            )
        }
        guard try feed.create(Self.path(of: version), with: .bytes(root.document)) else {
            throw FeedConflict(Self.path(of: version), in: feed)
        }
        try feed.replace(FeedTrust.fileName, with: root.document, version: shown?.version)
        return try report(isNew: true, isCompleted: false, version: version, root.root)
    }

    /// Devices accept a root's time as the current time. A channel of a maintained feed has not expired, which bounds
    /// that time.
    private func requirePlausibleTime(of root: TrustRoot, after before: TrustRoot?) throws {
        let ends = try documents().map(\.expires)
        let verdict = PublisherClock.judge(issuedAt: root.issued, clock: now, before: ends.max() ?? before?.expires)
        let subject = "trust root \(root.version)"
        switch verdict {
        case .ahead:
            throw UpdateFailure(
                .configInvalid, subject: subject,
                "The \(subject) was issued at \(root.issued), and this machine's clock says \(now). Devices would accept the later "
                    + "one. Set the clock, or create the \(subject) again on a machine whose clock is right.")
        case .jumps, .plausible:
            if isClockAccepted { return }
            if let failure = verdict.failure(of: subject, issuedAt: root.issued) { throw failure }
        }
    }

    /// Adds to a failure that the file stays a draft.
    private static func refusing(_ step: () throws -> VerifiedTrustRoot) throws -> VerifiedTrustRoot {
        do {
            return try step()
        } catch let failure as UpdateFailure where failure.code == .signatureInvalid {
            throw UpdateFailure(failure.code, subject: failure.subject, "Nothing was published. \(failure.message)")
        }
    }

    /// Publishing the same root again changes nothing, except that it completes a feed whose publisher stopped before
    /// its last step.
    private func confirm(
        _ same: VerifiedTrustRoot, file: TrustFile, newest: VerifiedTrustRoot, shown: FeedRecord?
    ) throws -> PublishedRoot {
        let version = same.root.version
        guard try SHA256Digest.of(file.root.envelope.payload) == same.payloadSha256 else {
            throw UpdateFailure(
                .versionExists, subject: "trust root \(version)",
                "The feed already has another trust root \(version). Edit the feed's newest (\(newest.root.version)) "
                    + "to get the next version.")
        }
        let isBehind = shown?.bytes != newest.document
        if isBehind { try feed.replace(FeedTrust.fileName, with: newest.document, version: shown?.version) }
        return try report(isNew: false, isCompleted: isBehind, version: version, newest.root)
    }

    private func report(isNew: Bool, isCompleted: Bool, version: Int, _ newest: TrustRoot) throws -> PublishedRoot {
        PublishedRoot(
            isNew: isNew, isCompleted: isCompleted, version: version, channelsToSign: try channels(refusedBy: newest),
            refused: try releases(refusedBy: newest),
            releaseKeys: newest.trusted(for: .release, at: now).keys.map(\.id))
    }

    private static func path(of version: Int) -> String { "\(folder)/\(version)\(suffix)" }

    /// Returns the roots of the feed, each verified with the one before.
    private func chain() throws -> [VerifiedTrustRoot] {
        let versions = try feed.list(Self.folder).map(\.name).filter { $0.hasSuffix(Self.suffix) }
            .compactMap { Int($0.dropFirst(Self.folder.utf8.count + 1).dropLast(Self.suffix.count)) }.sorted()
        var chain: [VerifiedTrustRoot] = []
        for version in versions {
            let path = Self.path(of: version)
            guard let record = try feed.read(path, maximumBytes: TrustRootFormat.maximumBytes) else { continue }
            do {
                let next = try TrustRootFormat.parse(record.bytes)
                chain.append(try chain.last.map { try TrustChain.step(from: $0, to: next) } ?? TrustChain.start(next))
                guard next.claims.version == version else {
                    throw UpdateFailure(
                        .manifestMalformed, subject: path, "It has version \(next.claims.version).")
                }
            } catch {
                let failure = UpdateFailure(error)
                throw UpdateFailure(
                    failure.code, subject: "\(feed.address)/\(path)",
                    "The feed's \(path) does not continue its chain, so devices stop before it. Restore it. "
                        + failure.message)
            }
        }
        return chain
    }

    /// Returns the offered releases that `trust` does not authorize. Unreadable channel files have their own
    /// findings.
    private func releases(refusedBy trust: TrustRoot) throws -> [RefusedRelease] {
        var offered: [(document: String, manifest: UnverifiedManifest)] = []
        if let newest = try? ReleaseFeed.newest(in: feed) { offered.append((ReleaseFeed.manifestName, newest)) }
        for document in try documents() {
            offered += document.releases.filter { !document.recalls($0.version) }.map {
                (document.channel, $0.manifest)
            }
        }
        return offered.compactMap { document, manifest in
            refusal(
                of: manifest, by: trust.trusted(for: manifest.claims.kind.role, at: now), appId: trust.appId
            ).map {
                RefusedRelease(
                    document: document, version: manifest.claims.version, code: $0, appId: manifest.claims.appId,
                    expected: trust.appId)
            }
        }
    }

    /// Returns the readable channel files, unverified.
    private func documents() throws -> [ChannelDocument] {
        try ChannelWriter.channels(in: feed).compactMap { name in
            guard let record = try ChannelWriter.record(of: name, in: feed),
                let envelope = try? ChannelFormat.envelope(parsing: record.bytes)
            else { return nil }
            return try? ChannelFormat.parse(envelope).claims
        }
    }

    private func refusal(of manifest: UnverifiedManifest, by keys: TrustedKeys, appId: String?) -> FailureCode? {
        do {
            _ = try ManifestVerifier.verify(manifest, trusted: keys)
        } catch {
            return UpdateFailure(error).code
        }
        guard let appId, manifest.claims.appId.map({ $0.utf8.elementsEqual(appId.utf8) }) != true else { return nil }
        return .appMismatch
    }

    private func channels(refusedBy trust: TrustRoot) throws -> [String] {
        let keys = trust.trusted(for: .channel, at: now)
        return try ChannelWriter.channels(in: feed).filter { name in
            guard let record = try ChannelWriter.record(of: name, in: feed) else { return false }
            let verified = try? ChannelVerifier.verify(
                ChannelFormat.envelope(parsing: record.bytes), channel: name, trusted: keys)
            return verified == nil
        }
    }
}
