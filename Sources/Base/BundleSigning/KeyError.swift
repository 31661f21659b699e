/// The reason why a key is rejected.
package enum KeyError: Error, Hashable, CustomStringConvertible {
    /// The file has no `-----BEGIN …-----` line.
    case noPEMBlock
    /// The file has several blocks, so the intended key is unclear.
    case severalPEMBlocks(labels: [String])
    /// The block is not a key of the expected kind.
    case unexpectedPEMBlock(label: String)
    /// The boundaries, headers or base64 are invalid.
    case malformedPEM(String)
    /// The file is larger than any key.
    case tooLarge(byteCount: Int)
    /// A private key was passed instead of a public key.
    case privateKeyGiven
    /// A public key was passed instead of a private key.
    case publicKeyGiven
    /// The bytes are not a key. The failure has OpenSSL's reasons.
    case malformedDER(OpenSSLFailure)
    /// The key is in version 2 of PKCS#8, which OpenSSL does not read.
    case secondPKCS8
    /// Bytes follow the key.
    case trailingBytes(count: Int)
    /// The key is not in canonical DER, so it would have another ID.
    case notCanonical
    /// The key's algorithm is not supported.
    case unsupportedAlgorithm(String)
    /// The key is on another curve than P-256.
    case unsupportedCurve(String)
    /// The key has explicit curve parameters instead of a curve name, as in CVE-2020-0601.
    case explicitCurve
    /// The point is compressed or hybrid, so one key would have several IDs.
    case compressedPoint
    /// The order of the Ed25519 point divides 8, so its signatures need no secret.
    case smallOrder
    /// The RSA modulus has fewer than 2048 or more than 16384 bits.
    case unsupportedRSASize(bits: Int)
    /// The RSA public exponent is not 65537.
    case unsupportedRSAExponent
    /// The key's restrictions (RFC 4055) do not allow SHA-256 with a salt of 32 bytes.
    case restrictedParameters(OpenSSLFailure)
    /// The key is not one that the plugins of phones accept.
    case notForPhones(String)
    /// The private and public key do not match.
    case mismatchedHalves
    /// The private key has the traditional encryption, which derives its key with one round of MD5.
    case traditionalEncryption
    /// The passphrase is wrong or the encrypted bytes are damaged. OpenSSL cannot distinguish the two.
    case wrongPassphrase
    /// The passphrase is empty, so it would not protect the key.
    case emptyPassphrase
    /// OpenSSL failed.
    case openSSL(OpenSSLFailure)

    package var description: String {
        switch self {
        case .noPEMBlock:
            "no PEM block found: a key file has a `-----BEGIN …-----` line, and `openssl pkey -inform DER` rewrites a file in DER"
        case .severalPEMBlocks(let labels):
            "several PEM blocks found (\(labels.joined(separator: ", "))): give one key in each file"
        case .unexpectedPEMBlock(let label):
            "the PEM block is \(label), not the expected kind of key: public keys are PUBLIC KEY, private keys are PRIVATE KEY"
        case .malformedPEM(let problem):
            "the PEM text is malformed: \(problem)"
        case .tooLarge(let byteCount):
            "a file of \(byteCount) bytes is not a key: the limit is \(PEM.byteLimit)"
        case .privateKeyGiven:
            "this is a private key, not a public key: keep it secret, "
                + "and export the public key with `openssl pkey -pubout`"
        case .publicKeyGiven:
            "this is a public key, not a private key: public keys can only verify"
        case .malformedDER(let failure):
            "the content is not a readable key: \(failure)"
        case .secondPKCS8:
            "the key is in version 2 of PKCS#8 (RFC 5958), which OpenSSL does not read: write it in version 1, without the public key"
        case .trailingBytes(let count):
            "\(count) bytes follow the end of the key"
        case .notCanonical:
            "the key is not in canonical DER: rewrite it with `openssl pkey -pubin -pubout`"
        case .unsupportedAlgorithm(let name):
            "\(name) keys are not accepted: use ed25519, ecdsa-p256 or rsa-pss"
        case .unsupportedCurve(let name):
            "keys on the curve \(name) are not accepted: use P-256"
        case .explicitCurve:
            "the key has explicit curve parameters: use a key that names its curve, P-256"
        case .compressedPoint:
            "the point of the key is not uncompressed: rewrite it with `openssl ec -conv_form uncompressed`"
        case .smallOrder:
            "signatures of this Ed25519 key need no secret: make another key with `clientctl keys generate`"
        case .unsupportedRSASize(let bits):
            "an RSA key of \(bits) bits is not accepted: use 2048 to 16384 bits"
        case .unsupportedRSAExponent:
            "the RSA key's public exponent is not 65537"
        case .restrictedParameters(let failure):
            "the restrictions of the key do not allow SHA-256 with a salt of 32 bytes: \(failure)"
        case .notForPhones(let found):
            "phones need an RSA key of 2048 bits, and this is \(found): make one with `clientctl keys generate --phone`"
        case .mismatchedHalves:
            "the private and public key do not match: the file is damaged"
        case .traditionalEncryption:
            "the key has the traditional encryption, which is weak: rewrite it with "
                + "`openssl pkcs8 -topk8 -v2 aes-256-cbc -iter 600000`"
        case .wrongPassphrase:
            "the passphrase is wrong, or the private key is damaged"
        case .emptyPassphrase:
            "the passphrase is empty"
        case .openSSL(let failure):
            failure.description
        }
    }
}
