/// A strict JSON parser for documents from outside: RFC 8259 and a few more rules.
///
/// Parsers disagree about duplicate members, number forms and encodings, so a document that uses them can have two
/// meanings. This parser rejects them everywhere, including in members that the caller ignores.
package enum JSONScanner {
    /// The largest nesting that a caller may allow. It bounds the stack.
    package static let deepestNesting = 128

    /// The largest nesting of documents from outside.
    package static let defaultDepth = 16

    /// Parses one value with only white space around it.
    ///
    /// Throws if the input has more than `maximumBytes` bytes, has more than `maximumDepth` nested arrays and objects (at
    /// most `deepestNesting`), is not UTF-8, starts with a byte order mark, has a duplicate member, or has a number that
    /// is not a plain integer within ±(2^53-1).
    package static func parse(
        _ bytes: [UInt8], maximumBytes: Int, maximumDepth: Int = JSONScanner.defaultDepth
    ) throws(JSONError) -> JSONValue {
        var reader = try JSONReader(bytes, maximumBytes: maximumBytes, maximumDepth: maximumDepth)
        return try reader.readDocument()
    }
}

/// A recursive descent parser over the bytes of one document.
///
/// `JSONScanner.parse` reads a whole document with it. Callers stream documents that are too large for that, or that have
/// fractional numbers, and skip the members that they do not need.
package struct JSONReader: Sendable {
    let bytes: [UInt8]
    let depthLimit: Int
    package internal(set) var position = 0
    /// The number of containers entered and not yet left.
    var depth = 0
    /// Whether the innermost container has not returned a member or element yet.
    var isAtStart = false

    /// Creates a reader at the start of a document.
    ///
    /// Throws if the document has more than `maximumBytes` bytes, is empty, or starts with a byte order mark.
    /// `maximumDepth` limits the nesting (at most `JSONScanner.deepestNesting`).
    package init(
        _ bytes: [UInt8], maximumBytes: Int, maximumDepth: Int = JSONScanner.defaultDepth
    ) throws(JSONError) {
        guard bytes.count <= maximumBytes else { throw .tooLong(bytes: bytes.count, limit: maximumBytes) }
        guard !bytes.isEmpty else { throw .empty }
        guard !Self.startsWithByteOrderMark(bytes) else { throw .byteOrderMark }
        self.bytes = bytes
        depthLimit = min(maximumDepth, JSONScanner.deepestNesting)
    }

    private static func startsWithByteOrderMark(_ bytes: [UInt8]) -> Bool {
        bytes.starts(with: [0xEF, 0xBB, 0xBF]) || bytes.starts(with: [0xFE, 0xFF]) || bytes.starts(with: [0xFF, 0xFE])
    }

    mutating func readDocument() throws(JSONError) -> JSONValue {
        let value = try readValue()
        try finish()
        return value
    }

    private mutating func readValue() throws(JSONError) -> JSONValue {
        switch try kind() {
        case .object: return .object(try readObject())
        case .array: return .array(try readArray())
        case .string: return .string(try readString())
        case .number: return .integer(try readInteger())
        case .bool: return .bool(try readBool())
        case .null:
            try consume("null")
            return .null
        }
    }

    private mutating func readObject() throws(JSONError) -> JSONObject {
        var object = JSONObject()
        try enterObject()
        while try advanceToMember() {
            let start = position
            let name = try readString()
            try consumeColon()
            guard object.insert(try readValue(), named: name) else { throw .duplicateMember(name: name, offset: start) }
        }
        return object
    }

    private mutating func readArray() throws(JSONError) -> [JSONValue] {
        var elements: [JSONValue] = []
        try enterArray()
        while try nextElement() { elements.append(try readValue()) }
        return elements
    }

    mutating func readInteger() throws(JSONError) -> Int {
        let start = position
        let isNegative = bytes[position] == UInt8(ascii: "-")
        if isNegative { position += 1 }
        let first = position
        var magnitude = 0
        while position < bytes.count, let digit = bytes[position].digitValue {
            // The value is out of range already; stop before it overflows.
            if magnitude <= JSONValue.maximumInteger { magnitude = magnitude * 10 + digit }
            position += 1
        }
        let digits = position - first
        guard digits > 0, digits == 1 || bytes[first] != UInt8(ascii: "0") else {
            throw .malformedNumber(offset: start)
        }
        if position < bytes.count, [UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E")].contains(bytes[position]) {
            throw .notAnInteger(offset: start)
        }
        guard !isNegative || magnitude != 0 else { throw .notAnInteger(offset: start) }
        guard magnitude <= JSONValue.maximumInteger else { throw .integerOutOfRange(offset: start) }
        return isNegative ? -magnitude : magnitude
    }

    mutating func step() {
        position += 1
        skipWhiteSpace()
    }

    mutating func skipWhiteSpace() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }

    func peek() throws(JSONError) -> UInt8 {
        guard position < bytes.count else { throw .unexpectedEnd(offset: bytes.count) }
        return bytes[position]
    }

    func unexpected(_ expected: JSONExpectation) -> JSONError {
        .unexpectedByte(bytes[position], expected: expected, offset: position)
    }
}
