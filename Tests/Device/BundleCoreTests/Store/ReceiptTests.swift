import BundleDisk
import BundleSigning
import BundleTesting
import Testing

@testable import BundleCore
import BundleValues

struct ReceiptTests {
    private static let names = [
        "index.html", "a/b/c.js", "say \"hi\".txt", "\"", "a\"b\"/\"c", "c:x", "c:/d:e", " leading", "trailing ",
        "a  b",
        "é.js", "e\u{301}.js", "日本語/ファイル", "😀.png", "-rf", "$(id)", "%2e%2e/x", "{\"path\":\"", "x\",\"size\":1",
        "x\",\"sha256\":\"", "a\"},", "],\"contentSha256\":\"", "...", String(repeating: "n", count: 255),
        (0..<4).map { _ in String(repeating: "\"", count: 255) }.joined(separator: "/"),
    ]

    private static func identity(maximumShell: String? = "2.0.0") throws -> BundleIdentity {
        BundleIdentity(
            version: try Sample.version("1.2.3-rc.1"),
            shells: try ShellRange(minimum: Sample.version("1.0.0"), maximum: try maximumShell.map(Sample.version)))
    }

    /// Writes a receipt of files with these names. The size of each file is its number.
    private static func write(_ names: [String], to folder: TemporaryDirectory) throws -> File {
        let file = try folder.directory.file(creating: "receipt.json")
        var writer = ReceiptWriter(file, try identity(), manifest: .object(["notes": .string("line\n\"quoted\" é")]))
        for (number, name) in names.enumerated() {
            try writer.append(try BundlePath(parsing: name), size: number, digest: try .of(Array(name.utf8)))
        }
        #expect(writer.fileCount == names.count)
        #expect(writer.totalBytes == names.count * max(0, names.count - 1) / 2)
        try writer.finish(contentSha256: try .of([1]))
        return file
    }

    private static func records(_ file: File) throws -> [Receipt.FileRecord?] {
        var records: [Receipt.FileRecord?] = []
        try Receipt.forEachLine(of: file) { line, _ in records.append(Receipt.record(line)) }
        return records
    }

    @Test func `reads every valid name as it was written`() throws {
        let folder = try TemporaryDirectory.ofTests()
        let records = try Self.records(try Self.write(Self.names, to: folder))
        #expect(records.count == Self.names.count)
        for (number, (record, name)) in zip(records, Self.names).enumerated() {
            let record = try #require(record)
            #expect(record.path.bytes == Array(name.utf8))
            #expect(record.size == number)
            #expect(record.digest == (try SHA256Digest.of(Array(name.utf8))))
        }
    }

    @Test func `writes valid JSON with the same content`() throws {
        let folder = try TemporaryDirectory.ofTests()
        let bytes = try Self.write(Self.names, to: folder).readAll(maximumBytes: 1 << 20)
        let object = try #require(try JSONScanner.parse(bytes, maximumBytes: 1 << 20).objectValue)
        #expect(object["schema"]?.integerValue == 1)
        #expect(object["version"]?.stringValue == "1.2.3-rc.1")
        #expect(object["manifest"]?.objectValue?["notes"]?.stringValue == "line\n\"quoted\" é")
        let files = try #require(object["files"]?.arrayValue).compactMap(\.objectValue)
        #expect(
            files.map { Array(($0["path"]?.stringValue ?? "").utf8) } == Self.names.map { Array($0.utf8) })
        #expect(files.map { $0["size"]?.integerValue } == Self.names.indices.map(\.self))
        #expect(object["contentSha256"]?.stringValue == (try SHA256Digest.of([1])).hex)
    }

    @Test func `reads the list across buffer boundaries and reports the offset of each line`() throws {
        var generator = SeededGenerator(seed: 7)
        let names = (0..<9000).map { number in
            "\(number)/n" + String(repeating: "\"x", count: Int.random(in: 0...100, using: &generator))
        }
        let folder = try TemporaryDirectory.ofTests()
        let file = try Self.write(names, to: folder)
        #expect(try file.size() > 1 << 20)
        let bytes = try file.readAll(maximumBytes: 1 << 24)
        var found: [String] = []
        try Receipt.forEachLine(of: file) { line, offset in
            #expect(bytes[offset..<offset + line.count] == line[...])
            found.append(Receipt.record(line)?.path.string ?? "")
        }
        #expect(found == names)
    }

    @Test func `reads receipts without files and with a long manifest`() throws {
        let folder = try TemporaryDirectory.ofTests()
        #expect(try Self.records(try Self.write([], to: folder)).isEmpty)
        let file = try folder.directory.file(creating: "long.json")
        let notes = JSONValue.string(String(repeating: "n", count: 60_000))
        let writer = ReceiptWriter(file, try Self.identity(maximumShell: nil), manifest: .object(["notes": notes]))
        try Self.end(writer)
        let frame = try Receipt.frame(of: file)
        #expect(frame.identity == (try Self.identity(maximumShell: nil)))
    }

    private static func end(_ writer: consuming ReceiptWriter) throws {
        try writer.finish(contentSha256: try .of([1]))
    }

    @Test func `reads the members around the list of files`() throws {
        let folder = try TemporaryDirectory.ofTests()
        let frame = try Receipt.frame(of: try Self.write(["index.html"], to: folder))
        #expect(frame.identity == (try Self.identity()))
        #expect(frame.contentSha256 == (try SHA256Digest.of([1])))
    }

    private static let digest = String(repeating: "ab", count: 32)

    @Test(arguments: ["", ","])
    func `reads the line that the other tests change`(end: String) throws {
        let line = "{\"path\":\"a/b\",\"size\":12,\"sha256\":\"\(Self.digest)\"}\(end)"
        let record = try #require(Receipt.record(Array(line.utf8)[...]))
        #expect(record.path.string == "a/b")
        #expect(record.size == 12)
    }

    @Test(arguments: [
        #"{"path":"","size":12,"sha256":"D"}"#, #"{"path":"/a","size":12,"sha256":"D"}"#,
        #"{"path":"../a","size":12,"sha256":"D"}"#, #"{"path":"a/../b","size":12,"sha256":"D"}"#,
        #"{"path":"a//b","size":12,"sha256":"D"}"#, #"{"path":"a/","size":12,"sha256":"D"}"#,
        #"{"path":"a\\b","size":12,"sha256":"D"}"#, #"{"path":"a\u0062","size":12,"sha256":"D"}"#,
        #"{"path":"a\nb","size":12,"sha256":"D"}"#, #"{"path":"a"b","size":12,"sha256":"D"}"#,
        #"{"path":"a\","size":12,"sha256":"D"}"#, #"{"path":"a","size":,"sha256":"D"}"#,
        #"{"path":"a","size":-1,"sha256":"D"}"#, #"{"path":"a","size":1.0,"sha256":"D"}"#,
        #"{"path":"a","size":012,"sha256":"D"}"#, #"{"path":"a","size":"12","sha256":"D"}"#,
        #"{"path":"a","size":99999999999999999999,"sha256":"D"}"#, #"{"path":"a","size":12,"sha256":""}"#,
        #"{"path":"a","size":12,"sha256":"D0"}"#, #"{"path":"a","size":12,"sha256":"DIGEST-UPPER"}"#,
        #"{"path":"a","size":12,"sha256":"DIGEST-SHORT"}"#, #"{"path":"a","size":12,"sha256":"D","x":1}"#,
        #"{"path":"a","size":12,"sha256":"D"},,"#, #"{"path":"a","size":12,"sha256":"D"} "#,
        #"{"path": "a","size":12,"sha256":"D"}"#, #"{"path":"a","sha256":"D","size":12}"#,
        #"{"path":"a","size":12}"#, "", "{", "}", ",", #"{"path":""#, "\"}",
    ])
    func `refuses a changed line`(line: String) {
        let line = line.replacing("DIGEST-UPPER", with: Self.digest.uppercased())
            .replacing("DIGEST-SHORT", with: Self.digest.dropLast()).replacing("\"D", with: "\"\(Self.digest)")
        #expect(Receipt.record(Array(line.utf8)[...]) == nil)
    }

    @Test(arguments: [
        ("\"schema\":1", "\"schema\":2"), ("\"schema\":1,", ""), ("1.2.3-rc.1", "1.2"), ("\"source\":", "\"channe\":"),
        ("\"minShellVersion\":\"1", "\"minShellVersion\":\"9"),
        ("\n],\"contentSha256\"", "],\"contentSha256\""), ("\"}\n", "\"}"),
        ("\"contentSha256\":\"", "\"contentSha256\":\"0"),
        ("{\"schema\"", "\"schema\""),
    ])
    func `refuses a receipt with a changed frame`(part: String, instead: String) throws {
        let folder = try TemporaryDirectory.ofTests()
        let text = String(
            decoding: try Self.write(["index.html"], to: folder).readAll(maximumBytes: 1 << 20), as: UTF8.self)
        let spoilt = part == "\"}\n" ? String(text.dropLast()) : text.replacingFirst(part, with: instead)
        #expect(spoilt != text)
        try Array(spoilt.utf8).withUnsafeBytes { try folder.directory.createFile("spoilt.json", with: $0) }
        let file = try folder.directory.file("spoilt.json")
        #expect(throws: (any Error).self) { try Receipt.frame(of: file) }
    }

    @Test func `refuses an empty file`() throws {
        let folder = try TemporaryDirectory.ofTests()
        let file = try folder.directory.file(creating: "empty")
        #expect(throws: MemberReader.Refusal.self) { try Receipt.frame(of: file) }
        #expect(try Self.records(file).isEmpty)
    }
}
