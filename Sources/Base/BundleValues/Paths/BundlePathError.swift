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
