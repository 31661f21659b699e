package import BundleCore
import BundleArchive
package import BundleValues
package import BundleDisk
package import BundleSigning

/// Checks the signature, the archive and every signed number of a release without installing it, and compares it with a
/// folder.
package struct ReleaseVerifier: Sendable {
    /// The verified parts of a release.
    package struct VerifierReport: Sendable {
        package let manifest: VerifiedManifest
        /// The SHA-256 of the canonical tar of the archive's tree.
        package let contentSha256: SHA256Digest
        /// The origins that its `index.html` declares.
        package let origins: ReleaseOrigins
        /// The deltas to this release. The bytes of each have the signed digest.
        package let deltas: [DeltaList.Delta]
        fileprivate let archive: File
        fileprivate let scratch: Directory
        fileprivate let limits: ArchiveLimits
    }

    private let manifestURL: FetchURL
    private let keys: @Sendable (ReleaseKind) -> TrustedKeys
    private let limits: ArchiveLimits
    private let fetcher: any Fetcher
    private let scratch: Directory

    /// Verifies the release of the manifest at `manifestURL`. The archive stays in the empty folder `scratch`.
    package init(
        manifestURL: FetchURL, trusted keys: @escaping @Sendable (ReleaseKind) -> TrustedKeys, limits: ArchiveLimits,
        fetcher: any Fetcher, scratch: Directory
    ) {
        self.manifestURL = manifestURL
        self.keys = keys
        self.limits = limits
        self.fetcher = fetcher
        self.scratch = scratch
    }

    /// Verifies the release. Throws the error that an installation would end with.
    package func verify() async throws -> VerifierReport {
        let bytes = try await ManifestRequest.fetch(manifestURL, with: fetcher)
        let unverified = try ManifestFormat.parse(bytes)
        let verified = try ManifestVerifier.verify(unverified, trusted: keys(unverified.claims.kind))
        let manifest = verified.manifest
        try limits.admit(manifest)
        let url = try ManifestRequest.archiveURL(of: manifest, at: manifestURL)
        let archive = try await ArchiveDownload(
            manifest, at: url, limits: limits, fetcher: fetcher, into: scratch, report: UpdateObserver()
        ).run()
        let content = try ArchiveVerifier.check(
            archive.file, size: archive.size, of: manifest, limits: limits, scratch: scratch)
        let deltas = try await self.deltas(of: manifest, at: url)
        return VerifierReport(
            manifest: verified, contentSha256: content.sha256, origins: content.origins, deltas: deltas,
            archive: archive.file, scratch: scratch,
            limits: limits)
    }

    /// Downloads every delta of the release and compares it with its signed digest. Returns an empty array if there is
    /// no list.
    private func deltas(of manifest: Manifest, at archiveURL: FetchURL) async throws -> [DeltaList.Delta] {
        let bytes: [UInt8]
        do {
            bytes = try await fetcher.fetchDocument(
                try archiveURL.file(DeltaListFormat.fileName), maximumBytes: DeltaListFormat.maximumBytes)
        } catch let error as FetchError where error.isAbsence {
            return []
        }
        let envelope = try DeltaListFormat.envelope(parsing: bytes)
        let list = try DeltaListFormat.verify(envelope, of: manifest, trusted: keys(manifest.kind))
        let folder = try scratch.directory(creating: "deltas")
        for delta in list.deltas {
            let url = try archiveURL.file(delta.url)
            let download = ArchiveDownload(delta, at: url, fetcher: fetcher, into: folder, report: UpdateObserver())
            _ = try await download.run()
            try download.remove()
        }
        return list.deltas
    }

    /// Throws a `RebuildDifference` if the content of `tree` is not that of the release.
    package static func require(_ tree: CanonicalTree, rebuilds report: VerifierReport) throws {
        let found = try tree.digest()
        if found == report.contentSha256 { return }
        let released = try CanonicalTree(
            ArchiveVerifier.unpack(
                report.archive, of: report.manifest.manifest, limits: report.limits,
                into: report.scratch.directory(creating: "released")))
        let differences = try tree.differences(from: released)
        let more = differences.count > 20 ? " and \(differences.count - 20) more" : ""
        throw RebuildDifference(
            failure: UpdateFailure(
                .digestMismatch, subject: tree.folder.path,
                "\(tree.folder.path) differs from release \(report.manifest.version): its content is \(found.hex), "
                    + "not \(report.contentSha256.hex). These files differ: "
                    + "\(differences.prefix(20).map(\.words).joined(separator: ", "))\(more)."),
            files: differences)
    }
}

/// The differences between a folder and a release.
package struct RebuildDifference: ClassifiedFailure {
    package enum Kind: String, Sendable {
        /// Both have the file, with different bytes.
        case changed
        /// Only the release has the file.
        case missing
        /// Only the folder has the file.
        case notReleased
    }

    package struct DifferentFile: Sendable {
        package let path: BundlePath
        package let kind: Kind

        fileprivate var words: String {
            switch kind {
            case .changed: path.string
            case .missing: "\(path) (missing)"
            case .notReleased: "\(path) (not released)"
            }
        }
    }

    /// The error, which names the first 20 files.
    package let failure: UpdateFailure
    /// All files that differ, in order of their paths.
    package let files: [DifferentFile]
}

extension CanonicalTree {
    /// Returns the files that differ from those of `released`, in order of their paths.
    fileprivate func differences(from released: CanonicalTree) throws -> [RebuildDifference.DifferentFile] {
        let mine = Dictionary(uniqueKeysWithValues: entries.map { ($0.path, $0) })
        let theirs = Dictionary(uniqueKeysWithValues: released.entries.map { ($0.path, $0) })
        return try Set(mine.keys).union(theirs.keys).sorted().compactMap { path in
            guard let one = mine[path] else { return RebuildDifference.DifferentFile(path: path, kind: .missing) }
            guard let other = theirs[path] else {
                return RebuildDifference.DifferentFile(path: path, kind: .notReleased)
            }
            let isSame = try one.size == other.size && digest(of: path) == released.digest(of: path)
            return isSame ? nil : RebuildDifference.DifferentFile(path: path, kind: .changed)
        }
    }

    private func digest(of path: BundlePath) throws -> SHA256Digest {
        try folder.file(path.string).sha256()
    }
}
