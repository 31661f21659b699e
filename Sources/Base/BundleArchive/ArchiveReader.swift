import BundleThreads
import CArchive
import Glibc

/// Entries in order, whatever they come out of: an archive, or a delta and what is installed.
package protocol EntryReader: AnyObject {
    /// The next entry; nil after the last one, when everything has been read and nothing stands behind the end.
    func nextEntry() throws(ArchiveFailure) -> ArchiveEntry?
    /// The next block of the current entry's data, valid until the next call; nil at its end.
    func nextBlock() throws(ArchiveFailure) -> UnsafeRawBufferPointer?
}

/// Reads the entries of one archive, in order, straight through. Never touches the disk but for the descriptor it reads.
///
/// libarchive's readers are cut to tar and the seekable zip, and it has no filters: what is compressed is decoded here.
/// Every answer of the library but OK is a refusal. The process must have chosen the C.UTF-8 character set before.
package final class ArchiveReader: EntryReader {
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
        // Where a name cannot be converted, libarchive takes ENOMEM for the reason, even if an earlier call has left it there.
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

extension ArchiveEntry {
    /// A plain file of `size` bytes.
    package init(fileNamed name: [UInt8], size: Int) {
        self.init(name: name, kind: .file, size: size, isEncrypted: false, isSparse: false, isMethodSupported: true)
    }
}

/// The tar inside an archive as plain bytes, without a look at what they mean.
package enum DecodedArchive {
    private static let blockBytes = 256 * 1024

    /// Calls `body` with the decoded bytes of the file at `descriptor`, in order; not at all for a zip, which holds no tar.
    package static func forEachBlock(
        descriptor: Int32, format: ArchiveFormat, _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        let stream: any DecodingStream
        switch format {
        case .zip: return
        case .tar: stream = PlainStream(descriptor: descriptor)
        case .tarGzip: stream = try GzipStream(descriptor: descriptor)
        case .tarZstd: stream = try ZstdStream(descriptor: descriptor)
        }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: blockBytes, alignment: 4096)
        defer { buffer.deallocate() }
        while true {
            let count = try stream.read(into: buffer)
            if count == 0 { return }
            try body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        }
    }
}

/// A file as it is.
private final class PlainStream: DecodingStream {
    private let input: CompressedInput

    var consumed: Int { input.consumed }

    init(descriptor: Int32) { input = CompressedInput(descriptor: descriptor) }

    func read(into output: UnsafeMutableRawBufferPointer) throws(ArchiveFailure) -> Int {
        try input.read(into: output)
    }
}

/// The shapes an archive may have. Every other format and filter is off.
package enum ArchiveFormat: String, Sendable, CaseIterable {
    case tar
    case tarGzip = "tar.gz"
    case tarZstd = "tar.zst"
    case zip

    /// Tells the format by the first bytes of the file.
    ///
    /// The bytes were signed, so sniffing cannot be used against the reader; what is none of the compressed forms is
    /// handed to the tar reader, which refuses everything else.
    package init(sniffing bytes: some Sequence<UInt8>) {
        var iterator = bytes.makeIterator()
        switch (iterator.next(), iterator.next(), iterator.next(), iterator.next()) {
        case (0x28, 0xB5, 0x2F, 0xFD): self = .tarZstd
        case (0x1F, 0x8B, _, _): self = .tarGzip
        case (0x50, 0x4B, 0x03, 0x04), (0x50, 0x4B, 0x05, 0x06): self = .zip
        default: self = .tar
        }
    }
}

/// Decodes on a thread of its own, a few blocks ahead of the reader, so that decompression and everything after it overlap.
final class ReadAhead {
    private static let blocks = 3

    /// Sendable, unchecked: owned by one side at a time.
    private final class Block: @unchecked Sendable {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 * 1024, alignment: 4096)
        var count = 0
        /// Compressed bytes that it and those before it needed at most.
        var consumed = 0

        deinit { room.deallocate() }
    }

    private let empty: Pipe<Block, ArchiveFailure>
    private let filled = Pipe<Block, ArchiveFailure>(capacity: blocks)
    private let decoder: PipeStage
    private var held: Block?
    /// Compressed bytes that the decoded blocks handed out so far needed at most.
    private(set) var consumedEstimate = 0
    /// Decoded bytes handed out so far.
    private(set) var produced = 0

    init(_ source: any DecodingStream) throws(ArchiveFailure) {
        empty = Pipe(capacity: Self.blocks, holding: (0..<Self.blocks).map { _ in Block() })
        // From here on it is the decoding thread's.
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

    /// The next decoded bytes, valid until the following call; empty at the end.
    func read() throws(ArchiveFailure) -> UnsafeRawBufferPointer {
        // A decoder that has ended takes no more; how it ended comes behind the blocks that it filled.
        if let held { empty.sendNow(held) }
        held = try filled.receive()
        guard let held else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        produced += held.count
        consumedEstimate = held.consumed
        return UnsafeRawBufferPointer(rebasing: held.room[..<held.count])
    }
}
