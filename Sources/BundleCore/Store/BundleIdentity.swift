/// What a client is, whatever channel it came by.
public struct BundleIdentity: Sendable, Equatable {
    /// Its version.
    public let version: SemanticVersion
    /// The channel that it came by: `archive`.
    public let channel: String
    /// The shells that it is for.
    public let shells: ShellRange

    /// States an identity.
    public init(version: SemanticVersion, channel: String, shells: ShellRange) {
        self.version = version
        self.channel = channel
        self.shells = shells
    }

    /// The name of its serving root.
    var servingName: String { "\(channel)-\(version)" }

    /// Reads `version`, `channel`, `minShellVersion` and `maxShellVersion`.
    init(_ reader: MemberReader) throws {
        version = try reader.version("version")
        channel = try reader.string("channel")
        let minimum = try reader.version("minShellVersion")
        let maximum = try reader.optionalVersion("maxShellVersion")
        do {
            shells = try ShellRange(minimum: minimum, maximum: maximum)
        } catch {
            throw reader.refusal("maxShellVersion", "is refused: \(error)")
        }
    }
}
