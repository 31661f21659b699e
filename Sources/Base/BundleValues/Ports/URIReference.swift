struct URLRefusal: Error {
    let reason: String
}

/// The five components of a URI or relative reference (RFC 3986, appendix B).
struct URIReference: Sendable, Hashable {
    var scheme: [UInt8]?
    var authority: [UInt8]?
    var path: [UInt8]
    var query: [UInt8]?
    var fragment: [UInt8]?

    init(parsing text: String) {
        var rest = Array(text.utf8)[...]
        if let hash = rest.firstIndex(of: UInt8(ascii: "#")) {
            fragment = Array(rest[(hash + 1)...])
            rest = rest[..<hash]
        }
        if let mark = rest.firstIndex(of: UInt8(ascii: "?")) {
            query = Array(rest[(mark + 1)...])
            rest = rest[..<mark]
        }
        if let colon = rest.firstIndex(of: UInt8(ascii: ":")), Self.isScheme(rest[..<colon]) {
            scheme = Array(rest[..<colon])
            rest = rest[(colon + 1)...]
        }
        if rest.starts(with: "//".utf8) {
            rest = rest.dropFirst(2)
            let end = rest.firstIndex(of: UInt8(ascii: "/")) ?? rest.endIndex
            authority = Array(rest[..<end])
            rest = rest[end...]
        }
        path = Array(rest)
    }

    private static func isScheme(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard let first = bytes.first, first.isASCIILetter else { return false }
        return bytes.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "+-.".utf8.contains($0) }
    }

    /// RFC 3986, section 5.2.2, strict.
    func resolved(against base: URIReference) -> URIReference {
        var target = self
        target.scheme = scheme ?? base.scheme
        if scheme == nil && authority == nil {
            target.authority = base.authority
            if path.isEmpty {
                target.path = base.path
                target.query = query ?? base.query
                return target
            }
            if path.first != UInt8(ascii: "/") { target.path = merged(with: base) }
        }
        target.path = Self.removingDotSegments(target.path)
        return target
    }

    /// RFC 3986, section 5.2.3.
    private func merged(with base: URIReference) -> [UInt8] {
        if base.authority != nil, base.path.isEmpty { return Array("/".utf8) + path }
        guard let slash = base.path.lastIndex(of: UInt8(ascii: "/")) else { return path }
        return base.path[...slash] + path
    }

    /// RFC 3986, section 5.2.4.
    static func removingDotSegments(_ path: [UInt8]) -> [UInt8] {
        var kept: [ArraySlice<UInt8>] = []
        let segments = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            let isLast = index == segments.count - 1
            let isDot = segment.elementsEqual(".".utf8)
            let isDoubleDot = segment.elementsEqual("..".utf8)
            // The first segment of an absolute path is the empty text before its first slash, which ".." does not remove.
            if isDoubleDot, kept.count > 1 { kept.removeLast() }
            if !isDot && !isDoubleDot {
                kept.append(segment)
            } else if isLast {
                kept.append([])
            }
        }
        return Array(kept.joined(separator: [UInt8(ascii: "/")]))
    }

    /// RFC 3986, section 5.3.
    var text: String {
        var bytes: [UInt8] = []
        if let scheme { bytes += scheme + [UInt8(ascii: ":")] }
        if let authority { bytes += Array("//".utf8) + authority }
        bytes += path
        if let query { bytes += [UInt8(ascii: "?")] + query }
        if let fragment { bytes += [UInt8(ascii: "#")] + fragment }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension URIReference {
    private static let maximumLength = 8192

    /// Converts scheme and host to lower case, and checks all rules of `FetchURL`.
    mutating func normalizeForFetching() throws(URLRefusal) -> (FetchURL.Scheme, FetchURL.Origin) {
        try checkCharacters()
        guard let written = scheme else { throw URLRefusal(reason: "it is not absolute") }
        let lowered = written.map(\.asciiLowered)
        guard let known = FetchURL.Scheme(rawValue: String(decoding: lowered, as: UTF8.self)) else {
            throw URLRefusal(reason: "its scheme is not http, https or file")
        }
        scheme = lowered
        guard let authority else { throw URLRefusal(reason: "'//' must follow the scheme") }
        // Every process of the machine can read the arguments of a command.
        guard !authority.contains(UInt8(ascii: "@")) else {
            throw URLRefusal(reason: "it has a user or password; keep secrets in a file")
        }
        self.authority = authority.map(\.asciiLowered)
        return (known, known == .file ? try fileOrigin() : try serverOrigin(known))
    }

    private func checkCharacters() throws(URLRefusal) {
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
            // libcurl decodes a percent-encoded host, so it would connect to another host than the origin names.
            guard host.allSatisfy({ $0.isUnreserved }) else {
                throw URLRefusal(reason: "the host is not a name or address")
            }
        }
        guard !host.isEmpty else { throw URLRefusal(reason: "the host is missing") }
        let port = try port(after: authority[host.endIndex...]) ?? (scheme == .https ? 443 : 80)
        return FetchURL.Origin(scheme: scheme, host: String(decoding: host, as: UTF8.self), port: port)
    }

    /// RFC 3986 allows a colon without digits.
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
