import BundleValues
import Testing

@Suite("JSONReader") struct JSONReaderTests {
    private static func reader(_ text: String, maximumDepth: Int = 16) throws -> JSONReader {
        try JSONReader([UInt8](text.utf8), maximumBytes: 1 << 20, maximumDepth: maximumDepth)
    }

    @Test func `iterates over members and elements and returns the range of skipped values`() throws {
        let text = " {\"a\" : [1, {\"b\":[]} ,2.5e-3],\"c\":{},\"d\\u0065\":\"x\\n\" , \"f\":[] } "
        var reader = try Self.reader(text)
        var found: [String] = []
        try reader.enterObject()
        while let name = try reader.nextMember(maximumBytes: 100) {
            if name == "a" {
                try reader.enterArray()
                while try reader.nextElement() {
                    let range = try reader.skipValue()
                    found.append(String(decoding: Array(text.utf8)[range], as: UTF8.self))
                }
            } else {
                found.append("\(name) \(try reader.readScalar(maximumBytes: 100))")
            }
        }
        try reader.finish()
        #expect(found == ["1", "{\"b\":[]}", "2.5e-3", "c other", "de string(\"x\\n\")", "f other"])
    }

    @Test(arguments: [
        ("null", JSONScalar.null), ("true", .bool(true)), (" false", .bool(false)), ("12", .integer(12)),
        ("-1", .integer(-1)), ("1.0", .other), ("1e3", .other), ("-0", .other), ("9007199254740992", .other),
        ("[true]", .other), ("{}", .other), ("\"\"", .string("")), ("\"\\u00e9\"", .string("é")),
    ])
    func `reads a scalar`(text: String, scalar: JSONScalar) throws {
        var reader = try Self.reader(text)
        #expect(try reader.readScalar(maximumBytes: 10) == scalar)
        try reader.finish()
    }

    /// Errors that only `JSONScanner` detects: duplicate members, and numbers that are not plain integers.
    private static func isLegal(_ document: RefusedDocument) -> Bool {
        switch document.error {
        case .duplicateMember, .integerOutOfRange: return true
        case .notAnInteger:
            let text = String(decoding: document.bytes, as: UTF8.self).lowercased()
            return !text.contains(".e") && text.allSatisfy { "0123456789.e+-[]".contains($0) }
                && !text.hasSuffix("e") && !text.hasSuffix("+") && !text.hasSuffix("-") && !text.hasSuffix(".")
        default: return false
        }
    }

    @Test(arguments: RefusedDocument.all)
    func `rejects only values outside RFC 8259 when it skips`(document: RefusedDocument) {
        let skip = {
            var reader = try JSONReader(document.bytes, maximumBytes: 1 << 20)
            _ = try reader.skipValue()
            try reader.finish()
        }
        if Self.isLegal(document) {
            #expect(throws: Never.self) { try skip() }
        } else if case .notAnInteger(let offset) = document.error {
            #expect(throws: JSONError.malformedNumber(offset: offset)) { try skip() }
        } else {
            #expect(throws: document.error) { try skip() }
        }
    }

    @Test(arguments: ["01", "-", "-a", "1.", "1.e1", "1e", "1e+", ".5", "+1", "1.5.", "1e1.5", "00", "- 1", "0x1"])
    func `rejects malformed numbers when it skips`(text: String) throws {
        var reader = try Self.reader("[\(text)]")
        #expect(throws: JSONError.self) { try reader.skipValue() }
    }

    @Test(arguments: ["0", "-0", "0.0", "-0.10", "1E5", "1e+05", "123.456e-789", "9007199254740993", "1e9999"])
    func `skips numbers of any form and size`(text: String) throws {
        var reader = try Self.reader("[\(text),\(text)]")
        #expect(try reader.skipValue() == 0..<text.utf8.count * 2 + 3)
        try reader.finish()
    }

    @Test(arguments: [
        ("{\"a\":1,}", JSONError.unexpectedByte(0x7D, expected: .memberName, offset: 7)),
        ("{,}", .unexpectedByte(0x2C, expected: .memberNameOrEnd, offset: 1)),
        ("{\"a\" 1}", .unexpectedByte(0x31, expected: .colon, offset: 5)),
        ("{\"a\":1 \"b\":2}", .unexpectedByte(0x22, expected: .commaOrBrace, offset: 7)),
        ("{\"a\":1", .unexpectedEnd(offset: 6)), ("[]", .unexpectedByte(0x5B, expected: .object, offset: 0)),
        ("{\"a\":1} 2", .trailingBytes(offset: 8)), ("{\"abcdef\":1}", .stringTooLong(limit: 5, offset: 2)),
    ])
    func `rejects a malformed object`(text: String, error: JSONError) throws {
        var reader = try Self.reader(text)
        #expect(throws: error) {
            try reader.enterObject()
            while try reader.nextMember(maximumBytes: 5) != nil { _ = try reader.skipValue() }
            try reader.finish()
        }
    }

    @Test(arguments: [
        ("[1,]", JSONError.unexpectedByte(0x5D, expected: .value, offset: 3)),
        ("[,1]", .unexpectedByte(0x2C, expected: .value, offset: 1)),
        ("[1 2]", .unexpectedByte(0x32, expected: .commaOrBracket, offset: 3)), ("[1", .unexpectedEnd(offset: 2)),
        ("[\"abcdef\"]", .stringTooLong(limit: 5, offset: 2)),
        ("{}", .unexpectedByte(0x7B, expected: .array, offset: 0)),
    ])
    func `rejects a malformed array`(text: String, error: JSONError) throws {
        var reader = try Self.reader(text)
        #expect(throws: error) {
            try reader.enterArray()
            while try reader.nextElement() { _ = try reader.readScalar(maximumBytes: 5) }
            try reader.finish()
        }
    }

    @Test func `reads a string of exactly the maximum length and rejects one byte more`() throws {
        for text in ["\"abcde\"", "\"abc\\n\"", "\"\""] {
            var reader = try Self.reader(text)
            #expect(try reader.skipValue() == 0..<text.utf8.count)
            reader = try Self.reader(text)
            _ = try reader.readScalar(maximumBytes: 5)
        }
        for text in ["\"abcdef\"", "\"\\u0041\"", "\"abcd\\n\"", "\"abcdefghij"] {
            var reader = try Self.reader(text)
            #expect(throws: JSONError.stringTooLong(limit: 5, offset: 1)) { try reader.readScalar(maximumBytes: 5) }
        }
        var unended = try Self.reader("\"abc")
        #expect(throws: JSONError.unexpectedEnd(offset: 4)) { try unended.readScalar(maximumBytes: 5) }
    }

    @Test func `counts entered and skipped containers toward the maximum depth`() throws {
        let text = "[[[[]]]]"
        var fits = try Self.reader(text, maximumDepth: 4)
        try fits.enterArray()
        _ = try fits.nextElement()
        _ = try fits.skipValue()
        var tooDeep = try Self.reader(text, maximumDepth: 3)
        try tooDeep.enterArray()
        _ = try tooDeep.nextElement()
        #expect(throws: JSONError.tooDeep(limit: 3, offset: 3)) { try tooDeep.skipValue() }
    }
}
