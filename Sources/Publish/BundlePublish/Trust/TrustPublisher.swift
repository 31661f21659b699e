import ArchiveSource
package import BundleValues
import BundleDisk
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

    private let feed: String
    private let now: Timestamp
    private let wait: FeedWait

    /// Publishes to the feed at `feed`, which is created where it is missing.
    package init(feed: String, now: Timestamp = .now, wait: FeedWait = FeedWait()) {
        self.feed = feed
        self.now = now
        self.wait = wait
    }

    /// Publishes `file` as the root after the feed's newest, or as its first.
    package func publish(_ file: TrustFile) throws -> Report {
        try Directory.createAll(feed)
        let target = try FeedFolder(at: feed, wait)
        let chain = try chain(in: target.root)
        let version = file.claims.version
        if let same = chain.first(where: { $0.root.version == version }) {
            return try confirm(same, file, newest: chain.last ?? same, in: target)
        }
        let root: VerifiedTrustRoot
        if let newest = chain.last {
            if let first = chain.first, version < first.root.version {
                throw UpdateFailure(
                    .rollbackAttempt, subject: "trust root \(version)",
                    "The feed's chain of trust roots begins with version \(first.root.version), so \(version) comes too late."
                )
            }
            root = try TrustChain.step(from: newest, to: file.root)
        } else {
            root = try TrustChain.start(file.root)
        }
        if root.root.expires < now {
            throw UpdateFailure(
                .expired, subject: "trust root \(version)",
                "The trust root \(version) expired at \(root.root.expires): make the next one with a longer --expires-in."
            )
        }
        try put(root, into: target)
        try target.root.replaceFile(FeedTrust.fileName, with: root.document)
        return Report(
            isNew: true, isCompleted: false, version: version,
            channelsToSign: try refused(by: root.root, in: target.root))
    }

    /// The same root again changes nothing, but completes a feed whose publisher was stopped before its last step.
    private func confirm(
        _ same: VerifiedTrustRoot, _ file: TrustFile, newest: VerifiedTrustRoot, in target: FeedFolder
    ) throws -> Report {
        let version = same.root.version
        guard try SHA256Digest.of(file.root.envelope.payload) == same.payloadSha256 else {
            throw UpdateFailure(
                .versionExists, subject: "trust root \(version)",
                "The feed has a trust root \(version) with other content, and published ones never change: give yours the next "
                    + "number, by editing the feed's newest (\(newest.root.version)).")
        }
        let shown = try target.root.contents(FeedTrust.fileName, maximumBytes: TrustRootFormat.maximumBytes)
        if shown != newest.document { try target.root.replaceFile(FeedTrust.fileName, with: newest.document) }
        try target.sync(Self.folder)
        return Report(
            isNew: false, isCompleted: shown != newest.document, version: version,
            channelsToSign: try refused(by: newest.root, in: target.root))
    }

    private func put(_ root: VerifiedTrustRoot, into target: FeedFolder) throws {
        let folder = try target.root.directory(creating: Self.folder)
        let name = "\(root.root.version)\(Self.suffix)"
        let aside = name + ".new"
        try folder.removeFile(aside)
        try folder.createDurableFile(aside, root.document)
        try folder.move(aside, to: folder, as: name)
        try target.sync(Self.folder)
    }

    /// The roots of the feed, each vouched for by the one before.
    private func chain(in root: Directory) throws -> [VerifiedTrustRoot] {
        guard case .directory? = try root.kind(of: Self.folder) else { return [] }
        let folder = try root.directory(Self.folder)
        let versions = try folder.list().filter { $0.hasSuffix(Self.suffix) }
            .compactMap { Int($0.dropLast(Self.suffix.count)) }.sorted()
        var chain: [VerifiedTrustRoot] = []
        for version in versions {
            let name = "\(version)\(Self.suffix)"
            guard let bytes = try folder.contents(name, maximumBytes: TrustRootFormat.maximumBytes) else { continue }
            do {
                let next = try TrustRootFormat.parse(bytes)
                chain.append(try chain.last.map { try TrustChain.step(from: $0, to: next) } ?? TrustChain.start(next))
                guard next.claims.version == version else {
                    throw UpdateFailure(
                        .manifestMalformed, subject: name, "It has version \(next.claims.version).")
                }
            } catch {
                let failure = UpdateFailure(error)
                throw UpdateFailure(
                    failure.code, subject: "\(feed)/\(Self.folder)/\(name)",
                    "The feed's \(Self.folder)/\(name) does not continue its chain, so devices stop before it: restore it. "
                        + failure.message)
            }
        }
        return chain
    }

    private func refused(by trust: TrustRoot, in root: Directory) throws -> [String] {
        guard case .directory? = try root.kind(of: "channels") else { return [] }
        let keys = trust.trusted(for: .channel, at: now)
        return try root.directory("channels").list().filter { $0.hasSuffix(Self.suffix) }.sorted().compactMap { file in
            let name = String(file.dropLast(Self.suffix.count))
            guard ChannelFileName.isName(name), let bytes = try ChannelDesk.bytes(of: name, in: root) else {
                return nil
            }
            let verified = try? ChannelVerifier.verify(
                ChannelFormat.envelope(parsing: bytes), channel: name, trusted: keys)
            return verified == nil ? name : nil
        }
    }
}
