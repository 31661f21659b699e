import ArchiveChannel
import BundleArchive
public import BundleCore
import BundleDisk
import BundleSigning
import Glibc

/// The publisher's line: list, pack, check as an installer would, sign, write the feed.
public struct ReleaseBuilder {
    private let options: ReleaseOptions
    private let feed: String
    private let report: (UpdateEvent) -> Void

    /// Publishes to the folder `feed`; `report` hears about progress.
    public init(_ options: ReleaseOptions, feed: String, report: @escaping (UpdateEvent) -> Void) {
        self.options = options
        self.feed = feed
        self.report = report
    }

    /// Publishes the web folder `source`, signed with `key`.
    public func publish(_ source: String, key: borrowing SigningKey) throws -> ReleaseReport {
        let tree = try CanonicalTree(Directory.open(source))
        try tree.requireInstallable(options.limits)
        let target = options.isDryRun ? nil : try ReleaseFeed(at: feed)
        if let published = try ReleaseFeed.published(options.version, at: feed) {
            return try confirm(published, tree, in: target, key: key)
        }
        guard let target else { return try rehearse(tree, key: key) }

        let aside = try target.openAside()
        do {
            let file = try aside.folder.file(creating: archiveName)
            let manifest = try seal(tree, into: file, key: key, scratch: aside.folder)
            try file.sync()
            try target.commit(
                aside, options.version, manifest: try document(manifest, url: archiveName, key: key))
            let isNewest = try makeNewest(manifest, in: target, key: key)
            return summary(.published, manifest, tree, isNewest: isNewest)
        } catch {
            target.discard(aside.name)
            throw error
        }
    }

    private var archiveName: String { ReleaseFeed.archiveName(options.version, options.format.rawValue) }

    private var archivePath: String { "releases/\(options.version.folderName)/\(archiveName)" }

    /// Everything but writing: the archive goes to a temporary folder.
    private func rehearse(_ tree: CanonicalTree, key: borrowing SigningKey) throws -> ReleaseReport {
        let temporary = try TemporaryDirectory()
        let file = try temporary.directory.file(creating: archiveName)
        let manifest = try seal(tree, into: file, key: key, scratch: temporary.directory)
        return summary(.dryRun, manifest, tree, isNewest: try wouldBeNewest())
    }

    /// Packs, checks the result with the installer's own reader, and states what is to be signed.
    private func seal(_ tree: CanonicalTree, into file: File, key: borrowing SigningKey, scratch: Directory) throws
        -> Manifest
    {
        let packed = try ArchivePacker(tree: tree, options: options, report: report).pack(into: file)
        var manifest = Manifest(
            version: options.version, url: archiveName, sha256: packed.sha256, shells: options.shells)
        manifest.appId = options.appId
        manifest.size = packed.size
        manifest.contentSha256 = packed.contentSha256
        manifest.installedSize = tree.totalBytes
        manifest.fileCount = tree.entries.count
        manifest.createdAt = options.createdAt
        manifest.keyId = key.publicKey.id
        manifest.notes = options.notes
        try ArchiveVerifier.check(
            file, size: packed.size, of: manifest, limits: options.limits, scratch: scratch)
        return manifest
    }

    private func document(_ manifest: Manifest, url: String, key: borrowing SigningKey) throws -> [UInt8] {
        var manifest = manifest
        manifest.url = url
        let signature = try key.key.sign(try manifest.statement())
        let bytes = JSONWriter.bytes(
            of: ManifestFormat.document(manifest, signature: signature), layout: .pretty)
        // What leaves here must be readable there: the notes are the publisher's own text.
        _ = try ManifestFormat.parse(bytes)
        return bytes
    }

    // MARK: The feed's newest

    private func wouldBeNewest() throws -> Bool {
        guard let newest = try ReleaseFeed.newest(at: feed) else { return true }
        return newest.claims.version <= options.version
    }

    private func makeNewest(_ manifest: Manifest, in target: ReleaseFeed, key: borrowing SigningKey) throws -> Bool {
        guard try wouldBeNewest() else { return false }
        try target.setNewest(try document(manifest, url: archivePath, key: key))
        return true
    }

    // MARK: Published before

    /// The same release again changes nothing, but completes a feed whose publisher was stopped before its last step.
    private func confirm(
        _ published: UnverifiedManifest, _ tree: CanonicalTree, in target: ReleaseFeed?,
        key: borrowing SigningKey
    ) throws -> ReleaseReport {
        let claims = published.claims
        let content = try tree.digest()
        if let difference = difference(claims, content) {
            throw UpdateFailure(
                .versionExists, subject: options.version.description,
                "Version \(options.version) was published before with another \(difference): "
                    + "choose a higher version; published ones never change.")
        }
        try requireIntact(published, key: key)
        let isNewest = try wouldBeNewest()
        if isNewest, let target, try ReleaseFeed.newest(at: feed)?.claims.version != options.version {
            var document = published.document.objectValue ?? [:]
            document["url"] = .string("releases/\(options.version.folderName)/\(claims.url)")
            try target.setNewest(JSONWriter.bytes(of: .object(document), layout: .pretty))
        }
        try target?.sync()
        return summary(.unchanged, claims, tree, isNewest: isNewest)
    }

    /// "Nothing to do" is only said of a release that a device with this key could install.
    private func requireIntact(_ published: UnverifiedManifest, key: borrowing SigningKey) throws {
        let claims = published.claims
        let version = claims.version
        guard (try? ManifestVerifier.verify(published, trusted: TrustedKeys([key.publicKey]))) != nil else {
            throw UpdateFailure(
                .versionExists, subject: version.description,
                "Version \(version) was published before with another key: use that one, or choose a higher version.")
        }
        let found = try ReleaseFeed.archiveDigest(of: version, named: claims.url, at: feed)
        guard found == claims.sha256 else {
            throw UpdateFailure(
                .digestMismatch, subject: claims.url,
                "The archive of \(version) in the feed is missing or is not the one that was signed: restore it, or "
                    + "remove releases/\(version.folderName) and publish again.")
        }
    }

    private func difference(_ published: Manifest, _ content: SHA256Digest) -> String? {
        if published.contentSha256 != content { return "content" }
        if published.appId != options.appId { return "application" }
        if published.shells != options.shells { return "range of shells" }
        return nil
    }

    private func summary(
        _ outcome: ReleaseReport.Outcome, _ manifest: Manifest, _ tree: CanonicalTree, isNewest: Bool
    ) -> ReleaseReport {
        ReleaseReport(
            outcome: outcome, manifest: manifest, isNewest: isNewest,
            largest: Array(tree.entries.sorted { $0.size > $1.size }.prefix(5)))
    }
}
