import BundleTesting
import Testing

@testable import BundleValues

@Suite("JSONWriter") struct JSONWriterTests {
    private static func text(_ value: JSONValue, _ layout: JSONWriter.Layout = .compact) -> String {
        String(decoding: JSONWriter.bytes(of: value, layout: layout), as: UTF8.self)
    }

    static let sample = JSONValue.object([
        "b": .integer(-1), "a": .array([.null, .bool(true), .array([]), .object([:])]),
        "c": .object(["x/y": .string("é")]),
    ])

    @Test func `writes the compact layout in member order without white space`() {
        #expect(Self.text(Self.sample) == "{\"b\":-1,\"a\":[null,true,[],{}],\"c\":{\"x/y\":\"é\"}}")
    }

    @Test func `writes the pretty layout with indentation and a final line feed`() {
        #expect(
            Self.text(Self.sample, .pretty) == """
                {
                  "b": -1,
                  "a": [
                    null,
                    true,
                    [],
                    {}
                  ],
                  "c": {
                    "x/y": "é"
                  }
                }

                """)
    }

    @Test func `escapes the characters that RFC 8259 requires and those that do not print`() throws {
        let controls = String(String.UnicodeScalarView((0..<0x20).compactMap { Unicode.Scalar($0 as UInt32) }))
        #expect(
            Self.text(.string(controls + "\"\\/\u{7F}\u{9B}\u{200B}\u{202E}\u{2028}\u{E0041}é😀"))
                == #""\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f"#
                + #"\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f"#
                + #"\"\\/\u007f\u009b\u200b\u202e\u2028\udb40\udc41é😀""#)
        for value in UInt32(0)...0x10FFFF {
            guard let scalar = Unicode.Scalar(value), !PrintableText.prints(scalar) else { continue }
            let written = JSONWriter.bytes(of: .string(String(scalar)))
            guard written.allSatisfy({ 0x20 <= $0 && $0 < 0x7F }),
                try JSONScanner.parse(written, maximumBytes: 64) == .string(String(scalar))
            else {
                Issue.record("U+\(String(value, radix: 16)): \(written)")
                return
            }
        }
    }

    @Test(arguments: [JSONWriter.Layout.compact, .pretty])
    func `writes values that the scanner reads back unchanged`(layout: JSONWriter.Layout) throws {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<300 {
            let value = Self.randomValue(depth: 0, using: &random)
            let bytes = JSONWriter.bytes(of: value, layout: layout)
            #expect(try JSONScanner.parse(bytes, maximumBytes: .max) == value)
        }
    }

    private static func randomValue(depth: Int, using random: inout SeededGenerator) -> JSONValue {
        switch Int.random(in: 0..<(depth < 5 ? 8 : 5), using: &random) {
        case 0: return .null
        case 1: return .bool(Bool.random(using: &random))
        case 2: return .integer(Int.random(in: -JSONValue.maximumInteger...JSONValue.maximumInteger, using: &random))
        case 3: return .integer(Int.random(in: -20...20, using: &random))
        case 4: return .string(randomText(using: &random))
        case 5:
            let count = Int.random(in: 0...5, using: &random)
            return .array((0..<count).map { _ in randomValue(depth: depth + 1, using: &random) })
        default:
            var object = JSONObject()
            for _ in 0..<Int.random(in: 0...24, using: &random) {
                object[randomText(using: &random)] = randomValue(depth: depth + 2, using: &random)
            }
            return .object(object)
        }
    }

    private static func randomText(using random: inout SeededGenerator) -> String {
        let limits: [UInt32] = [0x20, 0x80, 0x300, 0x3000, 0x110000]
        var text = String.UnicodeScalarView()
        for _ in 0..<Int.random(in: 0...8, using: &random) {
            let limit = limits[Int.random(in: 0..<limits.count, using: &random)]
            if let scalar = Unicode.Scalar(UInt32.random(in: 0..<limit, using: &random)) { text.append(scalar) }
        }
        return String(text)
    }
}
