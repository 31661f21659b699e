import BundleCore

/// A file that its build tool has compressed and that has no plain copy in the client, such as Unity's `game.wasm.br`. The page
/// requests it by this name and expects `Content-Encoding`, because it cannot decompress it itself.
struct CompressedFile: Sendable, Equatable {
    enum Coding: String, Sendable {
        case brotli = "br"
        case gzip
    }

    let coding: Coding
    /// The media type of the content.
    let type: String
    /// Whether a script may also receive the compressed bytes and decompress them itself.
    private let isForScripts: Bool

    /// Describes the file at `path` that starts with `head`. Returns nil for a file that is sent as it is: an archive, a page,
    /// one with a plain copy, and one with other content. `isThere` tells whether the client has a file.
    init?(_ path: [UInt8], head: [UInt8], isThere: ([UInt8]) -> Bool) {
        if path.hasSuffix(".br") {
            // Brotli has no signature.
            guard !head.starts(with: Self.wasmSignature), !head.starts(with: Self.gzipSignature) else { return nil }
            coding = .brotli
        } else if path.hasSuffix(".gz") {
            guard head.starts(with: Self.gzipSignature) else { return nil }
            coding = .gzip
        } else {
            return nil
        }
        let plain = Array(path.dropLast(3))
        guard !isThere(plain) else { return nil }
        type = MediaType.of(plain)
        let isOfUnity = Self.unityParts.contains {
            plain.hasSuffix($0) && isThere(plain.dropLast($0.utf8.count) + Array(".loader.js".utf8))
        }
        if !isOfUnity && (MediaType.isPage(type) || Self.archives.contains(type)) { return nil }
        // Browsers have no interface that decompresses Brotli.
        isForScripts = !isOfUnity && coding == .gzip
    }

    private static let wasmSignature = Array("\0asm".utf8)
    private static let gzipSignature: [UInt8] = [0x1F, 0x8B, 0x08]
    /// The files that Unity's loader requests. With its "decompression fallback", they have the extension `.unityweb`.
    private static let unityParts = [".data", ".wasm", ".framework.js", ".symbols.json"]
    private static let archives: Set = [
        MediaType.unknown, "application/x-tar", "application/zip", "application/gzip",
    ]

    /// Returns whether the response needs `Content-Encoding`.
    func isDecoded(for request: Request) -> Bool {
        if !isForScripts { return !request.isNavigation }
        // An element or a worker cannot decompress its file.
        return ["script", "style", "worker", "sharedworker", "image", "font", "manifest", "track"]
            .contains(request.text(.fetchDestination))
    }

    /// Returns whether the browser accepts the coding.
    func isAccepted(by request: Request) -> Bool {
        request.with(.acceptEncoding) { value in
            HTTPBytes.anyElement(of: value) { element in
                let words = String(decoding: element, as: UTF8.self).lowercased().filter { $0 != " " }.split(
                    separator: ";")
                return words.first.map { $0 == coding.rawValue } ?? false && !words.contains("q=0")
            }
        } ?? false
    }

    /// Returns the entity tag of the coded response, which differs from that of the file as it is.
    func tag(_ tag: [UInt8]) -> [UInt8] { tag.dropLast() + Array("-\(coding.rawValue)\"".utf8) }

    /// The fields of the coded response.
    var fields: String { "Content-Encoding: \(coding.rawValue)\r\nVary: Accept-Encoding\r\n" }
}

extension [UInt8] {
    fileprivate func hasSuffix(_ text: String) -> Bool { suffix(text.utf8.count).elementsEqual(text.utf8) }
}
