/// The Ed25519 key of a device. Its type keeps the code of devices away from the private keys of publishers.
package struct DeviceKey: ~Copyable {
    private let key: PrivateKey

    package var publicKey: PublicKey { key.publicKey }

    /// Generates a key with OpenSSL's random generator.
    package init() throws(KeyError) { key = try PrivateKey.generate(.ed25519) }

    /// Reads a file with exactly one unencrypted Ed25519 key. Throws `KeyError`.
    package init(parsingPEM bytes: [UInt8]) throws {
        let parsed = try PrivateKey(parsingPEM: bytes) { throw KeyError.emptyPassphrase }
        guard parsed.publicKey.algorithm == .ed25519 else { throw KeyError.unexpectedPEMBlock(label: "PRIVATE KEY") }
        key = parsed
    }

    /// The key as an unencrypted PKCS#8 block, which is secret.
    package func pem() throws(KeyError) -> [UInt8] { try key.pem(passphrase: nil) }

    /// Signs a message.
    package func sign(_ message: [UInt8]) throws(OpenSSLFailure) -> [UInt8] { try key.sign(message) }
}
