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

/// Why a name is not a path inside a bundle; `path` is always printable and cut to a line.
package enum BundlePathError: Error, Sendable, Equatable {
    /// The path starts with a slash.
    case absolute(path: String)
    /// A component is `..`.
    case traversal(path: String)
    /// The bytes are not well-formed UTF-8.
    case notUTF8(path: String)
    /// A control, bidirectional or invisible character, or a backslash; `scalar` is its code point.
    case forbiddenCharacter(scalar: UInt32, path: String)
    /// The path is empty, or a component is empty or `.`.
    case notCanonical(path: String)
    /// The path has more than `BundlePath.maximumBytes` bytes.
    case pathTooLong(bytes: Int, path: String)
    /// A component has more than `BundlePath.maximumComponentBytes` bytes.
    case componentTooLong(bytes: Int, path: String)
    /// The path has more than `BundlePath.maximumComponents` components.
    case tooDeep(components: Int, path: String)

    /// The word that names the broken rule in answers to other programs.
    package var rule: String {
        switch self {
        case .absolute: "path-absolute"
        case .traversal: "path-traversal"
        case .notUTF8: "name-not-utf8"
        case .forbiddenCharacter: "name-forbidden-char"
        case .notCanonical: "name-not-canonical"
        case .pathTooLong, .componentTooLong: "name-too-long"
        case .tooDeep: "too-deep"
        }
    }

    /// The refused path in printable form.
    package var path: String {
        switch self {
        case .absolute(let path), .traversal(let path), .notUTF8(let path), .forbiddenCharacter(_, let path),
            .notCanonical(let path), .pathTooLong(_, let path), .componentTooLong(_, let path), .tooDeep(_, let path):
            path
        }
    }
}

extension BundlePathError: CustomStringConvertible {
    /// One sentence for people: what was refused, why, and what to use instead.
    package var description: String {
        switch self {
        case .absolute(let path):
            "the path \"\(path)\" is absolute; use a path relative to the web root"
        case .traversal(let path):
            "the path \"\(path)\" has a component \"..\"; use a path that stays inside the web root"
        case .notUTF8(let path):
            "the path \"\(path)\" is not valid UTF-8; rename the file"
        case .forbiddenCharacter(let scalar, let path):
            "the path \"\(path)\" has the forbidden character U+\(Self.codePoint(scalar)); rename the file"
        case .notCanonical(let path):
            "the path \"\(path)\" is not canonical; use no empty component and no \".\""
        case .pathTooLong(let bytes, let path):
            "the path \"\(path)\" has \(bytes) bytes; use at most \(BundlePath.maximumBytes)"
        case .componentTooLong(let bytes, let path):
            "the path \"\(path)\" has a name of \(bytes) bytes; use at most \(BundlePath.maximumComponentBytes)"
        case .tooDeep(let components, let path):
            "the path \"\(path)\" has \(components) components; use at most \(BundlePath.maximumComponents)"
        }
    }

    private static func codePoint(_ scalar: UInt32) -> String {
        let digits = String(scalar, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(0, 4 - digits.utf8.count)) + digits
    }
}
