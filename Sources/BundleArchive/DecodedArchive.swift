/// The tar inside an archive as plain bytes, without a look at what they mean.
public enum DecodedArchive {
    private static let blockBytes = 256 * 1024

    /// Calls `body` with the decoded bytes of the file at `descriptor`, in order; not at all for a zip, which holds no tar.
    public static func forEachBlock(
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
