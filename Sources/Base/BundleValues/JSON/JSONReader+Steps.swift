/// A value that is no array and no object, as one finds it while stepping through a document.
package enum JSONScalar: Sendable, Equatable {
    /// The literal `null`.
    case null
    /// The literal `true` or `false`.
    case bool(Bool)
    /// A plain integer within ±(2^53-1).
    case integer(Int)
    /// Text, unescaped.
    case string(String)
    /// Anything else: an array, an object, or a number that is no plain integer. It was skipped.
    case other
}

/// Going through a document step by step: in memory is only what the caller keeps.
///
/// Names that stand twice are for the caller to refuse, who alone knows which of them matter.
extension JSONReader {
    /// What kind of value comes next.
    package enum Kind: Sendable, Equatable {
        /// One of the kinds of RFC 8259.
        case object, array, string, number, bool, null
    }

    /// Looks at the next value.
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

    /// Steps into the object that comes next; `nextMember` goes through it and out again.
    package mutating func enterObject() throws(JSONError) { try enter(UInt8(ascii: "{"), .object) }

    /// Steps into the array that comes next; `nextElement` goes through it and out again.
    package mutating func enterArray() throws(JSONError) { try enter(UInt8(ascii: "["), .array) }

    private mutating func enter(_ opening: UInt8, _ wanted: JSONExpectation) throws(JSONError) {
        skipWhiteSpace()
        guard try peek() == opening else { throw unexpected(wanted) }
        guard depth < depthLimit else { throw .tooDeep(limit: depthLimit, offset: position) }
        step()
        depth += 1
        isAtStart = true
    }

    /// Reads the name of the object's next member, whose value must be read, entered or skipped before the next call; nil
    /// where the object ends. More than `maximumBytes` bytes of name are refused.
    package mutating func nextMember(maximumBytes: Int) throws(JSONError) -> String? {
        guard try stepsToMember() else { return nil }
        let name = try readString(maximumBytes: maximumBytes)
        try passColon()
        return name
    }

    /// Whether the object has one more member; its name stands at `position` then.
    mutating func stepsToMember() throws(JSONError) -> Bool {
        let wanted = isAtStart ? JSONExpectation.memberNameOrEnd : .memberName
        guard try goesOn(to: UInt8(ascii: "}"), .commaOrBrace) else { return false }
        guard try peek() == UInt8(ascii: "\"") else { throw unexpected(wanted) }
        return true
    }

    mutating func passColon() throws(JSONError) {
        skipWhiteSpace()
        guard try peek() == UInt8(ascii: ":") else { throw unexpected(.colon) }
        step()
    }

    /// Whether the array has one more element, which must be read, entered or skipped before the next call.
    package mutating func nextElement() throws(JSONError) -> Bool {
        try goesOn(to: UInt8(ascii: "]"), .commaOrBracket)
    }

    private mutating func goesOn(to end: UInt8, _ wanted: JSONExpectation) throws(JSONError) -> Bool {
        skipWhiteSpace()
        let next = try peek()
        if next == end {
            position += 1
            depth -= 1
            isAtStart = false
            return false
        }
        if isAtStart {
            isAtStart = false
        } else {
            guard next == UInt8(ascii: ",") else { throw unexpected(wanted) }
            step()
        }
        return true
    }

    /// Reads the next value where it is a scalar, and skips it otherwise; a string of more than `maximumBytes` bytes between
    /// its quotes is refused.
    package mutating func readScalar(maximumBytes: Int) throws(JSONError) -> JSONScalar {
        let kind = try kind()
        if kind == .string { return .string(try readString(maximumBytes: maximumBytes)) }
        let first = bytes[position]
        let range = try skipValue()
        switch kind {
        case .null: return .null
        case .bool: return .bool(first == UInt8(ascii: "t"))
        case .number: return integer(in: range).map(JSONScalar.integer) ?? .other
        case .string, .object, .array: return .other
        }
    }

    private func integer(in range: Range<Int>) -> Int? {
        var reader = self
        reader.position = range.lowerBound
        guard let number = try? reader.readInteger() else { return nil }
        return number
    }

    /// Passes over the next value and tells which bytes it has; it must be RFC 8259, with numbers of any form.
    package mutating func skipValue() throws(JSONError) -> Range<Int> {
        skipWhiteSpace()
        let start = position
        try skip()
        return start..<position
    }

    /// Ends the document: behind its value may be white space only.
    package mutating func finish() throws(JSONError) {
        skipWhiteSpace()
        guard position == bytes.count else { throw .trailingBytes(offset: position) }
    }

    // MARK: Skipping

    private mutating func skip() throws(JSONError) {
        switch try kind() {
        case .object:
            try enterObject()
            while try stepsToMember() {
                try skipString()
                try passColon()
                try skip()
            }
        case .array:
            try enterArray()
            while try nextElement() { try skip() }
        case .string: try skipString()
        case .number: try skipNumber()
        case .bool: _ = try passBool()
        case .null: try pass("null")
        }
    }

    /// Passes over `true` or `false`, and tells which.
    mutating func passBool() throws(JSONError) -> Bool {
        let isTrue = bytes[position] == UInt8(ascii: "t")
        try pass(isTrue ? "true" : "false")
        return isTrue
    }

    mutating func pass(_ word: StaticString) throws(JSONError) {
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

    /// Steps into the value where it is an object, and skips it otherwise.
    package mutating func enterObjectOrSkip() throws(JSONError) -> Bool {
        if try kind() == .object {
            try enterObject()
            return true
        }
        _ = try skipValue()
        return false
    }

    /// The value where it is a text of at most `maximumBytes` bytes as written; nil for any other scalar.
    package mutating func readText(maximumBytes: Int) throws(JSONError) -> String? {
        guard case .string(let text) = try readScalar(maximumBytes: maximumBytes) else { return nil }
        return text
    }
}
