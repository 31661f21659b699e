extension JSONReader {
    /// Reads and unescapes the string whose opening quote is at `position`. `maximumBytes` limits the bytes between the
    /// quotes.
    mutating func readString(maximumBytes: Int = .max) throws(JSONError) -> String {
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
    mutating func skipString() throws(JSONError) {
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
