/// A version by Semantic Versioning 2.0.0, without build metadata; numbers may be of any size.
///
/// Without build metadata and leading zeros there is one spelling per version: equal precedence is equal text.
public struct SemanticVersion: Sendable, Hashable {
    /// The longest version, in bytes.
    public static let maximumBytes = 128

    /// The version as written, like `1.5.1-rc.1`: ASCII letters, digits, dots and hyphens only.
    public let description: String

    /// Major, minor and patch.
    private let core: [VersionIdentifier]
    /// The dot-separated identifiers behind the first hyphen; empty for a release.
    private let preRelease: [VersionIdentifier]

    /// Accepts the bare version, like `1.5.1` or `2.0.0-beta.2`.
    public init(parsing text: some StringProtocol) throws(SemanticVersionError) {
        try self.init(bytes: [UInt8](text.utf8))
    }

    /// Accepts the name of a version's folder: `v` and the version, nothing else.
    package init(parsingFolderName name: some StringProtocol) throws(SemanticVersionError) {
        let bytes = [UInt8](name.utf8)
        guard bytes.first == UInt8(ascii: "v") else { throw .missingV(text: UntrustedName.display(bytes)) }
        try self.init(bytes: Array(bytes.dropFirst()))
    }

    /// Accepts what people type: the version with or without one leading `v`.
    public init(parsingArgument argument: some StringProtocol) throws(SemanticVersionError) {
        let bytes = [UInt8](argument.utf8)
        let bare = bytes.first == UInt8(ascii: "v") ? Array(bytes.dropFirst()) : bytes
        do throws(SemanticVersionError) {
            try self.init(bytes: bare)
        } catch {
            throw error.quoting(UntrustedName.display(bytes))
        }
    }

    private init(bytes: [UInt8]) throws(SemanticVersionError) {
        let text = { UntrustedName.display(bytes) }
        guard bytes.count <= Self.maximumBytes else { throw .tooLong(bytes: bytes.count, text: text()) }
        if bytes.first == UInt8(ascii: "v") { throw .leadingV(text: text()) }
        if bytes.contains(UInt8(ascii: "+")) { throw .buildMetadata(text: text()) }

        let hyphen = bytes.firstIndex(of: UInt8(ascii: "-")) ?? bytes.endIndex
        core = try Self.identifiers(in: bytes[..<hyphen], of: bytes)
        guard core.count == 3, core.allSatisfy(\.isNumeric) else { throw .notThreeNumbers(text: text()) }
        preRelease = hyphen < bytes.endIndex ? try Self.identifiers(in: bytes[(hyphen + 1)...], of: bytes) : []
        description = String(decoding: bytes, as: UTF8.self)
    }

    private static func identifiers(
        in part: ArraySlice<UInt8>, of whole: [UInt8]
    ) throws(SemanticVersionError) -> [VersionIdentifier] {
        let isCore = part.startIndex == 0
        var identifiers: [VersionIdentifier] = []
        for piece in part.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false) {
            let identifier = VersionIdentifier(piece)
            guard !piece.isEmpty, identifier.isWellFormed else {
                let text = UntrustedName.display(whole)
                if isCore { throw .notThreeNumbers(text: text) }
                throw piece.isEmpty ? .emptyIdentifier(text: text) : .forbiddenCharacter(text: text)
            }
            if identifier.isNumeric, piece.count > 1, piece.first == UInt8(ascii: "0") {
                throw .leadingZero(text: UntrustedName.display(whole))
            }
            identifiers.append(identifier)
        }
        return identifiers
    }
}

extension SemanticVersion: Comparable, CustomStringConvertible {
    /// Precedence by section 11 of the specification.
    public static func < (left: SemanticVersion, right: SemanticVersion) -> Bool {
        if left.core != right.core { return left.core.lexicographicallyPrecedes(right.core) }
        if left.preRelease.isEmpty { return false }
        if right.preRelease.isEmpty { return true }
        return left.preRelease.lexicographicallyPrecedes(right.preRelease)
    }

    /// The name of the version's folder, like `v1.5.1`; always one safe path component.
    public var folderName: String { "v" + description }
}

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

extension SemanticVersionError {
    /// The same about the text that was typed.
    fileprivate func quoting(_ typed: String) -> SemanticVersionError {
        switch self {
        case .tooLong(let bytes, _): .tooLong(bytes: bytes, text: typed)
        case .leadingV: .leadingV(text: typed)
        case .missingV: .missingV(text: typed)
        case .notThreeNumbers: .notThreeNumbers(text: typed)
        case .leadingZero: .leadingZero(text: typed)
        case .emptyIdentifier: .emptyIdentifier(text: typed)
        case .forbiddenCharacter: .forbiddenCharacter(text: typed)
        case .buildMetadata: .buildMetadata(text: typed)
        }
    }
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

/// The shells that a client runs in: both ends belong to it, by semantic version precedence.
package struct ShellRange: Sendable, Hashable {
    /// The oldest shell.
    package let minimum: SemanticVersion
    /// The newest shell; nil when every later one will do.
    package let maximum: SemanticVersion?

    /// Makes a range; throws when it would be empty.
    package init(minimum: SemanticVersion, maximum: SemanticVersion? = nil) throws(ShellRangeError) {
        if let maximum, maximum < minimum { throw .maximumBelowMinimum(minimum: minimum, maximum: maximum) }
        self.minimum = minimum
        self.maximum = maximum
    }

    /// Says whether `shell` lies in the range, and at which end it does not.
    package func answer(for shell: SemanticVersion) -> ShellCompatibility {
        if shell < minimum { return .shellTooOld(minimum: minimum) }
        if let maximum, shell > maximum { return .shellTooNew(maximum: maximum) }
        return .compatible
    }
}

/// Whether a client runs in a shell, with the reason when it does not.
package enum ShellCompatibility: Sendable, Equatable {
    /// The shell lies in the client's range.
    case compatible
    /// The client needs at least `minimum`.
    case shellTooOld(minimum: SemanticVersion)
    /// The client runs at most in `maximum`.
    case shellTooNew(maximum: SemanticVersion)
}

extension ShellCompatibility: CustomStringConvertible {
    /// What the client says to the shell, behind its name; the one wording of it.
    package var description: String {
        switch self {
        case .compatible: "runs in this shell"
        case .shellTooOld(let minimum): "needs shell \(minimum) or newer"
        case .shellTooNew(let maximum): "is for shells up to \(maximum)"
        }
    }
}

/// Why two versions are not a range of shells.
package enum ShellRangeError: Error, Sendable, Equatable, CustomStringConvertible {
    /// No shell can satisfy both ends.
    case maximumBelowMinimum(minimum: SemanticVersion, maximum: SemanticVersion)

    /// One sentence for people: what was refused and what to change.
    package var description: String {
        switch self {
        case .maximumBelowMinimum(let minimum, let maximum):
            "the newest shell \(maximum) is older than the oldest shell \(minimum); exchange or correct them"
        }
    }
}
