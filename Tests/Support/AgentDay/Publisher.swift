import BundleCore
import ArchiveSource
import BundleValues
import BundlePublish
import BundleSigning
import BundleTesting

/// Creates releases with real keys in a feed folder.
final class Publisher {
    static let appId = "com.example.day"
    static let channel = "stable"
    /// The number of releases in the channel. Older ones are removed.
    private static let offered = 8
    static let lasting = Duration.seconds(30 * 86_400)

    let feed: String
    private let folder: TemporaryFolder
    private let release: Signer
    private let channelKey: Signer
    /// The trust root of the devices.
    let trust: String
    private var versions: [SemanticVersion] = []
    /// The releases that never confirm their start.
    private(set) var broken: Set<SemanticVersion> = []
    private(set) var recalled: Set<SemanticVersion> = []
    private(set) var count = 0

    /// The highest version in the channel.
    var newest: SemanticVersion? { versions.last { !recalled.contains($0) } }

    init(in folder: TemporaryFolder, at now: Timestamp) throws {
        self.folder = folder
        feed = folder.file("feed")
        let root = try Self.signer("root", in: folder)
        release = try Self.signer("release", in: folder)
        channelKey = try Self.signer("channel", in: folder)
        trust = folder.file("trust.json")
        var draft = TrustRoot(version: 1, appId: Self.appId, issued: now, expires: now, keys: [], roles: [:])
        for (key, role) in [(root, TrustRole.root), (release, .release), (channelKey, .channel)] {
            _ = try TrustEdit.add(key.publicKey, to: role, threshold: nil, notAfter: nil).apply(to: &draft)
        }
        var file = try TrustFile.first(draft, lifetime: TrustFile.standardLifetime)
        _ = try file.sign(root)
        try file.write(to: trust, replacing: false)
        _ = try TrustPublisher(feed: FeedFolder(feed), now: now).publish(file)
    }

    private static func signer(_ name: String, in folder: TemporaryFolder) throws -> Signer {
        let pair = try KeyFile.generate(.ed25519, prefix: folder.file(name), passphrase: nil)
        return try KeyFile.signer(at: pair.keyPath) { [] }
    }

    /// Publishes the next version. Two of its five files are new. The channel file expires after `lifetime`.
    func publish(at now: Timestamp, for lifetime: Duration = lasting, isBroken: Bool) throws -> SemanticVersion {
        count += 1
        let version = try SemanticVersion(parsing: "1.\(count).0")
        let source = try folder.writeTree(Self.client(count, version), to: "source")
        var options = ReleaseOptions(
            version: version, shells: try ShellRange(minimum: SemanticVersion(parsing: "1.0.0")), createdAt: now)
        options.appId = Self.appId
        options.level = 1
        options.windowLog = 17
        var terms = terms(now, lifetime)
        terms.firstSequence = count == 1 ? 1 : nil
        let builder = ReleaseBuilder(options, feed: FeedFolder(feed), report: UpdateObserver())
        _ = try builder.publish(
            builder.inspect(source), signers: [release], to: ChannelPlan(Self.channel, rollout: nil, terms: terms))
        versions.append(version)
        if isBroken { broken.insert(version) }
        while versions.count > Self.offered { try edit(.withdraw(versions.removeFirst()), at: now, for: lifetime) }
        return version
    }

    func recall(_ version: SemanticVersion, at now: Timestamp) throws {
        try edit(.recall(version, reason: "a day's recall"), at: now, for: Self.lasting)
        recalled.insert(version)
    }

    /// Renews the channel file.
    func renew(at now: Timestamp) throws { try edit(.renew, at: now, for: Self.lasting) }

    private func edit(_ change: ChannelChange, at now: Timestamp, for lifetime: Duration) throws {
        _ = try ChannelEditor(feed: FeedFolder(feed), terms(now, lifetime)).apply(change, to: Self.channel)
    }

    private func terms(_ now: Timestamp, _ lifetime: Duration) -> ChannelTerms {
        var terms = ChannelTerms(signers: [channelKey], clock: now)
        terms.lifetime = lifetime
        return terms
    }

    private static func client(_ number: Int, _ version: SemanticVersion) -> [String: [UInt8]] {
        var generator = SeededGenerator(seed: UInt64(number))
        let script = (0..<40_000).map { _ in UInt8.random(in: 0x20...0x7E, using: &generator) }
        return [
            "index.html": Array("<!doctype html>\(title(version.description))".utf8), "app.js": script,
            "style.css": Array("body { margin: 0 }\n".utf8),
            "img/logo.svg": [UInt8](repeating: 0x20, count: 20_000), "words/en.json": Array("{}\n".utf8),
        ]
    }

    /// The title of a client's index page.
    static func title(_ name: String) -> String { "<title>\(name)</title>" }
}
