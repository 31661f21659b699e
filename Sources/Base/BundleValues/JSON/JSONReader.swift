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
    private let depthLimit: Int
    package internal(set) var position = 0
    /// The number of containers entered and not yet left.
    var depth = 0
    /// Whether the innermost container has not returned a member or element yet.
    private var isAtStart = false

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

    private mutating func skipWhiteSpace() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }

    private func peek() throws(JSONError) -> UInt8 {
        guard position < bytes.count else { throw .unexpectedEnd(offset: bytes.count) }
        return bytes[position]
    }

    func unexpected(_ expected: JSONExpectation) -> JSONError {
        .unexpectedByte(bytes[position], expected: expected, offset: position)
    }
}

/// The next value of a document, if it is not an array or object.
package enum JSONScalar: Sendable, Equatable {
    case null
    case bool(Bool)
    /// A plain integer within ±(2^53-1).
    case integer(Int)
    /// An unescaped string.
    case string(String)
    /// An array, an object, or a number that is not a plain integer. The reader skipped it.
    case other
}

/// Streaming access: the reader holds only the bytes, and the caller keeps what it needs.
///
/// These functions do not detect duplicate members; the caller rejects those that matter to it.
extension JSONReader {
    /// The kind of a value.
    package enum Kind: Sendable, Equatable {
        case object, array, string, number, bool, null
    }

    /// Returns the kind of the next value without reading it.
    package mutating func kind() throws(JSONError) -> Kind {
        skipWhiteSpace()
        switch try peek() {
        case UInt8(ascii: "{"): return .object
        case UInt8(ascii: "["): return .array
        case UInt8(ascii: "\""): return .string
        case UInt8(ascii: "-"): return .number
        case let byte where byte.isASCIIDigit: return .number
        case UInt8(ascii: "t"), UInt8(ascii: "f"): return .bool
        case UInt8(ascii: "n"): return .null
        default: throw unexpected(.value)
        }
    }

    /// Enters the next value, which must be an object. `nextMember` iterates over its members and leaves it.
    package mutating func enterObject() throws(JSONError) { try enter(UInt8(ascii: "{"), expecting: .object) }

    /// Enters the next value, which must be an array. `nextElement` iterates over its elements and leaves it.
    package mutating func enterArray() throws(JSONError) { try enter(UInt8(ascii: "["), expecting: .array) }

    private mutating func enter(_ opening: UInt8, expecting expected: JSONExpectation) throws(JSONError) {
        skipWhiteSpace()
        guard try peek() == opening else { throw unexpected(expected) }
        guard depth < depthLimit else { throw .tooDeep(limit: depthLimit, offset: position) }
        step()
        depth += 1
        isAtStart = true
    }

    /// Returns the name of the next member, or nil at the end of the object. The caller must read, enter or skip its
    /// value before the next call.
    ///
    /// Throws `JSONError.stringTooLong` if the name has more than `maximumBytes` bytes.
    package mutating func nextMember(maximumBytes: Int) throws(JSONError) -> String? {
        guard try advanceToMember() else { return nil }
        let name = try readString(maximumBytes: maximumBytes)
        try consumeColon()
        return name
    }

    /// Advances to the name of the next member. Returns false at the end of the object.
    private mutating func advanceToMember() throws(JSONError) -> Bool {
        let expected = isAtStart ? JSONExpectation.memberNameOrEnd : .memberName
        guard try advance(to: UInt8(ascii: "}"), expecting: .commaOrBrace) else { return false }
        guard try peek() == UInt8(ascii: "\"") else { throw unexpected(expected) }
        return true
    }

    private mutating func consumeColon() throws(JSONError) {
        skipWhiteSpace()
        guard try peek() == UInt8(ascii: ":") else { throw unexpected(.colon) }
        step()
    }

    /// Advances to the next element. Returns false at the end of the array. The caller must read, enter or skip the
    /// element before the next call.
    package mutating func nextElement() throws(JSONError) -> Bool {
        try advance(to: UInt8(ascii: "]"), expecting: .commaOrBracket)
    }

    private mutating func advance(to end: UInt8, expecting expected: JSONExpectation) throws(JSONError) -> Bool {
        skipWhiteSpace()
        let next = try peek()
        if next == end {
            position += 1
            depth -= 1
            isAtStart = false
            return false
        }
        if !isAtStart {
            guard next == UInt8(ascii: ",") else { throw unexpected(expected) }
            step()
        }
        isAtStart = false
        return true
    }

    /// Reads the next value if it is a scalar; skips it and returns `other` if not.
    ///
    /// Throws `JSONError.stringTooLong` if a string has more than `maximumBytes` bytes between its quotes.
    package mutating func readScalar(maximumBytes: Int) throws(JSONError) -> JSONScalar {
        switch try kind() {
        case .null:
            try consume("null")
            return .null
        case .bool: return .bool(try readBool())
        case .string: return .string(try readString(maximumBytes: maximumBytes))
        case .number:
            var reader = self
            try skipNumber()
            return (try? reader.readInteger()).map(JSONScalar.integer) ?? .other
        case .object, .array:
            try skip()
            return .other
        }
    }

    /// Enters the next value if it is an object; skips it and returns false if not.
    package mutating func enterObjectOrSkip() throws(JSONError) -> Bool {
        if try kind() == .object {
            try enterObject()
            return true
        }
        _ = try skipValue()
        return false
    }

    /// Reads the next value. Returns nil if it is not a string. Throws if a string has more than `maximumBytes` bytes.
    package mutating func readText(maximumBytes: Int) throws(JSONError) -> String? {
        guard case .string(let text) = try readScalar(maximumBytes: maximumBytes) else { return nil }
        return text
    }

    /// Skips the next value and returns its byte range. The value must be valid by RFC 8259; numbers may have any form.
    package mutating func skipValue() throws(JSONError) -> Range<Int> {
        skipWhiteSpace()
        let start = position
        try skip()
        return start..<position
    }

    /// Throws `JSONError.trailingBytes` unless only white space follows.
    package mutating func finish() throws(JSONError) {
        skipWhiteSpace()
        guard position == bytes.count else { throw .trailingBytes(offset: position) }
    }

    // MARK: Skipping

    private mutating func skip() throws(JSONError) {
        switch try kind() {
        case .object:
            try enterObject()
            while try advanceToMember() {
                try skipString()
                try consumeColon()
                try skip()
            }
        case .array:
            try enterArray()
            while try nextElement() { try skip() }
        case .string: try skipString()
        case .number: try skipNumber()
        case .bool: _ = try readBool()
        case .null: try consume("null")
        }
    }

    private mutating func readBool() throws(JSONError) -> Bool {
        let isTrue = bytes[position] == UInt8(ascii: "t")
        try consume(isTrue ? "true" : "false")
        return isTrue
    }

    mutating func consume(_ word: StaticString) throws(JSONError) {
        for index in 0..<word.utf8CodeUnitCount {
            guard try peek() == word.utf8Start[index] else { throw unexpected(.value) }
            position += 1
        }
    }

    private mutating func skipNumber() throws(JSONError) {
        let start = position
        if bytes[position] == UInt8(ascii: "-") { position += 1 }
        let first = position
        let digits = skipDigits()
        guard digits > 0, digits == 1 || bytes[first] != UInt8(ascii: "0") else {
            throw .malformedNumber(offset: start)
        }
        if skipByte(in: ".") {
            guard skipDigits() > 0 else { throw .malformedNumber(offset: start) }
        }
        if skipByte(in: "eE") {
            _ = skipByte(in: "+-")
            guard skipDigits() > 0 else { throw .malformedNumber(offset: start) }
        }
    }

    private mutating func skipDigits() -> Int {
        let start = position
        while position < bytes.count, bytes[position].isASCIIDigit { position += 1 }
        return position - start
    }

    private mutating func skipByte(in set: String) -> Bool {
        guard position < bytes.count, set.utf8.contains(bytes[position]) else { return false }
        position += 1
        return true
    }
}

extension JSONReader {
    /// Reads and unescapes the string whose opening quote is at `position`. `maximumBytes` limits the bytes between the
    /// quotes.
    private mutating func readString(maximumBytes: Int = .max) throws(JSONError) -> String {
        position += 1
        let start = position
        if maximumBytes < .max { try checkLength(from: start, maximumBytes: maximumBytes) }
        if try advanceToDelimiter() == UInt8(ascii: "\"") {
            position += 1
            return String(decoding: bytes[start..<position - 1], as: UTF8.self)
        }
        var text = Array(bytes[start..<position])
        while bytes[position] == UInt8(ascii: "\\") {
            try readEscape(into: &text)
            let start = position
            _ = try advanceToDelimiter()
            text += bytes[start..<position]
        }
        position += 1
        return String(decoding: text, as: UTF8.self)
    }

    /// Scans up to the limit only. It does not validate the string.
    private func checkLength(from start: Int, maximumBytes: Int) throws(JSONError) {
        guard bytes.count - start > maximumBytes else { return }
        var index = start
        while index <= start + maximumBytes {
            if index >= bytes.count || bytes[index] == UInt8(ascii: "\"") { return }
            index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        throw .stringTooLong(limit: maximumBytes, offset: start)
    }

    /// Skips the string whose opening quote is at `position`.
    private mutating func skipString() throws(JSONError) {
        position += 1
        var unused: [UInt8] = []
        while try advanceToDelimiter() == UInt8(ascii: "\\") {
            unused.removeAll(keepingCapacity: true)
            try readEscape(into: &unused)
        }
        position += 1
    }

    /// Advances to the next quote or backslash, and returns it.
    private mutating func advanceToDelimiter() throws(JSONError) -> UInt8 {
        while position < bytes.count {
            let byte = bytes[position]
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { return byte }
            position += try lengthOfCharacter()
        }
        throw .unexpectedEnd(offset: bytes.count)
    }

    private func lengthOfCharacter() throws(JSONError) -> Int {
        let byte = bytes[position]
        if byte < 0x20 { throw .controlCharacter(byte, offset: position) }
        if byte < 0x80 { return 1 }
        guard let scalar = UTF8Decoding.scalar(in: bytes, at: position) else { throw .invalidUTF8(offset: position) }
        return scalar.length
    }

    private mutating func readEscape(into text: inout [UInt8]) throws(JSONError) {
        let start = position
        guard start + 1 < bytes.count else { throw .unexpectedEnd(offset: bytes.count) }
        position += 2
        switch bytes[start + 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(bytes[start + 1])
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "u"): text.append(contentsOf: String(try readScalar(escapedAt: start)).utf8)
        default: throw .invalidEscape(offset: start)
        }
    }

    /// Reads the four hexadecimal digits after `\u`, and the second half of a surrogate pair.
    private mutating func readScalar(escapedAt start: Int) throws(JSONError) -> Unicode.Scalar {
        let unit = try readHexadecimal(escapedAt: start)
        if let scalar = Unicode.Scalar(unit) { return scalar }
        guard unit < 0xDC00, position + 1 < bytes.count, bytes[position] == UInt8(ascii: "\\"),
            bytes[position + 1] == UInt8(ascii: "u")
        else { throw .loneSurrogate(offset: start) }
        let second = position
        position += 2
        let low = try readHexadecimal(escapedAt: second)
        guard (0xDC00...0xDFFF).contains(low),
            let scalar = Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00))
        else { throw .loneSurrogate(offset: start) }
        return scalar
    }

    private mutating func readHexadecimal(escapedAt start: Int) throws(JSONError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard position < bytes.count else { throw .unexpectedEnd(offset: bytes.count) }
            guard let digit = bytes[position].hexValue else { throw .invalidEscape(offset: start) }
            value = value << 4 | UInt32(digit)
            position += 1
        }
        return value
    }
}
