package import BundleDisk
package import BundleSigning

extension File {
    /// Returns the SHA-256 of the content. Throws `DiskError`, or `OpenSSLFailure` if OpenSSL fails.
    package func sha256() throws -> SHA256Digest {
        var hasher = try SHA256Hasher()
        _ = try forEachBlock { try hasher.update($0) }
        return try hasher.finish()
    }
}
