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

    /// The name as a `version` in answers: `1.5.0`, or `embedded`.
    public var shortDescription: String { version?.description ?? description }

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

    /// Reads a name as people type it: `embedded`, or a version with or without the leading `v`.
    public init(parsingArgument text: String) throws(SemanticVersionError) {
        self = text == "embedded" ? .embedded : .installed(try SemanticVersion(parsingArgument: text))
    }

    /// The version of an installed client; nil for the seed.
    public var version: SemanticVersion? {
        if case .installed(let version) = self { version } else { nil }
    }
}
