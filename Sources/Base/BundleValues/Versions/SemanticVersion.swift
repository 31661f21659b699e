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
        try self.init(bytes: bytes.first == UInt8(ascii: "v") ? Array(bytes.dropFirst()) : bytes)
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
