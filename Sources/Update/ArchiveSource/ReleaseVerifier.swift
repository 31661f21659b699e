import BundleArchive
package import BundleValues
package import BundleDisk
package import BundleSigning

/// Checks a release without installing it: signature, archive, every signed number, and optionally a folder.
package struct ReleaseVerifier: Sendable {
    /// What was checked.
    package struct Report: Sendable {
        /// The manifest, now verified.
        package let manifest: VerifiedManifest
        /// SHA-256 of the canonical tar of the archive's tree.
        package let contentSha256: SHA256Digest
    }

    private let manifestURL: FetchURL
    private let trusted: TrustedKeys
    private let limits: ArchiveLimits
    private let fetcher: any Fetcher
    private let scratch: Directory

    /// Verifies the release of the manifest at `manifestURL`; the archive is kept in `scratch`, an empty folder, meanwhile.
    package init(
        manifestURL: FetchURL, trusted: TrustedKeys, limits: ArchiveLimits, fetcher: any Fetcher, scratch: Directory
    ) {
        self.manifestURL = manifestURL
        self.trusted = trusted
        self.limits = limits
        self.fetcher = fetcher
        self.scratch = scratch
    }

    /// Verifies; throws the refusal that an installation would end with.
    package func verify() async throws -> Report {
        let bytes = try await ManifestRequest.fetch(manifestURL, with: fetcher)
        let verified = try ManifestVerifier.verify(try ManifestFormat.parse(bytes), trusted: trusted)
        let manifest = verified.manifest
        try limits.admit(manifest)
        let url = try ManifestRequest.archiveURL(of: manifest, at: manifestURL)
        let archive = try await ArchiveDownload(
            manifest, at: url, limits: limits, fetcher: fetcher, into: scratch, report: { _ in }
        ).run()
        let content = try ArchiveVerifier.check(
            archive.file, size: archive.size, of: manifest, limits: limits, scratch: scratch)
        return Report(manifest: verified, contentSha256: content)
    }

    /// Refuses a folder whose content is not what `report` describes.
    package static func require(
        _ folder: Directory, excluding excluded: [PathPattern] = [], rebuilds report: Report
    ) throws {
        let found = try CanonicalTree(folder, excluding: excluded).digest()
        if found == report.contentSha256 { return }
        throw UpdateFailure(
            .digestMismatch, subject: folder.path,
            "\(folder.path) is not what was released as \(report.manifest.version): its content is \(found.hex), "
                + "released was \(report.contentSha256.hex).")
    }
}
