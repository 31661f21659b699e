import CZstd
import CLibrary

/// Decodes exactly one zstd frame.
///
/// It checks the checksum if there is one, and rejects a window of more than 2^`maximumWindowLog` bytes before it
/// allocates memory.
final class ZstdStream: DecodingStream {
    static let maximumWindowLog = 27

    private let input: CompressedInput
    private let context: OpaquePointer
    private var pending = ZSTD_inBuffer(src: nil, size: 0, pos: 0)
    private var isFinished = false

    var consumed: Int { input.consumed }

    init(descriptor: Int32) throws(ArchiveFailure) {
        guard let context = ZSTD_createDCtx() else { throw .system(operation: "decompress", code: ENOMEM) }
        self.context = context
        input = CompressedInput(descriptor: descriptor)
        ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, Int32(Self.maximumWindowLog))
    }

    deinit { ZSTD_freeDCtx(context) }

    func read(into output: UnsafeMutableRawBufferPointer) throws(ArchiveFailure) -> Int {
        var target = ZSTD_outBuffer(dst: output.baseAddress, size: output.count, pos: 0)
        while target.pos < target.size && !isFinished {
            if pending.pos == pending.size {
                let bytes = try input.next("zstd frame")
                pending = ZSTD_inBuffer(src: bytes.baseAddress, size: bytes.count, pos: 0)
            }
            let state = ZSTD_decompressStream(context, &target, &pending)
            try ArchiveFailure.check(zstd: state)
            if state == 0 {
                isFinished = true
                try input.requireEnd(unread: pending.size - pending.pos)
            }
        }
        return target.pos
    }
}

extension ArchiveFailure {
    /// Throws if `status` is an error code of zstd.
    static func check(zstd status: Int) throws(ArchiveFailure) {
        if ZSTD_isError(status) == 0 { return }
        switch ZSTD_getErrorCode(status) {
        case ZSTD_error_frameParameter_windowTooLarge: throw .windowTooLarge(maximumLog: ZstdStream.maximumWindowLog)
        case ZSTD_error_memory_allocation: throw .system(operation: "decompress", code: ENOMEM)
        default: throw .corrupt("zstd: \(String(cString: ZSTD_getErrorName(status)))")
        }
    }
}
