import COpenSSL

/// Overwrites secret bytes in a way that the compiler cannot leave out, and empties the array.
///
/// Only this copy: an array that shares its storage with another is copied first, so the caller of a function that
/// takes secrets wipes its own.
func cleanse(_ bytes: inout [UInt8]) {
    bytes.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) }
    bytes.removeAll()
}
