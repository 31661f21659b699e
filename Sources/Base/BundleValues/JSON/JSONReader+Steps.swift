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
    mutating func advanceToMember() throws(JSONError) -> Bool {
        let expected = isAtStart ? JSONExpectation.memberNameOrEnd : .memberName
        guard try advance(to: UInt8(ascii: "}"), expecting: .commaOrBrace) else { return false }
        guard try peek() == UInt8(ascii: "\"") else { throw unexpected(expected) }
        return true
    }

    mutating func consumeColon() throws(JSONError) {
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

    mutating func readBool() throws(JSONError) -> Bool {
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
