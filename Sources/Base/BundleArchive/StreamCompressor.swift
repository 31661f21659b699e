import CArchive
import CZstd
import CLibrary

/// Receives compressed bytes in order.
package typealias ByteOutput = (UnsafeRawBufferPointer) throws -> Void

/// The reason why an archive could not be written.
package enum CompressionFailure: Error, Equatable, Sendable, CustomStringConvertible {
    /// The level or window is invalid.
    case parameter(String)
    case library(String)
    case memory

    package var description: String {
        switch self {
        case .parameter(let detail): detail
        case .library(let detail): "the compressor failed: \(detail)"
        case .memory: "not enough memory to compress"
        }
    }

    /// Throws if `status` is an error code of zstd.
    static func check(_ status: Int) throws(CompressionFailure) {
        if ZSTD_isError(status) == 0 { return }
        if ZSTD_getErrorCode(status) == ZSTD_error_memory_allocation { throw .memory }
        throw .library(String(cString: ZSTD_getErrorName(status)))
    }
}

/// Compresses a byte stream to one zstd frame on all cores.
///
/// It always uses worker threads, even on one core, so that the bytes depend only on level, window and version of the
/// library. The frame has a checksum and the size of its content.
package final class ZstdCompressor {
    /// The valid levels.
    package static let levels = 1...19
    /// The valid windows as log2 of bytes. Readers reject larger ones.
    package static let windowLogs = 10...27

    private let context: OpaquePointer
    private let buffer: UnsafeMutableRawBufferPointer
    private let output: ByteOutput

    /// Starts a frame of `size` bytes of content.
    package init(
        level: Int, windowLog: Int, workers: Int, size: Int, output: @escaping ByteOutput
    ) throws(CompressionFailure) {
        guard Self.levels.contains(level) else { throw .parameter("zstd has levels 1 to 19, not \(level)") }
        guard Self.windowLogs.contains(windowLog) else {
            throw .parameter("the window is 2^10 to 2^27 bytes, not 2^\(windowLog)")
        }
        guard let context = ZSTD_createCCtx() else { throw .memory }
        self.context = context
        self.output = output
        buffer = .allocate(byteCount: ZSTD_CStreamOutSize(), alignment: 16)
        let parameters: [(ZSTD_cParameter, Int)] = [
            (ZSTD_c_compressionLevel, level), (ZSTD_c_windowLog, windowLog),
            (ZSTD_c_enableLongDistanceMatching, 1), (ZSTD_c_checksumFlag, 1), (ZSTD_c_nbWorkers, max(1, workers)),
        ]
        for (parameter, value) in parameters {
            try CompressionFailure.check(ZSTD_CCtx_setParameter(context, parameter, Int32(value)))
        }
        try CompressionFailure.check(ZSTD_CCtx_setPledgedSrcSize(context, UInt64(size)))
    }

    deinit {
        ZSTD_freeCCtx(context)
        buffer.deallocate()
    }

    /// Compresses the next bytes.
    package func write(_ bytes: UnsafeRawBufferPointer) throws {
        var input = ZSTD_inBuffer(src: bytes.baseAddress, size: bytes.count, pos: 0)
        while input.pos < input.size { _ = try step(&input, directive: ZSTD_e_continue) }
    }

    /// Ends the frame. Most of the compression happens here, and `report` is called repeatedly with the bytes compressed
    /// so far.
    package func finish(_ report: (Int) -> Void = { _ in }) throws {
        var input = ZSTD_inBuffer(src: nil, size: 0, pos: 0)
        while try step(&input, directive: ZSTD_e_end) != 0 { report(consumed) }
    }

    /// The bytes compressed so far. Other bytes are queued.
    package var consumed: Int { Int(clamping: ZSTD_getFrameProgression(context).consumed) }

    private func step(_ input: inout ZSTD_inBuffer, directive: ZSTD_EndDirective) throws -> Int {
        var target = ZSTD_outBuffer(dst: buffer.baseAddress, size: buffer.count, pos: 0)
        let remaining = ZSTD_compressStream2(context, &target, &input, directive)
        try CompressionFailure.check(remaining)
        if target.pos > 0 { try output(UnsafeRawBufferPointer(rebasing: buffer[..<target.pos])) }
        return remaining
    }
}

/// Writes a gzip member or a zip through libarchive. Times and owners are 0.
package final class LibraryWriter {
    private final class Target {
        let output: ByteOutput
        var failure: (any Error)?
        init(_ output: @escaping ByteOutput) { self.output = output }
    }

    private let archive: OpaquePointer
    private let target: Target

    private init(_ output: @escaping ByteOutput) throws(CompressionFailure) {
        guard let archive = archive_write_new() else { throw .library("out of memory") }
        self.archive = archive
        target = Target(output)
    }

    deinit { archive_write_free(archive) }

    /// Compresses to one gzip member.
    package static func gzip(level: Int, output: @escaping ByteOutput) throws -> LibraryWriter {
        let writer = try LibraryWriter(output)
        try writer.require(archive_write_set_format_raw(writer.archive))
        try writer.require(archive_write_add_filter_gzip(writer.archive))
        try writer.setOptions("gzip:compression-level=\(level),gzip:!timestamp")
        try writer.open()
        try writer.begin("stream", size: nil)
        return writer
    }

    /// Creates a zip of deflated files.
    package static func zip(level: Int, output: @escaping ByteOutput) throws -> LibraryWriter {
        let writer = try LibraryWriter(output)
        try writer.require(archive_write_set_format_zip(writer.archive))
        try writer.setOptions("zip:compression=deflate,zip:compression-level=\(level),zip:hdrcharset=UTF-8")
        try writer.open()
        return writer
    }

    private func setOptions(_ options: String) throws { try require(archive_write_set_options(archive, options)) }

    private func open() throws {
        archive_write_set_bytes_in_last_block(archive, 1)
        let context = Unmanaged.passUnretained(target).toOpaque()
        try require(
            archive_write_open(
                archive, context, nil,
                { _, context, bytes, count in
                    guard let context else { return -1 }
                    let target = Unmanaged<Target>.fromOpaque(context).takeUnretainedValue()
                    do {
                        try target.output(UnsafeRawBufferPointer(start: bytes, count: count))
                        return count
                    } catch {
                        target.failure = error
                        return -1
                    }
                }, nil))
    }

    /// Starts a file of `size` bytes; nil for a format that does not need the size.
    package func begin(_ path: String, size: Int?) throws {
        guard let entry = archive_entry_new() else { throw CompressionFailure.library("out of memory") }
        defer { archive_entry_free(entry) }
        archive_entry_set_pathname_utf8(entry, path)
        archive_entry_set_filetype(entry, carchive_regular())
        archive_entry_set_perm(entry, 0o644)
        archive_entry_set_mtime(entry, 0, 0)
        if let size { archive_entry_set_size(entry, Int64(size)) }
        try require(archive_write_header(archive, entry))
    }

    /// Writes the next bytes of the file.
    package func write(_ bytes: UnsafeRawBufferPointer) throws {
        var done = 0
        while done < bytes.count {
            let count = archive_write_data(archive, bytes.baseAddress.map { $0 + done }, bytes.count - done)
            if count <= 0 { try require(ARCHIVE_FATAL) }
            done += count
        }
    }

    /// Ends the archive.
    package func finish() throws { try require(archive_write_close(archive)) }

    private func require(_ status: Int32) throws {
        if status == ARCHIVE_OK { return }
        if let failure = target.failure { throw failure }
        throw CompressionFailure.library(archive_error_string(archive).map { String(cString: $0) } ?? "code \(status)")
    }
}
