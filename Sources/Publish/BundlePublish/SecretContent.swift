import CLibrary

/// Finds private keys in text: PEM blocks, and the first lines of other key files.
///
/// Keys in binary formats are only recognized by their file names (`MisplacedContent.Kind`).
enum SecretContent: Equatable {
    /// The file is a private key, perhaps after comments or certificates.
    case keyFile
    /// The file contains a private key, for example in a string of a script.
    case keyInside

    /// Returns the kind of the private key in `bytes`; nil if they contain none.
    static func find(in bytes: [UInt8]) -> SecretContent? {
        bytes.withUnsafeBytes { whole in
            let text = whole.starts(with: [0xEF, 0xBB, 0xBF]) ? whole[3...] : whole[...]
            return firstKeyLine(of: text) ?? (containsKey(text) ? .keyInside : nil)
        }
    }

    /// Searches the lines before any code or markup, because scripts and pages may quote a header.
    private static func firstKeyLine(of text: Slice<UnsafeRawBufferPointer>) -> SecretContent? {
        var rest = text.prefix(headBytes)
        while !rest.isEmpty {
            let line = rest.prefix { $0 != UInt8(ascii: "\n") }
            rest = rest[line.endIndex...].dropFirst()
            let words = String(decoding: line.prefix(128), as: UTF8.self)
            let isKeyLine = ["AGE-SECRET-KEY-", "PuTTY-User-Key-File-"].contains(where: words.hasPrefix)
            if isKeyLine || words.hasPrefix("untrusted comment:") && words.contains("secret key") { return .keyFile }
            if words.hasPrefix("-----BEGIN ") && words.contains("PRIVATE KEY") {
                // A header without a key may be a placeholder.
                return containsKey(text) ? .keyFile : .keyInside
            }
            let isComment = line.first == UInt8(ascii: "#")
            if !isComment && line.contains(where: "<{`\"'".utf8.contains) { return nil }
        }
        return nil
    }

    /// A key may follow many certificates.
    private static let headBytes = 256 << 10

    /// Returns whether `text` contains a PEM header of a private key with a key behind it. Libraries that only quote the
    /// header contain no key.
    private static func containsKey(_ text: Slice<UnsafeRawBufferPointer>) -> Bool {
        var rest = text
        while let name = range(of: "PRIVATE KEY", in: rest) {
            rest = text[name.upperBound...]
            if range(of: "-----BEGIN ", in: text[..<name.lowerBound].suffix(32)) != nil,
                String(decoding: rest.prefix(1024), as: UTF8.self).prefixMatch(of: keyStart) != nil
            {
                return true
            }
        }
        return false
    }

    /// The end of a header, then base64 of a key. The lines may be comments, quotations or parts of a string literal.
    ///
    /// Base64 of a key begins with a DER sequence, `openssh-key-v1` or an OpenPGP packet, or with anything after the header
    /// of an encrypted key.
    nonisolated(unsafe) private static let keyStart =
        /(?: BLOCK)?-----(?:[\s"'`+,;*#>\/]|\\[nr])*(?:(?:(?:Proc-Type|DEK-Info|Version|Comment): [^\n\\]{0,64}(?:\s|[*#>\/]|\\[nr])+)+|(?=M|b3BlbnNz|[lx]))[A-Za-z0-9+\/=]{40}/

    private static func range(of name: StaticString, in bytes: Slice<UnsafeRawBufferPointer>) -> Range<Int>? {
        guard let base = bytes.base.baseAddress else { return nil }
        let length = name.utf8CodeUnitCount
        var start = bytes.startIndex
        while start + length <= bytes.endIndex {
            let count = bytes.endIndex - start - length + 1
            guard let found = memchr(base + start, Int32(name.utf8Start.pointee), count) else { return nil }
            start = UnsafeRawPointer(found) - base
            if memcmp(found, name.utf8Start, length) == 0 { return start..<start + length }
            start += 1
        }
        return nil
    }
}
