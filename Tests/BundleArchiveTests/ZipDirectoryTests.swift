import BundleArchive
import Testing

/// A zip built by hand, so that each of its numbers can be wrong.
struct HandmadeZip {
    struct File {
        var name: [UInt8]
        var content: [UInt8]
        var flags: UInt16 = 0
        var method: UInt16 = 0
        var centralMethod: UInt16?
        var centralFlags: UInt16?
        var centralName: [UInt8]?
        var centralChecksum: UInt32?
        var localPackedSize: Int?
        var disk = 0
        var offset: Int?
        var extra: [UInt8] = []
        var localExtra: [UInt8] = []
        var descriptor: [UInt8] = []
        var gapBehind: [UInt8] = []

        init(_ name: String, _ content: String) {
            self.name = Array(name.utf8)
            self.content = Array(content.utf8)
        }

        var checksum: UInt32 {
            ~content.reduce(~0) { sum, byte in
                (0..<8).reduce(sum ^ UInt32(byte)) { value, _ in value >> 1 ^ (value & 1 == 1 ? 0xEDB8_8320 : 0) }
            }
        }
    }

    var files = [File("index.html", "<p>text</p>"), File("a.js", "let a = 1"), File("empty", "")]
    var inFront: [UInt8] = []
    var behindFiles: [UInt8] = []
    var behindDirectory: [UInt8] = []
    var behindEnd: [UInt8] = []
    var reversesDirectory = false
    var extraCount = 0
    var extraSize = 0
    var extraOffset = 0
    var disk = 0
    var commentLength = 0

    var bytes: [UInt8] {
        var body = inFront
        var entries: [[UInt8]] = []
        for file in files {
            let offset = body.count
            let isStreamed = file.flags & 8 != 0
            let size = isStreamed ? 0 : file.content.count
            body += number(0x0403_4B50, 4) + number(20, 2) + number(Int(file.flags), 2) + number(Int(file.method), 2)
            body += number(0, 4) + number(isStreamed ? 0 : Int(file.checksum), 4)
            body += number(file.localPackedSize ?? size, 4) + number(size, 4)
            body += number(file.name.count, 2) + number(file.localExtra.count, 2) + file.name + file.localExtra
            body += file.content + file.descriptor + file.gapBehind
            let name = file.centralName ?? file.name
            var entry = number(0x0201_4B50, 4) + number(0x0314, 2) + number(20, 2)
            entry += number(Int(file.centralFlags ?? file.flags), 2) + number(Int(file.centralMethod ?? file.method), 2)
            entry += number(0, 4) + number(Int(file.centralChecksum ?? file.checksum), 4)
            entry += number(file.content.count, 4) + number(file.content.count, 4)
            entry += number(name.count, 2) + number(file.extra.count, 2) + number(0, 2) + number(file.disk, 2)
            entry += number(0, 2) + number(0o100644 << 16, 4) + number(file.offset ?? offset, 4) + name + file.extra
            entries.append(entry)
        }
        body += behindFiles
        let directory = (reversesDirectory ? entries.reversed() : entries).flatMap { $0 }
        let count = number(entries.count + extraCount, 2)
        let end =
            number(0x0605_4B50, 4) + number(disk, 2) + number(0, 2) + count + count
            + number(directory.count + extraSize, 4) + number(body.count + extraOffset, 4) + number(commentLength, 2)
        return body + directory + behindDirectory + end + behindEnd
    }

    func number(_ value: Int, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }
}

/// One change to a good zip.
struct ZipChange: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let apply: @Sendable (inout HandmadeZip) -> Void

    init(_ description: String, _ apply: @escaping @Sendable (inout HandmadeZip) -> Void) {
        testDescription = description
        self.apply = apply
    }
}

@Suite struct `A zip's directory` {
    static let refused = [
        ZipChange("bytes in front") { $0.inFront = [1, 2, 3] },
        ZipChange("an unlisted file in front") { zip in
            let hidden = HandmadeZip(files: [HandmadeZip.File("hidden", "x")])
            zip.inFront = Array(hidden.bytes[..<(30 + 6 + 1)])
        },
        ZipChange("an unlisted file in the middle") { zip in
            let hidden = HandmadeZip(files: [HandmadeZip.File("hidden", "x")])
            zip.files[0].gapBehind = Array(hidden.bytes[..<(30 + 6 + 1)])
        },
        ZipChange("a gap between files") { $0.files[0].gapBehind = [0] },
        ZipChange("a gap in front of the directory") { $0.behindFiles = [0] },
        ZipChange("a gap behind the directory") { $0.behindDirectory = [0] },
        ZipChange("a gap behind the directory that belongs to it") {
            $0.behindDirectory = [0]
            $0.extraSize = 1
        },
        ZipChange("a byte behind the end") { $0.behindEnd = [0] },
        ZipChange("a comment") {
            $0.behindEnd = [0x21]
            $0.commentLength = 1
        },
        ZipChange("a directory in another order") { $0.reversesDirectory = true },
        ZipChange("one file too many in the count") { $0.extraCount = 1 },
        ZipChange("one file too few in the count") { $0.extraCount = -1 },
        ZipChange("no files") { $0.files = [] },
        ZipChange("a directory one byte too long") { $0.extraSize = 1 },
        ZipChange("a directory one byte too far") { $0.extraOffset = 1 },
        ZipChange("another disk") { $0.disk = 1 },
        ZipChange("a file on another disk") { $0.files[1].disk = 1 },
        ZipChange("a file at another file's place") { $0.files[1].offset = 0 },
        ZipChange("a file beyond the end") { $0.files[2].offset = 1 << 20 },
        ZipChange("another name in the directory") { $0.files[1].centralName = Array("b.js".utf8) },
        ZipChange("a longer name in the directory") { $0.files[1].centralName = Array("aa.js".utf8) },
        ZipChange("a NUL in a name") { $0.files[1].name = Array("a\0js".utf8) },
        ZipChange("another method in the directory") { $0.files[2].centralMethod = 8 },
        ZipChange("other flags in the directory") { $0.files[1].centralFlags = 0x800 },
        ZipChange("another checksum in the directory") { $0.files[1].centralChecksum = 1 },
        ZipChange("another packed size in front of the data") { $0.files[1].localPackedSize = 8 },
        ZipChange("an extra field beyond its header") { $0.files[1].extra = [9, 9, 4, 0, 1] },
        ZipChange("half an extra field") { $0.files[1].extra = [9, 9, 0] },
        ZipChange("an extra field beyond its local header") { $0.files[1].localExtra = [9, 9, 4, 0, 1] },
        ZipChange("a data descriptor with another checksum") { zip in
            zip.files[1].flags = 8
            zip.files[1].descriptor =
                zip.number(0x0807_4B50, 4) + zip.number(1, 4) + zip.number(9, 4) + zip.number(9, 4)
        },
        ZipChange("a data descriptor that is missing") { $0.files[1].flags = 8 },
        ZipChange("a data descriptor that is not announced") { zip in
            zip.files[1].descriptor = Self.descriptor(zip, signature: true, width: 4)
        },
    ]

    private static func descriptor(_ zip: HandmadeZip, signature: Bool, width: Int) -> [UInt8] {
        let file = zip.files[1]
        return (signature ? zip.number(0x0807_4B50, 4) : []) + zip.number(Int(file.checksum), 4)
            + zip.number(file.content.count, width) + zip.number(file.content.count, width)
    }

    @Test func `of a good zip is taken`() throws {
        let items = try Reading.items(of: HandmadeZip().bytes)
        #expect(items.map(\.name) == ["index.html", "a.js", "empty"])
    }

    @Test(arguments: refused) func `is refused for one thing wrong`(_ change: ZipChange) throws {
        var zip = HandmadeZip()
        change.apply(&zip)
        guard case .zipStructure? = try Reading.failure(of: zip.bytes, as: .zip) else {
            Issue.record("\(String(describing: try Reading.failure(of: zip.bytes, as: .zip)))")
            return
        }
    }

    @Test(arguments: [(true, 4), (true, 8), (false, 4), (false, 8)])
    func `may leave the numbers to a data descriptor`(_ signature: Bool, _ width: Int) throws {
        var zip = HandmadeZip()
        zip.files[1].flags = 8
        // libarchive streams stored data only where it knows the size; so does this zip.
        zip.files[1].descriptor = Self.descriptor(zip, signature: signature, width: width)
        let failure = try Reading.failure(of: zip.bytes)
        if case .zipStructure? = failure { Issue.record("\(String(describing: failure))") }
    }

    @Test func `may carry extra fields`() throws {
        var zip = HandmadeZip()
        zip.files[0].extra = [0x55, 0x54, 1, 0, 0]
        zip.files[0].localExtra = [0x55, 0x54, 1, 0, 0, 0x77, 0x77, 0, 0]
        #expect(try Reading.failure(of: zip.bytes) == nil)
    }

    @Test(arguments: [1, 9, 12, 14, 93, 99, 0xFFFF] as [UInt16]) func `names methods that are off`(_ method: UInt16)
        throws
    {
        var zip = HandmadeZip()
        zip.files[0].method = method
        let first = try Reading.firstEntry(of: zip.bytes)
        #expect(first?.isMethodSupported == false)
    }

    @Test(arguments: [1, 1 | 1 << 6, 1 << 6, 1 << 13] as [UInt16]) func `names encryption of any kind`(_ flags: UInt16)
        throws
    {
        var zip = HandmadeZip()
        zip.files[0].flags = flags
        #expect(try Reading.firstEntry(of: zip.bytes)?.isEncrypted == true)
        #expect(try Reading.firstEntry(of: HandmadeZip().bytes)?.isEncrypted == false)
    }
}
