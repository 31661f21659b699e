import COpenSSL

/// Overwrites secret bytes in a way that the compiler cannot optimize away, and empties the array.
///
/// It overwrites only this copy. An array with shared storage is copied first, so callers that pass secrets have to
/// overwrite their own copies.
func cleanse(_ bytes: inout [UInt8]) {
    bytes.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) }
    bytes.removeAll()
}
