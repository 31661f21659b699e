import CArchive
import Glibc

/// Reads the entries of one archive, in order, straight through. Never touches the disk but for the descriptor it reads.
///
/// libarchive's readers are cut to tar and the seekable zip; its filters to the one that the format names. Every answer
/// of the library but OK is a refusal. The process must have chosen the C.UTF-8 character set before.
public final class ArchiveReader {
    /// The archive's format.
    public let format: ArchiveFormat

    private let archive: OpaquePointer
    private let descriptor: Int32
    private let size: Int
    private let source: TarSource?
    private let zipEntries: Int?
    private var entriesRead = 0
    private var dataOffset: Int64 = 0

    /// Opens the archive that `descriptor` is positioned on; the descriptor must stay open for the life of the reader.
    public init(descriptor: Int32, size: Int, format: ArchiveFormat) throws(ArchiveFailure) {
        self.descriptor = descriptor
        self.size = size
        self.format = format
        guard let archive = archive_read_new() else { throw .system(operation: "open", code: ENOMEM) }
        self.archive = archive
        if size == 0 {
            archive_read_free(archive)
            throw .unsupportedFormat("the file is empty")
        }
        do {
            zipEntries = format == .zip ? try ZipDirectoryEnd.entryCount(descriptor: descriptor, size: size) : nil
            source = format == .tarZstd ? TarSource(ReadAhead(try ZstdStream(descriptor: descriptor))) : nil
        } catch {
            archive_read_free(archive)
            throw error
        }
        try configure()
        try open()
    }

    deinit {
        source?.decoded.stop()
        archive_read_free(archive)
    }

    private func configure() throws(ArchiveFailure) {
        switch format {
        case .tar, .tarZstd: try require(archive_read_support_format_tar(archive))
        case .tarGzip:
            try require(archive_read_support_format_tar(archive))
            try require(archive_read_append_filter(archive, ARCHIVE_FILTER_GZIP))
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
    public func nextEntry() throws(ArchiveFailure) -> ArchiveEntry? {
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
        return describe(entry)
    }

    private func describe(_ entry: OpaquePointer) -> ArchiveEntry {
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
            isEncrypted: archive_entry_is_encrypted(entry) != 0,
            isSparse: archive_entry_sparse_count(entry) != 0,
            isMethodSupported: format != .zip || kind == .directory || isZipMethodSupported)
    }

    /// The name, only where both of the library's views of it are the same bytes.
    private func name(of entry: OpaquePointer) -> [UInt8]? {
        guard let utf8 = archive_entry_pathname_utf8(entry), let raw = archive_entry_pathname(entry),
            strcmp(utf8, raw) == 0
        else { return nil }
        return Array(UnsafeRawBufferPointer(start: utf8, count: strlen(utf8)))
    }

    /// libarchive names the method of the entry in the format's name only: "ZIP 2.0 (deflation)".
    private var isZipMethodSupported: Bool {
        guard let name = archive_format_name(archive) else { return false }
        let text = String(cString: name)
        return text.hasSuffix("(deflation)") || text.hasSuffix("(uncompressed)")
    }

    /// The next block of the current entry's data, valid until the next call; nil at its end.
    ///
    /// Blocks follow each other without holes; a hole is refused.
    public func nextBlock() throws(ArchiveFailure) -> UnsafeRawBufferPointer? {
        var start: UnsafeRawPointer?
        var count = 0
        var offset: Int64 = 0
        let status = archive_read_data_block(archive, &start, &count, &offset)
        if status == ARCHIVE_EOF { return nil }
        try require(status)
        if offset != dataOffset { throw .corrupt("an entry's data has holes") }
        dataOffset += Int64(count)
        return UnsafeRawBufferPointer(start: start, count: count)
    }

    /// Bytes taken from the file so far, and bytes that came out of decompression.
    public var progress: (consumed: Int, produced: Int) {
        if let source { return (source.decoded.consumedEstimate, source.decoded.produced) }
        return (Int(archive_filter_bytes(archive, -1)), Int(archive_filter_bytes(archive, 0)))
    }

    private func requireEnd() throws(ArchiveFailure) {
        if let failure = source?.failure { throw failure }
        if let zipEntries, zipEntries != entriesRead {
            throw .zipStructure("its directory counts \(zipEntries) entries, \(entriesRead) were found")
        }
        if format == .tarGzip || format == .tar {
            // Reading on to the end makes the filter see what stands behind its stream.
            if archive_filter_bytes(archive, -1) != Int64(size) { throw .trailingData }
        }
        if format == .tarZstd, let source, try !source.decoded.read().isEmpty { throw .trailingData }
        try require(archive_read_close(archive))
    }

    private func require(_ status: Int32) throws(ArchiveFailure) {
        if status == ARCHIVE_OK { return }
        if let failure = source?.failure { throw failure }
        let detail = archive_error_string(archive).map { String(cString: $0) } ?? "code \(status)"
        if detail.hasPrefix("Unrecognized archive format") { throw .unsupportedFormat(detail) }
        throw .corrupt(detail)
    }
}

/// libarchive's view of the decoded stream. Keeps the typed failure, which the C callback cannot carry.
private final class TarSource {
    let decoded: ReadAhead
    private(set) var failure: ArchiveFailure?

    init(_ decoded: ReadAhead) { self.decoded = decoded }

    func next(_ block: UnsafeMutablePointer<UnsafeRawPointer?>) -> Int {
        do {
            let bytes = try decoded.read()
            block.pointee = bytes.baseAddress
            return bytes.count
        } catch {
            failure = error
            return -1
        }
    }
}
