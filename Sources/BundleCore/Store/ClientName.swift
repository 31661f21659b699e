/// What a client is called in every answer: `embedded` for the shell's own seed, `v1.5.0` for an installed one.
public enum ClientName: Sendable, Hashable, CustomStringConvertible {
    case embedded
    case installed(SemanticVersion)

    /// The name as it appears in answers and as a folder name.
    public var description: String {
        switch self {
        case .embedded: "embedded"
        case .installed(let version): version.folderName
        }
    }

    /// Reads a name; nil where it is neither.
    public init?(_ text: String) {
        if text == "embedded" {
            self = .embedded
        } else if let version = try? SemanticVersion(parsingFolderName: text) {
            self = .installed(version)
        } else {
            return nil
        }
    }

    /// The version of an installed client; nil for the seed.
    public var version: SemanticVersion? {
        if case .installed(let version) = self { version } else { nil }
    }
}
