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
        /// The deltas that lead to it, each of them what was signed.
        package let deltas: [DeltaList.Entry]
        fileprivate let archive: File
        fileprivate let scratch: Directory
        fileprivate let limits: ArchiveLimits
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
        let deltas = try await self.deltas(of: manifest, at: url)
        return Report(
            manifest: verified, contentSha256: content, deltas: deltas, archive: archive.file, scratch: scratch,
            limits: limits)
    }

    /// Every delta that the release's list names, fetched and compared with it; none where there is no list.
    private func deltas(of manifest: Manifest, at archiveURL: FetchURL) async throws -> [DeltaList.Entry] {
        let bytes: [UInt8]
        do {
            bytes = try await fetcher.fetchBytes(
                try archiveURL.resolve(relative: DeltaListFormat.fileName), maximumBytes: DeltaListFormat.maximumBytes)
        } catch let error as FetchError where error.isAbsence {
            return []
        }
        let envelope = try DeltaListFormat.envelope(parsing: bytes)
        let list = try DeltaListFormat.verify(envelope, of: manifest, trusted: trusted)
        let folder = try scratch.directory(creating: "deltas")
        for delta in list.deltas {
            let url = try archiveURL.resolve(relative: delta.url)
            let download = ArchiveDownload(delta, at: url, fetcher: fetcher, into: folder, report: { _ in })
            _ = try await download.run()
            try download.remove()
        }
        return list.deltas
    }

    /// Refuses a folder whose content is not what `report` describes, and says what differs.
    package static func require(_ tree: CanonicalTree, rebuilds report: Report) throws {
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
                "\(tree.folder.path) is not what was released as \(report.manifest.version): its content is \(found.hex), "
                    + "released was \(report.contentSha256.hex). These files differ: "
                    + "\(differences.prefix(20).map(\.words).joined(separator: ", "))\(more)."),
            files: differences)
    }
}

/// A folder whose content is not that of a release.
package struct RebuildDifference: ClassifiedFailure {
    /// How a file differs from the release.
    package enum Kind: String, Sendable {
        /// Both have it, with other bytes.
        case changed
        /// The folder lacks it.
        case missing
        /// The release lacks it.
        case notReleased
    }

    /// A file that differs.
    package struct File: Sendable {
        /// Its path.
        package let path: BundlePath
        /// How it differs.
        package let kind: Kind

        fileprivate var words: String {
            switch kind {
            case .changed: path.string
            case .missing: "\(path) (missing)"
            case .notReleased: "\(path) (not released)"
            }
        }
    }

    /// The refusal, which names some of the files.
    package let failure: UpdateFailure
    /// All files that differ, in their order.
    package let files: [File]
}

extension CanonicalTree {
    /// The files that differ from those of `released`, in their order.
    fileprivate func differences(from released: CanonicalTree) throws -> [RebuildDifference.File] {
        let mine = Dictionary(uniqueKeysWithValues: entries.map { ($0.path, $0) })
        let theirs = Dictionary(uniqueKeysWithValues: released.entries.map { ($0.path, $0) })
        return try Set(mine.keys).union(theirs.keys).sorted().compactMap { path in
            guard let one = mine[path] else { return RebuildDifference.File(path: path, kind: .missing) }
            guard let other = theirs[path] else { return RebuildDifference.File(path: path, kind: .notReleased) }
            let isSame = try one.size == other.size && digest(of: path) == released.digest(of: path)
            return isSame ? nil : RebuildDifference.File(path: path, kind: .changed)
        }
    }

    private func digest(of path: BundlePath) throws -> SHA256Digest {
        var hasher = try SHA256Hasher()
        _ = try folder.file(path.string).forEachBlock { try hasher.update($0) }
        return try hasher.finish()
    }
}
