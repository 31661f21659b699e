import BundleValues
import BundleTesting
import Testing

@Suite("JSONScanner") struct JSONScannerTests {
    private static func parse(_ text: String, maximumDepth: Int = 16) throws -> JSONValue {
        try JSONScanner.parse([UInt8](text.utf8), maximumBytes: 1 << 20, maximumDepth: maximumDepth)
    }

    @Test(arguments: RefusedDocument.all)
    func `rejects a malformed document with its reason`(document: RefusedDocument) {
        #expect(throws: document.error) { try JSONScanner.parse(document.bytes, maximumBytes: 1 << 20) }
    }

    @Test(arguments: RefusedDocument.all)
    func `rejects a malformed value in a member that no caller reads`(document: RefusedDocument) {
        let whole = [UInt8]("{\"ignored\":".utf8) + document.bytes + [UInt8](",\"version\":\"1.0.0\"}".utf8)
        #expect(throws: JSONError.self) { try JSONScanner.parse(whole, maximumBytes: 1 << 20) }
    }

    static let accepted: [(String, JSONValue)] = [
        ("null", .null), ("true", .bool(true)), ("false", .bool(false)), ("0", .integer(0)), ("7", .integer(7)),
        ("-1", .integer(-1)), ("10", .integer(10)), ("120", .integer(120)),
        ("9007199254740991", .integer(9_007_199_254_740_991)),
        ("-9007199254740991", .integer(-9_007_199_254_740_991)), ("900719925474099", .integer(900_719_925_474_099)),
        ("\"\"", .string("")), ("\"a\"", .string("a")), ("\" \"", .string(" ")), ("\"\\\"\"", .string("\"")),
        ("\"\\\\\"", .string("\\")), ("\"\\/\"", .string("/")), ("\"/\"", .string("/")),
        ("\"\\b\\f\\n\\r\\t\"", .string("\u{8}\u{C}\n\r\t")), ("\"\\u0000\"", .string("\0")),
        ("\"\\u0041\"", .string("A")),
        ("\"\\u00e9\\u00E9\"", .string("éé")), ("\"\\u2028\"", .string("\u{2028}")),
        ("\"\\uFFFF\"", .string("\u{FFFF}")),
        ("\"\\uD7FF\\uE000\"", .string("\u{D7FF}\u{E000}")), ("\"\\ud83d\\ude00\"", .string("😀")),
        ("\"\\uD800\\uDC00\"", .string("\u{10000}")), ("\"\\uDBFF\\uDFFF\"", .string("\u{10FFFF}")),
        ("\"é😀\u{7F}\u{2028}\u{FEFF}\"", .string("é😀\u{7F}\u{2028}\u{FEFF}")), ("\"a\\né\\t😀b\"", .string("a\né\t😀b")),
        ("\"\\\\u0041\"", .string("\\u0041")), ("\"'//[]{}:,#\"", .string("'//[]{}:,#")),
        ("[]", .array([])), ("[ ]", .array([])), ("[1,2]", .array([.integer(1), .integer(2)])),
        ("[[],[[]]]", .array([.array([]), .array([.array([])])])), (" [ null , true ] ", .array([.null, .bool(true)])),
        ("{}", .object([:])), ("{ }", .object([:])), ("{\"a\":1}", .object(["a": .integer(1)])),
        ("{\"\":0}", .object(["": .integer(0)])),
        (
            "{\"a\":{\"a\":1},\"b\":[{\"a\":2}]}",
            .object(["a": .object(["a": .integer(1)]), "b": .array([.object(["a": .integer(2)])])])
        ),
        ("\t\r\n {\n\"a\"\t:\r1 ,\n\"b\" : 2 }\n", .object(["a": .integer(1), "b": .integer(2)])),
        ("{\"a\":1,\"A\":2}", .object(["a": .integer(1), "A": .integer(2)])),
        ("{\"a\\u0000b\":1}", .object(["a\0b": .integer(1)])),
        ("[\"\\u0061\",\"a\"]", .array([.string("a"), .string("a")])),
    ]

    @Test(arguments: accepted)
    func `reads a well-formed document`(text: String, value: JSONValue) throws {
        #expect(try Self.parse(text) == value)
    }

    @Test(arguments: accepted)
    func `skips a well-formed value in a member that no caller reads`(text: String, value: JSONValue) throws {
        let whole = try Self.parse("{\"ignored\":\(text),\"version\":\"1.0.0\"}")
        #expect(whole.objectValue?["ignored"] == value)
        #expect(whole.objectValue?["version"]?.stringValue == "1.0.0")
    }

    @Test(arguments: IllFormedUTF8.boundaries)
    func `reads the first and last scalar of each row of well-formed UTF-8`(value: UInt32) throws {
        let text = String(try #require(Unicode.Scalar(value)))
        #expect(try Self.parse("\"\(text)\"").stringValue?.unicodeScalars.map(\.value) == [value])
    }

    @Test func `keeps names apart that differ only in their normal form`() throws {
        let object = try #require(try Self.parse("{\"\u{E9}\":1,\"e\u{301}\":2}").objectValue)
        #expect(object.members.map { Array($0.name.utf8) } == [[0xC3, 0xA9], [0x65, 0xCC, 0x81]])
        #expect(object["\u{E9}"] == .integer(1))
        #expect(object["e\u{301}"] == .integer(2))
    }

    @Test(arguments: [2, 16, 17, 18, 40])
    func `finds a duplicate member in an object of any size`(count: Int) throws {
        let members = (0..<count).map { "\"m\($0)\":\($0)" }
        let unique = try #require(try Self.parse("{\(members.joined(separator: ","))}").objectValue)
        #expect(unique.members.map(\.name) == (0..<count).map { "m\($0)" })
        for victim in 0..<count {
            let text = "{\(members.joined(separator: ",")),\"\\u006d\(victim)\":0}"
            let offset = members.joined(separator: ",").utf8.count + 2
            #expect(throws: JSONError.duplicateMember(name: "m\(victim)", offset: offset)) { try Self.parse(text) }
        }
    }

    @Test func `keeps many names with one normal form apart`() throws {
        let marks = ["\u{301}", "\u{323}", "\u{327}", "\u{31B}"]
        var names: Set<[UInt8]> = []
        for a in marks {
            for b in marks where b != a {
                for c in marks where c != a && c != b { names.insert(Array("o\(a)\(b)\(c)".utf8)) }
            }
        }
        let members = names.map { "\"\(String(decoding: $0, as: UTF8.self))\":1" }
        #expect(try Self.parse("{\(members.joined(separator: ","))}").objectValue?.members.count == 24)
    }

    @Test func `limits nesting by the caller's and by its own maximum`() throws {
        func nested(_ depth: Int) -> String {
            String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        }
        #expect(throws: Never.self) { try Self.parse(nested(16)) }
        #expect(throws: Never.self) { try Self.parse("[" + nested(15) + "," + nested(15) + "]") }
        #expect(throws: JSONError.tooDeep(limit: 0, offset: 0)) { try Self.parse("[]", maximumDepth: 0) }
        #expect(try Self.parse("1", maximumDepth: 0) == .integer(1))
        #expect(throws: Never.self) { try Self.parse(nested(128), maximumDepth: .max) }
        #expect(throws: JSONError.tooDeep(limit: 128, offset: 128)) { try Self.parse(nested(129), maximumDepth: .max) }
    }

    @Test func `reads a document of exactly the maximum length and rejects one byte more`() throws {
        #expect(try JSONScanner.parse([UInt8]("[10]".utf8), maximumBytes: 4) == .array([.integer(10)]))
        #expect(throws: JSONError.tooLong(bytes: 5, limit: 4)) {
            try JSONScanner.parse([UInt8]("[10] ".utf8), maximumBytes: 4)
        }
    }

    @Test func `rejects every truncation of a document`() throws {
        let text = "{\"a\":[1,-20,true,null,\"x\\u00e9\\ud83d\\ude00é\"],\"b\":{\"c\":false}}"
        let bytes = [UInt8](text.utf8)
        #expect(throws: Never.self) { try JSONScanner.parse(bytes, maximumBytes: 1000) }
        for end in bytes.indices {
            #expect(throws: JSONError.self) { try JSONScanner.parse(Array(bytes[..<end]), maximumBytes: 1000) }
        }
    }

    @Test func `does not trap on random bytes and random damage`() {
        var random = SeededGenerator(seed: 20)
        let sample = [UInt8]("{\"a\":[1,-20,\"\\ud83d\\ude00é\"],\"b\":{\"c\":false}}".utf8)
        var refused = 0
        for _ in 0..<3000 {
            var bytes = sample
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            bytes.removeLast(Int.random(in: 0...2, using: &random))
            do { _ = try JSONScanner.parse(bytes, maximumBytes: 1000) } catch { refused += 1 }
        }
        #expect(refused > 2000)
    }

    @Test(arguments: RefusedDocument.all)
    func `describes an error in one printable line with its offset`(document: RefusedDocument) {
        let text = document.error.description
        #expect(text.contains("JSON document"))
        #expect(!text.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x7F })
        switch document.error {
        case .empty, .byteOrderMark: #expect(document.error.offset == 0)
        default: #expect(text.hasSuffix(" at byte \(document.error.offset) of the JSON document"))
        }
    }

    @Test func `describes both lengths of a long document and escapes a duplicate name`() {
        #expect(
            JSONError.tooLong(bytes: 5, limit: 4).description == "the JSON document has 5 bytes; at most 4 are read")
        #expect(JSONError.tooLong(bytes: 5, limit: 4).offset == 4)
        #expect(
            JSONError.duplicateMember(name: "a\u{202E}", offset: 7).description
                == "the duplicate member \"a\\xE2\\x80\\xAE\" at byte 7 of the JSON document")
        #expect(
            JSONError.unexpectedByte(0x5D, expected: .value, offset: 3).description
                == "\"]\" where a value is expected at byte 3 of the JSON document")
    }
}
