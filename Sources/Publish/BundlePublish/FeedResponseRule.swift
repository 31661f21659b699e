import BundleValues

/// Checks the headers of responses.
enum FeedResponseRule {
    /// Returns the problems of a file that changes.
    static func document(_ head: FetchHead) -> [FeedFinding.Code] {
        if head.effectiveURL.isFile { return [] }
        let age = maximumAge(head.cacheControl)
        return (head.contentEncoding == nil ? [] : [.encoded])
            + (age.map { $0 <= 300 } ?? false ? [] : [.cachedTooLong])
    }

    /// Returns the problems of an archive or delta of `size` bytes, which never changes.
    static func content(_ head: FetchHead, size: Int?) -> [FeedFinding.Code] {
        var found: [FeedFinding.Code] = head.contentEncoding == nil ? [] : [.encoded]
        if let length = head.contentLength {
            if let size, length != size, head.contentEncoding == nil { found.append(.wrongSize) }
        } else {
            found.append(.noSize)
        }
        if head.effectiveURL.isFile { return found }
        if let age = maximumAge(head.cacheControl), age >= 3600 { return found }
        return found + [.cachedTooShort]
    }

    /// Returns how many seconds caches may keep a response; nil without a limit.
    static func maximumAge(_ header: String?) -> Int? {
        let directives = (header ?? "").lowercased().split(separator: ",").map { String($0.filter { $0 != " " }) }
        if directives.contains("no-store") || directives.contains("no-cache") { return 0 }
        let ages = ["s-maxage=", "max-age="].compactMap { name in
            directives.first { $0.hasPrefix(name) }.flatMap { Int($0.dropFirst(name.count).filter { $0 != "\"" }) }
        }
        return ages.max()
    }
}

extension FeedFinding.Code {
    /// The problem of a response and its remedy.
    func words(of head: FetchHead, size: Int? = nil) -> String {
        let cache = head.cacheControl.map { "Cache-Control: \(UntrustedName.display($0))" } ?? "no Cache-Control"
        return switch self {
        case .encoded:
            "It arrives with Content-Encoding \(UntrustedName.display(head.contentEncoding ?? "")): switch compression off for the feed."
        case .wrongSize:
            "It has \(head.contentLength ?? 0) bytes, and its document says \(size ?? 0): publish it again."
        case .noSize: "Its server does not send its size: turn off compression and chunking for the feed."
        case .noRanges: "Its server ignores Range: a download that was interrupted starts over."
        case .cachedTooLong:
            "It has \(cache), and is replaced: devices receive changes late. Set max-age=30 or similar."
        case .cachedTooShort:
            "It has \(cache), and never changes. Set max-age=31536000, immutable or similar."
        default: rawValue
        }
    }
}

/// Collects a file, or ends a transfer after its head.
struct CheckSink: FetchSink {
    struct HeadSeen: Error {
        let head: FetchHead
    }

    let keeps: Bool
    var bytes: [UInt8] = []

    mutating func begin(_ head: FetchHead) throws {
        if !keeps { throw HeadSeen(head: head) }
    }

    mutating func receive(_ chunk: UnsafeRawBufferPointer) throws { bytes.append(contentsOf: chunk) }
}

extension FetchError {
    /// Whether the server refuses this reader.
    var isRefusal: Bool {
        if case .httpStatus(401, _, _) = self { return true }
        if case .httpStatus(403, _, _) = self { return true }
        return false
    }

    /// Whether the file does not exist.
    var isAbsence: Bool {
        switch self {
        case .fileMissing, .httpStatus(404, _, _), .httpStatus(410, _, _), .httpStatus(403, _, _): true
        default: false
        }
    }
}
