/// Why bytes are not a JSON document that this product reads; offsets count bytes from the start, from 0.
package enum JSONError: Error, Sendable, Equatable {
    /// There is no byte at all.
    case empty
    /// The document has more bytes than the caller allows.
    case tooLong(bytes: Int, limit: Int)
    /// The document starts with a byte order mark, of UTF-8 or UTF-16.
    case byteOrderMark
    /// The bytes are not well-formed UTF-8.
    case invalidUTF8(offset: Int)
    /// More arrays and objects inside one another than the caller allows.
    case tooDeep(limit: Int, offset: Int)
    /// The document ends inside a value.
    case unexpectedEnd(offset: Int)
    /// A byte that the grammar does not allow there.
    case unexpectedByte(UInt8, expected: JSONExpectation, offset: Int)
    /// Something follows the document.
    case trailingBytes(offset: Int)
    /// The name stands twice in one object; compared after unescaping.
    case duplicateMember(name: String, offset: Int)
    /// A control character stands unescaped in a string.
    case controlCharacter(UInt8, offset: Int)
    /// A backslash is not followed by one of RFC 8259's escapes.
    case invalidEscape(offset: Int)
    /// A `\u` escape names half of a surrogate pair.
    case loneSurrogate(offset: Int)
    /// A string or name has more bytes between its quotes than the caller allows.
    case stringTooLong(limit: Int, offset: Int)
    /// A number has no digit after its sign, point or exponent, or a leading zero.
    case malformedNumber(offset: Int)
    /// A number has a fraction or an exponent, or is -0.
    case notAnInteger(offset: Int)
    /// A number is beyond ±(2^53-1).
    case integerOutOfRange(offset: Int)
}

/// What the grammar of RFC 8259 wants at some place.
package enum JSONExpectation: String, Sendable {
    /// Any value.
    case value = "a value"
    /// An object.
    case object = "an object"
    /// An array.
    case array = "an array"
    /// A quoted member name, or the end of an empty object.
    case memberNameOrEnd = "a quoted member name or '}'"
    /// A quoted member name.
    case memberName = "a quoted member name"
    /// The colon behind a member name.
    case colon = "':'"
    /// The next element or the end of an array.
    case commaOrBracket = "',' or ']'"
    /// The next member or the end of an object.
    case commaOrBrace = "',' or '}'"
}

extension JSONError {
    /// Where it went wrong, in bytes from the start.
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
    /// One line for people: what is wrong, where, and what is wanted instead.
    package var description: String {
        switch self {
        case .empty: "the JSON document is empty"
        case .tooLong(let bytes, let limit): "the JSON document has \(bytes) bytes; at most \(limit) are read"
        case .byteOrderMark: "the JSON document starts with a byte order mark; save it as UTF-8 without one"
        default: "\(complaint) at byte \(offset) of the JSON document"
        }
    }

    private var complaint: String {
        switch self {
        case .empty, .tooLong, .byteOrderMark: ""
        case .invalidUTF8: "invalid UTF-8"
        case .tooDeep(let limit, _): "more than \(limit) arrays and objects inside one another"
        case .unexpectedEnd: "the text ends too early"
        case .unexpectedByte(let byte, let expected, _):
            "\"\(UntrustedName.display([byte]))\" where \(expected.rawValue) is wanted"
        case .trailingBytes: "more text after the value"
        case .duplicateMember(let name, _): "the member \"\(UntrustedName.display(name))\" a second time"
        case .controlCharacter(let byte, _): "the unescaped control character \(UntrustedName.display([byte]))"
        case .invalidEscape: "an escape that JSON does not have"
        case .loneSurrogate: "half of a surrogate pair"
        case .stringTooLong(let limit, _): "a string of more than \(limit) bytes"
        case .malformedNumber: "a malformed number"
        case .notAnInteger: "a number that is not a plain integer"
        case .integerOutOfRange: "a number beyond ±9007199254740991"
        }
    }
}
