/// A pattern for names, such as `*.map`, or for paths from the top, such as `docs/*.md`. `*` and `?` match any
/// character except a slash. A pattern that matches a folder matches everything in it, so `docs/**` and `docs/*` match
/// the folder `docs` at the top.
package struct PathPattern: Sendable, Hashable {
    /// The pattern as the user wrote it.
    package let text: String
    private let components: [[UInt8]]
    private let isPath: Bool

    /// Returns nil for a text with an empty name between slashes.
    package init?(_ text: String) {
        self.text = text
        var bytes = Array(text.utf8)[...]
        let isFromTop = bytes.starts(with: "./".utf8)
        if isFromTop { bytes = bytes.dropFirst(2) }
        if bytes.last == UInt8(ascii: "/") { bytes = bytes.dropLast() }
        isPath = isFromTop || bytes.contains(UInt8(ascii: "/"))
        while let end = ["/**", "/*"].first(where: { end in
            bytes.count > end.utf8.count && bytes.suffix(end.utf8.count).elementsEqual(end.utf8)
        }) {
            bytes = bytes.dropLast(end.utf8.count)
        }
        if bytes.first == UInt8(ascii: "/") { bytes = bytes.dropFirst() }
        components = bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { Array($0) }
        if components.contains([]) { return nil }
    }

    /// Returns whether the pattern matches the file or folder at `path` itself.
    package func matches(_ path: [UInt8]) -> Bool {
        if !isPath {
            let slash = path.lastIndex(of: UInt8(ascii: "/"))
            return Self.matches(components[0][...], path[(slash.map { $0 + 1 } ?? 0)...])
        }
        let names = path.split(separator: UInt8(ascii: "/"))
        return names.count == components.count && zip(components, names).allSatisfy { Self.matches($0[...], $1) }
    }

    /// Returns whether the pattern matches `path` or a folder that contains it.
    package func covers(_ path: [UInt8]) -> Bool {
        path.indices.contains { path[$0] == UInt8(ascii: "/") && matches(Array(path[..<$0])) } || matches(path)
    }

    /// A star first matches nothing, then one byte more after each mismatch.
    private static func matches(_ pattern: ArraySlice<UInt8>, _ name: ArraySlice<UInt8>) -> Bool {
        var (pattern, name) = (pattern, name)
        var star: (pattern: ArraySlice<UInt8>, name: ArraySlice<UInt8>)?
        while let byte = name.first {
            if pattern.first == UInt8(ascii: "*") {
                pattern = pattern.dropFirst()
                star = (pattern, name)
            } else if pattern.first == byte || pattern.first == UInt8(ascii: "?") {
                (pattern, name) = (pattern.dropFirst(), name.dropFirst())
            } else if let last = star {
                (pattern, name) = (last.pattern, last.name.dropFirst())
                star = (pattern, name)
            } else {
                return false
            }
        }
        return pattern.allSatisfy { $0 == UInt8(ascii: "*") }
    }
}
