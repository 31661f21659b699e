public import BundleCore
import BundleDisk
import BundleThreads

/// The signed archive channel: a flat manifest and the archive that it names.
public struct ArchiveChannel: UpdateChannel {
    private let manifestURL: FetchURL
    private let trusted: TrustedKeys
    private let limits: ArchiveLimits
    private let fetcher: any Fetcher
    private let report: @Sendable (UpdateEvent) -> Void

    /// Follows the manifest at `manifestURL`, believing `trusted` keys only.
    public init(
        manifestURL: FetchURL, trusted: TrustedKeys, limits: ArchiveLimits, fetcher: any Fetcher,
        report: @escaping @Sendable (UpdateEvent) -> Void
    ) {
        self.manifestURL = manifestURL
        self.trusted = trusted
        self.limits = limits
        self.fetcher = fetcher
        self.report = report
    }

    /// Fetches the manifest and checks its signature before anything in it is used.
    public func latestOffer() async throws -> VerifiedManifest {
        let bytes = try await ManifestSource.fetch(manifestURL, with: fetcher)
        return try ManifestVerifier.verify(try ManifestFormat.parse(bytes), trusted: trusted)
    }

    /// Downloads, verifies and unpacks the archive of `offer`.
    public func stage(
        _ offer: VerifiedManifest, in area: StagingArea, reusing installed: ReuseIndex
    ) async throws -> StagedBundle {
        try limits.admit(offer.manifest)
        let url = try ManifestSource.archiveURL(of: offer.manifest, at: manifestURL)
        let download = ArchiveDownload(
            offer.manifest, at: url, limits: limits, fetcher: fetcher, into: area.downloads, report: report)
        let archive = try await download.run()
        let unpacker = ArchiveUnpacker(limits: limits, report: report)
        do {
            let staged = try await onThread {
                try unpacker.unpack(
                    archive, of: offer.manifest, document: offer.document, into: area, reusing: installed)
            }
            // It goes before the barrier, so that its pages need never reach the disk.
            try download.remove()
            return staged
        } catch {
            // A refused archive is of no use. One that could not be unpacked for want of room is not fetched twice.
            let isRefused = [.archiveRejected, .digestMismatch, .sizeMismatch].contains(UpdateFailure(error).code)
            if isRefused { try download.remove() }
            throw error
        }
    }
}

/// Where a manifest and its archive come from.
enum ManifestSource {
    static func fetch(_ url: FetchURL, with fetcher: any Fetcher) async throws -> [UInt8] {
        do {
            return try await fetcher.fetchBytes(url, maximumBytes: ManifestFormat.maximumBytes)
        } catch FetchError.tooLarge {
            throw ManifestRefusal(member: "manifest", problem: "is longer than \(ManifestFormat.maximumBytes) bytes")
        }
    }

    /// The archive's address. A manifest from the network must not make a device read its own files.
    static func archiveURL(of manifest: Manifest, at manifestURL: FetchURL) throws -> FetchURL {
        let url: FetchURL
        do {
            url = try manifestURL.resolve(relative: manifest.url)
        } catch {
            throw ManifestRefusal(member: "manifest.url", problem: "cannot be fetched: \(error)")
        }
        if !manifestURL.isFile, !manifestURL.mayLead(to: url) {
            throw ManifestRefusal(
                member: "manifest.url",
                problem: "leads from \(manifestURL.scheme.rawValue) to \(url.scheme.rawValue), which is less protected")
        }
        return url
    }
}

extension ArchiveLimits {
    /// Refuses a release whose signed numbers exceed what this device takes, before the first byte of it.
    func admit(_ manifest: Manifest) throws(ArchiveRejection) {
        if let size = manifest.size, size > archiveBytes {
            throw ArchiveRejection(
                "archive-too-large",
                "the archive has \(ByteCount(bytes: size)), "
                    + "this device takes \(ByteCount(bytes: archiveBytes)) (--max-archive-size)")
        }
        if let size = manifest.installedSize, size > installedBytes {
            throw ArchiveRejection(
                "unpacked-too-large",
                "the files have \(ByteCount(bytes: size)), "
                    + "this device takes \(ByteCount(bytes: installedBytes)) (--max-installed-size)")
        }
        if let count = manifest.fileCount, count > entries {
            throw ArchiveRejection(
                "too-many-entries", "it has \(count) files, this device takes \(entries) (--max-files)")
        }
    }
}
