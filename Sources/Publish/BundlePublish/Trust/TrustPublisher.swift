import ArchiveSource
package import BundleValues
import BundleSigning

/// Puts trust roots into a feed, each under its own number, so that devices can follow the chain.
package struct TrustPublisher {
    /// What was done.
    package struct Report: Sendable {
        /// Whether the root is new in the feed.
        package let isNew: Bool
        /// Whether the feed's `trust.json` was missing or behind, and was written.
        package let isCompleted: Bool
        /// Its version.
        package let version: Int
        /// Channels whose present document devices refuse by it: they are to be signed anew.
        package let channelsToSign: [String]
    }

    private static let folder = "trust"
    private static let suffix = ".json"

    private let feed: any FeedPlace
    private let now: Timestamp
    private let wait: FeedWait

    /// Publishes to `feed`, which is created where it is missing.
    package init(feed: any FeedPlace, now: Timestamp = .now, wait: FeedWait = FeedWait()) {
        self.feed = feed
        self.now = now
        self.wait = wait
    }

    /// Publishes `file` as the root after the feed's newest, or as its first.
    package func publish(_ file: TrustFile) throws -> Report {
        try feed.make()
        return try feed.change(wait, channels: [], draft: { () -> Never? in nil }) { _ in try publishAlone(file) }
    }

    private func publishAlone(_ file: TrustFile) throws -> Report {
        let shown = try feed.read(FeedTrust.fileName, maximumBytes: TrustRootFormat.maximumBytes)
        let chain = try chain()
        let version = file.claims.version
        if let same = chain.first(where: { $0.root.version == version }) {
            return try confirm(same, file, newest: chain.last ?? same, shown: shown)
        }
        let root: VerifiedTrustRoot
        if let newest = chain.last {
            if let first = chain.first, version < first.root.version {
                throw UpdateFailure(
                    .rollbackAttempt, subject: "trust root \(version)",
                    "The feed's chain of trust roots begins with version \(first.root.version), so \(version) comes too late."
                )
            }
            root = try Self.refusing { try TrustChain.step(from: newest, to: file.root) }
        } else {
            root = try Self.refusing { try TrustChain.start(file.root) }
        }
        if root.root.expires < now {
            throw UpdateFailure(
                .expired, subject: "trust root \(version)",
                "The trust root \(version) expired at \(root.root.expires): make the next one with a longer --expires-in."
            )
        }
        guard try feed.create(Self.path(of: version), .bytes(root.document)) else {
            throw FeedConflict(Self.path(of: version), in: feed)
        }
        try feed.replace(FeedTrust.fileName, with: root.document, version: shown?.version)
        return Report(isNew: true, isCompleted: false, version: version, channelsToSign: try refused(by: root.root))
    }

    /// Says so where signatures are missing: the file stays a draft.
    private static func refusing(_ step: () throws -> VerifiedTrustRoot) throws -> VerifiedTrustRoot {
        do {
            return try step()
        } catch let failure as UpdateFailure where failure.code == .signatureInvalid {
            throw UpdateFailure(failure.code, subject: failure.subject, "Nothing was published. \(failure.message)")
        }
    }

    /// The same root again changes nothing, but completes a feed whose publisher was stopped before its last step.
    private func confirm(
        _ same: VerifiedTrustRoot, _ file: TrustFile, newest: VerifiedTrustRoot, shown: FeedRecord?
    ) throws -> Report {
        let version = same.root.version
        guard try SHA256Digest.of(file.root.envelope.payload) == same.payloadSha256 else {
            throw UpdateFailure(
                .versionExists, subject: "trust root \(version)",
                "The feed has a trust root \(version) with other content, and published ones never change: give yours the next "
                    + "number, by editing the feed's newest (\(newest.root.version)).")
        }
        let isBehind = shown?.bytes != newest.document
        if isBehind { try feed.replace(FeedTrust.fileName, with: newest.document, version: shown?.version) }
        try feed.settle(Self.folder)
        return Report(
            isNew: false, isCompleted: isBehind, version: version, channelsToSign: try refused(by: newest.root))
    }

    private static func path(of version: Int) -> String { "\(folder)/\(version)\(suffix)" }

    /// The roots of the feed, each vouched for by the one before.
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
                    "The feed's \(path) does not continue its chain, so devices stop before it: restore it. "
                        + failure.message)
            }
        }
        return chain
    }

    private func refused(by trust: TrustRoot) throws -> [String] {
        let keys = trust.trusted(for: .channel, at: now)
        return try ChannelDesk.channels(in: feed).filter { name in
            guard let record = try ChannelDesk.record(of: name, in: feed) else { return false }
            let verified = try? ChannelVerifier.verify(
                ChannelFormat.envelope(parsing: record.bytes), channel: name, trusted: keys)
            return verified == nil
        }
    }
}
