/// A recursive descent over the bytes of one document.
///
/// `JSONScanner.parse` reads a whole document with it. Documents too large for that, and those with numbers that are none
/// of ours, are stepped through member by member, and what nobody wants is skipped.
public struct JSONReader: Sendable {
    let bytes: [UInt8]
    let depthLimit: Int
    /// The offset of the next byte to read.
    public internal(set) var position = 0
    /// Containers entered step by step and not yet left.
    var depth = 0
    /// Whether the innermost of them has given nothing yet.
    var isAtStart = false

    /// Starts before the one value of a document.
    ///
    /// Refuses more than `maximumBytes` bytes and a byte order mark; `maximumDepth` (at most `JSONScanner.deepestNesting`)
    /// bounds the arrays and objects inside one another.
    public init(
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
        skipWhiteSpace()
        let value = try readValue(depth: 0)
        skipWhiteSpace()
        guard position == bytes.count else { throw .trailingBytes(offset: position) }
        return value
    }

    private mutating func readValue(depth: Int) throws(JSONError) -> JSONValue {
        switch try peek() {
        case UInt8(ascii: "{"): return .object(try readObject(depth: depth + 1))
        case UInt8(ascii: "["): return .array(try readArray(depth: depth + 1))
        case UInt8(ascii: "\""): return .string(try readString())
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .integer(try readInteger())
        case UInt8(ascii: "t"): return try readLiteral("true", .bool(true))
        case UInt8(ascii: "f"): return try readLiteral("false", .bool(false))
        case UInt8(ascii: "n"): return try readLiteral("null", .null)
        case let byte: throw .unexpectedByte(byte, expected: .value, offset: position)
        }
    }

    private mutating func readObject(depth: Int) throws(JSONError) -> JSONObject {
        try open(depth)
        var object = JSONObject()
        guard try peek() != UInt8(ascii: "}") else { return close(object) }
        var wanted = JSONExpectation.memberNameOrEnd
        while true {
            let start = position
            guard try peek() == UInt8(ascii: "\"") else { throw unexpected(wanted) }
            let name = try readString()
            skipWhiteSpace()
            guard try peek() == UInt8(ascii: ":") else { throw unexpected(.colon) }
            step()
            let value = try readValue(depth: depth)
            guard object.insert(name, value) else { throw .duplicateMember(name: name, offset: start) }
            skipWhiteSpace()
            let next = try peek()
            if next == UInt8(ascii: "}") { return close(object) }
            guard next == UInt8(ascii: ",") else { throw unexpected(.commaOrBrace) }
            step()
            wanted = .memberName
        }
    }

    private mutating func readArray(depth: Int) throws(JSONError) -> [JSONValue] {
        try open(depth)
        var elements: [JSONValue] = []
        guard try peek() != UInt8(ascii: "]") else { return close(elements) }
        while true {
            elements.append(try readValue(depth: depth))
            skipWhiteSpace()
            let next = try peek()
            if next == UInt8(ascii: "]") { return close(elements) }
            guard next == UInt8(ascii: ",") else { throw unexpected(.commaOrBracket) }
            step()
        }
    }

    private mutating func readLiteral(_ word: StaticString, _ value: JSONValue) throws(JSONError) -> JSONValue {
        for index in 0..<word.utf8CodeUnitCount {
            guard try peek() == word.utf8Start[index] else { throw unexpected(.value) }
            position += 1
        }
        return value
    }

    mutating func readInteger() throws(JSONError) -> Int {
        let start = position
        let isNegative = bytes[position] == UInt8(ascii: "-")
        if isNegative { position += 1 }
        let first = position
        var magnitude = 0
        while position < bytes.count, case let digit = bytes[position] &- UInt8(ascii: "0"), digit < 10 {
            // Past the limit the value no longer matters, and must not overflow.
            if magnitude <= JSONValue.maximumInteger { magnitude = magnitude * 10 + Int(digit) }
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

    mutating func open(_ depth: Int) throws(JSONError) {
        guard depth <= depthLimit else { throw .tooDeep(limit: depthLimit, offset: position) }
        step()
    }

    private mutating func close<Container>(_ container: Container) -> Container {
        position += 1
        return container
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
