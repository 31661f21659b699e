/// A relative path of a file or folder inside a bundle that has passed every naming rule; nothing is ever repaired.
///
/// Equality, hash and order are those of the UTF-8 bytes: Swift's `String` would call NFC and NFD spellings equal.
package struct BundlePath: Sendable {
    /// The longest path, in bytes.
    package static let maximumBytes = 1024
    /// The longest component, in bytes: the limit of Linux file systems.
    package static let maximumComponentBytes = 255
    /// The most components that a path may have.
    package static let maximumComponents = 32

    /// The path as UTF-8, without leading or trailing slash.
    package let bytes: [UInt8]

    /// Accepts the bytes of a canonical relative path; throws the first broken rule, the most dangerous one first.
    package init(parsing bytes: some Collection<UInt8>) throws(BundlePathError) {
        if let refusal = Self.refusal(of: bytes) { throw refusal }
        self.bytes = [UInt8](bytes)
    }

    /// Accepts the text of a canonical relative path, by the same rules as for bytes.
    package init(parsing text: some StringProtocol) throws(BundlePathError) {
        try self.init(parsing: [UInt8](text.utf8))
    }

    /// Accepts an archive's entry name: one leading `./` and, for a folder, one trailing `/` are taken off first.
    ///
    /// The name `./` of the root itself is refused as not canonical; ask `isArchiveRoot(entryName:)` before.
    package init(archiveEntryName name: some Collection<UInt8>, isDirectory: Bool) throws(BundlePathError) {
        var rest = name[...]
        if rest.starts(with: [UInt8(ascii: "."), UInt8(ascii: "/")]) { rest = rest.dropFirst(2) }
        guard isDirectory, rest.count > 1, let last = rest.dropFirst(rest.count - 1).first, last == UInt8(ascii: "/")
        else {
            try self.init(parsing: rest)
            return
        }
        try self.init(parsing: rest.dropLast())
    }

    /// Tells whether an archive's entry name is exactly `./`, the root that `tar -C folder .` writes first.
    package static func isArchiveRoot(entryName name: some Collection<UInt8>) -> Bool {
        name.elementsEqual([UInt8(ascii: "."), UInt8(ascii: "/")])
    }

    private init(checked bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// The page that a client starts with.
    package static let index = BundlePath(checked: Array("index.html".utf8))

    /// Where a Meteor client keeps the list of its files.
    package static let assetManifest = BundlePath(checked: Array("program.json".utf8))

    private static func refusal(of candidate: some Collection<UInt8>) -> BundlePathError? {
        guard let first = candidate.first else { return .notCanonical(path: "") }
        let path = { UntrustedName.display(candidate) }
        if first == UInt8(ascii: "/") { return .absolute(path: path()) }
        let count = candidate.count
        if count > maximumBytes { return .pathTooLong(bytes: count, path: path()) }

        let survey = PathSurvey([UInt8](candidate))
        if survey.isTraversing { return .traversal(path: path()) }
        if !survey.isUTF8 { return .notUTF8(path: path()) }
        if let scalar = survey.forbidden { return .forbiddenCharacter(scalar: scalar, path: path()) }
        if !survey.isCanonical { return .notCanonical(path: path()) }
        if survey.longestComponent > maximumComponentBytes {
            return .componentTooLong(bytes: survey.longestComponent, path: path())
        }
        if survey.components > maximumComponents { return .tooDeep(components: survey.components, path: path()) }
        return nil
    }
}

extension BundlePath {
    /// The path as text, with `/` between components; safe to print.
    package var string: String { String(decoding: bytes, as: UTF8.self) }

    /// The bytes of each component, outermost first; never empty.
    package var components: [ArraySlice<UInt8>] { bytes.split(separator: UInt8(ascii: "/")) }

    /// The folder that holds this path; nil at the web root.
    package var parent: BundlePath? {
        guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return nil }
        return BundlePath(checked: Array(bytes[..<slash]))
    }

    /// The bytes of the folder that holds this path; none at the web root.
    package var parentBytes: ArraySlice<UInt8> { bytes[..<(bytes.lastIndex(of: UInt8(ascii: "/")) ?? 0)] }

    /// The bytes of the last component.
    package var nameBytes: ArraySlice<UInt8> {
        guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return bytes[...] }
        return bytes[(slash + 1)...]
    }

    /// The last component as text.
    package var name: String { String(decoding: nameBytes, as: UTF8.self) }
}

extension BundlePath: Hashable, Comparable, CustomStringConvertible {
    /// Equal when the bytes are.
    package static func == (left: BundlePath, right: BundlePath) -> Bool { left.bytes == right.bytes }

    /// The order of the bytes, which is also the order of entries in the canonical tar.
    package static func < (left: BundlePath, right: BundlePath) -> Bool {
        left.bytes.lexicographicallyPrecedes(right.bytes)
    }

    /// Feeds the bytes.
    package func hash(into hasher: inout Hasher) {
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
    }

    /// The path as text.
    package var description: String { string }
}
