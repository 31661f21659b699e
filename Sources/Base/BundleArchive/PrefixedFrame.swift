import CZstd
import Glibc

/// Writes zstd frames that continue other bytes: what a prefix has need not be in the frame.
///
/// One core, whatever the machine has: the bytes depend on content, prefix, level and library version only.
package final class PrefixedFrameWriter {
    /// The first level that looks for the best parsing.
    private static let thorough = 18

    private let context: OpaquePointer

    /// A compressor for many frames, one after the other.
    package init() throws(CompressionFailure) {
        guard let context = ZSTD_createCCtx() else { throw .memory }
        self.context = context
    }

    deinit { ZSTD_freeCCtx(context) }

    /// `content` as one frame behind `prefix`, with its size and a checksum; its window reaches `windowLog`.
    ///
    /// `searchLog` is zstd's: log2 of how many places are compared for a match, the level's own where it is nil.
    package func frame(
        of content: UnsafeRawBufferPointer, behind prefix: UnsafeRawBufferPointer, level: Int, searchLog: Int? = nil,
        windowLog: Int
    ) throws(CompressionFailure) -> [UInt8] {
        try CompressionFailure.check(ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters))
        var parameters = [
            (ZSTD_c_compressionLevel, level), (ZSTD_c_windowLog, windowLog), (ZSTD_c_checksumFlag, 1),
        ]
        // Most of the content is long matches with the prefix: a tenth less, for no time (Decisions/deltas.md).
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

    /// The smallest window that reaches over `bytes`, as log2, within what readers take.
    package static func windowLog(over bytes: Int) -> Int {
        var log = ZstdCompressor.windowLogs.lowerBound
        while 1 << log < bytes, log < ZstdCompressor.windowLogs.upperBound { log += 1 }
        return log
    }
}

/// Reads such frames out of a file, each from its first byte to its last, in bounded memory.
package final class PrefixedFrameReader {
    private static let bufferBytes = 128 << 10
    /// The longest header of a frame (RFC 8878, section 3.1.1.1).
    private static let headerBytes = 18

    private let descriptor: Int32
    private let context: OpaquePointer
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: bufferBytes, alignment: 4096)
    private var pending = ZSTD_inBuffer(src: nil, size: 0, pos: 0)
    /// Bytes of the frame that are still in the file.
    private var rest = 0..<0
    private var isFinished = true
    /// Decoded bytes that are still to come.
    package private(set) var bytesLeft = 0

    /// Reads frames of the file at `descriptor`, which must stay open for the life of the reader.
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

    /// Starts the frame that is `place` of the file and continues `prefix`, which must stay where it is until the frame is read.
    ///
    /// Refuses a frame that does not state `size` bytes, or whose window needs more than `memory`, before that is taken.
    package func begin(
        _ place: Range<Int>, ofSize size: Int, memory: Int, behind prefix: UnsafeRawBufferPointer
    ) throws(ArchiveFailure) {
        rest = place
        (bytesLeft, isFinished) = (size, false)
        pending = ZSTD_inBuffer(src: nil, size: 0, pos: 0)
        try fill()
        var (content, window): (UInt64, UInt64) = (0, 0)
        guard czstd_frame(pending.src, min(pending.size, Self.headerBytes), &content, &window) == 0 else {
            throw .corrupt("a group does not begin with a zstd frame")
        }
        guard content == UInt64(size) else { throw .corrupt("a group has not the stated size") }
        // The decoder keeps no more than the content, whatever the window.
        guard min(window, content) <= UInt64(max(0, memory)) else {
            throw .corrupt("a group needs more memory than was stated")
        }
        try check(ZSTD_DCtx_reset(context, ZSTD_reset_session_only))
        if !prefix.isEmpty { try check(ZSTD_DCtx_refPrefix(context, prefix.baseAddress, prefix.count)) }
    }

    /// Fills `output` with the next bytes of the frame; fewer only at its end, where nothing may be left of its place.
    package func read(into output: UnsafeMutableRawBufferPointer) throws(ArchiveFailure) -> Int {
        var target = ZSTD_outBuffer(dst: output.baseAddress, size: min(output.count, bytesLeft), pos: 0)
        // Behind the last byte of content stands the checksum.
        while target.pos < target.size || target.pos == bytesLeft && !isFinished {
            if isFinished { throw .corrupt("a group is shorter than stated") }
            if pending.pos == pending.size { try fill() }
            let state = ZSTD_decompressStream(context, &target, &pending)
            try check(state)
            isFinished = state == 0
        }
        bytesLeft -= target.pos
        if bytesLeft == 0, pending.pos != pending.size || !rest.isEmpty {
            throw .corrupt("there are bytes behind a group")
        }
        return target.pos
    }

    private func fill() throws(ArchiveFailure) {
        if rest.isEmpty { throw .corrupt("a group is cut short") }
        var count = -1
        repeat {
            count = pread(descriptor, buffer.baseAddress, min(buffer.count, rest.count), off_t(rest.lowerBound))
        } while count < 0 && errno == EINTR
        if count < 0 { throw .system(operation: "read", code: errno) }
        if count == 0 { throw .corrupt("a group is cut short") }
        rest = rest.lowerBound + count..<rest.upperBound
        pending = ZSTD_inBuffer(src: buffer.baseAddress, size: count, pos: 0)
    }

    private func check(_ status: Int) throws(ArchiveFailure) {
        if ZSTD_isError(status) == 0 { return }
        if ZSTD_getErrorCode(status) == ZSTD_error_memory_allocation {
            throw .system(operation: "decompress", code: ENOMEM)
        }
        throw .corrupt("zstd: \(String(cString: ZSTD_getErrorName(status)))")
    }
}
