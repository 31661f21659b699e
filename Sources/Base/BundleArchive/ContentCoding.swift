import CBrotli
import CZlib
import CZstd
import CLibrary

/// The encodings of compressed copies beside the files of a web server.
package enum ContentCoding: String, Sendable, CaseIterable {
    case gzip = "gz"
    case brotli = "br"
    case zstd = "zst"

    /// Whether this machine can decode the content.
    package var isReadable: Bool { self != .brotli || cbrotli_load() == 0 }

    /// Whether `copy` decodes to exactly `plain`.
    ///
    /// `scratch` must be larger than `plain`. A copy that decodes to more bytes is not decoded to its end.
    package func isCopy(
        _ copy: [UInt8], of plain: [UInt8], scratch: UnsafeMutableRawBufferPointer
    ) throws(ArchiveFailure) -> Bool {
        let room = UnsafeMutableRawBufferPointer(rebasing: scratch[...plain.count])
        let decoded: Int?
        switch self {
        case .gzip: decoded = try Self.inflated(copy, into: room)
        case .brotli: decoded = Self.unbrotlied(copy, into: room)
        case .zstd: decoded = Self.unzstded(copy, into: room)
        }
        guard decoded == plain.count else { return false }
        return plain.withUnsafeBytes { bytes in
            guard let one = bytes.baseAddress, let other = room.baseAddress else { return true }
            return memcmp(one, other, bytes.count) == 0
        }
    }

    /// Returns the decoded bytes, or nil if the input is not one gzip member that fits.
    private static func inflated(
        _ copy: [UInt8], into room: UnsafeMutableRawBufferPointer
    ) throws(ArchiveFailure) -> Int? {
        var stream = z_stream()
        // The largest window, and gzip only.
        if inflateInit2_(&stream, 15 + 16, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) != Z_OK {
            throw .system(operation: "decompress", code: ENOMEM)
        }
        defer { inflateEnd(&stream) }
        return copy.withUnsafeBytes { bytes in
            let start = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
            stream.next_in = UnsafeMutablePointer(mutating: start)
            stream.avail_in = UInt32(clamping: bytes.count)
            stream.next_out = room.baseAddress?.assumingMemoryBound(to: UInt8.self)
            stream.avail_out = UInt32(clamping: room.count)
            guard inflate(&stream, Z_FINISH) == Z_STREAM_END, stream.avail_in == 0 else { return nil }
            return Int(stream.total_out)
        }
    }

    private static func unbrotlied(_ copy: [UInt8], into room: UnsafeMutableRawBufferPointer) -> Int? {
        guard cbrotli_load() == 0 else { return nil }
        var count = room.count
        let isWhole = copy.withUnsafeBytes { cbrotli_decode($0.count, $0.baseAddress, &count, room.baseAddress) }
        return isWhole == 1 ? count : nil
    }

    private static func unzstded(_ copy: [UInt8], into room: UnsafeMutableRawBufferPointer) -> Int? {
        let count = copy.withUnsafeBytes { ZSTD_decompress(room.baseAddress, room.count, $0.baseAddress, $0.count) }
        return ZSTD_isError(count) == 0 ? count : nil
    }
}
