package import BundleValues

/// The URLs of a Meteor server (METEOR section 1.8).
package struct MeteorURLs: Sendable, Equatable {
    /// The base folder, which also returns the index page.
    package let index: FetchURL
    package let manifest: FetchURL

    /// Creates the URLs below `rootURL`, with or without its trailing slash.
    ///
    /// Throws if a URL is too long, or if `rootURL` names a file or is already a URL below the root.
    package init(rootURL: FetchURL, architecture: String = "web.cordova") throws(FetchError) {
        let root = Self.withoutTrail(rootURL)
        guard !rootURL.isFile else {
            throw .unsupportedURL(rootURL.display, reason: "a Meteor server uses http or https")
        }
        let client = architecture.hasPrefix("web.") ? architecture.dropFirst(4) : architecture[...]
        let folder = "/__" + PercentEncoding.encode(path: Array(client.utf8))
        for path in [folder, folder + "/manifest.json"] where root.hasSuffix(path) {
            throw .unsupportedURL(
                rootURL.display, reason: "it is not the server's ROOT_URL, which ends before \(folder)")
        }
        let base = root + folder + "/"
        index = try FetchURL(parsing: base)
        manifest = try FetchURL(parsing: base + "manifest.json")
    }

    /// Returns the URL of an asset from its URL path without query.
    ///
    /// The added flag prevents the server from returning its index page for a missing file. The original query is not
    /// sent, because with it a server can return a style sheet of its own.
    package func asset(_ urlPath: String) throws(FetchError) -> FetchURL {
        let path = urlPath.utf8.first == UInt8(ascii: "/") ? urlPath.utf8.dropFirst() : urlPath.utf8[...]
        if path.isEmpty { return index }
        return try FetchURL(
            parsing: index.description + PercentEncoding.encode(path: Array(path)) + "?meteor_dont_serve_index=true")
    }

    /// Returns the URL without query, fragment and trailing slashes.
    private static func withoutTrail(_ url: FetchURL) -> String {
        var text = url.description.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
        while text.last == UInt8(ascii: "/") { text = text.dropLast() }
        return String(decoding: text, as: UTF8.self)
    }
}
