import CLibrary
import CZlib

/// The supported formats. All other formats and filters of libarchive are disabled.
package enum ArchiveFormat: String, Sendable, CaseIterable {
    case tar
    case tarGzip = "tar.gz"
    case tarZstd = "tar.zst"
    case zip

    /// Detects the format by the first bytes of the file.
    ///
    /// The bytes are signed, so detection is safe. A file that is neither compressed nor a zip goes to the tar reader,
    /// which rejects anything but a tar.
    package init(sniffing bytes: some Sequence<UInt8>) {
        var iterator = bytes.makeIterator()
        switch (iterator.next(), iterator.next(), iterator.next(), iterator.next()) {
        case (0x28, 0xB5, 0x2F, 0xFD): self = .tarZstd
        case (0x1F, 0x8B, _, _): self = .tarGzip
        case (0x50, 0x4B, 0x03, 0x04), (0x50, 0x4B, 0x05, 0x06): self = .zip
        default: self = .tar
        }
    }
    /// Returns a decoder of the tar in a file, or nil for a zip, which does not contain one.
    func tarStream(descriptor: Int32) throws(ArchiveFailure) -> (any DecodingStream)? {
        switch self {
        case .tar: CompressedInput(descriptor: descriptor)
        case .tarGzip: try GzipStream(descriptor: descriptor)
        case .tarZstd: try ZstdStream(descriptor: descriptor)
        case .zip: nil
        }
    }
}

/// Decodes an archive into the bytes of its tar.
package enum DecodedArchive {
    private static let blockBytes = 256 * 1024

    /// Calls `body` with the decoded bytes of the file in order. It does not call it for a zip, which does not contain a
    /// tar.
    package static func forEachBlock(
        descriptor: Int32, format: ArchiveFormat, _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        guard let stream = try format.tarStream(descriptor: descriptor) else { return }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: blockBytes, alignment: 4096)
        defer { buffer.deallocate() }
        while true {
            let count = try stream.read(into: buffer)
            if count == 0 { return }
            try body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        }
    }
}

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
