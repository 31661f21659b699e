package import BundleSigning

/// The digests of a complete asset.
package struct AssetDigests: Sendable, Equatable {
    package let sha1: [UInt8]
    /// The SHA-512; nil for an asset without `sri`.
    package let sha512: [UInt8]?
    /// The digest for receipts.
    package let sha256: SHA256Digest
    /// The size in bytes.
    package let size: Int
    /// Whether the content starts like an HTML or XML page.
    package let beginsAsPage: Bool
}

/// Digests an asset incrementally.
package struct AssetDigester: ~Copyable {
    private var sha1: LabelHasher
    private var sha512: LabelHasher?
    private var sha256: SHA256Hasher
    private var size = 0
    private var head: [UInt8] = []

    package mutating func update(_ bytes: UnsafeRawBufferPointer) throws(OpenSSLFailure) {
        if head.count < HTMLSniff.length { head.append(contentsOf: bytes.prefix(HTMLSniff.length - head.count)) }
        size += bytes.count
        try sha1.update(bytes)
        try sha512?.update(bytes)
        try sha256.update(bytes)
    }

    /// Returns the digests of all bytes.
    package consuming func finish() throws(OpenSSLFailure) -> AssetDigests {
        AssetDigests(
            sha1: try sha1.finish(), sha512: try sha512?.finish(), sha256: try sha256.finish(), size: size,
            beginsAsPage: HTMLSniff.isPage(head[...]))
    }
}

extension AssetDigester {
    /// Computes the SHA-512 only if the manifest has an `sri` to compare.
    package init(for asset: MeteorAsset) throws(OpenSSLFailure) {
        try self.init(withSHA512: asset.sri != nil)
    }

    init(withSHA512: Bool) throws(OpenSSLFailure) {
        try self.init(
            sha1: LabelHasher(.sha1), sha512: withSHA512 ? Self.sha512() : nil, sha256: SHA256Hasher())
    }

    private static func sha512() throws(OpenSSLFailure) -> LabelHasher { try LabelHasher(.sha512) }
}
