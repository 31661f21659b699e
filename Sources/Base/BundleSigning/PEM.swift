/// The PEM encoding of keys (RFC 7468).
enum PEM {
    struct KeyBlock {
        let label: String
        /// Whether the block has headers such as `Proc-Type` (RFC 1421). Only keys with the traditional encryption have
        /// them.
        let hasHeaders: Bool
        /// The base64 text without line breaks.
        var base64: [UInt8]
    }

    /// The largest accepted file. Keys are much smaller.
    static let byteLimit = 65_536

    /// Returns all blocks, and ignores text outside of them (RFC 7468, section 2).
    static func blocks(in bytes: [UInt8]) throws(KeyError) -> [KeyBlock] {
        guard bytes.count <= byteLimit else { throw .tooLarge(byteCount: bytes.count) }
        var blocks: [KeyBlock] = []
        var lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map(trimmed)[...]
        while let line = lines.popFirst() {
            if line.starts(with: Array("-----BEGIN ".utf8)) {
                let label = try label(of: line, boundary: "-----BEGIN ")
                blocks.append(try block(label: label, from: &lines, atMost: bytes.count))
            } else if line.starts(with: Array("-----END ".utf8)) {
                throw .malformedPEM("an END line has no BEGIN line")
            }
        }
        return blocks
    }

    /// Encodes one block with 64 digits per line.
    static func encode(_ der: [UInt8], label: String) -> [UInt8] {
        var digits = Base64.encodedBytes(der)
        defer { cleanse(&digits) }
        var text = Array("-----BEGIN \(label)-----\n".utf8)
        text.reserveCapacity(text.count * 2 + digits.count + digits.count / 64 + 1)
        for start in stride(from: 0, to: digits.count, by: 64) {
            text += digits[start..<min(start + 64, digits.count)]
            text.append(UInt8(ascii: "\n"))
        }
        text += "-----END \(label)-----\n".utf8
        return text
    }

    private static func block(
        label: String, from lines: inout ArraySlice<ArraySlice<UInt8>>, atMost capacity: Int
    ) throws(KeyError) -> KeyBlock {
        var hasHeaders = false
        var base64: [UInt8] = []
        base64.reserveCapacity(capacity)
        while let line = lines.popFirst() {
            if line.starts(with: Array("-----".utf8)) {
                guard try Self.label(of: line, boundary: "-----END ") == label else {
                    throw .malformedPEM("the block \(label) ends with another label")
                }
                return KeyBlock(label: label, hasHeaders: hasHeaders, base64: base64)
            }
            if line.contains(UInt8(ascii: ":")) {
                hasHeaders = true
            } else {
                base64 += line
            }
        }
        throw .malformedPEM("the block \(label) has no end")
    }

    /// Returns the label of a boundary line. It must be printable ASCII because messages contain it.
    private static func label(of line: ArraySlice<UInt8>, boundary: String) throws(KeyError) -> String {
        let dashes = Array("-----".utf8)
        let label = line.dropFirst(boundary.utf8.count).dropLast(dashes.count)
        guard line.starts(with: boundary.utf8), line.suffix(dashes.count).elementsEqual(dashes),
            (1...64).contains(label.count), label.allSatisfy({ (0x20...0x7e).contains($0) })
        else { throw .malformedPEM("a boundary line is damaged") }
        return String(decoding: label, as: UTF8.self)
    }

    private static func trimmed(_ line: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var line = line
        while let last = line.last,
            last == UInt8(ascii: " ") || last == UInt8(ascii: "\t") || last == UInt8(ascii: "\r")
        {
            line.removeLast()
        }
        return line
    }
}

extension PEM.KeyBlock {
    func der() throws(KeyError) -> [UInt8] {
        guard !hasHeaders else { throw .malformedPEM("the block \(label) has header lines") }
        do {
            return try Base64.decodedBytes(base64)
        } catch {
            throw .malformedPEM("\(error)")
        }
    }
}
