/// One entry as the archive states it: raw and untrusted.
public struct ArchiveEntry: Sendable {
    /// What the entry claims to be.
    public enum Kind: String, Sendable { case file, directory, symbolicLink, hardLink, special }

    /// The name's bytes; nil where they are not text the library can hand over unchanged.
    public let name: [UInt8]?
    /// What it claims to be.
    public let kind: Kind
    /// Stated size in bytes; nil where the archive does not say.
    public let size: Int?
    /// Whether its data is encrypted.
    public let isEncrypted: Bool
    /// Whether it has holes.
    public let isSparse: Bool
    /// Whether its compression is one that this tool reads (zip: stored and deflate).
    public let isMethodSupported: Bool
}
