/// The shapes an archive may have. Every other format and filter is off.
public enum ArchiveFormat: String, Sendable, CaseIterable {
    case tar
    case tarGzip = "tar.gz"
    case tarZstd = "tar.zst"
    case zip

    /// Tells the format by the first bytes of the file.
    ///
    /// The bytes were signed, so sniffing cannot be used against the reader; what is none of the compressed forms is
    /// handed to the tar reader, which refuses everything else.
    public init(sniffing bytes: some Sequence<UInt8>) {
        var iterator = bytes.makeIterator()
        switch (iterator.next(), iterator.next(), iterator.next(), iterator.next()) {
        case (0x28, 0xB5, 0x2F, 0xFD): self = .tarZstd
        case (0x1F, 0x8B, _, _): self = .tarGzip
        case (0x50, 0x4B, 0x03, 0x04), (0x50, 0x4B, 0x05, 0x06): self = .zip
        default: self = .tar
        }
    }
}
