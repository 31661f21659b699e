import CArchive
import Glibc

/// Reads the entries of one archive, in order, straight through. Never touches the disk but for the descriptor it reads.
///
/// libarchive's readers are cut to tar and the seekable zip, and it has no filters: what is compressed is decoded here.
/// Every answer of the library but OK is a refusal. The process must have chosen the C.UTF-8 character set before.
package final class ArchiveReader {
    /// The archive's format.
    package let format: ArchiveFormat

    private let archive: OpaquePointer
    private let descriptor: Int32
    private let size: Int
    private let limits: DecodingLimits
    private let source: TarSource?
    private let zip: ZipDirectory?
    private var entriesRead = 0
    private var dataOffset: Int64 = 0
    private var dataBytes = 0

    /// Opens the archive that is the `size` bytes of `descriptor`, which must stay open for the life of the reader.
    package init(
        descriptor: Int32, size: Int, format: ArchiveFormat, limits: DecodingLimits
    ) throws(ArchiveFailure) {
        self.descriptor = descriptor
        self.size = size
        self.limits = limits
        self.format = format
        guard let archive = archive_read_new() else { throw .system(operation: "open", code: ENOMEM) }
        self.archive = archive
        if size == 0 {
            archive_read_free(archive)
            throw .unsupportedFormat("the file is empty")
        }
        do {
            zip = format == .zip ? try ZipDirectory(descriptor: descriptor, size: size) : nil
            source = try Self.source(descriptor, format, limits)
        } catch {
            archive_read_free(archive)
            throw error
        }
        try configure()
        try open()
    }

    private static func source(
        _ descriptor: Int32, _ format: ArchiveFormat, _ limits: DecodingLimits
    ) throws(ArchiveFailure) -> TarSource? {
        guard let decoder = try decoder(of: descriptor, format) else { return nil }
        return TarSource(try ReadAhead(decoder), limits: limits)
    }

    private static func decoder(
        of descriptor: Int32, _ format: ArchiveFormat
    ) throws(ArchiveFailure) -> (any DecodingStream)? {
        switch format {
        case .tar, .zip: nil
        case .tarGzip: try GzipStream(descriptor: descriptor)
        case .tarZstd: try ZstdStream(descriptor: descriptor)
        }
    }

    deinit { archive_read_free(archive) }

    private func configure() throws(ArchiveFailure) {
        switch format {
        case .tar, .tarGzip, .tarZstd: try require(archive_read_support_format_tar(archive))
        case .zip: try require(archive_read_support_format_zip_seekable(archive))
        }
        // What is not UTF-8 becomes an error, and what lies behind a tar's end marker is read, so that it can be refused.
        let options = format == .zip ? "zip:hdrcharset=UTF-8" : "tar:hdrcharset=UTF-8,tar:read_concatenated_archives"
        try require(archive_read_set_options(archive, options))
    }

    private func open() throws(ArchiveFailure) {
        guard let source else {
            if lseek(descriptor, 0, SEEK_SET) < 0 { throw .system(operation: "read", code: errno) }
            try require(archive_read_open_fd(archive, descriptor, 256 * 1024))
            return
        }
        let status = archive_read_open(
            archive, Unmanaged.passUnretained(source).toOpaque(), nil,
            { archive, context, block in
                guard let context, let block else { return -1 }
                let source = Unmanaged<TarSource>.fromOpaque(context).takeUnretainedValue()
                return source.next(block)
            }, nil)
        try require(status)
    }

    /// The next entry; nil after the last one, when the whole file has been read and nothing stands behind the end.
    package func nextEntry() throws(ArchiveFailure) -> ArchiveEntry? {
        var entry: OpaquePointer?
        let status = archive_read_next_header(archive, &entry)
        if status == ARCHIVE_EOF {
            try requireEnd()
            return nil
        }
        try require(status)
        guard let entry else { throw .corrupt("an entry without a header") }
        entriesRead += 1
        dataOffset = 0
        return describe(entry, try zipEntry())
    }

    /// What the zip's directory says about the entry just read; the library reads them in the order of the file.
    private func zipEntry() throws(ArchiveFailure) -> ZipDirectory.Entry? {
        guard let zip else { return nil }
        guard entriesRead <= zip.entries.count else { throw .zipStructure("more files than its directory lists") }
        return zip.entries[entriesRead - 1]
    }

    private func describe(_ entry: OpaquePointer, _ listed: ZipDirectory.Entry?) -> ArchiveEntry {
        let type = archive_entry_filetype(entry)
        let kind: ArchiveEntry.Kind
        if archive_entry_hardlink(entry) != nil {
            kind = .hardLink
        } else if archive_entry_symlink(entry) != nil || carchive_is_symlink(type) != 0 {
            kind = .symbolicLink
        } else if carchive_is_file(type) != 0 {
            kind = .file
        } else if carchive_is_directory(type) != 0 {
            kind = .directory
        } else {
            kind = .special
        }
        return ArchiveEntry(
            name: name(of: entry),
            kind: kind,
            size: archive_entry_size_is_set(entry) != 0 ? Int(archive_entry_size(entry)) : nil,
            isEncrypted: archive_entry_is_encrypted(entry) != 0 || listed?.isEncrypted == true,
            isSparse: archive_entry_sparse_count(entry) != 0,
            isMethodSupported: listed?.isMethodSupported ?? true)
    }

    /// The name, only where both of the library's views of it are the same bytes.
    private func name(of entry: OpaquePointer) -> [UInt8]? {
        guard let utf8 = archive_entry_pathname_utf8(entry), let raw = archive_entry_pathname(entry),
            strcmp(utf8, raw) == 0
        else { return nil }
        return Array(UnsafeRawBufferPointer(start: utf8, count: strlen(utf8)))
    }

    /// The next block of the current entry's data, valid until the next call; nil at its end.
    ///
    /// Blocks follow each other without holes; a hole is refused.
    package func nextBlock() throws(ArchiveFailure) -> UnsafeRawBufferPointer? {
        var start: UnsafeRawPointer?
        var count = 0
        var offset: Int64 = 0
        let status = archive_read_data_block(archive, &start, &count, &offset)
        if status == ARCHIVE_EOF { return nil }
        try require(status)
        if offset != dataOffset { throw .corrupt("an entry's data has holes") }
        dataOffset += Int64(count)
        dataBytes += count
        // Where there is a source, it has counted every decoded byte already.
        if source == nil {
            try limits.check(consumed: Int(archive_filter_bytes(archive, -1)), produced: dataBytes)
        }
        return UnsafeRawBufferPointer(start: start, count: count)
    }

    private func requireEnd() throws(ArchiveFailure) {
        if let zip, zip.entries.count != entriesRead {
            throw .zipStructure("its directory lists \(zip.entries.count) files, \(entriesRead) were found")
        }
        if format == .tar, archive_filter_bytes(archive, -1) != Int64(size) { throw .trailingData }
        if let source {
            if let failure = source.failure { throw failure }
            // Reading on to the end makes the decoder see what stands behind its stream.
            if try !source.decoded.read().isEmpty { throw .trailingData }
        }
        try require(archive_read_close(archive))
    }

    /// What the machine cannot do, whatever the archive holds; the library has codes of its own for what it does not like.
    private static let localCodes = [ENOMEM, EIO, EBADF, EFAULT, EISDIR]

    private func require(_ status: Int32) throws(ArchiveFailure) {
        if status == ARCHIVE_OK { return }
        if let failure = source?.failure { throw failure }
        let code = archive_errno(archive)
        if Self.localCodes.contains(code) { throw .system(operation: "read", code: code) }
        let detail = archive_error_string(archive).map { String(cString: $0) } ?? "code \(status)"
        if detail.hasPrefix("Unrecognized archive format") { throw .unsupportedFormat(detail) }
        throw .corrupt(detail)
    }
}

/// libarchive's view of the decoded stream: counts it, also behind the tar's end marker, and keeps the typed failure,
/// which the C callback cannot carry.
private final class TarSource {
    let decoded: ReadAhead
    private let limits: DecodingLimits
    private(set) var failure: ArchiveFailure?

    init(_ decoded: ReadAhead, limits: DecodingLimits) {
        self.decoded = decoded
        self.limits = limits
    }

    func next(_ block: UnsafeMutablePointer<UnsafeRawPointer?>) -> Int {
        do {
            let bytes = try decoded.read()
            try limits.check(consumed: decoded.consumedEstimate, produced: decoded.produced)
            block.pointee = bytes.baseAddress
            return bytes.count
        } catch {
            failure = error
            return -1
        }
    }
}

/// One entry as the archive states it: raw and untrusted.
package struct ArchiveEntry: Sendable {
    /// What the entry claims to be.
    package enum Kind: String, Sendable { case file, directory, symbolicLink, hardLink, special }

    /// The name's bytes; nil where they are not text the library can hand over unchanged.
    package let name: [UInt8]?
    /// What it claims to be.
    package let kind: Kind
    /// Stated size in bytes; nil where the archive does not say.
    package let size: Int?
    /// Whether its data is encrypted.
    package let isEncrypted: Bool
    /// Whether it has holes.
    package let isSparse: Bool
    /// Whether its compression is one that this tool reads (zip: stored and deflate).
    package let isMethodSupported: Bool
}
