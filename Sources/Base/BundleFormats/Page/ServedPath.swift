/// What the server of a client makes of a path below its root: a file of the client, unless it keeps the path for itself.
package enum ServedPath: Equatable {
    /// A file of the client.
    case file
    /// The path belongs to the host.
    case host
    /// The list of versions.
    case clients
    /// A file of one version; `file` is nil for its folder without the slash that links need.
    case version(ClientName, named: String, file: ArraySlice<UInt8>?)

    private static let versions = Array("clients/".utf8)
    private static let slash = UInt8(ascii: "/")

    /// Classifies a decoded path without its first slash.
    package init(_ path: [UInt8]) {
        if Self.isHost(path) {
            self = .host
            return
        }
        self = .file
        guard path.starts(with: Self.versions) else { return }
        let rest = path.dropFirst(Self.versions.count)
        if rest.isEmpty {
            self = .clients
            return
        }
        let slash = rest.firstIndex(of: Self.slash)
        let name = String(decoding: rest[..<(slash ?? rest.endIndex)], as: UTF8.self)
        // An application may have a page such as /clients/anne/orders.
        guard let client = ClientName(name) else { return }
        self = .version(client, named: name, file: slash.map { rest[($0 + 1)...] })
    }

    /// Returns whether `path` belongs to the host.
    package static func isHost(_ path: [UInt8]) -> Bool { isBelow("__clientctl", path) }

    /// Returns whether `path` is `name` or below it.
    package static func isBelow(_ name: String, _ path: [UInt8]) -> Bool {
        path.starts(with: name.utf8) && (path.count == name.utf8.count || path[name.utf8.count] == slash)
    }
}
