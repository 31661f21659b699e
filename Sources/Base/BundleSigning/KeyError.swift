/// Why a key was refused.
package enum KeyError: Error, Hashable, CustomStringConvertible {
    /// There is no `-----BEGIN …-----` line.
    case noPEMBlock
    /// There is more than one block, and which key is meant would be a guess.
    case severalPEMBlocks(labels: [String])
    /// The only block is something else than the key that was asked for.
    case unexpectedPEMBlock(label: String)
    /// The boundaries, the headers or the base64 are damaged.
    case malformedPEM(String)
    /// The file is larger than any key.
    case tooLarge(byteCount: Int)
    /// A private key was given where a public key belongs.
    case privateKeyGiven
    /// A public key was given where a private key belongs.
    case publicKeyGiven
    /// The bytes inside are no key; OpenSSL's reasons come along.
    case malformedDER(OpenSSLFailure)
    /// Bytes follow the end of the key.
    case trailingBytes(count: Int)
    /// The key is written in another way than DER's only one, which would give it another id.
    case notCanonical
    /// The key is for an algorithm that signs nothing here.
    case unsupportedAlgorithm(String)
    /// The key is on another curve than P-256.
    case unsupportedCurve(String)
    /// The key spells its curve out as numbers instead of naming it, the hole of CVE-2020-0601.
    case explicitCurve
    /// The point is compressed or hybrid, which would give one key several ids.
    case compressedPoint
    /// The RSA modulus has fewer than 2048 or more than 16384 bits.
    case unsupportedRSASize(bits: Int)
    /// The RSA public exponent is not 65537.
    case unsupportedRSAExponent
    /// The key's own restrictions (RFC 4055) rule out SHA-256 with a salt of 32 bytes.
    case restrictedParameters(OpenSSLFailure)
    /// The private and the public half do not belong together.
    case mismatchedHalves
    /// The private key is encrypted in the traditional way, which derives its key with one round of MD5.
    case traditionalEncryption
    /// The passphrase does not open the private key, or the encrypted bytes are damaged; the two look the same.
    case wrongPassphrase
    /// An empty passphrase would protect nothing.
    case emptyPassphrase
    /// OpenSSL itself could not work.
    case openSSL(OpenSSLFailure)

    /// What was refused and what to do about it.
    package var description: String {
        switch self {
        case .noPEMBlock:
            "no PEM block found: a key file holds a `-----BEGIN …-----` line"
        case .severalPEMBlocks(let labels):
            "several PEM blocks found (\(labels.joined(separator: ", "))): give one key in each file"
        case .unexpectedPEMBlock(let label):
            "the PEM block is \(label), not a key of the wanted kind: public keys are PUBLIC KEY, private keys PRIVATE KEY"
        case .malformedPEM(let problem):
            "the PEM text is malformed: \(problem)"
        case .tooLarge(let byteCount):
            "a file of \(byteCount) bytes is no key: the limit is \(PEM.byteLimit)"
        case .privateKeyGiven:
            "this is a private key where a public key belongs: keep it secret, "
                + "and write the public half with `openssl pkey -pubout`"
        case .publicKeyGiven:
            "this is a public key where a private key belongs: public keys can only verify"
        case .malformedDER(let failure):
            "the bytes inside are no key that can be read: \(failure)"
        case .trailingBytes(let count):
            "\(count) bytes follow the end of the key"
        case .notCanonical:
            "the key is not written in canonical DER: rewrite it with `openssl pkey -pubin -pubout`"
        case .unsupportedAlgorithm(let name):
            "\(name) keys are not accepted: use ed25519, ecdsa-p256 or rsa-pss"
        case .unsupportedCurve(let name):
            "keys on the curve \(name) are not accepted: ECDSA keys are on P-256"
        case .explicitCurve:
            "the key spells out its curve's parameters: ECDSA keys name their curve, P-256"
        case .compressedPoint:
            "the key's point is not in uncompressed form: rewrite it with `openssl ec -conv_form uncompressed`"
        case .unsupportedRSASize(let bits):
            "an RSA key of \(bits) bits is not accepted: RSA keys have 2048 to 16384"
        case .unsupportedRSAExponent:
            "the RSA key's public exponent is not 65537"
        case .restrictedParameters(let failure):
            "the key's own restrictions rule out SHA-256 with a salt of 32 bytes: \(failure)"
        case .mismatchedHalves:
            "the private and the public half of the key do not belong together: the file is damaged"
        case .traditionalEncryption:
            "the key is encrypted in the traditional way, which is weak: rewrite it with "
                + "`openssl pkcs8 -topk8 -v2 aes-256-cbc -iter 600000`"
        case .wrongPassphrase:
            "the passphrase does not open this private key, or the file is damaged"
        case .emptyPassphrase:
            "the passphrase is empty"
        case .openSSL(let failure):
            failure.description
        }
    }
}
