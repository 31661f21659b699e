/// A version by Semantic Versioning 2.0.0, without build metadata. Its numbers can have any size.
///
/// Each version has one spelling, so versions of equal precedence have equal text.
public struct SemanticVersion: Sendable, Hashable {
    /// The longest version, in bytes.
    public static let maximumBytes = 128

    /// The version 0.0.0: that of a shell without a version, such as a browser, and the lowest shell of a release for all.
    public static let zero = SemanticVersion()

    /// The version as text, such as `1.5.1-rc.1`. It has only ASCII letters, digits, dots and hyphens.
    public let description: String

    /// The major, minor and patch numbers.
    private let core: [VersionIdentifier]
    /// The identifiers of the pre-release part; empty for a release.
    private let preRelease: [VersionIdentifier]

    /// Whether the version precedes a release, such as `2.0.0-beta.2`.
    package var isPrerelease: Bool { !preRelease.isEmpty }

    /// Creates the version 0.0.0.
    private init() {
        core = Array(repeating: VersionIdentifier([UInt8(ascii: "0")]), count: 3)
        preRelease = []
        description = "0.0.0"
    }

    /// Accepts a version such as `1.5.1` or `2.0.0-beta.2`.
    public init(parsing text: some StringProtocol) throws(SemanticVersionError) {
        let bytes = [UInt8](text.utf8)
        try self.init(bytes, typed: bytes)
    }

    /// Accepts the name of a version's folder: `v` and the version.
    package init(parsingFolderName name: some StringProtocol) throws(SemanticVersionError) {
        let bytes = [UInt8](name.utf8)
        guard bytes.first == UInt8(ascii: "v") else { throw .missingV(text: UntrustedName.display(bytes)) }
        let bare = Array(bytes.dropFirst())
        try self.init(bare, typed: bare)
    }

    /// Accepts a version with or without one leading `v`, as people type it.
    public init(parsingArgument argument: some StringProtocol) throws(SemanticVersionError) {
        let bytes = [UInt8](argument.utf8)
        try self.init(bytes.first == UInt8(ascii: "v") ? Array(bytes.dropFirst()) : bytes, typed: bytes)
    }

    /// `typed` is the text for errors.
    private init(_ bytes: [UInt8], typed: [UInt8]) throws(SemanticVersionError) {
        let text = { UntrustedName.display(typed) }
        guard bytes.count <= Self.maximumBytes else { throw .tooLong(bytes: bytes.count, text: text()) }
        if bytes.first == UInt8(ascii: "v") { throw .leadingV(text: text()) }
        if bytes.contains(UInt8(ascii: "+")) { throw .buildMetadata(text: text()) }

        let hyphen = bytes.firstIndex(of: UInt8(ascii: "-")) ?? bytes.endIndex
        core = try Self.identifiers(in: bytes[..<hyphen], of: typed)
        guard core.count == 3, core.allSatisfy(\.isNumeric) else { throw .notThreeNumbers(text: text()) }
        preRelease = hyphen < bytes.endIndex ? try Self.identifiers(in: bytes[(hyphen + 1)...], of: typed) : []
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
    /// Compares by precedence (section 11 of the specification).
    public static func < (left: SemanticVersion, right: SemanticVersion) -> Bool {
        if left.core != right.core { return left.core.lexicographicallyPrecedes(right.core) }
        if left.preRelease.isEmpty { return false }
        if right.preRelease.isEmpty { return true }
        return left.preRelease.lexicographicallyPrecedes(right.preRelease)
    }

    /// The name of the version's folder, such as `v1.5.1`. It is a valid path component.
    public var folderName: String { "v" + description }
}

/// The reason why a text is not a version. `text` is printable and has at most one line.
public enum SemanticVersionError: Error, Sendable, Equatable {
    /// The text has more than `SemanticVersion.maximumBytes` bytes.
    case tooLong(bytes: Int, text: String)
    /// The text starts with `v`, which is not part of a version.
    case leadingV(text: String)
    /// The folder name does not start with `v`.
    case missingV(text: String)
    /// The part before the first hyphen is not three numbers.
    case notThreeNumbers(text: String)
    /// A number has a leading zero.
    case leadingZero(text: String)
    /// An identifier of the pre-release part is empty.
    case emptyIdentifier(text: String)
    /// The pre-release part has a character other than letters, digits and hyphens.
    case forbiddenCharacter(text: String)
    /// The version has build metadata, which does not take part in precedence.
    case buildMetadata(text: String)
}

extension SemanticVersionError: CustomStringConvertible {
    /// One sentence with the text, the fault and the correct form.
    public var description: String {
        switch self {
        case .tooLong(let bytes, let text):
            "the version \"\(text)\" has \(bytes) bytes; use at most \(SemanticVersion.maximumBytes)"
        case .leadingV(let text): "the version \"\(text)\" starts with \"v\"; write the numbers only, like 1.5.1"
        case .missingV(let text): "the name \"\(text)\" is not the folder of a version; write it like v1.5.1"
        case .notThreeNumbers(let text): "the version \"\(text)\" is not three numbers; write it like 1.5.1"
        case .leadingZero(let text): "the version \"\(text)\" has a number with a leading zero; leave the zero out"
        case .emptyIdentifier(let text):
            "the version \"\(text)\" has an empty pre-release identifier; write it like 1.5.1-rc.1"
        case .forbiddenCharacter(let text):
            "the version \"\(text)\" has a pre-release part with a character other than 0-9, A-Z, a-z and hyphen"
        case .buildMetadata(let text): "the version \"\(text)\" has build metadata; leave out \"+\" and the rest"
        }
    }
}

/// The range of shell versions that can run a client, including both ends.
package struct ShellRange: Sendable, Hashable {
    package let minimum: SemanticVersion
    /// The newest shell; nil if there is no upper end.
    package let maximum: SemanticVersion?

    /// Throws if the range is empty.
    package init(minimum: SemanticVersion, maximum: SemanticVersion? = nil) throws(ShellRangeError) {
        if let maximum, maximum < minimum { throw .maximumBelowMinimum(minimum: minimum, maximum: maximum) }
        self.minimum = minimum
        self.maximum = maximum
    }

    /// The range for people, such as `shells 1.0.0 to 2.4.0`.
    package var text: String {
        switch maximum {
        case let maximum?: "shells \(minimum) to \(maximum)"
        case nil: minimum == .zero ? "any shell" : "shells from \(minimum)"
        }
    }

    /// Whether every shell of `other` is in this range.
    package func covers(_ other: ShellRange) -> Bool {
        guard minimum <= other.minimum else { return false }
        guard let maximum else { return true }
        return other.maximum.map { $0 <= maximum } ?? false
    }

    package func compatibility(with shell: SemanticVersion) -> ShellCompatibility {
        if shell < minimum { return .shellTooOld(minimum: minimum) }
        if let maximum, shell > maximum { return .shellTooNew(maximum: maximum) }
        return .compatible
    }
}

/// Whether a shell can run a client.
package enum ShellCompatibility: Sendable, Equatable {
    case compatible
    /// The client needs at least `minimum`.
    case shellTooOld(minimum: SemanticVersion)
    /// The client runs in shells up to `maximum`.
    case shellTooNew(maximum: SemanticVersion)
}

extension ShellCompatibility: CustomStringConvertible {
    /// A clause that follows the name of the client in messages.
    package var description: String {
        switch self {
        case .compatible: "runs in this shell"
        case .shellTooOld(let minimum): "needs shell \(minimum) or newer"
        case .shellTooNew(let maximum): "is for shells up to \(maximum)"
        }
    }
}

package enum ShellRangeError: Error, Sendable, Equatable, CustomStringConvertible {
    case maximumBelowMinimum(minimum: SemanticVersion, maximum: SemanticVersion)

    package var description: String {
        switch self {
        case .maximumBelowMinimum(let minimum, let maximum):
            "the newest shell \(maximum) is older than the oldest shell \(minimum); swap or correct them"
        }
    }
}

/// An identifier of a semantic version. Numbers are stored as digits, so that none overflows.
private struct VersionIdentifier: Hashable, Sendable {
    let bytes: [UInt8]
    let isNumeric: Bool

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = Array(bytes)
        isNumeric = bytes.allSatisfy(\.isASCIIDigit)
    }

    /// Whether all characters are in `[0-9A-Za-z-]`.
    var isWellFormed: Bool {
        bytes.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "-") }
    }
}

extension VersionIdentifier: Comparable {
    /// Sorts numbers by value and before words, and words in ASCII order (section 11.4 of the specification).
    ///
    /// Numbers have no leading zeros, so the longer one is greater.
    static func < (left: VersionIdentifier, right: VersionIdentifier) -> Bool {
        if left.isNumeric != right.isNumeric { return left.isNumeric }
        if left.isNumeric, left.bytes.count != right.bytes.count { return left.bytes.count < right.bytes.count }
        return left.bytes.lexicographicallyPrecedes(right.bytes)
    }
}
