extension FetchURL {
    /// The URL that `reference` means when it is found at this one (RFC 3986, section 5.2).
    ///
    /// Says nothing about whether one may go there: see `mayLead(to:)`.
    public func resolve(relative reference: String) throws(FetchError) -> FetchURL {
        try FetchURL(URIReference(parsing: reference).resolved(against: self.reference), text: reference)
    }
}

/// Why a text is no `FetchURL`.
struct URLRefusal: Error {
    var reason: String
}

/// The five parts of a URI or relative reference (RFC 3986, appendix B), as bytes.
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

    /// Section 5.2.2, strict.
    func resolved(against base: URIReference) -> URIReference {
        var target = self
        if scheme != nil {
            target.path = Self.removingDotSegments(path)
            return target
        }
        target.scheme = base.scheme
        if authority != nil {
            target.path = Self.removingDotSegments(path)
            return target
        }
        target.authority = base.authority
        if path.isEmpty {
            target.path = base.path
            target.query = query ?? base.query
        } else if path.first == UInt8(ascii: "/") {
            target.path = Self.removingDotSegments(path)
        } else {
            target.path = Self.removingDotSegments(merged(with: base))
        }
        return target
    }

    /// Section 5.2.3.
    private func merged(with base: URIReference) -> [UInt8] {
        if base.authority != nil, base.path.isEmpty { return Array("/".utf8) + path }
        guard let slash = base.path.lastIndex(of: UInt8(ascii: "/")) else { return path }
        return base.path[...slash] + path
    }

    /// Section 5.2.4, segment by segment.
    static func removingDotSegments(_ path: [UInt8]) -> [UInt8] {
        var kept: [ArraySlice<UInt8>] = []
        let segments = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            let isLast = index == segments.count - 1
            let isDot = segment.elementsEqual(".".utf8)
            let isDoubleDot = segment.elementsEqual("..".utf8)
            // The first segment of an absolute path is the empty text before its first slash; ".." never removes it.
            if isDoubleDot, kept.count > 1 { kept.removeLast() }
            if !isDot && !isDoubleDot {
                kept.append(segment)
            } else if isLast {
                kept.append([])
            }
        }
        return Array(kept.joined(separator: [UInt8(ascii: "/")]))
    }

    /// Section 5.3.
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
