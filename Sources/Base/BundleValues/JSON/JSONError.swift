/// The reason why bytes are not a JSON document that this package accepts. Offsets are in bytes from the start.
package enum JSONError: Error, Sendable, Equatable {
    case empty
    /// The document is longer than the caller allows.
    case tooLong(bytes: Int, limit: Int)
    /// The document starts with a byte order mark of UTF-8 or UTF-16.
    case byteOrderMark
    case invalidUTF8(offset: Int)
    /// Arrays and objects are nested deeper than the caller allows.
    case tooDeep(limit: Int, offset: Int)
    case unexpectedEnd(offset: Int)
    case unexpectedByte(UInt8, expected: JSONExpectation, offset: Int)
    case trailingBytes(offset: Int)
    /// An object has two members of the same name after unescaping.
    case duplicateMember(name: String, offset: Int)
    /// A string contains a control character that is not escaped.
    case controlCharacter(UInt8, offset: Int)
    /// A backslash is not followed by an escape of RFC 8259.
    case invalidEscape(offset: Int)
    /// A `\u` escape is one half of a surrogate pair.
    case loneSurrogate(offset: Int)
    /// A string or name is longer than the caller allows, in bytes between its quotes.
    case stringTooLong(limit: Int, offset: Int)
    /// A number has a leading zero, or no digit after its sign, point or exponent.
    case malformedNumber(offset: Int)
    /// A number has a fraction or an exponent, or is -0.
    case notAnInteger(offset: Int)
    /// A number is outside ±(2^53-1).
    case integerOutOfRange(offset: Int)
}

/// The syntax that RFC 8259 allows at the position of an unexpected byte.
package enum JSONExpectation: String, Sendable {
    case value = "a value"
    case object = "an object"
    case array = "an array"
    case memberNameOrEnd = "a quoted member name or '}'"
    case memberName = "a quoted member name"
    case colon = "':'"
    case commaOrBracket = "',' or ']'"
    case commaOrBrace = "',' or '}'"
}

extension JSONError {
    /// The position of the fault, in bytes from the start.
    package var offset: Int {
        switch self {
        case .empty, .byteOrderMark: 0
        case .tooLong(_, let limit): limit
        case .invalidUTF8(let offset), .tooDeep(_, let offset), .stringTooLong(_, let offset),
            .unexpectedEnd(let offset),
            .unexpectedByte(_, _, let offset), .trailingBytes(let offset), .duplicateMember(_, let offset),
            .controlCharacter(_, let offset), .invalidEscape(let offset), .loneSurrogate(let offset),
            .malformedNumber(let offset), .notAnInteger(let offset), .integerOutOfRange(let offset):
            offset
        }
    }
}

extension JSONError: CustomStringConvertible {
    /// One line with the fault and its offset.
    package var description: String {
        switch self {
        case .empty: "the JSON document is empty"
        case .tooLong(let bytes, let limit): "the JSON document has \(bytes) bytes; at most \(limit) are read"
        case .byteOrderMark: "the JSON document starts with a byte order mark; save it as UTF-8 without one"
        default: "\(problem) at byte \(offset) of the JSON document"
        }
    }

    private var problem: String {
        switch self {
        case .empty, .tooLong, .byteOrderMark: ""
        case .invalidUTF8: "invalid UTF-8"
        case .tooDeep(let limit, _): "more than \(limit) nested arrays and objects"
        case .unexpectedEnd: "an unexpected end"
        case .unexpectedByte(let byte, let expected, _):
            "\"\(UntrustedName.display([byte]))\" where \(expected.rawValue) is expected"
        case .trailingBytes: "more text after the value"
        case .duplicateMember(let name, _): "the duplicate member \"\(UntrustedName.display(name))\""
        case .controlCharacter(let byte, _): "the unescaped control character \(UntrustedName.display([byte]))"
        case .invalidEscape: "an invalid escape"
        case .loneSurrogate: "half of a surrogate pair"
        case .stringTooLong(let limit, _): "a string of more than \(limit) bytes"
        case .malformedNumber: "a malformed number"
        case .notAnInteger: "a number that is not a plain integer"
        case .integerOutOfRange: "a number outside ±9007199254740991"
        }
    }
}
