import BundleArchive
import BundleTesting
import Testing

@Suite struct `An archive reader` {
    @Test(arguments: ArchiveFormat.allCases) func `reads what the writers write`(_ format: ArchiveFormat) throws {
        let archive = try Written.archive(Item.some, as: format)
        #expect(ArchiveFormat(sniffing: archive) == format)
        let entries = try Reading.entries(of: archive)
        #expect(try Reading.items(of: archive) == Item.some)
        for (entry, content) in entries {
            #expect(entry.kind == .file)
            #expect(entry.size == content.count)
            #expect(!entry.isEncrypted && !entry.isSparse && entry.isMethodSupported)
        }
    }

    @Test(arguments: ArchiveFormat.allCases) func `takes no format for another`(_ format: ArchiveFormat) throws {
        let archive = try Written.archive(Item.some, as: format)
        for other in ArchiveFormat.allCases where other != format {
            #expect(try Reading.failure(of: archive, as: other) != nil, "\(format) was read as \(other)")
        }
    }

    @Test(arguments: ArchiveFormat.allCases) func `refuses an empty file`(_ format: ArchiveFormat) throws {
        #expect(try Reading.failure(of: [], as: format) == .unsupportedFormat("the file is empty"))
    }

    @Test(arguments: [ArchiveFormat.tarGzip, .tarZstd, .zip])
    func `refuses every archive that is cut short`(_ format: ArchiveFormat) throws {
        let archive = try Written.archive([Item("index.html", Array("<p>text</p>".utf8))], as: format)
        for count in 0..<archive.count {
            #expect(try Reading.failure(of: Array(archive[..<count]), as: format) != nil, "\(count) bytes")
        }
    }

    @Test func `refuses a tar that ends inside a header or data`() throws {
        let tar = Written.tar([Item("index.html", [UInt8](repeating: 1, count: 600))])
        for count in [1, 100, 511, 513, 1000, 1111] {
            #expect(try Reading.failure(of: Array(tar[..<count])) != nil, "\(count) bytes")
        }
    }

    @Test(arguments: [ArchiveFormat.tarGzip, .tarZstd])
    func `refuses anything behind the compressed stream`(_ format: ArchiveFormat) throws {
        let archive = try Written.archive(Item.some, as: format)
        let nothing = format == .tarGzip ? try Written.gzip([]) : try Written.zstd([])
        let other = try Written.archive([Item("other", [1])], as: format)
        for trailer in [[0], [UInt8](repeating: 0, count: 200_000), other, nothing, Array("x".utf8)] {
            #expect(try Reading.failure(of: archive + trailer) == .trailingData)
        }
        // A stream of nothing in front is one too many as well.
        #expect(try Reading.failure(of: nothing + archive) != nil)
    }

    @Test func `refuses a gzip member whose CRC or length is wrong`() throws {
        let archive = try Written.archive(Item.some, as: .tarGzip)
        for offset in [-8, -5, -4, -1] {
            var damaged = archive
            damaged[damaged.count + offset] ^= 1
            guard case .corrupt? = try Reading.failure(of: damaged) else {
                Issue.record("the byte \(offset) from the end does not matter")
                continue
            }
        }
    }

    @Test func `refuses a zstd window above 2^27 bytes`() throws {
        func frame(window: UInt8) -> [UInt8] {
            // RFC 8878: no checksum, no size; one raw last block of four bytes.
            [0x28, 0xB5, 0x2F, 0xFD, 0x00, window, 0x21, 0x00, 0x00] + Array("text".utf8)
        }
        let largest = UInt8((27 - 10) << 3)
        #expect(try Reading.failure(of: frame(window: largest + 1)) == .windowTooLarge(maximumLog: 27))
        #expect(try Reading.failure(of: frame(window: largest)) != .windowTooLarge(maximumLog: 27))
    }

    @Test(arguments: [ArchiveFormat.tarGzip, .tarZstd], 0..<50)
    func `never takes other content for the real one after a bit has flipped`(
        _ format: ArchiveFormat, _ seed: Int
    ) throws {
        var seeded = SeededGenerator(seed: UInt64(seed))
        var archive = try Written.archive(Item.some, as: format)
        archive[Int(seeded.next() % UInt64(archive.count))] ^= 1 << (seeded.next() % 8)
        do {
            #expect(try Reading.items(of: archive, as: format) == Item.some)
        } catch is ArchiveFailure {
            // Refused, as nearly all are.
        }
    }

    @Test(arguments: 0..<50) func `never takes other content of a zip's file after a bit has flipped`(_ seed: Int)
        throws
    {
        var seeded = SeededGenerator(seed: UInt64(seed))
        let items = [Item("a.js", seeded.text(300)), Item("index.html", seeded.text(200))]
        var archive = try Written.zip(items)
        archive[Int(seeded.next() % UInt64(archive.count))] ^= 1 << (seeded.next() % 8)
        do {
            let read = try Reading.entries(of: archive, as: .zip).filter { $0.entry.kind == .file }
            #expect(read.allSatisfy { found in items.contains { $0.content == found.content } })
        } catch is ArchiveFailure {
            // Refused, as most are.
        }
    }

    @Test(arguments: ArchiveFormat.allCases) func `stops at the deadline`(_ format: ArchiveFormat) throws {
        let archive = try Written.archive(Item.some, as: format)
        let limits = DecodingLimits(ratio: 1000, grace: 1 << 30, deadline: .now - .seconds(1))
        #expect(try Reading.failure(of: archive, limits: limits) == .tooSlow)
    }

    @Test(arguments: [ArchiveFormat.tarGzip, .tarZstd, .zip])
    func `stops where too much comes out of too little`(_ format: ArchiveFormat) throws {
        let zeros = [Item("index.html", [UInt8](repeating: 0, count: 4 << 20))]
        let archive = try Written.archive(zeros, as: format)
        let strict = DecodingLimits(ratio: 20, grace: 1 << 20, deadline: .now + .seconds(60))
        #expect(try Reading.failure(of: archive, limits: strict) == .ratio(maximum: 20))
        let grace = DecodingLimits(ratio: 20, grace: 5 << 20, deadline: .now + .seconds(60))
        #expect(try Reading.items(of: archive, limits: grace) == zeros)
    }

    @Test(arguments: [ArchiveFormat.tarGzip, .tarZstd])
    func `counts what comes out behind the end marker too`(_ format: ArchiveFormat) throws {
        let tar = Written.tar([Item("index.html", [1])]) + [UInt8](repeating: 0, count: 4 << 20)
        let archive = try format == .tarGzip ? Written.gzip(tar) : Written.zstd(tar)
        let limits = DecodingLimits(ratio: 20, grace: 1 << 20, deadline: .now + .seconds(60))
        #expect(try Reading.failure(of: archive, limits: limits) == .ratio(maximum: 20))
    }

    @Test func `reads on behind a tar's end marker`() throws {
        let tar = Written.tar([Item("index.html", [1])])
        #expect(
            try Reading.items(of: tar + Written.tar([Item("second", [2])])).map(\.name) == ["index.html", "second"])
        #expect(try Reading.failure(of: tar + [UInt8](repeating: 0x21, count: 512)) != nil)
        #expect(try Reading.failure(of: tar + [UInt8](repeating: 0, count: 10_240)) == nil)
    }

    @Test(arguments: [
        ([0x28, 0xB5, 0x2F, 0xFD, 0], ArchiveFormat.tarZstd), ([0x1F, 0x8B, 8], .tarGzip), ([0x1F, 0x8B], .tarGzip),
        ([0x50, 0x4B, 3, 4], .zip), ([0x50, 0x4B, 5, 6], .zip), ([0x50, 0x4B, 7, 8], .tar), ([0x28, 0xB5, 0x2F], .tar),
        ([], .tar), ([0x42, 0x5A, 0x68, 0x39], .tar),
    ])
    func `tells the format by the first bytes`(_ bytes: [UInt8], _ format: ArchiveFormat) {
        #expect(ArchiveFormat(sniffing: bytes) == format)
    }
}
