import CArchive
import Glibc

/// Bytes out of a compressed file, without a look at what they mean.
public protocol DecodedStream: AnyObject {
    /// Fills `output`; fewer bytes only at the end, 0 after it.
    func read(into output: UnsafeMutableRawBufferPointer) throws(ArchiveFailure) -> Int
}

/// Opens the tar inside an archive as a plain byte stream.
public enum DecodedArchive {
    /// The decoded bytes of the file at `descriptor`, which must stay open; nil for a zip, which holds no tar.
    public static func stream(descriptor: Int32, format: ArchiveFormat) throws(ArchiveFailure) -> (any DecodedStream)? {
        switch format {
        case .zip: nil
        case .tarZstd: try ZstdStream(descriptor: descriptor)
        case .tar, .tarGzip: try LibraryStream(descriptor: descriptor, isGzip: format == .tarGzip)
        }
    }
}

/// A file, through libarchive's gzip filter or through none.
private final class LibraryStream: DecodedStream {
    private let archive: OpaquePointer

    init(descriptor: Int32, isGzip: Bool) throws(ArchiveFailure) {
        guard let archive = archive_read_new() else { throw .system(operation: "open", code: ENOMEM) }
        self.archive = archive
        var entry: OpaquePointer?
        guard archive_read_support_format_raw(archive) == ARCHIVE_OK,
            !isGzip || archive_read_append_filter(archive, ARCHIVE_FILTER_GZIP) == ARCHIVE_OK,
            lseek(descriptor, 0, SEEK_SET) == 0,
            archive_read_open_fd(archive, descriptor, 256 * 1024) == ARCHIVE_OK,
            archive_read_next_header(archive, &entry) == ARCHIVE_OK
        else { throw .corrupt("the stream cannot be decoded") }
    }

    deinit { archive_read_free(archive) }

    func read(into output: UnsafeMutableRawBufferPointer) throws(ArchiveFailure) -> Int {
        let count = archive_read_data(archive, output.baseAddress, output.count)
        if count < 0 { throw .corrupt("the stream cannot be decoded") }
        return count
    }
}
