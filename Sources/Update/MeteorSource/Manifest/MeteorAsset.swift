package import BundleValues

/// One file of a Meteor client as its manifest describes it (METEOR sections 1.3 and 1.7).
package struct MeteorAsset: Sendable, Equatable {
    /// What kind of file it is.
    package enum Kind: Sendable, Equatable, CaseIterable {
        /// `js`.
        case script
        /// `css`.
        case stylesheet
        /// `dynamic js`: loaded by `import()`; the server appends a comment to it.
        case dynamicScript
        /// `json`.
        case json
        /// `asset`: a file of the application's `public` folder, served byte for byte.
        case asset
        /// The source map of an entry.
        case sourceMap
        /// The page that the client starts with, which no manifest describes.
        case index
        /// Any other type.
        case other

        /// The kind of an entry, by its `type`.
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

        /// Whether an HTML page in its place can only be a wrong answer.
        var isCode: Bool { self == .script || self == .stylesheet || self == .dynamicScript }
    }

    /// The URL path, without query and percent-encodings: `/app/app.js`; `/` for the index page.
    package let urlPath: String
    /// Where the file is, relative to the folder of the client.
    package let file: BundlePath
    /// What kind of file it is.
    package let kind: Kind
    /// Whether the URL names the content and may be kept for ever.
    package let isCacheable: Bool
    /// The server's name for the content, seldom the SHA-1 of its bytes (METEOR section 1.5); legal in an entity tag.
    package let hash: String?
    /// SHA-512 of what the bundler knew of the content: 64 bytes.
    package let sri: [UInt8]?
    /// Bytes of what the bundler knew of the content.
    package let size: Int?
    /// The URL path of its source map, where the manifest names the file too.
    package let sourceMapURL: String?

    /// The index page: never cacheable, without hash.
    package static let index = MeteorAsset(
        urlPath: "/", file: .index, kind: .index, isCacheable: false, hash: nil, sri: nil, size: nil, sourceMapURL: nil)

    /// The URL path of an asset's URL: without query and fragment.
    package static func urlPath(of url: String) -> String {
        String(decoding: url.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }, as: UTF8.self)
    }

    /// Whether a bundle is complete without it: what is only for developers.
    var isOptional: Bool { kind == .sourceMap || urlPath.hasSuffix(".map") || file.string.hasSuffix(".map") }

    /// Whether a file that was fetched for this asset is good for `wanted` too (METEOR section 3.3).
    ///
    /// It is under the same URL path with an equal hash, where none equals none if the URL itself names the content.
    package func isReusable(for wanted: MeteorAsset) -> Bool {
        guard hash == wanted.hash, hash != nil || isCacheable && wanted.isCacheable else { return false }
        return urlPath.utf8.elementsEqual(wanted.urlPath.utf8)
    }
}
