package import BundleCore
package import BundleDisk
package import BundleValues

/// The archives of a feed, from which files of installed releases are restored.
package struct FeedArchives: ReleaseArchives {
    private let source: FeedAddress
    private let limits: ArchiveLimits
    private let fetcher: any Fetcher
    private let report: UpdateObserver
    private let gate: FetchGate

    package init(
        source: FeedAddress, limits: ArchiveLimits, fetcher: any Fetcher, gate: FetchGate = FetchGate(),
        report: UpdateObserver
    ) {
        self.source = source
        self.limits = limits
        self.fetcher = fetcher
        self.gate = gate
        self.report = report
    }

    /// Downloads the archive that `manifest`, from a receipt, names, and extracts `files` from it. Returns the number
    /// of downloaded bytes.
    package func fetch(
        _ files: [BundlePath: String], of manifest: JSONValue, into folder: Directory, downloads: Directory
    ) async throws -> Int {
        let manifest = try ManifestFormat.parse(JSONWriter.bytes(of: manifest)).claims
        try limits.admit(manifest)
        let download = ArchiveDownload(
            manifest, at: try ManifestRequest.archiveURL(of: manifest, at: source.url), limits: limits,
            fetcher: fetcher,
            into: downloads, report: report)
        let archive = try await gate.admit(FetchTerms(), load: .archive, bytes: download.missingBytes) {
            try await download.run()
        }
        let limits = limits.lowered(by: manifest)
        try await onThread {
            _ = try ArchiveContents.walk(
                archive.file, size: archive.size, expectedFiles: manifest.fileCount,
                requiring: manifest.requiredFiles, limits: limits,
                into: PickingSink(files: files, folder: folder))
        }
        try download.remove()
        return archive.bytesDownloaded
    }
}

/// Writes only the requested files.
private struct PickingSink: EntrySink {
    let files: [BundlePath: String]
    let folder: Directory
    private var file: File?

    init(files: [BundlePath: String], folder: Directory) {
        self.files = files
        self.folder = folder
    }

    mutating func addDirectory(_ path: BundlePath) {}

    mutating func beginFile(_ path: BundlePath, size: Int) throws {
        file = try files[path].map { try folder.file(creating: $0) }
    }

    mutating func append(_ bytes: UnsafeRawBufferPointer) throws { try file?.write(bytes) }
    mutating func endFile() { file = nil }
    func abandon() {}
}
