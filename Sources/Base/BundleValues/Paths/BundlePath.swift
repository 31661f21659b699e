/// A validated relative path of a file or folder in a bundle. Invalid paths are rejected, never repaired.
///
/// Equality, hash and order use the UTF-8 bytes, because `String` treats NFC and NFD spellings as equal.
package struct BundlePath: Sendable {
    package static let maximumBytes = 1024
    /// The longest component in bytes, as on Linux file systems.
    package static let maximumComponentBytes = 255
    package static let maximumComponents = 32

    /// The path in UTF-8, without a leading or trailing slash.
    package let bytes: [UInt8]

    /// Throws the most dangerous rule that the path breaks.
    package init(parsing bytes: some Collection<UInt8>) throws(BundlePathError) {
        if let refusal = Self.refusal(of: bytes) { throw refusal }
        self.bytes = [UInt8](bytes)
    }

    /// Throws the most dangerous rule that the path breaks.
    package init(parsing text: some StringProtocol) throws(BundlePathError) {
        try self.init(parsing: [UInt8](text.utf8))
    }

    /// Creates a path from the name of an archive entry. It removes one leading `./` and, for a folder, one trailing `/`.
    ///
    /// The root entry `./` is rejected as not canonical; check `isArchiveRoot(entryName:)` first.
    package init(archiveEntryName name: some Collection<UInt8>, isDirectory: Bool) throws(BundlePathError) {
        var rest = [UInt8](name)[...]
        if rest.starts(with: "./".utf8) { rest = rest.dropFirst(2) }
        if isDirectory, rest.count > 1, rest.last == UInt8(ascii: "/") { rest = rest.dropLast() }
        try self.init(parsing: rest)
    }

    /// Whether an entry is `./`, the root that `tar -C folder .` writes first.
    package static func isArchiveRoot(entryName name: some Collection<UInt8>) -> Bool {
        name.elementsEqual("./".utf8)
    }

    private init(checked bytes: [UInt8]) { self.bytes = bytes }

    /// The start page of a client.
    package static let index = BundlePath(checked: Array("index.html".utf8))

    /// The file list of a Meteor client.
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
    /// The path as text. It is safe to print.
    package var string: String { String(decoding: bytes, as: UTF8.self) }

    /// The components, outermost first. There is at least one.
    package var components: [ArraySlice<UInt8>] { bytes.split(separator: UInt8(ascii: "/")) }

    /// The enclosing folder, or nil at the web root.
    package var parent: BundlePath? {
        bytes.lastIndex(of: UInt8(ascii: "/")).map { BundlePath(checked: Array(bytes[..<$0])) }
    }

    /// The bytes of the enclosing folder. They are empty at the web root.
    package var parentBytes: ArraySlice<UInt8> { bytes[..<(bytes.lastIndex(of: UInt8(ascii: "/")) ?? 0)] }

    package var nameBytes: ArraySlice<UInt8> { bytes[((bytes.lastIndex(of: UInt8(ascii: "/")) ?? -1) + 1)...] }

    package var name: String { String(decoding: nameBytes, as: UTF8.self) }
}

extension BundlePath: Hashable, Comparable, CustomStringConvertible {
    package static func == (left: BundlePath, right: BundlePath) -> Bool { left.bytes == right.bytes }

    /// Compares bytes, which is also the order of entries in the canonical tar.
    package static func < (left: BundlePath, right: BundlePath) -> Bool {
        left.bytes.lexicographicallyPrecedes(right.bytes)
    }

    package func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }

    package var description: String { string }
}

/// The reason why the path of a URL does not name a file in a bundle.
package struct URLPathError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The identifier of the broken rule, such as `path-traversal`.
    package let rule: String
    /// Whether only the percent-decoded path breaks the rule.
    package let isHidden: Bool

    package var description: String { isHidden ? "percent-encoded \(rule)" : rule }
}

extension BundlePath {
    /// Creates the path that a URL names. It ignores the query, the fragment and one leading slash; the empty path is the
    /// start page.
    ///
    /// The path is not decoded. A path that breaks a rule only after percent-decoding is rejected too.
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

/// The reason why a name is not a valid path in a bundle. `path` is printable and has at most one line.
package enum BundlePathError: Error, Sendable, Equatable {
    case absolute(path: String)
    case traversal(path: String)
    case notUTF8(path: String)
    /// A control, bidirectional or invisible character, or a backslash. `scalar` is its code point.
    case forbiddenCharacter(scalar: UInt32, path: String)
    /// The path or one of its components is empty, or a component is `.`.
    case notCanonical(path: String)
    /// The path has more than `BundlePath.maximumBytes` bytes.
    case pathTooLong(bytes: Int, path: String)
    /// A component has more than `BundlePath.maximumComponentBytes` bytes.
    case componentTooLong(bytes: Int, path: String)
    /// The path has more than `BundlePath.maximumComponents` components.
    case tooDeep(components: Int, path: String)

    /// The identifier of the broken rule in JSON output and errors.
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

    package var path: String {
        switch self {
        case .absolute(let path), .traversal(let path), .notUTF8(let path), .forbiddenCharacter(_, let path),
            .notCanonical(let path), .pathTooLong(_, let path), .componentTooLong(_, let path), .tooDeep(_, let path):
            path
        }
    }
}

extension BundlePathError: CustomStringConvertible {
    /// One sentence with the path, the broken rule and the remedy.
    package var description: String {
        switch self {
        case .absolute(let path): "the path \"\(path)\" is absolute; use a path relative to the web root"
        case .traversal(let path):
            "the path \"\(path)\" has a component \"..\"; use a path that stays inside the web root"
        case .notUTF8(let path): "the path \"\(path)\" is not valid UTF-8; rename the file"
        case .forbiddenCharacter(let scalar, let path):
            "the path \"\(path)\" has the forbidden character U+\(Self.codePoint(scalar)); rename the file"
        case .notCanonical(let path): "the path \"\(path)\" is not canonical; use no empty component and no \".\""
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

/// The properties of a candidate path, from one pass over its bytes. `BundlePath` applies the rules to them.
private struct PathSurvey {
    private(set) var components = 0
    private(set) var longestComponent = 0
    private(set) var isTraversing = false
    private(set) var isCanonical = true
    private(set) var isUTF8 = true
    private(set) var forbidden: UInt32?

    init(_ bytes: [UInt8]) {
        var start = 0
        var union: UInt8 = 0
        for index in bytes.indices {
            let byte = bytes[index]
            union |= byte
            if byte == UInt8(ascii: "/") {
                endComponent(bytes, from: start, to: index)
                start = index + 1
            } else if byte < 0x80, forbidden == nil, ForbiddenCharacters.contains(UInt32(byte)) {
                forbidden = UInt32(byte)
            }
        }
        endComponent(bytes, from: start, to: bytes.count)
        if union >= 0x80 { surveyScalars(bytes) }
    }

    /// Compares bytes: a combining mark after `..` forms another `Character`, but not another component.
    private mutating func endComponent(_ bytes: [UInt8], from start: Int, to end: Int) {
        let length = end - start
        components += 1
        longestComponent = max(longestComponent, length)
        if length == 0 { isCanonical = false }
        guard length == 1 || length == 2, bytes[start] == UInt8(ascii: "."), bytes[end - 1] == UInt8(ascii: ".") else {
            return
        }
        if length == 1 { isCanonical = false } else { isTraversing = true }
    }

    private mutating func surveyScalars(_ bytes: [UInt8]) {
        var index = 0
        while index < bytes.count {
            guard let (value, length) = UTF8Decoding.scalar(in: bytes, at: index) else {
                isUTF8 = false
                return
            }
            if forbidden == nil, ForbiddenCharacters.contains(value) { forbidden = value }
            index += length
        }
    }
}

/// The code points that names in a bundle must not contain: they hide, reorder or end what people and programs see.
private enum ForbiddenCharacters {
    static func contains(_ value: UInt32) -> Bool {
        if value < 0x80 { return value < 0x20 || value == 0x7F || value == 0x5C }
        switch value {
        case 0x80...0x9F: return true  // C1 controls
        case 0x2028, 0x2029: return true  // line and paragraph separator
        case 0x061C, 0x200E, 0x200F, 0x202A...0x202E, 0x2066...0x2069: return true  // bidirectional controls
        case 0x00AD, 0x180E, 0x200B...0x200D, 0x2060...0x2064, 0xFEFF: return true  // zero width, invisible
        case 0xE0000...0xE007F: return true  // tags
        default: return false
        }
    }
}
