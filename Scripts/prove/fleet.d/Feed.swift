@testable import BundleFormats
@testable import ArchiveSource
@testable import BundleCore
@testable import BundlePublish
@testable import BundleSigning
@testable import BundleValues

/// A published state of the channel document.
struct Issue {
    let envelope: SignedEnvelope
    let document: ChannelDocument
    let payloadSha256: SHA256Digest
    /// The rollout of each of `Feed.staged` in thousandths; all devices if the document does not contain the release.
    let rollouts: [Int]
}

/// The feed of the publisher, with real keys, releases of a small client, and a channel document in a folder.
final class Feed {
    static let appId = "com.example.fleet"
    static let channel = "stable"
    static let base = "1.0.0"
    /// The releases with a rollout: a release that may fail, and its fix.
    static let staged = ["1.1.0", "1.1.1"]
    private static let mostBytes = 1 << 20

    let anchor: TrustAnchor
    private(set) var issues: [Issue] = []
    private let feed: FeedFolder
    private let client: String
    private let release: Signer
    private let channelKey: Signer

    /// Creates a feed in `folder` with the base release; `client` is the content of every version.
    init(in folder: String, client: String, at now: Timestamp) throws {
        self.client = client
        feed = FeedFolder("\(folder)/feed")
        let root = try Self.signer("\(folder)/root")
        release = try Self.signer("\(folder)/release")
        channelKey = try Self.signer("\(folder)/channel")
        var draft = TrustRoot(version: 1, appId: Self.appId, issued: now, expires: now, keys: [], roles: [:])
        for (key, role) in [(root, TrustRole.root), (release, .release), (channelKey, .channel)] {
            _ = try TrustEdit.add(key.publicKey, to: role, threshold: nil, notAfter: nil).apply(to: &draft)
        }
        var file = try TrustFile.first(draft, lifetime: TrustFile.standardLifetime)
        _ = try file.sign(root)
        try file.write(to: "\(folder)/trust.json", replacing: false)
        anchor = try TrustAnchor.read(at: "\(folder)/trust.json")
        _ = try TrustPublisher(feed: feed, now: now).publish(file)
        try publish(Self.base, rollout: nil, at: now)
    }

    private static func signer(_ prefix: String) throws -> Signer {
        let pair = try KeyFile.generate(.ed25519, prefix: prefix, passphrase: nil)
        return try KeyFile.signer(at: pair.keyPath) { [] }
    }

    /// Publishes `version` to `rollout` of 1,000 devices, or to all.
    func publish(_ version: String, rollout: Int?, at now: Timestamp) throws {
        var options = ReleaseOptions(
            version: try SemanticVersion(parsing: version),
            shells: try ShellRange(minimum: SemanticVersion(parsing: Rules.shell)), createdAt: now)
        options.appId = Self.appId
        options.level = 1
        options.windowLog = 17
        var terms = terms(now)
        terms.firstSequence = issues.isEmpty ? 1 : nil
        let builder = ReleaseBuilder(options, feed: feed, report: UpdateObserver())
        _ = try builder.publish(
            builder.inspect(client), signers: [release], to: ChannelPlan(Self.channel, rollout: rollout, terms: terms))
        try read()
    }

    func edit(_ change: ChannelChange, at now: Timestamp) throws {
        _ = try ChannelEditor(feed: feed, terms(now)).apply(change, to: Self.channel)
        try read()
    }

    private func terms(_ now: Timestamp) -> ChannelTerms {
        ChannelTerms(signers: [channelKey], clock: now)
    }

    private func read() throws {
        guard let file = try feed.read("channels/\(Self.channel).json", maximumBytes: Self.mostBytes) else {
            throw SimulationError("the feed does not contain a channel document")
        }
        let envelope = try ChannelFormat.envelope(parsing: file.bytes)
        let document = try ChannelFormat.parse(envelope).claims
        issues.append(
            Issue(
                envelope: envelope, document: document, payloadSha256: try SHA256Digest.of(envelope.payload),
                rollouts: Self.staged.map { name in
                    document.releases.first { "\($0.version)" == name }?.rollout ?? ChannelDocument.Release.allDevices
                }))
    }
}

/// An error of the simulation itself.
struct SimulationError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
