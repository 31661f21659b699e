/// An entry with the values from the archive, which are not trusted.
package struct ArchiveEntry: Sendable {
    package enum Kind: String, Sendable { case file, directory, symbolicLink, hardLink, special }

    /// The name in bytes; nil if libarchive cannot return it unchanged.
    package let name: [UInt8]?
    package let kind: Kind
    /// The stated size in bytes; nil if the archive does not state it.
    package let size: Int?
    package let isEncrypted: Bool
    /// Whether the data has holes.
    package let isSparse: Bool
    /// Whether the compression method is supported (zip: stored and deflate).
    package let isMethodSupported: Bool
}

extension ArchiveEntry {
    /// Creates an entry of a regular file.
    package init(fileNamed name: [UInt8], size: Int) {
        self.init(name: name, kind: .file, size: size, isEncrypted: false, isSparse: false, isMethodSupported: true)
    }
}
