import BundleFormats
import BundleValues
package import BundleSigning

/// Signs with a private key in memory, or with a command that uses a key in a device.
package final class Signer {
    private enum KeySource: ~Copyable {
        case key(PrivateKey)
        case command(SigningCommand)
    }

    package let publicKey: PublicKey
    private let source: KeySource

    /// Whether it signs without a person or a network.
    var isQuick: Bool {
        switch source {
        case .key: true
        case .command: false
        }
    }

    init(_ key: consuming PrivateKey) {
        publicKey = key.publicKey
        source = .key(key)
    }

    /// Signs with `command`, whose signatures verify with `publicKey`.
    package init(_ command: SigningCommand, publicKey: PublicKey) {
        self.publicKey = publicKey
        source = .command(command)
    }

    /// Returns the signature of `message`, verified with the public key.
    func sign(_ message: [UInt8]) throws -> [UInt8] {
        switch source {
        case .key(let key): return try key.sign(message)
        case .command(let command):
            let signature = try command.sign(message)
            if try publicKey.verifies(signature: signature, over: message) { return signature }
            throw UpdateFailure(
                .signatureInvalid, subject: SigningCommand.subject,
                "The signing command's \(signature.count) bytes are not a signature of the \(publicKey.algorithm.rawValue) key "
                    + "\(publicKey.id): \(Self.expectation(publicKey.algorithm)). Check --sign-public-key and the key that the "
                    + "command uses.")
        }
    }

    private static func expectation(_ algorithm: KeyAlgorithm) -> String {
        switch algorithm {
        case .ed25519: "it needs the 64 raw bytes of an Ed25519 signature"
        case .ecdsaP256:
            "it needs a DER signature over the SHA-256 (openssl dgst -sha256 -binary | pkcs11-tool --sign --mechanism ECDSA "
                + "--signature-format openssl)"
        case .rsaPSS: "it needs a raw RSA-PSS signature with SHA-256 and a salt of 32 bytes"
        }
    }
}

extension Signer {
    /// Returns the signature of the content of `envelope`.
    func signature(of envelope: SignedEnvelope) throws -> SignedEnvelope.Signature {
        SignedEnvelope.Signature(keyId: publicKey.id, bytes: try sign(envelope.message))
    }
}

extension TrustedKeys {
    /// Returns how many of the trusted keys belong to `signers`.
    func count(of signers: [Signer]) -> Int {
        keys.count { key in signers.contains { $0.publicKey.id == key.id } }
    }
}

extension [Signer] {
    /// Whether all signers sign without a person or a network.
    var areQuick: Bool { allSatisfy(\.isQuick) }

    /// The keys of these signers, all of which must sign.
    var trusted: TrustedKeys { TrustedKeys(map(\.publicKey), threshold: Set(map(\.publicKey.id)).count) }

    /// Returns `envelope` with the signature of each signer.
    func sign(_ envelope: SignedEnvelope) throws -> SignedEnvelope {
        var signed = envelope
        signed.signatures = try map { try $0.signature(of: envelope) }
        return signed
    }
}
