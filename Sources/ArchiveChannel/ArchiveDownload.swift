import BundleArchive
import BundleCore
public import BundleDisk
import BundleSigning

/// An archive on the disk whose every byte has been hashed to the digest that was signed; only `ArchiveDownload` makes one.
public struct VerifiedArchive: Sendable {
    /// The archive.
    public let file: File
    /// Its bytes.
    public let size: Int
    /// Body bytes taken from the network in this run.
    public let bytesDownloaded: Int

    fileprivate init(file: File, size: Int, bytesDownloaded: Int) {
        self.file = file
        self.size = size
        self.bytesDownloaded = bytesDownloaded
    }
}

/// Spools an archive, capped and hashed while it arrives, and goes on where an interrupted run stopped.
struct ArchiveDownload {
    /// Attempts in one run, as long as each brings something new.
    private static let attempts = 5

    private let url: FetchURL
    private let expected: SHA256Digest
    private let size: Int?
    private let maximumBytes: Int
    private let fetcher: any Fetcher
    private let downloads: Directory
    private let report: @Sendable (UpdateEvent) -> Void

    private var partName: String { expected.hex + ".part" }
    private var validatorName: String { expected.hex + ".validator" }

    init(
        _ manifest: Manifest, at url: FetchURL, limits: ArchiveLimits, fetcher: any Fetcher, into downloads: Directory,
        report: @escaping @Sendable (UpdateEvent) -> Void
    ) {
        self.url = url
        expected = manifest.sha256
        size = manifest.size
        maximumBytes = min(manifest.size ?? limits.archiveBytes, limits.archiveBytes)
        self.fetcher = fetcher
        self.downloads = downloads
        self.report = report
    }

    /// Brings the archive. On a transport failure what arrived is kept for the next run; bytes that are not the
    /// signed ones are removed.
    func run() async throws -> VerifiedArchive {
        try removeOthers()
        let part = try downloads.file(appending: partName)
        var network = 0
        var isSecondTry = false
        for attempt in 1...Self.attempts {
            let before = try part.size()
            do {
                let spool = try await fetch(into: part)
                network += spool.networkBytes
                if spool.isExpected(expected, size: size) {
                    return VerifiedArchive(file: part, size: spool.totalBytes, bytesDownloaded: network)
                }
                // A resumed part may be what is wrong: one more try from the first byte tells.
                try part.truncate(to: 0)
                if before == 0 || isSecondTry {
                    try remove()
                    throw spool.mismatch(expected, size: size, url: url)
                }
                isSecondTry = true
            } catch FetchError.httpStatus(416, _, _) where before > 0 && !isSecondTry {
                // There is nothing behind the part: it is complete, which only a stated size tells, or no good.
                try part.truncate(to: 0)
                try downloads.removeFile(validatorName)
                isSecondTry = true
            } catch let error as FetchError where error.isWorthAnotherTry {
                let now = try part.size()
                network += max(0, now - before)
                if attempt == Self.attempts || now <= before {
                    if now == 0 { try remove() }
                    throw error
                }
            } catch let error as FetchError {
                try remove()
                throw error
            } catch let error as DiskError {
                // A disk that the download filled must not stay full of it.
                try? remove()
                throw error
            }
        }
        throw FetchError.unreachable(url, reason: "it was cut off \(Self.attempts) times")
    }

    /// Ends the spool's life; the verified archive stays readable through its open file.
    func remove() throws {
        try downloads.removeFile(partName)
        try downloads.removeFile(validatorName)
    }

    private func removeOthers() throws {
        for name in try downloads.list() where name != partName && name != validatorName {
            // Folders are another channel's.
            if case .file? = try downloads.kind(of: name) { try downloads.removeFile(name) }
        }
    }

    private func fetch(into part: File) async throws -> Spool {
        var spool = try Spool(
            resuming: part, in: downloads, validatorName: validatorName, total: size, report: report)
        let resume = try storedValidator().flatMap { FetchRequest.Resume(offset: spool.totalBytes, validator: $0) }
        if resume == nil { try spool.restart() }
        let request = FetchRequest(url: url, maximumBytes: maximumBytes, resume: resume)
        if let size, spool.totalBytes == size {
            // Everything is here already: an interrupted run stopped between the last byte and the installation.
            try spool.seal()
            return spool
        }
        do {
            _ = try await fetcher.fetch(request, into: &spool)
        } catch {
            try spool.seal()
            throw error
        }
        try spool.seal()
        return spool
    }

    private func storedValidator() throws -> String? {
        guard let bytes = try downloads.contents(validatorName, maximumBytes: 4096) else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }
}

/// The growing file with the running digest of everything in it.
private struct Spool: FetchSink {
    private let part: File
    private let downloads: Directory
    private let validatorName: String
    private let total: Int?
    private let report: @Sendable (UpdateEvent) -> Void
    private var writer: SpoolWriter
    private var digest: SHA256Digest?
    private(set) var totalBytes = 0
    private(set) var networkBytes = 0

    /// Takes up what `part` holds already.
    init(
        resuming part: File, in downloads: Directory, validatorName: String, total: Int?,
        report: @escaping @Sendable (UpdateEvent) -> Void
    ) throws {
        self.part = part
        self.downloads = downloads
        self.validatorName = validatorName
        self.total = total
        self.report = report
        var hasher = try SHA256Hasher()
        totalBytes = try part.forEachBlock { try hasher.update($0) }
        try part.truncate(to: totalBytes)
        writer = try SpoolWriter(part, hasher: hasher)
    }

    /// Throws away what the file holds.
    mutating func restart() throws {
        _ = try writer.finish()
        try part.truncate(to: 0)
        totalBytes = 0
        writer = try SpoolWriter(part, hasher: try SHA256Hasher())
    }

    mutating func begin(_ head: FetchHead) throws {
        if head.rangeStart != totalBytes {
            try restart()
            try downloads.removeFile(validatorName)
            if let validator = head.validator {
                try Array(validator.utf8).withUnsafeBytes { try downloads.createFile(validatorName, $0) }
            }
        }
        report(.downloading(bytes: totalBytes, of: total))
    }

    mutating func receive(_ bytes: UnsafeRawBufferPointer) throws {
        try writer.append(bytes)
        totalBytes += bytes.count
        networkBytes += bytes.count
        report(.downloading(bytes: totalBytes, of: total))
    }

    /// Waits until everything received is in the file, also after a failure: the next attempt goes on there.
    mutating func seal() throws { digest = try writer.finish() }

    func isExpected(_ expected: SHA256Digest, size: Int?) -> Bool {
        digest == expected && (size == nil || size == totalBytes)
    }

    func mismatch(_ expected: SHA256Digest, size: Int?, url: FetchURL) -> UpdateFailure {
        if let size, size != totalBytes {
            return UpdateFailure(
                .sizeMismatch, subject: url.display,
                "The archive at \(url.display) has \(totalBytes) bytes, \(size) were signed: "
                    + "the server or something on the way changed it.")
        }
        return UpdateFailure(
            .digestMismatch, subject: url.display,
            "The archive at \(url.display) is not the one that was signed (SHA-256 \(digest?.hex ?? "") instead of "
                + "\(expected.hex)): the server or something on the way changed it.")
    }
}

extension FetchError {
    /// Whether going on from the partial file may help.
    fileprivate var isWorthAnotherTry: Bool {
        switch self {
        case .unreachable, .tooSlow, .timedOut: true
        case .httpStatus(let status, _, _): status >= 500 || status == 408 || status == 429
        default: false
        }
    }
}
