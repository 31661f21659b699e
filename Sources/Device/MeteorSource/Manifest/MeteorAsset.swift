package import BundleValues

/// A file of a Meteor client as described by its manifest (METEOR sections 1.3 and 1.7).
package struct MeteorAsset: Sendable, Equatable {
    package enum Kind: Sendable, Equatable, CaseIterable {
        case script
        case stylesheet
        /// `dynamic js`, loaded by `import()`. The server appends a comment to it.
        case dynamicScript
        case json
        /// A file of the application's `public` folder, served unchanged.
        case asset
        /// The source map of an entry.
        case sourceMap
        /// The start page of the client, which no manifest describes.
        case index
        case other

        /// Maps the `type` of an entry.
        init(type: String) {
            switch type {
            case "js": self = .script
            case "css": self = .stylesheet
            case "dynamic js": self = .dynamicScript
            case "json": self = .json
            case "asset": self = .asset
            default: self = .other
            }
        }

        /// Whether an HTML page instead of the file is always an error.
        var isCode: Bool { self == .script || self == .stylesheet || self == .dynamicScript }
    }

    /// The URL path without query and percent-encoding: `/app/app.js`; `/` for the index page.
    package let urlPath: String
    /// The location in the client's folder.
    package let file: BundlePath
    package let kind: Kind
    /// Whether the URL identifies the content, so that the file never expires.
    package let isCacheable: Bool
    /// The server's name of the content, rarely its SHA-1 (METEOR section 1.5). It is valid in an entity tag.
    package let hash: String?
    /// The SHA-512 of the content that the bundler wrote: 64 bytes.
    package let sri: [UInt8]?
    /// The size of the content that the bundler wrote, in bytes.
    package let size: Int?
    /// The URL path of the source map, if the manifest names its file too.
    package let sourceMapURL: String?

    /// The index page. It is never cacheable and has no hash.
    package static let index = MeteorAsset(
        urlPath: "/", file: .index, kind: .index, isCacheable: false, hash: nil, sri: nil, size: nil, sourceMapURL: nil)

    /// Returns the path of a URL without query and fragment.
    package static func urlPath(of url: String) -> String {
        String(decoding: url.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }, as: UTF8.self)
    }

    /// Whether the bundle works without the file, because it is for developers only.
    var isOptional: Bool { kind == .sourceMap || urlPath.hasSuffix(".map") || file.string.hasSuffix(".map") }

    /// Whether a file that was downloaded for this asset can be used for `wanted` (METEOR section 3.3).
    ///
    /// The URL path and hash must be equal. Two missing hashes are equal if the URL identifies the content.
    package func isReusable(for wanted: MeteorAsset) -> Bool {
        guard hash == wanted.hash, hash != nil || isCacheable && wanted.isCacheable else { return false }
        return urlPath.utf8.elementsEqual(wanted.urlPath.utf8)
    }
}
