package import BundleValues

/// Where a Meteor server has what (METEOR section 1.8).
package struct MeteorURLs: Sendable, Equatable {
    /// The folder that everything is in; the index page answers there.
    package let index: FetchURL
    /// The manifest.
    package let manifest: FetchURL

    /// The places below `rootURL`, whose path is kept, whether it ends in a slash or not.
    ///
    /// Throws where the URLs would become too long, or where `rootURL` names a file.
    package init(rootURL: FetchURL, architecture: String = "web.cordova") throws(FetchError) {
        let root = Self.withoutTrail(rootURL)
        guard !rootURL.isFile else {
            throw .unsupportedURL(rootURL.display, reason: "a Meteor server speaks http or https")
        }
        let client = architecture.hasPrefix("web.") ? architecture.dropFirst(4) : architecture[...]
        let base = root + "/__" + PercentEncoding.encode(path: Array(client.utf8)) + "/"
        index = try FetchURL(parsing: base)
        manifest = try FetchURL(parsing: base + "manifest.json")
    }

    /// Where an asset is, by its URL path without query.
    ///
    /// The flag keeps a server from answering with its index page for what it does not have. The URL's own query is not
    /// sent: with it a server may answer with a style sheet of its own making.
    package func asset(_ urlPath: String) throws(FetchError) -> FetchURL {
        let path = urlPath.utf8.first == UInt8(ascii: "/") ? urlPath.utf8.dropFirst() : urlPath.utf8[...]
        if path.isEmpty { return index }
        return try FetchURL(
            parsing: index.description + PercentEncoding.encode(path: Array(path)) + "?meteor_dont_serve_index=true")
    }

    /// Whether two root URLs name one server: case, a default port and a slash at the end do not count.
    package static func areSame(_ left: FetchURL, _ right: FetchURL) -> Bool {
        left.origin == right.origin && path(of: left).elementsEqual(path(of: right))
    }

    /// Without query, fragment and slashes at the end.
    private static func withoutTrail(_ url: FetchURL) -> String {
        var text = url.description.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
        while text.last == UInt8(ascii: "/") { text = text.dropLast() }
        return String(decoding: text, as: UTF8.self)
    }

    private static func path(of url: FetchURL) -> ArraySlice<UInt8> {
        let authority = Array(withoutTrail(url).utf8).dropFirst(url.scheme.rawValue.utf8.count + "://".utf8.count)
        return authority.drop { $0 != UInt8(ascii: "/") }
    }
}
