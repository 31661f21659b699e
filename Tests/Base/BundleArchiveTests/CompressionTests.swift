import BundleTesting
import Testing

@testable import BundleArchive

@Suite("ZstdCompressor") struct CompressionTests {
    static let content: [UInt8] = {
        var seeded = SeededGenerator(seed: 11)
        return seeded.text(12 << 20)
    }()

    @Test func `writes the same bytes with any number of workers and pieces of any size`() throws {
        // A small window makes several jobs, which the workers share.
        let reference = try Written.zstd(Self.content, level: 1, windowLog: 16, workers: 1)
        for (workers, pieces) in [(2, 1 << 20), (4, 1 << 20), (2, 77_777), (0, 1 << 24), (1, 1 << 16)] {
            let again = try Written.zstd(Self.content, level: 1, windowLog: 16, workers: workers, pieces: pieces)
            #expect(again == reference, "\(workers) workers, pieces of \(pieces)")
        }
    }

    @Test func `writes the size and a checksum into the frame`() throws {
        let frame = try Written.zstd([1, 2, 3])
        // RFC 8878, section 3.1.1.1.1: single segment, content checksum, one byte of content size.
        #expect(frame[4] & 0b0000_0100 != 0)
        #expect(frame[4] & 0b1110_0000 == 0b0010_0000)
        #expect(frame[5] == 3)
    }

    @Test(arguments: [(0, 20), (20, 20), (-1, 20), (3, 9), (3, 28)])
    func `rejects invalid levels and windows`(_ level: Int, _ window: Int) {
        #expect(throws: CompressionFailure.self) { _ = try Written.zstd([1], level: level, windowLog: window) }
    }

    /// The numbers are from `zstd_errors.h` and do not change.
    @Test func `separates a lack of memory from other failures`() throws {
        try CompressionFailure.check(0)
        #expect(throws: CompressionFailure.memory) { try CompressionFailure.check(-64) }
        #expect(throws: CompressionFailure.library("Src size is incorrect")) { try CompressionFailure.check(-72) }
    }

    @Test func `rejects content of another size than announced`() throws {
        let compressor = try ZstdCompressor(level: 3, windowLog: 20, workers: 1, size: 5) { _ in }
        #expect(throws: CompressionFailure.self) {
            try [UInt8]("four".utf8).withUnsafeBytes { try compressor.write($0) }
            try compressor.finish()
        }
    }

    @Test(arguments: ArchiveFormat.allCases) func `stops at a failing output, as all writers do`(
        _ format: ArchiveFormat
    ) {
        struct Full: Error {}
        let output: ByteOutput = { _ in throw Full() }
        #expect(throws: Full.self) {
            switch format {
            case .tar, .tarZstd:
                let compressor = try ZstdCompressor(level: 3, windowLog: 20, workers: 1, size: 4, output: output)
                try [UInt8]("four".utf8).withUnsafeBytes { try compressor.write($0) }
                try compressor.finish()
            case .tarGzip:
                let writer = try LibraryWriter.gzip(level: 6, output: output)
                try [UInt8]("four".utf8).withUnsafeBytes { try writer.write($0) }
                try writer.finish()
            case .zip:
                let writer = try LibraryWriter.zip(level: 6, output: output)
                try writer.begin("a", size: 4)
                try [UInt8]("four".utf8).withUnsafeBytes { try writer.write($0) }
                try writer.finish()
            }
        }
    }

    @Test(arguments: [ArchiveFormat.tarGzip, .zip]) func `writes no times, as all writers do`(_ format: ArchiveFormat)
        throws
    {
        let archive = try Written.archive(Item.some, as: format)
        #expect(try Written.archive(Item.some, as: format) == archive)
        if format == .tarGzip { #expect(archive[4..<8] == [0, 0, 0, 0]) }
    }
}
