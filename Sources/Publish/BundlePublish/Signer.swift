import ArchiveSource
import BundleCore
import BundleValues
package import BundleSigning

/// Whoever signs: a private key in memory, or a command in front of one that never leaves its device.
package final class Signer {
    private enum Source: ~Copyable {
        case key(PrivateKey)
        case command(SigningCommand)
    }

    /// The public half.
    package let publicKey: PublicKey
    private let source: Source

    /// Whether it signs at once: nobody has to touch a token, or be asked over a network.
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

    /// Signs with `command`, whose signatures are those of `publicKey`.
    package init(_ command: SigningCommand, publicKey: PublicKey) {
        self.publicKey = publicKey
        source = .command(command)
    }

    /// The signature over `message`, checked with the public half before it is handed out.
    func sign(_ message: [UInt8]) throws -> [UInt8] {
        switch source {
        case .key(let key): return try key.sign(message)
        case .command(let command):
            let signature = try command.sign(message)
            if try publicKey.verifies(signature: signature, over: message) { return signature }
            throw UpdateFailure(
                .signatureInvalid, subject: SigningCommand.subject,
                "The signing command's \(signature.count) bytes are no signature of the \(publicKey.algorithm.rawValue) key "
                    + "\(publicKey.id): \(Self.expectation(publicKey.algorithm)). Check --public and the key that the "
                    + "command uses.")
        }
    }

    private static func expectation(_ algorithm: KeyAlgorithm) -> String {
        switch algorithm {
        case .ed25519: "it takes the 64 raw bytes of an Ed25519 signature"
        case .ecdsaP256:
            "it takes a DER signature over the SHA-256 (openssl dgst -sha256 -binary | pkcs11-tool --sign --mechanism ECDSA "
                + "--signature-format openssl)"
        case .rsaPSS: "it takes a raw RSA-PSS signature with SHA-256 and a salt of 32 bytes"
        }
    }
}

extension Signer {
    /// Its signature over what `envelope` holds.
    func signature(of envelope: SignedEnvelope) throws -> SignedEnvelope.Signature {
        SignedEnvelope.Signature(keyId: publicKey.id, bytes: try sign(envelope.message))
    }
}

extension TrustedKeys {
    /// How many of the keys `signers` have.
    func count(of signers: [Signer]) -> Int {
        keys.count { key in signers.contains { $0.publicKey.id == key.id } }
    }
}

extension [Signer] {
    /// Whether all of them sign at once.
    var areQuick: Bool { allSatisfy(\.isQuick) }

    /// What trusts exactly these, all of which must sign.
    var trusted: TrustedKeys { TrustedKeys(map(\.publicKey), threshold: Set(map(\.publicKey.id)).count) }

    /// `envelope` with the signature of each.
    func sign(_ envelope: SignedEnvelope) throws -> SignedEnvelope {
        var signed = envelope
        signed.signatures = try map { try $0.signature(of: envelope) }
        return signed
    }
}
