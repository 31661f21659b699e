import BundleArchive
import BundleTesting
import Glibc
import Testing

@Suite("ArchiveReader") struct ArchiveReaderTests {
    @Test(arguments: ArchiveFormat.allCases) func `reads an archive of each writer`(_ format: ArchiveFormat) throws {
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

    @Test(arguments: ArchiveFormat.allCases) func `rejects an archive of another format`(_ format: ArchiveFormat) throws
    {
        let archive = try Written.archive(Item.some, as: format)
        for other in ArchiveFormat.allCases where other != format {
            #expect(try Reading.failure(of: archive, as: other) != nil, "\(format) was read as \(other)")
        }
    }

    @Test(arguments: ArchiveFormat.allCases) func `rejects an empty file`(_ format: ArchiveFormat) throws {
        #expect(try Reading.failure(of: [], as: format) == .unsupportedFormat("the file is empty"))
    }

    @Test(arguments: ArchiveFormat.allCases)
    func `reports an error of the machine as a system failure`(_ format: ArchiveFormat) throws {
        let failure = try #require(try Reading.failure(of: try Written.archive(Item.some, as: format), mode: O_WRONLY))
        #expect(failure == .system(operation: "read", code: EBADF))
        #expect(failure.rule == nil)
    }

    @Test(arguments: [ArchiveFormat.tarGzip, .tarZstd, .zip])
    func `rejects every truncated archive`(_ format: ArchiveFormat) throws {
        let archive = try Written.archive([Item("index.html", Array("<p>text</p>".utf8))], as: format)
        for count in 0..<archive.count {
            #expect(try Reading.failure(of: Array(archive[..<count]), as: format) != nil, "\(count) bytes")
        }
    }

    @Test func `rejects a tar that ends inside a header or data`() throws {
        let tar = Written.tar([Item("index.html", [UInt8](repeating: 1, count: 600))])
        for count in [1, 100, 511, 513, 1000, 1111] {
            #expect(try Reading.failure(of: Array(tar[..<count])) != nil, "\(count) bytes")
        }
    }

    @Test(arguments: [ArchiveFormat.tarGzip, .tarZstd])
    func `rejects bytes after the compressed stream`(_ format: ArchiveFormat) throws {
        let archive = try Written.archive(Item.some, as: format)
        let nothing = format == .tarGzip ? try Written.gzip([]) : try Written.zstd([])
        let other = try Written.archive([Item("other", [1])], as: format)
        for trailer in [[0], [UInt8](repeating: 0, count: 200_000), other, nothing, Array("x".utf8)] {
            #expect(try Reading.failure(of: archive + trailer) == .trailingData)
        }
        // An empty stream before it is one stream too many as well.
        #expect(try Reading.failure(of: nothing + archive) != nil)
    }

    @Test func `rejects a gzip member with a wrong CRC or length`() throws {
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

    @Test func `rejects a zstd window above 2^27 bytes`() throws {
        func frame(window: UInt8) -> [UInt8] {
            // RFC 8878: no checksum, no size; one raw last block of four bytes.
            [0x28, 0xB5, 0x2F, 0xFD, 0x00, window, 0x21, 0x00, 0x00] + Array("text".utf8)
        }
        let largest = UInt8((27 - 10) << 3)
        #expect(try Reading.failure(of: frame(window: largest + 1)) == .windowTooLarge(maximumLog: 27))
        #expect(try Reading.failure(of: frame(window: largest)) != .windowTooLarge(maximumLog: 27))
    }

    @Test(arguments: [ArchiveFormat.tarGzip, .tarZstd], 0..<50)
    func `does not return changed content after a bit error`(
        _ format: ArchiveFormat, _ seed: Int
    ) throws {
        var seeded = SeededGenerator(seed: UInt64(seed))
        var archive = try Written.archive(Item.some, as: format)
        archive[Int(seeded.next() % UInt64(archive.count))] ^= 1 << (seeded.next() % 8)
        do {
            #expect(try Reading.items(of: archive, as: format) == Item.some)
        } catch is ArchiveFailure {
            // Most changes are rejected.
        }
    }

    @Test(arguments: 0..<50) func `does not return changed content of a zip entry after a bit error`(_ seed: Int)
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
            // Most changes are rejected.
        }
    }

    @Test(arguments: ArchiveFormat.allCases) func `stops at the deadline`(_ format: ArchiveFormat) throws {
        let archive = try Written.archive(Item.some, as: format)
        let limits = DecodingLimits(ratio: 1000, grace: 1 << 30, deadline: .now - .seconds(1))
        #expect(try Reading.failure(of: archive, limits: limits) == .tooSlow)
    }

    @Test(arguments: [ArchiveFormat.tarGzip, .tarZstd, .zip])
    func `stops if the archive unpacks to too many bytes`(_ format: ArchiveFormat) throws {
        let zeros = [Item("index.html", [UInt8](repeating: 0, count: 4 << 20))]
        let archive = try Written.archive(zeros, as: format)
        let strict = DecodingLimits(ratio: 20, grace: 1 << 20, deadline: .now + .seconds(60))
        #expect(try Reading.failure(of: archive, limits: strict) == .ratio(maximum: 20))
        let grace = DecodingLimits(ratio: 20, grace: 5 << 20, deadline: .now + .seconds(60))
        #expect(try Reading.items(of: archive, limits: grace) == zeros)
    }

    @Test(arguments: [ArchiveFormat.tarGzip, .tarZstd])
    func `counts bytes after the end marker of a tar`(_ format: ArchiveFormat) throws {
        let tar = Written.tar([Item("index.html", [1])]) + [UInt8](repeating: 0, count: 4 << 20)
        let archive = try format == .tarGzip ? Written.gzip(tar) : Written.zstd(tar)
        let limits = DecodingLimits(ratio: 20, grace: 1 << 20, deadline: .now + .seconds(60))
        #expect(try Reading.failure(of: archive, limits: limits) == .ratio(maximum: 20))
    }

    @Test func `continues to read after the end marker of a tar`() throws {
        let tar = Written.tar([Item("index.html", [1])])
        #expect(
            try Reading.items(of: tar + Written.tar([Item("second", [2])])).map(\.name) == ["index.html", "second"])
        #expect(try Reading.failure(of: tar + [UInt8](repeating: 0x21, count: 512)) != nil)
        #expect(try Reading.failure(of: tar + [UInt8](repeating: 0, count: 10_240)) == nil)
    }

    @Test(arguments: [10_240, 512, 1]) func `rejects a tar in a file that is longer than its stated size`(_ extra: Int)
        throws
    {
        let tar = Written.tar([Item("index.html", [1])])
        let longer = tar + [UInt8](repeating: 0, count: 10_240)
        #expect(try Reading.failure(of: longer, size: longer.count - extra) == .trailingData)
        #expect(try Reading.failure(of: tar, size: tar.count + extra) == .trailingData)
    }

    static let notUTF8: [[UInt8]] = [
        [0xFF], [0x61, 0x80], [0xC3], [0xC0, 0xAF], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80],
    ]

    @Test(arguments: notUTF8) func `returns no name that is not UTF-8`(_ name: [UInt8]) throws {
        var tar = HandmadeTar()
        tar.add(name, [1])
        var zip = HandmadeZip()
        zip.files[1].name = name
        for archive in [tar.bytes, try Written.gzip(tar.bytes), zip.bytes] {
            // An earlier call can leave this value, which is not the cause here.
            errno = ENOMEM
            let failure = try Reading.failure(of: archive)
            guard case .corrupt(let detail)? = failure, detail.hasPrefix("Pathname") else {
                Issue.record("\(String(describing: failure))")
                continue
            }
        }
    }

    @Test func `returns no name if the Unicode path field of a zip is not UTF-8`() throws {
        // The Info-ZIP Unicode Path field (APPNOTE 4.6.9) replaces the name whose checksum it has.
        for (spelling, name) in [(Array("b.js".utf8), Array("b.js".utf8)), ([0xFF], nil)] {
            var zip = HandmadeZip()
            let field = [1] + zip.number(Int(HandmadeZip.checksum(zip.files[0].name)), 4) + spelling
            zip.files[0].localExtra = zip.field(0x7075, field)
            let entry = try #require(try Reading.firstEntry(of: zip.bytes))
            #expect(entry.name == name)
        }
    }

    @Test func `reports holes and does not read data with holes`() throws {
        var tar = HandmadeTar()
        tar.add(pax: [
            "GNU.sparse.size": "20", "GNU.sparse.numblocks": "1", "GNU.sparse.offset": "10",
            "GNU.sparse.numbytes": "10",
        ])
        tar.add("a.js", [UInt8](repeating: 1, count: 10))
        #expect(try Reading.firstEntry(of: tar.bytes)?.isSparse == true)
        #expect(try Reading.failure(of: tar.bytes) == .corrupt("the data of an entry has holes"))
    }

    @Test(arguments: [
        ([0x28, 0xB5, 0x2F, 0xFD, 0], ArchiveFormat.tarZstd), ([0x1F, 0x8B, 8], .tarGzip), ([0x1F, 0x8B], .tarGzip),
        ([0x50, 0x4B, 3, 4], .zip), ([0x50, 0x4B, 5, 6], .zip), ([0x50, 0x4B, 7, 8], .tar), ([0x28, 0xB5, 0x2F], .tar),
        ([], .tar), ([0x42, 0x5A, 0x68, 0x39], .tar),
    ])
    func `detects the format by the first bytes`(_ bytes: [UInt8], _ format: ArchiveFormat) {
        #expect(ArchiveFormat(sniffing: bytes) == format)
    }
}
