import BundleSigning
import Synchronization

extension KeyAlgorithm {
    /// Arguments of the `openssl` command that generate a key of this algorithm.
    var generation: String {
        switch self {
        case .ed25519: "genpkey -algorithm ED25519"
        case .ecdsaP256: "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256"
        case .rsaPSS: "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048"
        }
    }

    /// Arguments of `openssl pkeyutl -rawin` for the scheme of this algorithm.
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

    /// Returns the private key that these arguments generate, the same at each call.
    func generatedKey(_ generation: String) throws -> [UInt8] {
        let key = try Self.generated.bytes(generation) {
            try openssl("\(generation) -out key.pem")
            return try read("key.pem")
        }
        try write(key, to: "key.pem")
        return key
    }

    /// Returns the public key of the private key that these arguments generate.
    func generatedPublicKey(_ generation: String) throws -> [UInt8] {
        _ = try generatedKey(generation)
        try openssl("pkey -in key.pem -pubout -out pub.pem")
        return try read("pub.pem")
    }

    /// Returns a key and a signature over `message`, both made by the `openssl` command.
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

    /// Returns a key from `generate`, the same at each call.
    static func any(_ algorithm: KeyAlgorithm) throws -> PrivateKey {
        let pem = try made.bytes(algorithm.rawValue) { try generate(algorithm).pem(passphrase: nil) }
        return try PrivateKey(parsingPEM: pem, passphrase: noPassphrase)
    }
}

/// Bytes that are created at their first use, because an RSA key takes up to a second.
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

/// A passphrase closure for unencrypted keys. Its call fails the test.
func noPassphrase() throws -> [UInt8] {
    throw Workbench.Failure(description: "a passphrase was asked for")
}

/// Returns the `KeyError` that `body` throws, or nil.
func keyError(_ body: () throws -> Void) -> KeyError? {
    do {
        try body()
        return nil
    } catch {
        return error as? KeyError
    }
}

/// Returns the bytes of a hexadecimal text. Spaces are ignored.
func bytes(_ hex: String) -> [UInt8] {
    let digits = hex.filter { $0 != " " }.compactMap(\.hexDigitValue)
    return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
}

extension [UInt8] {
    /// Returns the bytes with one bit inverted.
    func flipping(bit: Int) -> [UInt8] {
        var copy = self
        copy[bit / 8] ^= 1 << (bit % 8)
        return copy
    }
}

let message = Array("swap-clients-manifest-v1\nversion=1.5.1\n".utf8)
