import COpenSSL

/// A public key that may verify signatures here: Ed25519, ECDSA on P-256, or RSA of 2048 bits or more with exponent 65537.
///
/// A plain value: two keys are equal exactly if their SubjectPublicKeyInfo is.
package struct PublicKey: Hashable, Sendable, CustomStringConvertible {
    /// The key's SubjectPublicKeyInfo (RFC 5280) in DER.
    package let spki: [UInt8]
    /// The only algorithm that this key's signatures are verified with.
    package let algorithm: KeyAlgorithm
    /// The lower-case hex SHA-256 of `spki`: 64 digits.
    package let id: String
    /// The size that names the key, for display: 256 for ed25519 and ecdsa-p256, the modulus for rsa-pss.
    package let bits: Int
    /// `spki` as OpenSSL reads it: reading costs as much as verifying, and a device verifies many documents with few keys.
    private let parsed: ParsedKey

    /// Reads a file with exactly one `PUBLIC KEY` block (RFC 7468 section 13); throws `KeyError` for every other.
    package init(parsingPEM bytes: [UInt8]) throws(KeyError) {
        let blocks = try PEM.blocks(in: bytes)
        guard !blocks.contains(where: { $0.label.hasSuffix("PRIVATE KEY") }) else { throw .privateKeyGiven }
        guard let block = blocks.first else { throw .noPEMBlock }
        guard blocks.count == 1 else { throw .severalPEMBlocks(labels: blocks.map(\.label)) }
        guard block.label == "PUBLIC KEY" else { throw .unexpectedPEMBlock(label: block.label) }
        try self.init(parsingDER: block.der())
    }

    /// Reads a SubjectPublicKeyInfo in DER that fills `der` to its last byte; throws `KeyError` for every other.
    package init(parsingDER der: [UInt8]) throws(KeyError) {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard der.count <= PEM.byteLimit else { throw .tooLarge(byteCount: der.count) }
        try self.init(taking: try KeyHandle(parsingPublic: der))
        guard spki == der else { throw .notCanonical }
    }

    /// The public half of a private `key`, if it is of an accepted kind; nothing private stays with it.
    init(of key: borrowing KeyHandle) throws(KeyError) {
        let der = try KeyError.wrapping { () throws(OpenSSLFailure) in try key.publicDER() }
        try self.init(taking: try KeyHandle(parsingPublic: der))
    }

    private init(taking key: consuming KeyHandle) throws(KeyError) {
        algorithm = try key.algorithm()
        bits = key.bits(for: algorithm)
        do {
            // A restricted key (RFC 4055) lets nothing else be set up than what it allows.
            _ = try SignatureContext(to: .verify, with: key, algorithm: algorithm)
        } catch {
            throw algorithm == .rsaPSS ? .restrictedParameters(error) : .openSSL(error)
        }
        do {
            spki = try key.publicDER()
            id = try SHA256Digest.of(spki).hex
        } catch {
            throw .openSSL(error)
        }
        parsed = ParsedKey(key)
    }

    /// Whether both are the same key.
    package static func == (first: PublicKey, second: PublicKey) -> Bool { first.spki == second.spki }

    /// Hashes what makes keys equal.
    package func hash(into hasher: inout Hasher) { hasher.combine(spki) }

    /// The key as one `PUBLIC KEY` block that ends in a line feed.
    package var pem: String {
        String(decoding: PEM.encode(spki, label: "PUBLIC KEY"), as: UTF8.self)
    }

    /// The algorithm, the size where it varies, and the id.
    package var description: String {
        algorithm == .rsaPSS ? "\(algorithm.rawValue) \(bits) bits \(id)" : "\(algorithm.rawValue) \(id)"
    }

    /// Whether `signature` is this key's signature over `message`.
    ///
    /// False for every signature that is wrong or malformed; throws only if OpenSSL could not even begin.
    /// ECDSA signatures are malleable, so a signature's bytes never identify anything.
    package func verifies(signature: [UInt8], over message: [UInt8]) throws(OpenSSLFailure) -> Bool {
        ERR_clear_error()
        defer { ERR_clear_error() }
        return try SignatureContext(to: .verify, with: parsed.handle, algorithm: algorithm)
            .verifies(signature, over: message)
    }
}

/// A public key's `EVP_PKEY`, for as long as somebody holds the key.
///
/// Sendable, unchecked: it is set once and never changed, and OpenSSL promises that a key may be used from many threads
/// while nobody changes it (openssl-threads(7)).
private final class ParsedKey: @unchecked Sendable {
    let handle: KeyHandle

    init(_ handle: consuming KeyHandle) {
        self.handle = handle
    }
}

/// The signature algorithms that a key can be for; a signature's algorithm is always its key's, never the message's.
package enum KeyAlgorithm: String, Sendable, CaseIterable {
    /// Ed25519 (RFC 8032), signatures of 64 bytes.
    case ed25519 = "ed25519"
    /// ECDSA on P-256 with SHA-256 (FIPS 186-4), signatures in DER.
    case ecdsaP256 = "ecdsa-p256"
    /// RSASSA-PSS (RFC 8017) with SHA-256, MGF1 with SHA-256 and a salt of 32 bytes.
    case rsaPSS = "rsa-pss"
}
