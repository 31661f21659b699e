/// Which files of a client `serve` gives to browsers.
package enum ServedPath {
    /// Whether a request for `path`, the path of a file in a client, is answered with that file. Other paths are the server's own.
    package static func isServed(_ path: [UInt8]) -> Bool {
        if case .file = Route(.get, RequestPath(path)) { true } else { false }
    }
}
