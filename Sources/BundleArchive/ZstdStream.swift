import CZstd
import Glibc

/// Decodes exactly one zstd frame from a descriptor, block by block.
///
/// The frame's checksum is checked where it has one; a window over 2^`maximumWindowLog` bytes is refused before memory is taken.
final class ZstdStream: DecodedStream {
    static let maximumWindowLog = 27

    private let descriptor: Int32
    private let context: OpaquePointer
    private let input: UnsafeMutableRawBufferPointer
    private var pending = ZSTD_inBuffer(src: nil, size: 0, pos: 0)
    private var offset = 0
    private var isFinished = false
    /// Compressed bytes taken so far.
    private(set) var consumed = 0

    init(descriptor: Int32) throws(ArchiveFailure) {
        guard let context = ZSTD_createDCtx() else { throw .system(operation: "decompress", code: ENOMEM) }
        self.context = context
        self.descriptor = descriptor
        input = .allocate(byteCount: ZSTD_DStreamInSize(), alignment: 16)
        ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, Int32(Self.maximumWindowLog))
    }

    deinit {
        ZSTD_freeDCtx(context)
        input.deallocate()
    }

    /// Fills `output`; fewer bytes only at the end of the frame, 0 after it.
    func read(into output: UnsafeMutableRawBufferPointer) throws(ArchiveFailure) -> Int {
        var target = ZSTD_outBuffer(dst: output.baseAddress, size: output.count, pos: 0)
        while target.pos < target.size && !isFinished {
            if pending.pos == pending.size { try refill() }
            let state = ZSTD_decompressStream(context, &target, &pending)
            if ZSTD_isError(state) != 0 { throw failure(state) }
            if state == 0 {
                isFinished = true
                try requireEnd()
            }
        }
        return target.pos
    }

    private func refill() throws(ArchiveFailure) {
        let count = try readInput()
        if count == 0 { throw .corrupt("the zstd stream is cut short") }
        pending = ZSTD_inBuffer(src: input.baseAddress, size: count, pos: 0)
    }

    private func readInput() throws(ArchiveFailure) -> Int {
        while true {
            let count = pread(descriptor, input.baseAddress, input.count, off_t(offset))
            if count < 0 && errno == EINTR { continue }
            if count < 0 { throw .system(operation: "read", code: errno) }
            offset += count
            consumed += count
            return count
        }
    }

    private func requireEnd() throws(ArchiveFailure) {
        if pending.pos < pending.size { throw .trailingData }
        if try readInput() > 0 { throw .trailingData }
    }

    private func failure(_ state: Int) -> ArchiveFailure {
        if ZSTD_getErrorCode(state) == ZSTD_error_frameParameter_windowTooLarge {
            return .windowTooLarge(maximumLog: Self.maximumWindowLog)
        }
        return .corrupt("zstd: \(String(cString: ZSTD_getErrorName(state)))")
    }
}
