package import BundleValues

/// One entry of an asset manifest, with the bytes behind it (METEOR section 1.3).
package struct BundleEntry: Sendable {
    /// The source map of an entry: a file and a URL of its own, outside the entry list.
    package struct SourceMap: Sendable {
        /// Its bytes.
        package var content: BundleContent
        /// Where it lies in the bundle; `<path>.map` unless stated.
        package var path: String?
        /// Its URL; the entry's folder and `<hash>.map` unless stated.
        package var url: String?

        /// A source map at the usual place.
        package init(_ content: BundleContent, path: String? = nil, url: String? = nil) {
            self.content = content
            self.path = path
            self.url = url
        }
    }

    /// The file path in the bundle.
    package var path: String
    /// The URL without prefix; nil for an internal entry, and a `{hash}` in it stands for the entry's hash.
    package var url: String?
    /// `js`, `css`, `asset`, `dynamic js`, `json`, `head` or `body`.
    package var type: String
    /// `client` or `internal`.
    package var place = "client"
    /// Whether the URL names the content.
    package var isCacheable: Bool
    /// The bytes; nil where the manifest lists a file that is nowhere.
    package var content: BundleContent?
    /// `hash`, `sri` and `size` come from the bytes unless stated here.
    package var hash: Statement = .computed
    /// The SHA-512, base64.
    package var sri: Statement = .computed
    /// Whether `size` is stated.
    package var statesSize = true
    /// A size other than that of the bytes.
    package var size: Int?
    /// What went into a compiled file, hex; a part of its modern hash.
    package var inputHash: String?
    /// Its source map.
    package var sourceMap: SourceMap?
    /// More members, after the others; one of the same name takes the other's place.
    package var extra: JSONObject = [:]

    /// What a manifest says that could be computed.
    package enum Statement: Sendable, Equatable {
        /// As a server of the bundle's generation computes it.
        case computed
        /// This text, true or not.
        case stated(String)
        /// Nothing.
        case absent
    }

    /// A client entry; scripts and stylesheets are cacheable unless stated.
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

    /// An entry that is no asset: a fragment of the page.
    package static func fragment(_ path: String, type: String = "head", _ content: BundleContent) -> BundleEntry {
        var entry = BundleEntry(path, type: type, content)
        entry.url = nil
        entry.place = "internal"
        return entry
    }

    var isPublicAsset: Bool { type == "asset" }
}
