/// The door for JSON from outside that is ours: one document of RFC 8259, read more strictly than the RFC demands.
///
/// Readers that disagree about duplicate members, number forms or encodings let one document mean two things; so all
/// of these are refused, also inside members that nobody asks for.
package enum JSONScanner {
    /// The deepest nesting that any caller may allow; it bounds the stack.
    package static let deepestNesting = 128

    /// The deepest nesting that documents from outside may have.
    package static let defaultDepth = 16

    /// Reads exactly one value with nothing but white space around it.
    ///
    /// Refuses more than `maximumBytes` bytes, more than `maximumDepth` (at most `deepestNesting`) arrays and objects
    /// inside one another, anything but plain UTF-8 without a byte order mark, duplicate members, and numbers that
    /// are not plain integers within ±(2^53-1).
    package static func parse(
        _ bytes: [UInt8], maximumBytes: Int, maximumDepth: Int = JSONScanner.defaultDepth
    ) throws(JSONError) -> JSONValue {
        var reader = try JSONReader(bytes, maximumBytes: maximumBytes, maximumDepth: maximumDepth)
        return try reader.readDocument()
    }
}

/// A recursive descent over the bytes of one document.
///
/// `JSONScanner.parse` reads a whole document with it. Documents too large for that, and those with numbers that are none
/// of ours, are stepped through member by member, and what nobody wants is skipped.
package struct JSONReader: Sendable {
    let bytes: [UInt8]
    let depthLimit: Int
    /// The offset of the next byte to read.
    package internal(set) var position = 0
    /// Containers entered step by step and not yet left.
    var depth = 0
    /// Whether the innermost of them has given nothing yet.
    var isAtStart = false

    /// Starts before the one value of a document.
    ///
    /// Refuses more than `maximumBytes` bytes and a byte order mark; `maximumDepth` (at most `JSONScanner.deepestNesting`)
    /// bounds the arrays and objects inside one another.
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
        case .bool: return .bool(try passBool())
        case .null:
            try pass("null")
            return .null
        }
    }

    private mutating func readObject() throws(JSONError) -> JSONObject {
        var object = JSONObject()
        try enterObject()
        while try stepsToMember() {
            let start = position
            let name = try readString()
            try passColon()
            guard object.insert(name, try readValue()) else { throw .duplicateMember(name: name, offset: start) }
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
            // Past the limit the value no longer matters, and must not overflow.
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

    func unexpected(_ wanted: JSONExpectation) -> JSONError {
        .unexpectedByte(bytes[position], expected: wanted, offset: position)
    }
}
