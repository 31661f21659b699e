/// The files of a client that `serve` sends to browsers.
package enum ServedPath {
    /// Returns whether a request for `path`, the path of a file in a client, receives that file. Other paths are
    /// reserved for the server.
    package static func isServed(_ path: [UInt8]) -> Bool {
        if case .file = Route(.get, RequestPath(path)) { true } else { false }
    }
}
