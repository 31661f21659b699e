import BundleArchive
import BundleTesting
import Testing

/// A change to a valid zip, and the expected error.
struct ZipChange: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let reason: String
    let apply: @Sendable (inout HandmadeZip) -> Void

    init(_ description: String, _ reason: String, _ apply: @escaping @Sendable (inout HandmadeZip) -> Void) {
        testDescription = description
        self.reason = reason
        self.apply = apply
    }
}

@Suite("ZipDirectory") struct ZipDirectoryTests {
    enum Reason {
        static let order = "its files are not in the order of its directory"
        static let front = "bytes precede its directory"
        static let directorySize = "its directory does not have the stated size"
        static let contradiction = "a local header contradicts the directory"
        static let dataPlace = "a file overlaps the next one"
        static let end = "the end record is not at the end of the file"
        static let disks = "it has more than one disk"
        static let noEntries = "it has no entries"
        static let parts = "bytes precede, separate or follow its parts"
        static let headerPlace = "a header is truncated"
        static let extra = "an extra field reaches beyond its header"
        static let entryDisk = "a file is on another disk"
        static let nul = "a name contains NUL"
        static let descriptor = "a data descriptor contradicts the directory"
        static let short = "it is too short for an end record"
        static let zip64 = "it is a zip64, which clients within the limits do not need"
        static let damaged = "its directory is damaged"
        static let noLocalHeader = "a file has no local header"
        static let twoFields = "a header has two zip64 fields"
        static let number = "a number is missing or too large"
    }

    static let refused = [
        ZipChange("bytes in front", Reason.order) { $0.inFront = [1, 2, 3] },
        ZipChange("an unlisted file in front", Reason.order) { zip in
            let hidden = HandmadeZip(files: [HandmadeZip.File("hidden", "x")])
            zip.inFront = Array(hidden.bytes[..<(30 + 6 + 1)])
        },
        ZipChange("an unlisted file in the middle", Reason.order) { zip in
            let hidden = HandmadeZip(files: [HandmadeZip.File("hidden", "x")])
            zip.files[0].gapBehind = Array(hidden.bytes[..<(30 + 6 + 1)])
        },
        ZipChange("a gap between files", Reason.order) { $0.files[0].gapBehind = [0] },
        ZipChange("a gap in front of the directory", Reason.front) { $0.behindFiles = [0] },
        ZipChange("a gap behind the directory", Reason.parts) { $0.behindDirectory = [0] },
        ZipChange("a gap behind the directory that belongs to it", Reason.directorySize) {
            $0.behindDirectory = [0]
            $0.extraSize = 1
        },
        ZipChange("a byte behind the end", Reason.end) { $0.behindEnd = [0] },
        ZipChange("a comment", Reason.end) {
            $0.behindEnd = [0x21]
            $0.commentLength = 1
        },
        ZipChange("a directory in another order", Reason.order) { $0.reversesDirectory = true },
        ZipChange("one file too many in the count", Reason.headerPlace) { $0.extraCount = 1 },
        ZipChange("one file too few in the count", Reason.front) { $0.extraCount = -1 },
        ZipChange("no files", Reason.noEntries) { $0.files = [] },
        ZipChange("a directory one byte too long", Reason.parts) { $0.extraSize = 1 },
        ZipChange("a directory one byte too far", Reason.parts) { $0.extraOffset = 1 },
        ZipChange("another disk", Reason.disks) { $0.disk = 1 },
        ZipChange("a file on another disk", Reason.entryDisk) { $0.files[1].disk = 1 },
        ZipChange("a file at another file's place", Reason.order) { $0.files[1].offset = 0 },
        ZipChange("a file beyond the end", Reason.order) { $0.files[2].offset = 1 << 20 },
        ZipChange("another name in the directory", Reason.contradiction) {
            $0.files[1].centralName = Array("b.js".utf8)
        },
        ZipChange("a longer name in the directory", Reason.contradiction) {
            $0.files[1].centralName = Array("aa.js".utf8)
        },
        ZipChange("a NUL in a name", Reason.nul) { $0.files[1].name = Array("a\0js".utf8) },
        ZipChange("another method in the directory", Reason.contradiction) { $0.files[2].centralMethod = 8 },
        ZipChange("other flags in the directory", Reason.contradiction) { $0.files[1].centralFlags = 0x800 },
        ZipChange("another checksum in the directory", Reason.contradiction) { $0.files[1].centralChecksum = 1 },
        ZipChange("another packed size in front of the data", Reason.contradiction) { $0.files[1].localPackedSize = 8 },
        ZipChange("an extra field beyond its header", Reason.extra) { $0.files[1].extra = [9, 9, 4, 0, 1] },
        ZipChange("half an extra field", Reason.extra) { $0.files[1].extra = [9, 9, 0] },
        ZipChange("an extra field beyond its local header", Reason.extra) { $0.files[1].localExtra = [9, 9, 4, 0, 1] },
        ZipChange("a data descriptor with another checksum", Reason.descriptor) { zip in
            zip.files[1].flags = 8
            zip.files[1].descriptor =
                zip.number(0x0807_4B50, 4) + zip.number(1, 4) + zip.number(9, 4) + zip.number(9, 4)
        },
        ZipChange("a data descriptor that is missing", Reason.descriptor) { $0.files[1].flags = 8 },
        ZipChange("a data descriptor that is not announced", Reason.order) { zip in
            zip.files[1].descriptor = Self.descriptor(zip, signature: true, width: 4)
        },
        ZipChange("a file that reaches beyond the directory", Reason.dataPlace) { zip in
            zip.files[2].centralPackedSize = 1 << 20
            zip.files[2].localPackedSize = 1 << 20
        },
        ZipChange("a directory entry that begins as none", Reason.damaged) { $0.files[1].centralSignature += 1 },
        ZipChange("a first directory entry that begins as none", Reason.damaged) { $0.files[0].centralSignature += 1 },
        ZipChange("a local header that begins as none", Reason.noLocalHeader) { $0.files[1].localSignature += 1 },
        ZipChange("the count of a zip64", Reason.zip64) { $0.extraCount = 0xFFFF - $0.files.count },
        ZipChange("a large number that is missing", Reason.number) { $0.files[1].offset = 0xFFFF_FFFF },
        ZipChange("a large number of four bytes", Reason.number) { zip in
            zip.files[1].offset = 0xFFFF_FFFF
            zip.files[1].extra = zip.field(1, zip.number(51, 4))
        },
        ZipChange("a large number of more than 32 bits", Reason.number) { zip in
            zip.files[1].centralPackedSize = 0xFFFF_FFFF
            zip.files[1].extra = zip.field(1, zip.number(1 << 32 | zip.files[1].content.count, 8))
        },
        ZipChange("two places of one file", Reason.twoFields) { zip in
            // libarchive uses the first of two fields, other programs the last.
            let places = [0, zip.local(zip.files[0]).count + zip.files[0].content.count]
            zip.files[1].offset = 0xFFFF_FFFF
            zip.files[1].extra = places.flatMap { zip.field(1, zip.number($0, 8)) }
        },
        ZipChange("a zip64 locator in the last comment", Reason.zip64) { zip in
            zip.files[2].comment = zip.number(0x0706_4B50, 4) + zip.number(0, 4) + zip.number(0, 8) + zip.number(1, 4)
        },
    ]

    private static func descriptor(_ zip: HandmadeZip, signature: Bool, width: Int) -> [UInt8] {
        let file = zip.files[1]
        return (signature ? zip.number(0x0807_4B50, 4) : []) + zip.number(Int(file.checksum), 4)
            + zip.number(file.content.count, width) + zip.number(file.content.count, width)
    }

    @Test func `accepts a valid zip`() throws {
        let items = try Reading.items(of: HandmadeZip().bytes)
        #expect(items.map(\.name) == ["index.html", "a.js", "empty"])
    }

    @Test(arguments: refused) func `rejects a zip with one fault`(_ change: ZipChange) throws {
        var zip = HandmadeZip()
        change.apply(&zip)
        #expect(try Reading.failure(of: zip.bytes, as: .zip) == .zipStructure(change.reason))
    }

    @Test(arguments: [1, 4, 21]) func `rejects a file that is too short for an end record`(_ count: Int) throws {
        let bytes = Array(HandmadeZip().bytes.suffix(count))
        #expect(try Reading.failure(of: bytes, as: .zip) == .zipStructure(Reason.short))
    }

    /// The locator leads libarchive to a zip64 end record in the data of a file. That record leads to local headers that
    /// are 64 bytes after those of the directory and have other names. All sizes and checksums are correct.
    @Test func `rejects a comment that leads libarchive to other files`() throws {
        let plain = HandmadeZip()
        func file(_ name: String, hiding other: String, _ content: [UInt8]) -> HandmadeZip.File {
            var file = HandmadeZip.File(name, content)
            let hidden = plain.local(HandmadeZip.File(other, content)) + content
            let padding = [UInt8](repeating: 0, count: 64 - plain.local(file).count - 4)
            file.localExtra = plain.field(0x7777, padding + hidden)
            return file
        }
        func files(end: Int) -> [HandmadeZip.File] {
            // APPNOTE 4.3.14: the record states two entries. libarchive ignores their size but not their offset.
            let record = plain.number(0x0606_4B50, 4) + plain.number(44, 8) + plain.number(45, 2) + plain.number(45, 2)
            let numbers = [0, 2, 2, 0, end - 64].flatMap { plain.number($0, 8) }
            return [
                file("a.js", hiding: "evil", record + numbers), file("index.html", hiding: "b", Array("text".utf8)),
            ]
        }
        let end = files(end: 0).reduce(0) { $0 + plain.local($1).count + $1.content.count }
        var zip = HandmadeZip(files: files(end: end))
        let place = zip.local(zip.files[0]).count
        zip.files[1].comment =
            zip.number(0x0706_4B50, 4) + zip.number(0, 4) + zip.number(place, 8) + zip.number(1, 4)
        #expect(try Reading.failure(of: zip.bytes) == .zipStructure(Reason.zip64))
    }

    @Test func `accepts numbers in a zip64 field`() throws {
        var zip = HandmadeZip()
        let place = zip.local(zip.files[0]).count + zip.files[0].content.count
        zip.files[1].offset = 0xFFFF_FFFF
        zip.files[1].extra = zip.field(0x5455, [0]) + zip.field(1, zip.number(place, 8))
        zip.files[2].comment = Array("any other comment, long enough".utf8)
        #expect(try Reading.failure(of: zip.bytes) == nil)
    }

    // MARK: A file that changes while it is read

    /// A zip of two files, with the directory and end record at the same offsets as in a zip of three.
    private static var twoFiles: HandmadeZip {
        var (zip, three) = (HandmadeZip(), HandmadeZip())
        zip.files.removeLast()
        zip.files[1].content += [UInt8](repeating: 0x20, count: three.local(three.files[2]).count)
        zip.files[1].comment = [UInt8](repeating: 0x20, count: 46 + three.files[2].name.count)
        return zip
    }

    @Test func `rejects a file whose number of entries changes after it is opened`() throws {
        let (two, three) = (Self.twoFiles.bytes, HandmadeZip().bytes)
        #expect(two.count == three.count)
        for zip in [two, three] { #expect(try Reading.failure(of: zip) == nil) }
        #expect(
            try Reading.failure(of: two, later: three) == .zipStructure("more files than its directory lists"))
        #expect(
            try Reading.failure(of: three, later: two)
                == .zipStructure("its directory lists 3 files, 2 were found"))
    }

    @Test func `rejects an entry that libarchive finds encrypted`() throws {
        var encrypted = HandmadeZip()
        encrypted.files[0].flags = 1
        #expect(try Reading.firstEntry(of: HandmadeZip().bytes, later: encrypted.bytes)?.isEncrypted == true)
    }

    @Test(arguments: [(true, 4), (true, 8), (false, 4), (false, 8)])
    func `accepts a data descriptor`(_ signature: Bool, _ width: Int) throws {
        var zip = HandmadeZip()
        zip.files[1].flags = 8
        // libarchive streams stored data only if it knows the size, so this zip states it.
        zip.files[1].descriptor = Self.descriptor(zip, signature: signature, width: width)
        let failure = try Reading.failure(of: zip.bytes)
        if case .zipStructure? = failure { Issue.record("\(String(describing: failure))") }
    }

    @Test func `accepts extra fields`() throws {
        var zip = HandmadeZip()
        zip.files[0].extra = [0x55, 0x54, 1, 0, 0]
        zip.files[0].localExtra = [0x55, 0x54, 1, 0, 0, 0x77, 0x77, 0, 0]
        #expect(try Reading.failure(of: zip.bytes) == nil)
    }

    @Test(arguments: [1, 9, 12, 14, 93, 99, 0xFFFF] as [UInt16]) func `reports unsupported methods`(_ method: UInt16)
        throws
    {
        var zip = HandmadeZip()
        zip.files[0].method = method
        let first = try Reading.firstEntry(of: zip.bytes)
        #expect(first?.isMethodSupported == false)
    }

    @Test(arguments: [1, 1 | 1 << 6, 1 << 6, 1 << 13] as [UInt16]) func `reports encryption of any kind`(
        _ flags: UInt16
    )
        throws
    {
        var zip = HandmadeZip()
        zip.files[0].flags = flags
        #expect(try Reading.firstEntry(of: zip.bytes)?.isEncrypted == true)
        #expect(try Reading.firstEntry(of: HandmadeZip().bytes)?.isEncrypted == false)
    }
}
