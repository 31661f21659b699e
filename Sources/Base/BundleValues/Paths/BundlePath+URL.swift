/// Why the path of a URL names nothing inside a bundle.
package struct URLPathError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The broken rule, by its word.
    package let rule: String
    /// Whether only those see it who take percent-encodings off.
    package let isHidden: Bool

    /// `path-traversal`, or `percent-encoded path-traversal`.
    package var description: String { isHidden ? "percent-encoded \(rule)" : rule }
}

extension BundlePath {
    /// The path that a URL path names: without query, fragment and one leading slash; the root is the index page.
    ///
    /// Nothing is decoded, but what would break a rule once its percent-encodings are taken off is refused as well.
    package init(url: String) throws(URLPathError) {
        var bytes = url.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
        if bytes.first == UInt8(ascii: "/") { bytes = bytes.dropFirst() }
        if bytes.isEmpty {
            self = .index
            return
        }
        do throws(BundlePathError) {
            try self.init(parsing: Array(bytes))
        } catch {
            throw URLPathError(rule: error.rule, isHidden: false)
        }
        guard self.bytes.contains(UInt8(ascii: "%")) else { return }
        do throws(BundlePathError) {
            _ = try BundlePath(parsing: PercentEncoding.decode(self.bytes))
        } catch {
            throw URLPathError(rule: error.rule, isHidden: true)
        }
    }
}
