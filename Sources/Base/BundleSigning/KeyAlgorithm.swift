/// The signature algorithms that a key can be for; a signature's algorithm is always its key's, never the message's.
package enum KeyAlgorithm: String, Sendable, CaseIterable {
    /// Ed25519 (RFC 8032), signatures of 64 bytes.
    case ed25519 = "ed25519"
    /// ECDSA on P-256 with SHA-256 (FIPS 186-4), signatures in DER.
    case ecdsaP256 = "ecdsa-p256"
    /// RSASSA-PSS (RFC 8017) with SHA-256, MGF1 with SHA-256 and a salt of 32 bytes.
    case rsaPSS = "rsa-pss"
}
