import BundleValues
import CArchive
import CLibrary

/// A source of entries in order: an archive, or a delta with its base.
package protocol EntryReader: AnyObject {
    /// Returns the next entry. At the end it checks that the whole file was read and that no bytes follow, and returns
    /// nil.
    func nextEntry() throws(ArchiveFailure) -> ArchiveEntry?
    /// Returns the next block of the current entry, valid until the next call; nil at its end.
    func nextBlock() throws(ArchiveFailure) -> UnsafeRawBufferPointer?
}

/// Reads the entries of an archive in order. It reads only its descriptor and writes nothing.
///
/// libarchive reads only tar and seekable zip here, without filters; this package decodes compressed streams itself. Any
/// result of libarchive except OK is an error. The process must use the C.UTF-8 character set.
package final class ArchiveReader: EntryReader {
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

    /// Opens the archive in the first `size` bytes of `descriptor`, which must stay open while the reader exists.
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
            let stream = format == .tar ? nil : try format.tarStream(descriptor: descriptor)
            source = try stream.map { stream throws(ArchiveFailure) in
                TarSource(try ReadAhead(stream), limits: limits)
            }
        } catch {
            archive_read_free(archive)
            throw error
        }
        try configure()
        try open()
    }

    deinit { archive_read_free(archive) }

    private func configure() throws(ArchiveFailure) {
        switch format {
        case .tar, .tarGzip, .tarZstd: try require(archive_read_support_format_tar(archive))
        case .zip: try require(archive_read_support_format_zip_seekable(archive))
        }
        // libarchive then reports names that are not UTF-8, and reads past the end marker of a tar, so that the reader
        // can reject data there.
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
                return Unmanaged<TarSource>.fromOpaque(context).takeUnretainedValue().next(block)
            }, nil)
        try require(status)
    }

    package func nextEntry() throws(ArchiveFailure) -> ArchiveEntry? {
        var entry: OpaquePointer?
        // libarchive reads errno after a failed conversion of a name and mistakes an old ENOMEM for the cause.
        errno = 0
        let status = archive_read_next_header(archive, &entry)
        if status == ARCHIVE_EOF {
            try requireEnd()
            return nil
        }
        try require(status)
        guard let entry else { throw .corrupt("an entry without a header") }
        entriesRead += 1
        dataOffset = 0
        return describe(entry, listedAs: try zipEntry())
    }

    /// Returns the directory entry of the current file. libarchive reads files in the order of the archive.
    private func zipEntry() throws(ArchiveFailure) -> ZipDirectory.ZipEntry? {
        guard let zip else { return nil }
        guard entriesRead <= zip.entries.count else { throw .zipStructure("more files than its directory lists") }
        return zip.entries[entriesRead - 1]
    }

    private func describe(_ entry: OpaquePointer, listedAs listed: ZipDirectory.ZipEntry?) -> ArchiveEntry {
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

    /// Returns the name if both representations in libarchive have the same bytes.
    private func name(of entry: OpaquePointer) -> [UInt8]? {
        guard let utf8 = archive_entry_pathname_utf8(entry), let raw = archive_entry_pathname(entry),
            strcmp(utf8, raw) == 0
        else { return nil }
        return Array(UnsafeRawBufferPointer(start: utf8, count: strlen(utf8)))
    }

    /// Throws if the data has holes.
    package func nextBlock() throws(ArchiveFailure) -> UnsafeRawBufferPointer? {
        var start: UnsafeRawPointer?
        var count = 0
        var offset: Int64 = 0
        let status = archive_read_data_block(archive, &start, &count, &offset)
        if status == ARCHIVE_EOF { return nil }
        try require(status)
        if offset != dataOffset { throw .corrupt("the data of an entry has holes") }
        dataOffset += Int64(count)
        dataBytes += count
        // A source counts its decoded bytes itself.
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
            // The decoder checks the end of its stream only when it reads past it.
            if try !source.decoded.read().isEmpty { throw .trailingData }
        }
        try require(archive_read_close(archive))
    }

    /// Error numbers of the machine. libarchive reports faults of the archive by its own codes.
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

/// The decoded stream for libarchive. It counts the bytes after the tar's end marker too, and stores a failure, which the
/// C callback cannot return.
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

/// Decodes on a separate thread, a few blocks ahead of the reader, so that decompression overlaps with later steps.
private final class ReadAhead {
    private static let blocks = 3

    /// Unchecked Sendable: one side owns a block at a time.
    private final class DecodedBlock: @unchecked Sendable {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 * 1024, alignment: 4096)
        var count = 0
        /// The compressed bytes consumed up to this block, at most.
        var consumed = 0

        deinit { room.deallocate() }
    }

    private let empty: Pipe<DecodedBlock, ArchiveFailure>
    private let filled = Pipe<DecodedBlock, ArchiveFailure>(capacity: blocks)
    private let decoder: PipeStage
    private var held: DecodedBlock?
    /// The compressed bytes consumed for the returned blocks, at most.
    private(set) var consumedEstimate = 0
    /// The decoded bytes returned so far.
    private(set) var produced = 0

    init(_ source: any DecodingStream) throws(ArchiveFailure) {
        empty = Pipe(capacity: Self.blocks, holding: (0..<Self.blocks).map { _ in DecodedBlock() })
        // Only the decoding thread uses it from here on.
        nonisolated(unsafe) let source = source
        do {
            decoder = try PipeStage(from: empty, to: filled) { block throws(ArchiveFailure) in
                block.count = try source.read(into: block.room)
                block.consumed = source.consumed
                return block.count == 0 ? nil : block
            }
        } catch {
            throw .system(operation: "start a thread for", code: error.code)
        }
    }

    /// Returns the next decoded bytes, valid until the next call; empty at the end.
    func read() throws(ArchiveFailure) -> UnsafeRawBufferPointer {
        // A decoder that ended receives no more blocks. Its result follows the blocks that it filled.
        if let held { empty.sendNow(held) }
        held = try filled.receive()
        guard let held else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        produced += held.count
        consumedEstimate = held.consumed
        return UnsafeRawBufferPointer(rebasing: held.room[..<held.count])
    }
}
