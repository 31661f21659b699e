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
