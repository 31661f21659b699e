import BundleCore
import BundleValues
package import BundleDisk
import BundleTransport
import BundleSigning
import Synchronization

/// An archive on the disk whose bytes have the signed digest. Only `ArchiveDownload` makes one.
package struct VerifiedArchive: Sendable {
    package let file: File
    /// The size in bytes.
    package let size: Int
    /// The body bytes that this run downloaded.
    package let bytesDownloaded: Int

    fileprivate init(file: File, size: Int, bytesDownloaded: Int) {
        self.file = file
        self.size = size
        self.bytesDownloaded = bytesDownloaded
    }
}

/// A file with a signed digest. `name` is its name in messages, such as "archive".
struct SignedFile: Sendable {
    let name: String
    let sha256: SHA256Digest
    let size: Int?
}

/// Downloads an archive or a delta to the disk, limits and hashes it on arrival, and resumes an interrupted run.
struct ArchiveDownload {
    private let job: DownloadJob
    private let spool: ArchiveSpool
    private let fetcher: any Fetcher
    let downloads: Directory

    init(
        _ manifest: Manifest, at url: FetchURL, limits: ArchiveLimits, fetcher: any Fetcher, into downloads: Directory,
        report: UpdateObserver
    ) {
        self.init(
            SignedFile(name: "archive", sha256: manifest.sha256, size: manifest.size), at: url,
            maximumBytes: limits.archiveBytes, fetcher: fetcher, into: downloads, report: report)
    }

    init(
        _ delta: DeltaList.Delta, at url: FetchURL, fetcher: any Fetcher, into downloads: Directory,
        report: UpdateObserver
    ) {
        self.init(
            SignedFile(name: "delta", sha256: delta.sha256, size: delta.size), at: url, maximumBytes: delta.size,
            fetcher: fetcher, into: downloads, report: report)
    }

    init(
        _ file: SignedFile, at url: FetchURL, maximumBytes: Int, fetcher: any Fetcher, into downloads: Directory,
        report: UpdateObserver
    ) {
        var job = DownloadJob(url: url, maximumBytes: min(file.size ?? maximumBytes, maximumBytes)) {
            try ArchiveInspector(file, at: url)
        }
        job.size = file.size
        job.mayBeEncoded = true
        job.isContentSigned = true
        self.job = job
        spool = ArchiveSpool(file, in: downloads, report: report)
        self.fetcher = fetcher
        self.downloads = downloads
        digest = file.sha256
    }

    private let digest: SHA256Digest

    /// The signed size; nil if the manifest has none.
    var size: Int? { job.size }

    /// The bytes that are not on the disk yet; nil if the size is unknown.
    var missingBytes: Int? {
        guard let size = job.size else { return nil }
        guard case .file(let part)? = try? downloads.kind(of: digest.hex + ArchiveSpool.partSuffix) else { return size }
        return max(0, size - part)
    }

    /// Returns whether the downloads folder has a part of the file with this digest.
    static func hasPart(of digest: SHA256Digest, in downloads: Directory) throws -> Bool {
        try downloads.kind(of: digest.hex + ArchiveSpool.partSuffix) != nil
    }

    /// Resumes at once as long as each attempt receives bytes. Later retries are the caller's decision.
    private static var policy: DownloadPolicy {
        var policy = DownloadPolicy()
        policy.requests = 1
        policy.attempts = 1
        policy.retries = 4
        policy.longestWait = .zero
        policy.pieces = 3
        return policy
    }

    /// Downloads the file. Keeps the part for the next run if the transport fails, and removes bytes that differ from
    /// the signed ones.
    func run() async throws -> VerifiedArchive {
        try spool.removeOthers()
        return try await run(job, with: fetcher)
    }

    /// Downloads a copy of the file at `url` with the fetcher for mirrors.
    func run(at url: FetchURL, with fetcher: any Fetcher) async throws -> VerifiedArchive {
        try spool.removeOthers()
        return try await run(job.moved(to: url), with: fetcher)
    }

    /// The bytes that this download received in all its runs.
    var receivedBytes: Int { spool.receivedBytes }

    private func run(_ job: DownloadJob, with fetcher: any Fetcher) async throws -> VerifiedArchive {
        let downloaded: DownloadedFiles
        do {
            downloaded = try await Downloader(to: spool, fetcher: fetcher, policy: Self.policy).run([job])
        } catch let failed as FailedJob {
            throw failed.cause
        }
        guard let file = spool.complete, let receipt = downloaded.files.first?.receipt else {
            throw UpdateFailure(
                .internal, subject: job.url.display, "\(job.url.display) was not checked. Please report it.")
        }
        return VerifiedArchive(file: file, size: receipt.size, bytesDownloaded: downloaded.bytesFromNetwork)
    }

    /// Removes the file on the disk. The verified archive stays readable through its open file.
    func remove() throws { try spool.remove() }
}

/// The partial file of one download, named for its signed digest.
final class ArchiveSpool: DownloadPlaces {
    /// The name suffix of an incomplete file.
    static let partSuffix = ".part"
    /// The name suffix of the record of a refused delta. The digest before it is that of the delta.
    static let refusedSuffix = ".refused"

    private let folder: Directory
    private let digest: SHA256Digest
    private let size: Int?
    private let report: UpdateObserver
    private let placed = Mutex<File?>(nil)
    private let received = Mutex(0)

    init(_ file: SignedFile, in folder: Directory, report: UpdateObserver) {
        self.folder = folder
        digest = file.sha256
        size = file.size
        self.report = report
    }

    private var partName: String { digest.hex + Self.partSuffix }

    /// The accepted file; nil until `place` has run.
    var complete: File? { placed.withLock { $0 } }
    /// The bytes that were received so far.
    var receivedBytes: Int { received.withLock { $0 } }

    /// A file that cannot be removed stays until a later download.
    func removeOthers() throws {
        for name in try folder.list()
        where name != partName && !name.hasSuffix(Self.refusedSuffix) && !name.hasSuffix(MirrorMemory.suffix) {
            // Folders belong to another source.
            if case .file? = try folder.kind(of: name) { try? folder.removeFile(name) }
        }
    }

    func remove() throws { try folder.removeFile(partName) }

    func hasEarlierPart(of job: Int) throws -> Bool { try folder.kind(of: partName) != nil }

    func earlierPart(of job: Int) throws -> PartFile? {
        try PartFile(resuming: partName, in: folder, validator: nil)
    }

    func beginPart(of job: Int, validator: String?) throws -> PartFile {
        try remove()
        return PartFile(name: partName, file: try folder.file(creating: partName, mode: 0o600), validator: nil)
    }

    func place(_ part: PartFile, of job: Int, _ receipt: DownloadReceipt) { placed.withLock { $0 = part.file } }

    func remove(_ part: PartFile) throws { try remove() }

    /// The caller has compared the free space with the space for the whole release.
    func requireRoom() {}

    func received(_ count: Int, reached: Int) {
        received.withLock { $0 += count }
        report(.downloading(bytes: reached, of: size))
    }
}

/// Compares size and digest of a download with the signed ones.
private final class ArchiveInspector: DownloadInspector {
    private let file: SignedFile
    private let url: FetchURL
    private var hasher: SHA256Hasher
    private var size = 0
    private var first: UInt8?

    init(_ file: SignedFile, at url: FetchURL) throws {
        self.file = file
        self.url = url
        hasher = try SHA256Hasher()
    }

    func begin(_ head: FetchHead) {}

    func update(_ bytes: UnsafeRawBufferPointer) throws {
        try hasher.update(bytes)
        size += bytes.count
        first = first ?? bytes.first
    }

    func finish() throws -> DownloadReceipt {
        let digest = try hasher.finish()
        let cause =
            first == UInt8(ascii: "<")
            ? "it is a web page, perhaps the login page of a network."
            : url.isFile ? "it is damaged. Copy the feed again." : "the server or a proxy changed it."
        if let signed = file.size, signed != size {
            throw UpdateFailure(
                .sizeMismatch, subject: url.display,
                "The \(file.name) at \(url.display) has \(size) bytes, but \(signed) were signed: \(cause)")
        }
        if digest != file.sha256 {
            throw UpdateFailure(
                .digestMismatch, subject: url.display,
                "The \(file.name) at \(url.display) is not the one that was signed (SHA-256 \(digest.hex) instead of "
                    + "\(file.sha256.hex)): \(cause)")
        }
        return DownloadReceipt(size: size, sha256: digest, evidence: "signed")
    }
}
