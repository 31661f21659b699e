import BundleSigning
import Synchronization

extension KeyAlgorithm {
    /// Words that make the `openssl` command generate such a key.
    var generation: String {
        switch self {
        case .ed25519: "genpkey -algorithm ED25519"
        case .ecdsaP256: "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256"
        case .rsaPSS: "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048"
        }
    }

    /// Words that make `openssl pkeyutl -rawin` use this algorithm's scheme.
    var scheme: String {
        switch self {
        case .ed25519: "-rawin"
        case .ecdsaP256: "-rawin -digest sha256"
        case .rsaPSS: "-rawin -digest sha256 -pkeyopt rsa_padding_mode:pss -pkeyopt rsa_pss_saltlen:32"
        }
    }
}

extension Workbench {
    private static let generated = MadeOnce()

    /// The bytes of the private key that these words generate, the same each time.
    func generatedKey(_ generation: String) throws -> [UInt8] {
        let key = try Self.generated.bytes(generation) {
            try openssl("\(generation) -out key.pem")
            return try read("key.pem")
        }
        try write(key, to: "key.pem")
        return key
    }

    /// The bytes of the public half of the private key that these words generate.
    func generatedPublicKey(_ generation: String) throws -> [UInt8] {
        _ = try generatedKey(generation)
        try openssl("pkey -in key.pem -pubout -out pub.pem")
        return try read("pub.pem")
    }

    /// A key of this algorithm, and the signature over `message` that the `openssl` command made with it.
    func opensslSigned(
        _ message: [UInt8], with algorithm: KeyAlgorithm
    ) throws -> (key: PublicKey, signature: [UInt8]) {
        let key = try PublicKey(parsingPEM: generatedPublicKey(algorithm.generation))
        try write(message, to: "message")
        try openssl("pkeyutl -sign -inkey key.pem -in message -out signature \(algorithm.scheme)")
        return (key, try read("signature"))
    }
}

extension PrivateKey {
    private static let made = MadeOnce()

    /// A key that `generate` has made, the same each time.
    static func any(_ algorithm: KeyAlgorithm) throws -> PrivateKey {
        let pem = try made.bytes(algorithm.rawValue) { try generate(algorithm).pem(passphrase: nil) }
        return try PrivateKey(parsingPEM: pem, passphrase: noPassphrase)
    }
}

/// Bytes that are made when they are first asked for: an RSA key takes up to a second.
private final class MadeOnce: Sendable {
    private let made = Mutex<[String: [UInt8]]>([:])

    func bytes(_ name: String, _ make: () throws -> [UInt8]) throws -> [UInt8] {
        try made.withLock { made in
            if let bytes = made[name] { return bytes }
            let bytes = try make()
            made[name] = bytes
            return bytes
        }
    }
}

/// A passphrase source for keys that need none: being asked is an error.
func noPassphrase() throws -> [UInt8] {
    throw Workbench.Failure(description: "a passphrase was asked for")
}

/// The error that `body` throws, if it is a `KeyError`.
func keyError(_ body: () throws -> Void) -> KeyError? {
    do {
        try body()
        return nil
    } catch {
        return error as? KeyError
    }
}

/// The bytes that hex digits spell; spaces are skipped.
func bytes(_ hex: String) -> [UInt8] {
    let digits = hex.filter { $0 != " " }.compactMap(\.hexDigitValue)
    return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
}

extension [UInt8] {
    /// These bytes with one bit turned over.
    func flipping(bit: Int) -> [UInt8] {
        var copy = self
        copy[bit / 8] ^= 1 << (bit % 8)
        return copy
    }
}

let message = Array("swap-clients-manifest-v1\nversion=1.5.1\n".utf8)
