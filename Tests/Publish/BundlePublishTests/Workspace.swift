import BundleFormats
import ArchiveSource
import BundleValues
import BundleDisk
import BundleSigning
import BundleTesting
import Testing

@testable import BundlePublish

/// A feed's folder and keys to change it, without archives.
final class Workspace {
    let folder: TemporaryFolder
    let release: Signer
    let channel: Signer
    let start: Timestamp

    var feed: String { folder.file("feed") }
    var location: any FeedLocation { FeedFolder(feed) }

    init() throws {
        folder = try TemporaryFolder()
        try folder.makeFolder("feed")
        release = try Self.signer()
        channel = try Self.signer()
        start = try Timestamp(parsing: "2030-01-01T00:00:00Z")
    }

    static func signer(_ algorithm: KeyAlgorithm = .ed25519) throws -> Signer {
        Signer(try PrivateKey.generate(algorithm))
    }

    func version(_ text: String) throws -> SemanticVersion { try SemanticVersion(parsing: text) }

    /// Returns a signed manifest as in a channel file.
    func manifest(_ text: String, appId: String? = "com.example.kiosk", by signer: Signer? = nil) throws
        -> UnverifiedManifest
    {
        let signer = signer ?? release
        var manifest = Manifest(
            version: try version(text), url: "../releases/v\(text)/client-v\(text).tar.zst",
            sha256: try SHA256Digest.of(Array(text.utf8)), shells: try ShellRange(minimum: version("1.0.0")))
        manifest.appId = appId
        manifest.keyId = signer.publicKey.id
        let document = ManifestFormat.document(manifest, signature: try signer.sign(try manifest.statement()))
        return try ManifestFormat.parse(JSONWriter.bytes(of: document))
    }

    func document(_ versions: String..., name: String = "stable") throws -> ChannelDocument {
        var document = ChannelDocument(
            appId: "com.example.kiosk", channel: name, sequence: 1, issuedAt: start,
            expires: start.adding(.seconds(86_400)))
        for version in versions { _ = try document.add(try manifest(version), rollout: nil) }
        return document
    }

    func terms(_ signers: [Signer]? = nil, after days: Int = 0) -> ChannelTerms {
        let now = start.adding(.seconds(days * 86_400))
        return ChannelTerms(signers: signers ?? [channel], clock: now)
    }

    func editor(_ terms: ChannelTerms? = nil) -> ChannelEditor { ChannelEditor(feed: location, terms ?? self.terms()) }

    /// Writes `document` into the feed, signed by `signers`.
    func put(_ document: ChannelDocument, by signers: [Signer]? = nil) throws {
        let bytes = try (signers ?? [channel]).sign(ChannelFormat.envelope(document)).document
        try folder.makeFolder("feed/channels")
        try folder.write(bytes, to: "feed/channels/\(document.channel).json")
    }

    /// Returns the current channel file.
    func read(_ name: String = "stable") throws -> ChannelDocument {
        try ChannelEditor.read(name, in: location, trust: nil, clock: start)
    }

    /// Returns the failure code of `body`; nil if it succeeds.
    func refusal(_ body: () throws -> Void) -> UpdateFailure? {
        do {
            try body()
            return nil
        } catch {
            return UpdateFailure(error)
        }
    }

    /// Returns a trust root with these root keys, the release key and optionally a channel key.
    func root(
        _ roots: [Signer], threshold: Int = 1, channel: Signer? = nil, appId: String? = "com.example.kiosk"
    ) throws -> TrustRoot {
        var root = TrustRoot(version: 1, appId: appId, issued: start, expires: start, keys: [], roles: [:])
        for signer in roots {
            _ = try TrustEdit.add(signer.publicKey, to: .root, threshold: threshold, notAfter: nil).apply(to: &root)
        }
        _ = try TrustEdit.add(release.publicKey, to: .release, threshold: nil, notAfter: nil).apply(to: &root)
        if let channel {
            _ = try TrustEdit.add(channel.publicKey, to: .channel, threshold: nil, notAfter: nil).apply(to: &root)
        }
        return root
    }

    func trustFile(_ root: TrustRoot, signedBy signers: [Signer]) throws -> TrustFile {
        var file = try TrustFile.first(root, lifetime: TrustFile.standardLifetime)
        for signer in signers { #expect(try file.sign(signer)) }
        return file
    }
}
