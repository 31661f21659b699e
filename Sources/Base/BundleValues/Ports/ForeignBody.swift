/// Content that a server or a proxy sent instead of a JSON document of a feed.
package enum ForeignBody: Sendable, Equatable {
    case empty
    case webPage
    /// Compressed content without the header that names its coding.
    case compressed(String)
    case byteOrderMark
    /// Other content, which begins with this text.
    case other(String)

    /// Returns what `bytes` are; nil for something that begins like a JSON object.
    package static func of(_ bytes: [UInt8]) -> ForeignBody? {
        let codings: [(name: String, mark: [UInt8])] = [
            ("gzip", [0x1F, 0x8B]), ("zstd", [0x28, 0xB5, 0x2F, 0xFD]), ("zlib", [0x78, 0x9C]), ("zlib", [0x78, 0xDA]),
        ]
        if let coding = codings.first(where: { bytes.starts(with: $0.mark) }) { return .compressed(coding.name) }
        let marks: [[UInt8]] = [[0xEF, 0xBB, 0xBF], [0xFE, 0xFF], [0xFF, 0xFE]]
        let mark = marks.first { bytes.starts(with: $0) }
        let text = bytes.dropFirst(mark?.count ?? 0).drop { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
        switch text.first {
        case nil: return .empty
        case UInt8(ascii: "<"): return .webPage
        case UInt8(ascii: "{"): return mark == nil ? nil : .byteOrderMark
        default: return mark == nil ? .other(UntrustedName.display(text.prefix(60), limit: 60)) : .byteOrderMark
        }
    }

    /// Returns the error of a request for a document at `asked`, which the server at `url` answered.
    package func failure(of asked: FetchURL, at url: FetchURL) -> UpdateFailure {
        let way = asked == url ? "" : ", to which \(asked.display) redirects,"
        let from = "\(url.display)\(way)"
        let message =
            switch self {
            case .empty:
                "\(from) returned an empty document. Upload the file again; if the server has all of it, check the proxies in between."
            case .webPage:
                "\(from) returned a web page instead of a document. If the network has a login page (a captive portal), log "
                    + "in with a browser; if not, correct the address of the feed, or let the server answer 404 for missing files."
            case .compressed(let coding):
                "\(from) returned a document that is compressed with \(coding), and no header Content-Encoding. Upload the file as it "
                    + "was published, or let the server send the header."
            case .byteOrderMark:
                "\(from) returned a document with a byte order mark. Upload the file as it was published, without an editor or a "
                    + "conversion of text."
            case .other(let text):
                "\(from) returned \"\(text)\" instead of a document. Correct the address of the feed, or check the proxies in between."
            }
        return UpdateFailure(.manifestMalformed, subject: url.display, message)
    }
}
