extension URIReference {
    private static let maximumLength = 8192

    /// Lowers scheme and host and checks everything a `FetchURL` promises.
    mutating func normalizeForFetching() throws(URLRefusal) -> (FetchURL.Scheme, FetchURL.Origin) {
        try refuseForeignCharacters()
        guard let written = scheme else { throw URLRefusal(reason: "it is not absolute") }
        let lowered = written.map(\.asciiLowered)
        guard let known = FetchURL.Scheme(rawValue: String(decoding: lowered, as: UTF8.self)) else {
            throw URLRefusal(reason: "its scheme is not http, https or file")
        }
        scheme = lowered
        guard let authority else { throw URLRefusal(reason: "'//' must follow the scheme") }
        // A password in an argument is seen by every process of the machine.
        guard !authority.contains(UInt8(ascii: "@")) else {
            throw URLRefusal(reason: "it has a user or password; keep secrets in a file")
        }
        self.authority = authority.map(\.asciiLowered)
        return (known, known == .file ? try fileOrigin() : try serverOrigin(known))
    }

    private func refuseForeignCharacters() throws(URLRefusal) {
        let bytes = Array(text.utf8)
        guard bytes.count <= Self.maximumLength else { throw URLRefusal(reason: "it is longer than 8 KiB") }
        for (index, byte) in bytes.enumerated() {
            guard byte.isURICharacter else {
                throw URLRefusal(reason: "it has a space, control or other character that must be percent-encoded")
            }
            if byte == UInt8(ascii: "%") {
                guard index + 2 < bytes.count, bytes[index + 1].hexValue != nil, bytes[index + 2].hexValue != nil else {
                    throw URLRefusal(reason: "'%' must be followed by two hex digits")
                }
            }
        }
    }

    private mutating func fileOrigin() throws(URLRefusal) -> FetchURL.Origin {
        guard let authority, authority.isEmpty || authority.elementsEqual("localhost".utf8) else {
            throw URLRefusal(reason: "a file URL has three slashes and no host")
        }
        self.authority = []
        guard path.first == UInt8(ascii: "/") else { throw URLRefusal(reason: "the path is not absolute") }
        guard query == nil, fragment == nil else {
            throw URLRefusal(reason: "'?' and '#' in a file name must be percent-encoded")
        }
        guard !PercentEncoding.decode(path).contains(0) else { throw URLRefusal(reason: "the path has a NUL") }
        return FetchURL.Origin(scheme: .file, host: "", port: 0)
    }

    private func serverOrigin(_ scheme: FetchURL.Scheme) throws(URLRefusal) -> FetchURL.Origin {
        let authority = authority ?? []
        let host: ArraySlice<UInt8>
        if authority.first == UInt8(ascii: "[") {
            guard let end = authority.firstIndex(of: UInt8(ascii: "]")), end > 2,
                authority[1..<end].contains(UInt8(ascii: ":")),
                authority[1..<end].allSatisfy({ $0.hexValue != nil || ":.".utf8.contains($0) })
            else { throw URLRefusal(reason: "the address in brackets is not IPv6") }
            host = authority[...end]
        } else {
            host = authority.prefix { $0 != UInt8(ascii: ":") }
            // libcurl decodes a percent-encoded host, so it would not be the one that origins are compared by.
            guard host.allSatisfy({ $0.isUnreserved }) else {
                throw URLRefusal(reason: "the host is not a name or address")
            }
        }
        guard !host.isEmpty else { throw URLRefusal(reason: "the host is missing") }
        let port = try port(after: authority[host.endIndex...]) ?? (scheme == .https ? 443 : 80)
        return FetchURL.Origin(scheme: scheme, host: String(decoding: host, as: UTF8.self), port: port)
    }

    /// RFC 3986 lets the digits after the colon be missing.
    private func port(after rest: ArraySlice<UInt8>) throws(URLRefusal) -> Int? {
        guard let colon = rest.first else { return nil }
        let digits = rest.dropFirst()
        guard colon == UInt8(ascii: ":"), digits.allSatisfy(\.isASCIIDigit) else {
            throw URLRefusal(reason: "the port is not a number")
        }
        if digits.isEmpty { return nil }
        guard let port = Int(String(decoding: digits, as: UTF8.self)), (1...65535).contains(port) else {
            throw URLRefusal(reason: "the port is not within 1...65535")
        }
        return port
    }
}

/// RFC 3986, section 2.1.
package enum PercentEncoding {
    /// A path with everything encoded but unreserved characters and slashes.
    package static func encode(path: [UInt8]) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var encoded: [UInt8] = []
        for byte in path {
            if byte.isUnreserved || byte == UInt8(ascii: "/") {
                encoded.append(byte)
            } else {
                encoded += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }

    /// What the escapes spell; nil where a '%' has no two digits behind it.
    package static func decodeStrictly(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        for index in bytes.indices where bytes[index] == UInt8(ascii: "%") {
            guard index + 2 < bytes.endIndex, bytes[index + 1].hexValue != nil, bytes[index + 2].hexValue != nil else {
                return nil
            }
        }
        return decode(Array(bytes))
    }

    /// A '%' without two digits stays as it is.
    static func decode(_ bytes: [UInt8]) -> [UInt8] {
        var decoded: [UInt8] = []
        var index = 0
        while index < bytes.count {
            if bytes[index] == UInt8(ascii: "%"), index + 2 < bytes.count, let high = bytes[index + 1].hexValue,
                let low = bytes[index + 2].hexValue
            {
                decoded.append(high << 4 | low)
                index += 3
            } else {
                decoded.append(bytes[index])
                index += 1
            }
        }
        return decoded
    }
}

extension UInt8 {
    var isUnreserved: Bool { isASCIILetter || isASCIIDigit || "-._~".utf8.contains(self) }
    var isURICharacter: Bool { isUnreserved || ":/?#[]@!$&'()*+,;=%".utf8.contains(self) }
}
