/// Why a text is not a version; `text` is always printable and cut to a line.
public enum SemanticVersionError: Error, Sendable, Equatable {
    /// The text has more than `SemanticVersion.maximumBytes` bytes.
    case tooLong(bytes: Int, text: String)
    /// The text starts with `v` where the bare version is wanted.
    case leadingV(text: String)
    /// A folder name does not start with `v`.
    case missingV(text: String)
    /// The part before the first hyphen is not three numbers.
    case notThreeNumbers(text: String)
    /// A number starts with a zero that is not all of it.
    case leadingZero(text: String)
    /// An identifier of the pre-release part is empty.
    case emptyIdentifier(text: String)
    /// The pre-release part has a character other than letters, digits and hyphens.
    case forbiddenCharacter(text: String)
    /// The version carries build metadata, which two equal versions may differ in.
    case buildMetadata(text: String)
}

extension SemanticVersionError: CustomStringConvertible {
    /// One sentence for people: what was refused, why, and what a version looks like.
    public var description: String {
        switch self {
        case .tooLong(let bytes, let text):
            "the version \"\(text)\" has \(bytes) bytes; use at most \(SemanticVersion.maximumBytes)"
        case .leadingV(let text): "the version \"\(text)\" starts with \"v\"; write the numbers only, like 1.5.1"
        case .missingV(let text): "the name \"\(text)\" is not a version's folder; one is called like v1.5.1"
        case .notThreeNumbers(let text): "the version \"\(text)\" is not three numbers; write it like 1.5.1"
        case .leadingZero(let text): "the version \"\(text)\" has a number with a leading zero; leave the zero out"
        case .emptyIdentifier(let text):
            "the version \"\(text)\" has an empty pre-release identifier; write it like 1.5.1-rc.1"
        case .forbiddenCharacter(let text):
            "the version \"\(text)\" has a pre-release part with other characters than 0-9, A-Z, a-z and hyphen"
        case .buildMetadata(let text): "the version \"\(text)\" has build metadata; leave out \"+\" and the rest"
        }
    }
}
