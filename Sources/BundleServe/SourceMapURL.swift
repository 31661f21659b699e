/// Where a manifest says that a source map is: a URL path, written as people write it, without escapes.
struct SourceMapURL {
    /// The file's path below the site's root.
    let path: [UInt8]

    /// Nil for what is no absolute path. Query and fragment name no other file.
    init?(url: String) {
        guard url.utf8.first == HTTPBytes.slash else { return nil }
        path = Array(url.utf8.dropFirst().prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") })
    }

    /// The path as it stands in a request, so that nothing in a manifest can end the field or start another.
    var escaped: String {
        let bytes = path.flatMap { byte -> [UInt8] in
            if Self.isPlain(byte) { return [byte] }
            return [UInt8(ascii: "%"), Self.hexDigits[Int(byte >> 4)], Self.hexDigits[Int(byte & 15)]]
        }
        return "/" + String(decoding: bytes, as: UTF8.self)
    }

    private static let hexDigits = Array("0123456789ABCDEF".utf8)

    /// The unreserved bytes of RFC 3986, and the slash between components.
    private static func isPlain(_ byte: UInt8) -> Bool {
        HTTPBytes.isLetter(byte) || HTTPBytes.isDigit(byte) || "/-._~".utf8.contains(byte)
    }
}
