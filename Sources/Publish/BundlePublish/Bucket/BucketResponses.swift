import BundleFetch
import BundleValues

/// `s3://bucket/prefix`.
package struct BucketAddress: Hashable, Sendable, CustomStringConvertible {
    package let bucket: String
    /// Empty where the feed is the whole bucket.
    package let prefix: String

    package var description: String { "s3://\(bucket)" + (prefix.isEmpty ? "" : "/\(prefix)") }

    /// Nil for what is no such address.
    package init?(parsing text: String) {
        guard text.hasPrefix("s3://") else { return nil }
        let parts = text.dropFirst(5).split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let name = parts.first, (3...63).contains(name.utf8.count), name.first != ".",
            name.utf8.allSatisfy({ $0.isASCIIDigit || (0x61...0x7A).contains($0) || "-.".utf8.contains($0) })
        else { return nil }
        var rest = parts.count > 1 ? String(parts[1]) : ""
        while rest.hasSuffix("/") { rest.removeLast() }
        guard rest.isEmpty || ObjectKey(rest) != nil else { return nil }
        (bucket, prefix) = (String(name), rest)
    }
}

/// What caches and readers are told of a file. A pure rule.
enum BucketHeaders {
    static func of(_ name: String, documentMaxAge: Duration) -> [ObjectRequest.Header: String] {
        let age = Int(documentMaxAge / .seconds(1))
        return [
            .contentType: type(of: name),
            .cacheControl: isWrittenOnce(name)
                ? "public, max-age=31536000, immutable" : "public, max-age=\(age), must-revalidate",
        ]
    }

    /// Whether nobody ever replaces it: all of a release but the list of its deltas, and the numbered copies of channel documents.
    static func isWrittenOnce(_ name: String) -> Bool {
        let parts = name.split(separator: "/")
        switch parts.first {
        case "releases": return parts.last != "deltas.json"
        case "channels": return parts.count > 2
        default: return false
        }
    }

    private static func type(of name: String) -> String {
        switch name.split(separator: ".").last {
        case "json": "application/json"
        case "zst", "delta": "application/zstd"
        case "gz": "application/gzip"
        case "zip": "application/zip"
        case "tar": "application/x-tar"
        default: "application/octet-stream"
        }
    }
}

/// Why a store refused: its own word and sentence, where it gave them.
struct StoreRefusal {
    let status: Int
    let code: String
    private let text: String

    init(_ response: ObjectResponse) {
        status = response.status
        code = ObjectListing.element("Code", in: response.body[...])?.text ?? ""
        text = ObjectListing.element("Message", in: response.body[...])?.text ?? ""
    }

    /// Whether it is who asked, or how, that was refused.
    var isAboutRequest: Bool {
        [
            "AuthorizationHeaderMalformed", "PermanentRedirect", "InvalidAccessKeyId", "SignatureDoesNotMatch",
            "RequestTimeTooSkewed", "AccessDenied", "NoSuchBucket",
        ].contains(code)
    }

    func failure(at location: String) -> UpdateFailure {
        let said = [code, text].filter { !$0.isEmpty }.map { UntrustedName.display(String($0.prefix(300))) }
        return UpdateFailure(
            code == "NoSuchBucket" ? .configInvalid : .httpStatus, subject: location,
            "The store refused \(location) with \(status)" + (said.isEmpty ? "" : " (\(said.joined(separator: ": ")))")
                + ". " + advice)
    }

    private var advice: String {
        switch (status, code) {
        case (_, "NoSuchBucket"): "Check the bucket's name and AWS_ENDPOINT_URL_S3."
        case (_, "AuthorizationHeaderMalformed"), (301, _), (307, _): "Set AWS_REGION to the region of the bucket."
        case (_, "RequestTimeTooSkewed"): "Set this machine's clock."
        case (_, "SignatureDoesNotMatch"): "Check AWS_SECRET_ACCESS_KEY, or what gives it, and AWS_REGION."
        case (401, _), (403, _): "Check the access key and what it may read and write there."
        case (500..., _): "The store is at fault; try again later."
        default: "Check the address and the store."
        }
    }
}

/// One page of a bucket's listing.
struct ObjectListing {
    private(set) var objects: [FeedEntry] = []
    /// Where the next page begins.
    private(set) var next: String?

    init(_ xml: [UInt8]) {
        var rest = xml[...]
        next = Self.element("NextContinuationToken", in: rest)?.text
        while let object = Self.element("Contents", in: rest) {
            rest = object.rest
            guard let key = Self.element("Key", in: object.inner)?.text,
                let size = Self.element("Size", in: object.inner).flatMap({ Int($0.text) })
            else { continue }
            let written = Self.element("LastModified", in: object.inner).flatMap { Self.time($0.text) }
            objects.append(FeedEntry(name: key, size: size, written: written))
        }
    }

    /// Stores write fractions of a second, too.
    private static func time(_ text: String) -> Timestamp? {
        guard text.hasSuffix("Z") else { return nil }
        return try? Timestamp(parsing: text.dropLast().prefix { $0 != "." } + "Z")
    }

    struct Element {
        let inner: ArraySlice<UInt8>
        let rest: ArraySlice<UInt8>
        /// Its text; empty for one that is longer than any name or sentence of a store.
        var text: String {
            if inner.count > ObjectListing.longestText { return "" }
            return [("&quot;", "\""), ("&#34;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")]
                .reduce(String(decoding: inner, as: UTF8.self)) { $0.replacing($1.0, with: $1.1) }
        }
    }

    private static let longestText = 16 << 10

    /// Returns the first element of that name: what such lists are made of has no attributes. Looks at each byte twice at most.
    static func element(_ name: String, in xml: ArraySlice<UInt8>) -> Element? {
        guard let start = range(of: Array("<\(name)>".utf8), in: xml),
            let end = range(of: Array("</\(name)>".utf8), in: xml[start.upperBound...])
        else { return nil }
        return Element(inner: xml[start.upperBound..<end.lowerBound], rest: xml[end.upperBound...])
    }

    /// Where `tag` is first. It begins with its only `<`, so no byte is compared with more than one beginning of it.
    private static func range(of tag: [UInt8], in xml: ArraySlice<UInt8>) -> Range<Int>? {
        var start = xml.startIndex
        while let index = xml[start...].firstIndex(of: UInt8(ascii: "<")) {
            if xml[index...].starts(with: tag) { return index..<index + tag.count }
            start = index + 1
        }
        return nil
    }
}
