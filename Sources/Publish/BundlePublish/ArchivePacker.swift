import BundleFormats
package import BundleArchive
package import BundleValues
import BundleDisk
import BundleSigning
import CLibrary

/// Packs a tree into an archive file, and hashes the content and the archive.
struct ArchivePacker {
    struct Packed {
        let sha256: SHA256Digest
        let size: Int
        let contentSha256: SHA256Digest
    }

    let tree: CanonicalTree
    let options: ReleaseOptions
    let report: UpdateObserver

    /// Writes the archive into the empty `file`.
    func pack(into file: File) throws -> Packed {
        var archiveHasher = try SHA256Hasher()
        var contentHasher = try SHA256Hasher()
        var size = 0
        let output: ByteOutput = { bytes in
            try archiveHasher.update(bytes)
            try file.write(bytes)
            size += bytes.count
        }
        let sink = try sink(output)
        var packed = 0
        let total = tree.tarBytes
        try tree.stream { piece in
            try contentHasher.update(piece.bytes)
            try sink.write(piece)
            packed += piece.bytes.count
            report(.packing(bytes: sink.consumed() ?? packed, of: total))
        }
        try sink.finish { report(.packing(bytes: $0, of: total)) }
        return Packed(sha256: try archiveHasher.finish(), size: size, contentSha256: try contentHasher.finish())
    }

    private struct PieceSink {
        let write: (CanonicalTree.Piece) throws -> Void
        let finish: (_ report: (Int) -> Void) throws -> Void
        /// Returns how many of the written bytes are compressed; nil if all are.
        var consumed: () -> Int? = { nil }
    }

    private func sink(_ output: @escaping ByteOutput) throws -> PieceSink {
        switch options.format {
        case .tar:
            return PieceSink(write: { try output($0.bytes) }, finish: { _ in })
        case .tarZstd:
            let cores = sysconf(Int32(_SC_NPROCESSORS_ONLN))
            let compressor = try ZstdCompressor(
                level: options.effectiveLevel, windowLog: options.windowLog, workers: cores, size: tree.tarBytes,
                output: output)
            return PieceSink(
                write: { try compressor.write($0.bytes) }, finish: compressor.finish,
                consumed: { compressor.consumed })
        case .tarGzip:
            let writer = try LibraryWriter.gzip(level: options.effectiveLevel, output: output)
            return PieceSink(write: { try writer.write($0.bytes) }, finish: { _ in try writer.finish() })
        case .zip:
            let writer = try LibraryWriter.zip(level: options.effectiveLevel, output: output)
            return PieceSink(
                write: { piece in
                    switch piece {
                    case .header(let entry, _): try writer.begin(entry.path.string, size: entry.size)
                    case .data(_, let bytes): try writer.write(bytes)
                    case .padding: break
                    }
                }, finish: { _ in try writer.finish() })
        }
    }
}

extension CompressionFailure: ClassifiedFailure {
    /// A lack of memory is the machine's fault; any other error is a bug.
    package var failure: UpdateFailure {
        if case .memory = self { return DiskError("compress", at: "the archive", code: ENOMEM).failure }
        return UpdateFailure(.internal, subject: "compression", "\(self). Please report it.")
    }
}
