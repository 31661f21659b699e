import CZstd
import CLibrary

/// Writes zstd frames that refer to a prefix.
///
/// It uses one thread, so the bytes depend only on content, prefix, level and version of the library.
package final class PrefixedFrameWriter {
    /// The lowest level with an optimal parser.
    private static let thorough = 18

    private let context: OpaquePointer

    /// Creates a compressor, which can write several frames.
    package init() throws(CompressionFailure) {
        guard let context = ZSTD_createCCtx() else { throw .memory }
        self.context = context
    }

    deinit { ZSTD_freeCCtx(context) }

    /// Compresses `content` to one frame after `prefix`, with its size and a checksum. The window has 2^`windowLog`
    /// bytes.
    ///
    /// `searchLog` is the parameter of zstd: the number of candidates for a match, as log2. If it is nil, the level
    /// determines it.
    package func frame(
        of content: UnsafeRawBufferPointer,
        behind prefix: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0), level: Int,
        searchLog: Int? = nil,
        windowLog: Int
    ) throws(CompressionFailure) -> [UInt8] {
        try CompressionFailure.check(ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters))
        var parameters = [
            (ZSTD_c_compressionLevel, level), (ZSTD_c_windowLog, windowLog), (ZSTD_c_checksumFlag, 1),
        ]
        // Most of the content is long matches with the prefix. This setting saves a tenth of the bytes without more
        // time.
        if level >= Self.thorough { parameters.append((ZSTD_c_targetLength, 999)) }
        if let searchLog { parameters.append((ZSTD_c_searchLog, searchLog)) }
        for (parameter, value) in parameters {
            try CompressionFailure.check(ZSTD_CCtx_setParameter(context, parameter, Int32(value)))
        }
        if !prefix.isEmpty {
            try CompressionFailure.check(ZSTD_CCtx_refPrefix(context, prefix.baseAddress, prefix.count))
        }
        var written = 0
        let frame = [UInt8](unsafeUninitializedCapacity: ZSTD_compressBound(content.count)) { room, count in
            written = ZSTD_compress2(context, room.baseAddress, room.count, content.baseAddress, content.count)
            count = ZSTD_isError(written) == 0 ? written : 0
        }
        try CompressionFailure.check(written)
        return frame
    }

    /// Returns the smallest window for `bytes` bytes that readers accept, as log2.
    package static func windowLog(over bytes: Int) -> Int {
        var log = ZstdCompressor.windowLogs.lowerBound
        while 1 << log < bytes, log < ZstdCompressor.windowLogs.upperBound { log += 1 }
        return log
    }
}

/// Reads frames of `PrefixedFrameWriter` from a file in bounded memory.
package final class PrefixedFrameReader {
    private static let bufferBytes = 128 << 10
    /// The longest header of a frame (RFC 8878, section 3.1.1.1).
    private static let headerBytes = 18

    private let descriptor: Int32
    private let context: OpaquePointer
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: bufferBytes, alignment: 4096)
    private var pending = ZSTD_inBuffer(src: nil, size: 0, pos: 0)
    /// The unread range of the frame in the file.
    private var rest = 0..<0
    private var isFinished = true
    /// The number of decoded bytes that remain.
    package private(set) var bytesLeft = 0

    /// Creates a reader of the file at `descriptor`, which must stay open while the reader exists.
    package init(descriptor: Int32) throws(ArchiveFailure) {
        guard let context = ZSTD_createDCtx() else { throw .system(operation: "decompress", code: ENOMEM) }
        self.context = context
        self.descriptor = descriptor
        ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, Int32(ZstdStream.maximumWindowLog))
    }

    deinit {
        ZSTD_freeDCtx(context)
        buffer.deallocate()
    }

    /// Starts the frame in the range `place` of the file. `prefix` must not move until the frame is read.
    ///
    /// Throws before it allocates memory if the frame does not state `size` bytes or needs more than `memory` bytes.
    package func begin(
        _ place: Range<Int>, ofSize size: Int, memory: Int,
        behind prefix: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
    ) throws(ArchiveFailure) {
        rest = place
        (bytesLeft, isFinished) = (size, false)
        pending = ZSTD_inBuffer(src: nil, size: 0, pos: 0)
        try fill()
        var (content, window): (UInt64, UInt64) = (0, 0)
        guard czstd_frame(pending.src, min(pending.size, Self.headerBytes), &content, &window) == 0 else {
            throw .corrupt("a group does not begin with a zstd frame")
        }
        guard content == UInt64(size) else { throw .corrupt("a group does not have the stated size") }
        // The decoder allocates no more than the content, whatever the window size.
        guard min(window, content) <= UInt64(max(0, memory)) else {
            throw .corrupt("a group needs more memory than stated")
        }
        try ArchiveFailure.check(zstd: ZSTD_DCtx_reset(context, ZSTD_reset_session_only))
        if !prefix.isEmpty {
            try ArchiveFailure.check(zstd: ZSTD_DCtx_refPrefix(context, prefix.baseAddress, prefix.count))
        }
    }

    /// Reads the next bytes of the frame. Returns fewer only at its end, and throws if bytes remain in its range.
    package func read(into output: UnsafeMutableRawBufferPointer) throws(ArchiveFailure) -> Int {
        var target = ZSTD_outBuffer(dst: output.baseAddress, size: min(output.count, bytesLeft), pos: 0)
        // The checksum follows the last byte of content.
        while target.pos < target.size || target.pos == bytesLeft && !isFinished {
            if isFinished { throw .corrupt("a group is shorter than stated") }
            if pending.pos == pending.size { try fill() }
            let state = ZSTD_decompressStream(context, &target, &pending)
            try ArchiveFailure.check(zstd: state)
            isFinished = state == 0
        }
        bytesLeft -= target.pos
        if bytesLeft == 0, pending.pos != pending.size || !rest.isEmpty {
            throw .corrupt("bytes follow a group")
        }
        return target.pos
    }

    private func fill() throws(ArchiveFailure) {
        if rest.isEmpty { throw .corrupt("a group is truncated") }
        var count = -1
        repeat {
            count = pread(descriptor, buffer.baseAddress, min(buffer.count, rest.count), off_t(rest.lowerBound))
        } while count < 0 && errno == EINTR
        if count < 0 { throw .system(operation: "read", code: errno) }
        if count == 0 { throw .corrupt("a group is truncated") }
        rest = rest.lowerBound + count..<rest.upperBound
        pending = ZSTD_inBuffer(src: buffer.baseAddress, size: count, pos: 0)
    }
}
