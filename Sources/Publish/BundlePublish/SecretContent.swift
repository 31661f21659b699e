import BundleSigning
import BundleValues
import Glibc

/// Finds private keys in the bytes of files, whatever their names. A pure rule.
enum SecretContent: Equatable {
    /// The file is one, or holds one beside certificates.
    case keyFile
    /// One stands in something else, such as a script.
    case keyInside

    /// What `bytes` hold; nil for nothing secret.
    static func find(in bytes: [UInt8]) -> SecretContent? {
        if isDER(bytes) || isPGP(bytes) { return .keyFile }
        let plain = isWide(bytes) ? bytes.filter { $0 != 0 } : bytes
        // Most begin with no mark, and are not copied.
        let text = plain.first.map(marks.contains) == true ? Array(plain.drop(while: marks.contains)) : plain
        if let found = keyLine(text) { return found }
        let holdsKey = [holdsPEM, holdsAge, holdsEncodedPEM].contains { $0(text) != false }
        return holdsKey || isJWK(text) ? .keyInside : nil
    }

    // MARK: Key files

    /// Of PEM and what else has a key as text, the first line that says so. A script or a page that quotes one has code or markup
    /// before it. A header without key material may be a placeholder.
    private static func keyLine(_ text: [UInt8]) -> SecretContent? {
        var rest = text.prefix(headBytes)
        while !rest.isEmpty {
            let line = rest.prefix { $0 != UInt8(ascii: "\n") }
            rest = rest[line.endIndex...].dropFirst()
            let words = String(decoding: line.prefix(128), as: UTF8.self)
            if words.hasPrefix("AGE-SECRET-KEY-") || words.hasPrefix("PuTTY-User-Key-File-")
                || words.hasPrefix("untrusted comment:") && words.contains("secret key")
            {
                return .keyFile
            }
            if words.hasPrefix("-----BEGIN ") && words.contains("PRIVATE KEY")
                || words.hasPrefix("---- BEGIN SSH2 ") && words.contains("PRIVATE KEY")
            {
                return holdsPEM(text) == true ? .keyFile : .keyInside
            }
            let isComment = line.first == UInt8(ascii: "#")
            if !isComment && line.contains(where: "<{`\"'".utf8.contains) { return nil }
        }
        return nil
    }

    /// A key may stand behind certificates.
    private static let headBytes = 256 << 10

    /// What a text may begin with to name its letters.
    private static let marks: Set<UInt8> = [0xEF, 0xBB, 0xBF, 0xFE, 0xFF]

    /// UTF-16, as editors write it.
    private static func isWide(_ bytes: [UInt8]) -> Bool {
        let head = bytes.prefix(64)
        return head.starts(with: [0xFF, 0xFE]) || head.starts(with: [0xFE, 0xFF])
            || head.count > 8 && head.count(where: { $0 == 0 }) * 5 > head.count * 2
    }

    /// A key in DER: PKCS#8 (RFC 5958), its encrypted form, PKCS#1 (RFC 8017, A.1.2), SEC 1 (RFC 5915); or PKCS#12 (RFC 7292). The
    /// outermost sequence is as long as the file, but for an end of line.
    private static func isDER(_ bytes: [UInt8]) -> Bool {
        guard bytes.first == 0x30, bytes.count > 16, let (length, start) = derLength(bytes, at: 1),
            (0...2).contains(bytes.count - start - length)
        else { return false }
        let body = bytes[start...]
        if body.starts(with: [0x02, 0x01]), let version = body.dropFirst(2).first, let tag = body.dropFirst(3).first,
            let (inner, content) = derLength(bytes, at: start + 4), content < bytes.count
        {
            switch (version, tag) {
            // An algorithm comes first, by its identifier; other documents have a sequence there.
            case (0...1, 0x30): return bytes[content] == 0x06
            case (0, 0x02): return inner >= 64
            case (1, 0x04): return (20...66).contains(inner)
            case (3, 0x30): return bytes[content] == 0x06
            default: return false
            }
        }
        // Encrypted: the algorithm is one of PKCS#5 or PKCS#12.
        guard body.first == 0x30, let (_, inner) = derLength(bytes, at: start + 1) else { return false }
        let algorithm = bytes[inner...].prefix(12)
        return algorithm.starts(with: [0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x05])
            || algorithm.starts(with: [0x06, 0x0A, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x0C, 0x01])
    }

    /// A secret key as gpg writes it: its packet comes first, and another one follows (RFC 9580, 4.2 and 5.5.3).
    private static func isPGP(_ bytes: [UInt8]) -> Bool {
        guard bytes.count > 32 else { return false }
        func number(_ count: Int, at index: Int) -> Int {
            bytes[index..<index + count].reduce(0) { $0 << 8 | Int($1) }
        }
        let packet: (start: Int, length: Int)
        switch (bytes[0], bytes[1]) {
        case (0x94, let length),
            (0xC5, let length) where length < 192:
            packet = (2, Int(length))
        case (0x95, _): packet = (3, number(2, at: 1))
        case (0xC5, 192..<224): packet = (3, number(2, at: 1) - (192 << 8) + 192)
        case (0x96, _): packet = (5, number(4, at: 1))
        case (0xC5, 255): packet = (6, number(4, at: 2))
        default: return false
        }
        let end = packet.start + packet.length
        guard packet.length >= 24, end <= bytes.count, end == bytes.count || bytes[end] >= 0x80 else { return false }
        // The version, when it was made, the algorithm.
        return (3...6).contains(bytes[packet.start])
            && [1, 2, 3, 16, 17, 18, 19, 22, 25, 26, 27, 28].contains(bytes[packet.start + 5])
    }

    /// The length that is stated at `index`, and where what has that length begins (X.690, section 8.1.3).
    private static func derLength(_ bytes: [UInt8], at index: Int) -> (length: Int, start: Int)? {
        guard index < bytes.count else { return nil }
        let first = Int(bytes[index])
        if first < 0x80 { return (first, index + 1) }
        let count = first & 0x7F
        guard (1...3).contains(count), index + count < bytes.count else { return nil }
        let length = bytes[index + 1...index + count].reduce(0) { $0 << 8 | Int($1) }
        return (length, index + count + 1)
    }

    // MARK: Keys inside

    /// A header of a private key with key material behind it: libraries that only name the header have none.
    private static func holdsPEM(_ text: [UInt8]) -> Bool? {
        holds("PRIVATE KEY", in: text) { before, rest in
            guard find(Array("BEGIN".utf8), in: before.suffix(32)) != nil,
                find(Array("----".utf8), in: rest.prefix(12)) != nil
            else { return nil }
            return startsWithKey(Array(rest.prefix(2048)))
        }
    }

    /// The identity of age, which is one word.
    private static func holdsAge(_ text: [UInt8]) -> Bool? {
        holds("AGE-SECRET-KEY-1", in: text) { _, rest in rest.prefix(50).count(where: isBase64) == 50 ? true : nil }
    }

    /// A PEM file that is written in base64, as it stands in settings and in secrets of a cluster, or a file that has one inside;
    /// something else may come first in it, as certificates do.
    private static func holdsEncodedPEM(_ text: [UInt8]) -> Bool? {
        text.withUnsafeBytes { whole in
            var rest = whole[...]
            while let location = find(encodedDashes, in: rest) {
                guard isEncodedBeginning(whole[location...]) else {
                    rest = whole[(location + 1)...]
                    continue
                }
                let (digits, end) = base64(whole[location...])
                let quads = digits.prefix(digits.count / 4 * 4)
                if let file = try? Base64.decode(String(decoding: quads, as: UTF8.self)), holdsPEM(file) != false {
                    return true
                }
                rest = whole[end...]
            }
            return false
        }
    }

    private static let encodedDashes = Array("LS0t".utf8)
    /// `-----BEGIN ` in base64, without what it shares with the three bytes before: one for each place in a group of three.
    private static let encodedBeginnings = ["LS0tLS1CRUdJTi", "LS0tLUJFR0lO", "LS0tQkVHSU4g"]

    private static func isEncodedBeginning(_ bytes: Slice<UnsafeRawBufferPointer>) -> Bool {
        encodedBeginnings.contains { bytes.starts(with: $0.utf8) }
    }

    /// The digits that `bytes` begin with, and where they end, in however many lines they are. What begins like a PEM file is another one.
    private static func base64(_ bytes: Slice<UnsafeRawBufferPointer>) -> (digits: [UInt8], end: Int) {
        var digits: [UInt8] = []
        var index = bytes.startIndex
        while index < bytes.endIndex {
            if isBase64(bytes[index]) && bytes[index] != UInt8(ascii: "=") {
                digits.append(bytes[index])
                index += 1
            } else if let next = nextLine(of: bytes[index...]) {
                index = next
                if isEncodedBeginning(bytes[index...]) { break }
            } else {
                break
            }
        }
        return (digits, index)
    }

    private static let lineEnds = ["r", "n", "u000a", "u000A", "u000d", "u000D", "x0a", "x0A", "x0d", "x0D"]
    private static let markup = ["<br>", "<br/>", "<br />"]
    private static let quotes = Set("\"'`".utf8)
    private static let space = Set(" \t\r\n\u{0B}\u{0C}".utf8)

    /// Where a text goes on behind the end of its line that `bytes` begin with: white space, a line end as a string or as markup has
    /// it, or the end of a string and the beginning of the next one. Nil where there is none.
    private static func nextLine(of bytes: Slice<UnsafeRawBufferPointer>) -> Int? {
        func starts(_ bytes: Slice<UnsafeRawBufferPointer>, with words: [String]) -> Int? {
            words.first { bytes.starts(with: $0.utf8) }.map { bytes.startIndex + $0.utf8.count }
        }
        let backslash = UInt8(ascii: "\\")
        let rest = bytes.drop { $0 == backslash }
        guard let first = rest.first else { return nil }
        if space.contains(first) { return rest.startIndex + 1 }
        if quotes.contains(first) {
            let joint = rest.dropFirst().drop { space.contains($0) || "+,.".utf8.contains($0) }.drop { $0 == backslash }
            return joint.first.map(quotes.contains) == true ? joint.startIndex + 1 : nil
        }
        return rest.startIndex > bytes.startIndex ? starts(rest, with: lineEnds) : starts(rest, with: markup)
    }

    /// Whether `mark` stands in `text` somewhere, with what `isIt` of the bytes before it and behind it; nil where that is plain at
    /// once. Nil where so many stand that looking at each takes minutes.
    private static func holds(
        _ mark: String, in text: [UInt8],
        _ isIt: (Slice<UnsafeRawBufferPointer>, Slice<UnsafeRawBufferPointer>) -> Bool?
    ) -> Bool? {
        let mark = Array(mark.utf8)
        return text.withUnsafeBytes { whole in
            var rest = whole[...]
            var looks = 0
            while let location = find(mark, in: rest) {
                rest = whole[(location + mark.count)...]
                guard let isFound = isIt(whole[..<location], rest) else { continue }
                looks += 1
                if isFound { return true }
                if looks == 1_000 { return nil }
            }
            return false
        }
    }

    private static func find(_ mark: [UInt8], in bytes: Slice<UnsafeRawBufferPointer>) -> Int? {
        guard let base = bytes.base.baseAddress, let first = mark.first else { return nil }
        var start = bytes.startIndex
        while start + mark.count <= bytes.endIndex {
            guard let found = memchr(base + start, Int32(first), bytes.endIndex - start - mark.count + 1) else {
                return nil
            }
            let location = UnsafeRawPointer(found) - base
            if memcmp(found, mark, mark.count) == 0 { return location }
            start = location + 1
        }
        return nil
    }

    /// Whether `text`, which follows the words of a header, goes on as a key does: the end of the header, perhaps lines such as
    /// `Proc-Type: 4,ENCRYPTED`, then base64 of a key. Line ends may be written as in a string literal, an address or markup, lines be
    /// shorter than a key's, and all of them comments or quotations.
    private static func startsWithKey(_ text: [UInt8]) -> Bool {
        var text = String(decoding: text, as: UTF8.self)[...]
        if text.hasPrefix(" BLOCK") { text = text.dropFirst(6) }
        guard text.hasPrefix("-----") || text.hasPrefix(" ----") else { return false }
        let lines = String(text.dropFirst(5)).replacing("\\/", with: "/")
            .replacing(/\\r|\\n|\\u000[aAdD]|&#(?:10|13|[xX]0*[aAdD]);|%0[aAdD]|<br ?\/?>/, with: "\n")
            .split(whereSeparator: \.isNewline)
            .map { $0.drop { "\"'`+,; \t\\/*#>".contains($0) } }.filter { !$0.isEmpty }
        guard let start = lines.prefix(16).firstIndex(where: { !$0.contains(": ") }),
            // Encrypted as OpenSSL did it once, it begins with anything.
            lines[..<start].contains(where: { $0.hasPrefix("Proc-Type: 4,ENCRYPTED") })
                || beginnings.contains(where: lines[start].hasPrefix)
        else { return false }
        let key = lines[start...].map { $0.utf8.prefix(while: isBase64).count }.prefix { $0 >= 16 }
        return key.reduce(0, +) >= 48
    }

    /// How base64 of keys begins: a DER sequence, `openssh-key-v1`, the number of SSH2, and the packets of PGP.
    private static let beginnings = ["M", "b3BlbnNz", "P2/56w", "l", "x"]

    private static func isBase64(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="):
            true
        default: false
        }
    }

    /// A private JSON Web Key (RFC 7517), alone or inside something: a key type, and what is secret in keys of that type.
    private static func isJWK(_ text: [UInt8]) -> Bool {
        guard text.count <= 64 << 10,
            text.first(where: { !" \t\r\n".utf8.contains($0) }).map("{[".utf8.contains) == true,
            let value = try? JSONScanner.parse(text, maximumBytes: 64 << 10)
        else { return false }
        return isJWK(value)
    }

    private static func isJWK(_ value: JSONValue) -> Bool {
        switch value {
        case .array(let values): values.contains(where: isJWK)
        case .object(let object): isSecret(object) || object.members.contains { isJWK($0.value) }
        default: false
        }
    }

    /// The members `d` and `k` of RFC 7518, sections 6.2 to 6.4, in base64url.
    private static func isSecret(_ key: JSONObject) -> Bool {
        let secret: String? =
            switch key["kty"]?.stringValue {
            case "RSA", "EC", "OKP": key["d"]?.stringValue
            case "oct": key["k"]?.stringValue
            default: nil
            }
        guard let secret, secret.utf8.count >= 20 else { return false }
        return secret.utf8.allSatisfy { isBase64($0) || "-_".utf8.contains($0) }
    }
}
