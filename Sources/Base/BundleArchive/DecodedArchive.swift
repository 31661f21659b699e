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
