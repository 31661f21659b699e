import COpenSSL

/// A public key for verification: Ed25519, ECDSA on P-256, or RSA with at least 2048 bits and the exponent 65537.
///
/// Two keys are equal if their SubjectPublicKeyInfo is equal.
package struct PublicKey: Hashable, Sendable, CustomStringConvertible {
    /// The SubjectPublicKeyInfo (RFC 5280) in DER.
    package let spki: [UInt8]
    /// The only algorithm by which signatures of this key are verified.
    package let algorithm: KeyAlgorithm
    /// The SHA-256 of `spki` in 64 lower-case hexadecimal digits.
    package let id: String
    /// The size for display: 256 for ed25519 and ecdsa-p256, the size of the modulus for rsa-pss.
    package let bits: Int
    /// The parsed key, kept because parsing costs as much as a verification.
    private let parsed: ParsedKey

    /// Reads a file with exactly one `PUBLIC KEY` block (RFC 7468, section 13).
    package init(parsingPEM bytes: [UInt8]) throws(KeyError) {
        let blocks = try PEM.blocks(in: bytes)
        guard !blocks.contains(where: { $0.label.hasSuffix("PRIVATE KEY") }) else { throw .privateKeyGiven }
        guard let block = blocks.first else { throw .noPEMBlock }
        guard blocks.count == 1 else { throw .severalPEMBlocks(labels: blocks.map(\.label)) }
        guard block.label == "PUBLIC KEY" else { throw .unexpectedPEMBlock(label: block.label) }
        try self.init(parsingDER: block.der())
    }

    /// Reads a SubjectPublicKeyInfo in DER. Throws if bytes follow it or if it is not canonical.
    package init(parsingDER der: [UInt8]) throws(KeyError) {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard der.count <= PEM.byteLimit else { throw .tooLarge(byteCount: der.count) }
        // OpenSSL's decoder and encoder cost twice as much as a verification, and an Ed25519 key has a single encoding.
        if let point = EdwardsPoint.bytes(ofSPKI: der) {
            try self.init(adopting: try KeyHandle(ed25519: point), spki: der)
            return
        }
        let key = try KeyHandle(parsingPublic: der)
        let spki = try KeyError.wrapping { () throws(OpenSSLFailure) in try key.publicDER() }
        try self.init(adopting: key, spki: spki)
        guard spki == der else { throw .notCanonical }
    }

    /// Returns the public key of a private key.
    init(of key: borrowing KeyHandle) throws(KeyError) {
        let der = try KeyError.wrapping { () throws(OpenSSLFailure) in try key.publicDER() }
        try self.init(parsingDER: der)
    }

    private init(adopting key: consuming KeyHandle, spki: [UInt8]) throws(KeyError) {
        algorithm = try key.algorithm()
        bits = key.bits(for: algorithm)
        do {
            // OpenSSL refuses a scheme that the restrictions of the key (RFC 4055) do not allow.
            _ = try SignatureContext(to: .verify, with: key, algorithm: algorithm)
        } catch {
            throw algorithm == .rsaPSS ? .restrictedParameters(error) : .openSSL(error)
        }
        do {
            id = try SHA256Digest.of(spki).hex
        } catch {
            throw .openSSL(error)
        }
        self.spki = spki
        if algorithm == .ed25519, EdwardsPoint.isOfSmallOrder(spki.suffix(EdwardsPoint.byteCount)) { throw .smallOrder }
        parsed = ParsedKey(key)
    }

    package static func == (first: PublicKey, second: PublicKey) -> Bool { first.spki == second.spki }

    package func hash(into hasher: inout Hasher) { hasher.combine(spki) }

    /// The key as a `PUBLIC KEY` block with a final line feed.
    package var pem: String {
        String(decoding: PEM.encode(spki, label: "PUBLIC KEY"), as: UTF8.self)
    }

    /// The algorithm, the size of an RSA key, and the ID.
    package var description: String {
        algorithm == .rsaPSS ? "\(algorithm.rawValue) \(bits) bits \(id)" : "\(algorithm.rawValue) \(id)"
    }

    /// Whether the signature is valid for the message.
    ///
    /// Returns false for every wrong or malformed signature, and throws only if OpenSSL fails to start. ECDSA signatures
    /// are malleable, so do not use their bytes as an identity.
    package func verifies(signature: [UInt8], over message: [UInt8]) throws(OpenSSLFailure) -> Bool {
        ERR_clear_error()
        defer { ERR_clear_error() }
        return try SignatureContext(to: .verify, with: parsed.handle, algorithm: algorithm)
            .verifies(signature, over: message)
    }
}

/// The `EVP_PKEY` of a public key.
///
/// Unchecked Sendable: it never changes, and threads may share an unchanged key (openssl-threads(7)).
private final class ParsedKey: @unchecked Sendable {
    let handle: KeyHandle

    init(_ handle: consuming KeyHandle) {
        self.handle = handle
    }
}

/// An encoded point of the curve of Ed25519 (RFC 8032, section 5.1).
enum EdwardsPoint {
    /// The number of bytes of an encoded point.
    static let byteCount = 32
    /// The SubjectPublicKeyInfo (RFC 8410, section 4) of a key without the encoded point at its end.
    private static let prefix: [UInt8] = [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00]

    /// Returns the encoded point of an Ed25519 key; nil for other keys.
    static func bytes(ofSPKI der: [UInt8]) -> ArraySlice<UInt8>? {
        der.count == prefix.count + byteCount && der.starts(with: prefix) ? der[prefix.count...] : nil
    }

    /// The encodings of all points whose order divides 8, without the sign of x: the y coordinates 0, 1 and -1, 0 and 1 plus the prime,
    /// which decoders accept, and the two of order 8.
    private static let smallOrders: [[UInt8]] = [
        number(0x00, filledWith: 0x00, last: 0x00), number(0x01, filledWith: 0x00, last: 0x00),
        number(0xEC, filledWith: 0xFF, last: 0x7F), number(0xED, filledWith: 0xFF, last: 0x7F),
        number(0xEE, filledWith: 0xFF, last: 0x7F),
        [
            0x26, 0xE8, 0x95, 0x8F, 0xC2, 0xB2, 0x27, 0xB0, 0x45, 0xC3, 0xF4, 0x89, 0xF2, 0xEF, 0x98, 0xF0, 0xD5, 0xDF,
            0xAC, 0x05, 0xD3, 0xC6, 0x33, 0x39, 0xB1, 0x38, 0x02, 0x88, 0x6D, 0x53, 0xFC, 0x05,
        ],
        [
            0xC7, 0x17, 0x6A, 0x70, 0x3D, 0x4D, 0xD8, 0x4F, 0xBA, 0x3C, 0x0B, 0x76, 0x0D, 0x10, 0x67, 0x0F, 0x2A, 0x20,
            0x53, 0xFA, 0x2C, 0x39, 0xCC, 0xC6, 0x4E, 0xC7, 0xFD, 0x77, 0x92, 0xAC, 0x03, 0x7A,
        ],
    ]

    private static func number(_ first: UInt8, filledWith middle: UInt8, last: UInt8) -> [UInt8] {
        [first] + [UInt8](repeating: middle, count: byteCount - 2) + [last]
    }

    /// Returns whether the order of the encoded point `bytes` divides 8. An attacker can sign with such a key without a secret.
    static func isOfSmallOrder(_ bytes: some Collection<UInt8>) -> Bool {
        var point = Array(bytes)
        guard point.count == byteCount else { return false }
        point[byteCount - 1] &= 0x7F
        return smallOrders.contains(point)
    }
}

/// The signature algorithms. The key, not the message, determines the algorithm of a signature.
package enum KeyAlgorithm: String, Sendable, CaseIterable {
    /// Ed25519 (RFC 8032), with signatures of 64 bytes.
    case ed25519 = "ed25519"
    /// ECDSA on P-256 with SHA-256 (FIPS 186-4), with signatures in DER.
    case ecdsaP256 = "ecdsa-p256"
    /// RSASSA-PSS (RFC 8017) with SHA-256, MGF1 with SHA-256 and a salt of 32 bytes.
    case rsaPSS = "rsa-pss"
}
