import CZlib
import CLibrary

/// Decodes exactly one gzip member (RFC 1952) and checks its CRC and length.
///
/// libarchive's filter checks neither, and accepts more members.
final class GzipStream: DecodingStream {
    /// The largest window of deflate (2^15), plus 16 for gzip only.
    private static let gzipOnly: Int32 = 15 + 16

    private let input: CompressedInput
    private let stream: UnsafeMutablePointer<z_stream>
    private var isFinished = false

    var consumed: Int { input.consumed }

    init(descriptor: Int32) throws(ArchiveFailure) {
        input = CompressedInput(descriptor: descriptor)
        // zlib stores the address of the stream, so it must not move.
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let status = inflateInit2_(stream, Self.gzipOnly, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        if status != Z_OK { throw .system(operation: "decompress", code: ENOMEM) }
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    func read(into output: UnsafeMutableRawBufferPointer) throws(ArchiveFailure) -> Int {
        stream.pointee.next_out = output.baseAddress?.assumingMemoryBound(to: UInt8.self)
        stream.pointee.avail_out = UInt32(output.count)
        while stream.pointee.avail_out > 0 && !isFinished {
            if stream.pointee.avail_in == 0 {
                let bytes = try input.next("gzip member")
                let start = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
                stream.pointee.next_in = UnsafeMutablePointer(mutating: start)
                stream.pointee.avail_in = UInt32(bytes.count)
            }
            switch inflate(stream, Z_NO_FLUSH) {
            case Z_OK: continue
            case Z_STREAM_END:
                isFinished = true
                try input.requireEnd(unread: Int(stream.pointee.avail_in))
            case Z_MEM_ERROR: throw .system(operation: "decompress", code: ENOMEM)
            default:
                throw .corrupt("gzip: \(stream.pointee.msg.map { String(cString: $0) } ?? "it needs a dictionary")")
            }
        }
        return output.count - Int(stream.pointee.avail_out)
    }
}
