import BundleFetch
import BundleValues

package struct BucketAddress: Hashable, Sendable, CustomStringConvertible {
    static let scheme = "s3://"

    package let bucket: String
    /// Empty if the feed is the whole bucket.
    package let prefix: String

    package var description: String { "\(Self.scheme)\(bucket)" + (prefix.isEmpty ? "" : "/\(prefix)") }

    /// Returns nil if `text` is not such an address.
    package init?(parsing text: String) {
        guard text.hasPrefix(Self.scheme) else { return nil }
        let parts = text.dropFirst(Self.scheme.count).split(
            separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let name = parts.first, (3...63).contains(name.utf8.count), name.first != ".",
            name.utf8.allSatisfy({ $0.isASCIIDigit || (0x61...0x7A).contains($0) || "-.".utf8.contains($0) })
        else { return nil }
        var rest = parts.count > 1 ? String(parts[1]) : ""
        while rest.hasSuffix("/") { rest.removeLast() }
        guard rest.isEmpty || ObjectKey(rest) != nil else { return nil }
        (bucket, prefix) = (String(name), rest)
    }
}

/// The headers of a file for caches and readers.
enum BucketHeaders {
    static func of(_ name: String, documentMaxAge: Duration) -> [ObjectRequest.Header: String] {
        let age = Int(documentMaxAge / .seconds(1))
        return [
            .contentType: type(of: name),
            .cacheControl: isWrittenOnce(name)
                ? "public, max-age=31536000, immutable" : "public, max-age=\(age), must-revalidate",
        ]
    }

    /// Returns whether a file never changes: the files of a release except its list of deltas, and the numbered
    /// copies of channel files.
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

/// The reason for a refusal, with the store's code and message if it gave them.
struct StoreRefusal {
    let status: Int
    let code: String
    private let text: String

    init(_ response: ObjectResponse) {
        status = response.status
        code = ObjectListing.element("Code", in: response.body[...])?.text ?? ""
        text = ObjectListing.element("Message", in: response.body[...])?.text ?? ""
    }

    /// Whether the credentials or the form of the request were refused.
    var isAboutRequest: Bool {
        [
            "AuthorizationHeaderMalformed", "PermanentRedirect", "InvalidAccessKeyId", "SignatureDoesNotMatch",
            "RequestTimeTooSkewed", "AccessDenied", "NoSuchBucket",
            "ExpiredToken", "TokenRefreshRequired",
        ].contains(code)
    }

    func failure(at location: String) -> UpdateFailure {
        let details = [code, text].filter { !$0.isEmpty }.map { UntrustedName.display(String($0.prefix(300))) }
        return UpdateFailure(
            code == "NoSuchBucket" ? .configInvalid : .httpStatus, subject: location,
            "The store refused \(location) with \(status)"
                + (details.isEmpty ? "" : " (\(details.joined(separator: ": ")))")
                + ". " + advice)
    }

    private var advice: String {
        switch (status, code) {
        case (_, "NoSuchBucket"): "Check the bucket's name and AWS_ENDPOINT_URL_S3."
        case (_, "AuthorizationHeaderMalformed"), (301, _), (307, _): "Set AWS_REGION to the region of the bucket."
        case (_, "RequestTimeTooSkewed"): "Set this machine's clock."
        case (_, "SignatureDoesNotMatch"): "Check AWS_SECRET_ACCESS_KEY or its source, and AWS_REGION."
        case (_, "ExpiredToken"), (_, "TokenRefreshRequired"): "The keys have expired: get new ones."
        case (401, _), (403, _): "Check the access key and its permissions."
        case (500..., _): "The store is at fault; try again later."
        default: "Check the address and the store."
        }
    }
}

/// One page of a bucket's listing.
struct ObjectListing {
    private(set) var objects: [FeedEntry] = []
    /// The token of the next page.
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

    /// Stores may write fractions of a second.
    private static func time(_ text: String) -> Timestamp? {
        guard text.hasSuffix("Z") else { return nil }
        return try? Timestamp(parsing: text.dropLast().prefix { $0 != "." } + "Z")
    }

    struct ListingElement {
        let inner: ArraySlice<UInt8>
        let rest: ArraySlice<UInt8>
        /// The text; empty if it is longer than any name or message of a store.
        var text: String {
            if inner.count > ObjectListing.longestText { return "" }
            return [("&quot;", "\""), ("&#34;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")]
                .reduce(String(decoding: inner, as: UTF8.self)) { $0.replacing($1.0, with: $1.1) }
        }
    }

    private static let longestText = 16 << 10

    /// Returns the first element with that name. Elements of listings have no attributes. Reads each byte at most
    /// twice.
    static func element(_ name: String, in xml: ArraySlice<UInt8>) -> ListingElement? {
        guard let start = range(of: Array("<\(name)>".utf8), in: xml),
            let end = range(of: Array("</\(name)>".utf8), in: xml[start.upperBound...])
        else { return nil }
        return ListingElement(inner: xml[start.upperBound..<end.lowerBound], rest: xml[end.upperBound...])
    }

    /// Returns the first range of `tag`. Only its first byte is `<`, so the search needs no backtracking.
    private static func range(of tag: [UInt8], in xml: ArraySlice<UInt8>) -> Range<Int>? {
        var start = xml.startIndex
        while let index = xml[start...].firstIndex(of: UInt8(ascii: "<")) {
            if xml[index...].starts(with: tag) { return index..<index + tag.count }
            start = index + 1
        }
        return nil
    }
}
