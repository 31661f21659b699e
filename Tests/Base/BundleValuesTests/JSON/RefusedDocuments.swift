import BundleValues
import Testing

/// A document that the scanner must reject, with the reason.
struct RefusedDocument: Sendable, CustomTestStringConvertible {
    let bytes: [UInt8]
    let error: JSONError

    init(_ text: String, _ error: JSONError) {
        self.init(bytes: [UInt8](text.utf8), error)
    }

    init(bytes: [UInt8], _ error: JSONError) {
        self.bytes = bytes
        self.error = error
    }

    var testDescription: String { UntrustedName.display(bytes, limit: 60) }

    /// Cases similar to JSONTestSuite's `n_` files, and to those of its `i_` and `y_` files that this package rejects.
    static let all: [RefusedDocument] =
        structure + arrays + objects + literals + numbers + strings + encodings + nesting

    private static func wrong(_ text: String, _ expected: JSONExpectation, at offset: Int) -> RefusedDocument {
        let bytes = [UInt8](text.utf8)
        return RefusedDocument(bytes: bytes, .unexpectedByte(bytes[offset], expected: expected, offset: offset))
    }

    private static func ending(_ text: String) -> RefusedDocument {
        RefusedDocument(text, .unexpectedEnd(offset: text.utf8.count))
    }

    private static let structure = [
        RefusedDocument("", .empty), ending(" "), ending("\n\t"),
        RefusedDocument("1 2", .trailingBytes(offset: 2)), RefusedDocument("[1]x", .trailingBytes(offset: 3)),
        RefusedDocument("{}}", .trailingBytes(offset: 2)), RefusedDocument("[]]", .trailingBytes(offset: 2)),
        RefusedDocument("{}//", .trailingBytes(offset: 2)), RefusedDocument("{}/**/", .trailingBytes(offset: 2)),
        RefusedDocument("{}#", .trailingBytes(offset: 2)), RefusedDocument("\"a\"b", .trailingBytes(offset: 3)),
        RefusedDocument("{}\0", .trailingBytes(offset: 2)), RefusedDocument("[]\u{C}", .trailingBytes(offset: 2)),
        RefusedDocument("[][]", .trailingBytes(offset: 2)), RefusedDocument("1]", .trailingBytes(offset: 1)),
        wrong("/* c */ 1", .value, at: 0), wrong("// c\n1", .value, at: 0), wrong("]", .value, at: 0),
        wrong("}", .value, at: 0), wrong(",", .value, at: 0), wrong(":", .value, at: 0), wrong("*", .value, at: 0),
        wrong("<null>", .value, at: 0), wrong("a", .value, at: 0), wrong("'a'", .value, at: 0),
        wrong("\u{C}1", .value, at: 0), wrong("\u{B}1", .value, at: 0), wrong("\u{A0}1", .value, at: 0),
        wrong("\u{2060}1", .value, at: 0), wrong("\0", .value, at: 0), wrong("\\u0041", .value, at: 0),
        wrong("[/* c */1]", .value, at: 1), wrong("[1/* c */]", .commaOrBracket, at: 2),
        wrong("{/* c */}", .memberNameOrEnd, at: 1), wrong("{\"a\":/* c */1}", .value, at: 5),
    ]

    private static let arrays = [
        wrong("[1,]", .value, at: 3), wrong("[,1]", .value, at: 1), wrong("[1,,2]", .value, at: 3),
        wrong("[,]", .value, at: 1), wrong("[1 true]", .commaOrBracket, at: 3),
        wrong("[\"a\" \"b\"]", .commaOrBracket, at: 5),
        wrong("[\"a\":1]", .commaOrBracket, at: 4), wrong("[1}", .commaOrBracket, at: 2),
        wrong("[1;2]", .commaOrBracket, at: 2),
        wrong("[3[4]]", .commaOrBracket, at: 2), ending("["), ending("[1"), ending("[1,"), ending("[\"a\",\n4\n,1,"),
    ]

    private static let objects = [
        wrong("{,}", .memberNameOrEnd, at: 1), wrong("{a:1}", .memberNameOrEnd, at: 1),
        wrong("{'a':1}", .memberNameOrEnd, at: 1), wrong("{1:1}", .memberNameOrEnd, at: 1),
        wrong("{null:1}", .memberNameOrEnd, at: 1), wrong("{[]:1}", .memberNameOrEnd, at: 1),
        wrong("{\"a\":1,}", .memberName, at: 7), wrong("{\"a\":1,,}", .memberName, at: 7),
        wrong("{\"a\":1,b:2}", .memberName, at: 7), wrong("{\"a\"}", .colon, at: 4), wrong("{\"a\",1}", .colon, at: 4),
        wrong("{\"a\" 1}", .colon, at: 5), wrong("{\"a\"=1}", .colon, at: 4), wrong("{\"a\"::1}", .value, at: 5),
        wrong("{\"a\":}", .value, at: 5), wrong("{\"a\":,}", .value, at: 5),
        wrong("{\"a\":1 \"b\":2}", .commaOrBrace, at: 7),
        wrong("{\"a\":1]", .commaOrBrace, at: 6), wrong("{\"a\":\"b\":1}", .commaOrBrace, at: 8),
        wrong("{\"a\":\"b\"#}", .commaOrBrace, at: 8), ending("{"), ending("{\"a\""), ending("{\"a\":"),
        ending("{\"a\":1"),
        ending("{\"a\":1,"),
        RefusedDocument("{\"a\":1,\"a\":1}", .duplicateMember(name: "a", offset: 7)),
        RefusedDocument("{\"a\":1,\"\\u0061\":2}", .duplicateMember(name: "a", offset: 7)),
        RefusedDocument("{\"\":1,\"\":2}", .duplicateMember(name: "", offset: 6)),
        RefusedDocument("{\"/\":1,\"\\/\":2}", .duplicateMember(name: "/", offset: 7)),
        RefusedDocument("{\"😀\":1,\"\\ud83d\\uDE00\":2}", .duplicateMember(name: "😀", offset: 10)),
        RefusedDocument("{\"x\":{\"a\":1,\"b\":2,\"a\":3}}", .duplicateMember(name: "a", offset: 18)),
        RefusedDocument("[{\"x\":[{\"a\":[],\"a\":{}}]}]", .duplicateMember(name: "a", offset: 15)),
    ]

    private static let literals = [
        wrong("True", .value, at: 0), wrong("NULL", .value, at: 0), wrong("tRue", .value, at: 1),
        wrong("nulL", .value, at: 3),
        wrong("falsy", .value, at: 4), wrong("NaN", .value, at: 0), wrong("nan", .value, at: 1),
        wrong("Infinity", .value, at: 0), wrong("undefined", .value, at: 0), ending("t"), ending("nul"), ending("fals"),
        RefusedDocument("truee", .trailingBytes(offset: 4)), RefusedDocument("nulll", .trailingBytes(offset: 4)),
    ]

    private static let numbers =
        ["-", "-a", "--1", "-Infinity", "01", "00", "-01", "-00", "012", "-.5", "- 1"].map {
            RefusedDocument($0, .malformedNumber(offset: 0))
        }
        + [
            "1.0", "0.5", "1e3", "1E3", "1e-3", "1E+2", "0e1", "-0", "-0.0", "-0e1", "1.", "1.e1", "1e", "1e+", "1.5e",
            "2.e3",
        ]
        .map { RefusedDocument($0, .notAnInteger(offset: 0)) }
        + [
            "9007199254740992", "-9007199254740992", "9007199254740993", "9223372036854775807", "9223372036854775808",
            "-9223372036854775808", "18446744073709551617", "100000000000000000000000000000000000000000000",
        ].map { RefusedDocument($0, .integerOutOfRange(offset: 0)) }
        + ["+1", ".5", "١", "１"].map { wrong($0, .value, at: 0) }
        + ["0x10", "1a", "1_000", "1-1", "1+1"].map { wrong("[" + $0 + "]", .commaOrBracket, at: 2) }

    private static let strings =
        [
            "\\x00", "\\a", "\\'", "\\0", "\\U0041", "\\u", "\\u1", "\\u00G0", "\\u+041", "\\u 041", "\\é", "\\\u{1}",
            "\\v",
        ].map {
            RefusedDocument("[\"\($0)\"]", .invalidEscape(offset: 2))
        }
        + [
            "\\ud800", "\\uDBFF", "\\udc00", "\\uDFFF", "\\ud800x", "\\ud800\\n", "\\ud800\\ud800", "\\ud800\\u0041",
            "\\udc00\\ud800", "\\ud83d\\\\ude00", "\\ud800\\ue000", "\\ud83dxude00",
            "\\ud83d\\nde00", "\\udc00\\udc00", "\\udc00\\uz",
        ].map { RefusedDocument("\"\($0)\"", .loneSurrogate(offset: 1)) }
        + (0..<0x20 as Range<UInt8>).map { RefusedDocument(bytes: [0x22, $0, 0x22], .controlCharacter($0, offset: 1)) }
        + [
            RefusedDocument("\"a\\n\n\"", .controlCharacter(0x0A, offset: 4)),
            RefusedDocument("{\"a\tb\":1}", .controlCharacter(0x09, offset: 3)),
            RefusedDocument("\"\\ud800\\uz\"", .invalidEscape(offset: 7)),
            ending("\""), ending("\"abc"), ending("\"\\"), ending("\"\\\""), ending("\"\\n"), ending("\"\\u00"),
            ending("\"\\ud83d\\u"), ending("[\"a"),
        ]

    /// Strings that are not well-formed UTF-8, with and without an escape before, and encodings other than UTF-8.
    private static let encodings =
        IllFormedUTF8.all.flatMap { bad in
            [
                RefusedDocument(bytes: [0x22] + bad + [0x22], .invalidUTF8(offset: 1)),
                RefusedDocument(bytes: [0x22, 0x5C, 0x6E] + bad + [0x22], .invalidUTF8(offset: 3)),
            ]
        } + [
            RefusedDocument(bytes: [0xEF, 0xBB, 0xBF, 0x7B, 0x7D], .byteOrderMark),
            RefusedDocument(bytes: [0xEF, 0xBB, 0xBF], .byteOrderMark),
            RefusedDocument(bytes: [0xFF, 0xFE, 0x7B, 0x00, 0x7D, 0x00], .byteOrderMark),
            RefusedDocument(bytes: [0xFE, 0xFF, 0x00, 0x7B, 0x00, 0x7D], .byteOrderMark),
            RefusedDocument(bytes: [0x00, 0x7B, 0x00, 0x7D], .unexpectedByte(0, expected: .value, offset: 0)),
            RefusedDocument(
                bytes: [0x7B, 0x00, 0x7D, 0x00], .unexpectedByte(0, expected: .memberNameOrEnd, offset: 1)),
            RefusedDocument(bytes: [0xE5], .unexpectedByte(0xE5, expected: .value, offset: 0)),
            RefusedDocument(bytes: [0x5B, 0xFF, 0x5D], .unexpectedByte(0xFF, expected: .value, offset: 1)),
        ]

    private static let nesting = [
        RefusedDocument(
            String(repeating: "[", count: 17) + String(repeating: "]", count: 17), .tooDeep(limit: 16, offset: 16)),
        RefusedDocument(
            String(repeating: "{\"a\":", count: 17) + "1" + String(repeating: "}", count: 17),
            .tooDeep(limit: 16, offset: 80)),
        RefusedDocument(String(repeating: "[", count: 100_000), .tooDeep(limit: 16, offset: 16)),
        RefusedDocument(String(repeating: "[{\"\":", count: 50_000), .tooDeep(limit: 16, offset: 40)),
    ]
}
