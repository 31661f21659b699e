package import BundleValues

/// An entry of an asset manifest with its bytes (METEOR section 1.3).
package struct BundleEntry: Sendable {
    /// The source map of an entry: a separate file and URL outside the list of entries.
    package struct SourceMap: Sendable {
        package var content: BundleContent
        /// The path in the bundle; by default `<path>.map`.
        package var path: String?
        /// The URL; by default `<hash>.map` in the folder of the entry.
        package var url: String?

        package init(_ content: BundleContent, path: String? = nil, url: String? = nil) {
            self.content = content
            self.path = path
            self.url = url
        }
    }

    package var path: String
    /// The URL without prefix; nil for an internal entry. `{hash}` is replaced by the hash of the entry.
    package var url: String?
    /// `js`, `css`, `asset`, `dynamic js`, `json`, `head` or `body`.
    package var type: String
    /// `client` or `internal`.
    package var place = "client"
    /// Whether the URL identifies the content.
    package var isCacheable: Bool
    /// The bytes; nil for a file that is listed but missing.
    package var content: BundleContent?
    /// The hash, by default computed from the bytes, as are `sri` and `size`.
    package var hash: Statement = .computed
    /// The SHA-512 in base64.
    package var sri: Statement = .computed
    /// Whether the manifest states `size`.
    package var statesSize = true
    /// A size that differs from that of the bytes.
    package var size: Int?
    /// The hexadecimal hash of the sources of a compiled file, a part of its modern hash.
    package var inputHash: String?
    package var sourceMap: SourceMap?
    /// More members. They replace members of the same name.
    package var extra: JSONObject = [:]

    /// The value of a member that can be computed.
    package enum Statement: Sendable, Equatable {
        /// The value that a server of the bundle's generation computes.
        case computed
        /// This text, correct or not.
        case stated(String)
        /// The member is absent.
        case absent
    }

    /// Creates a client entry. Scripts and style sheets are cacheable by default.
    package init(
        _ path: String, url: String? = nil, type: String = "asset", isCacheable: Bool? = nil,
        _ content: BundleContent?, sourceMap: SourceMap? = nil
    ) {
        self.path = path
        self.url = url ?? "/" + path
        self.type = type
        self.isCacheable = isCacheable ?? (type == "js" || type == "css")
        self.content = content
        self.sourceMap = sourceMap
    }

    /// Creates an entry that is not an asset: a fragment of the page.
    package static func fragment(_ path: String, type: String = "head", _ content: BundleContent) -> BundleEntry {
        var entry = BundleEntry(path, type: type, content)
        entry.url = nil
        entry.place = "internal"
        return entry
    }

    var isPublicAsset: Bool { type == "asset" }
}
