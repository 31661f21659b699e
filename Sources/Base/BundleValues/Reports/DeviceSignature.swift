package import BundleSigning

/// The value of `X-Device-Key`: the public key of a device and its signature over the body, each in base64, with a colon between.
package struct DeviceSignature: Sendable, Equatable {
    /// The longest value of the field, in bytes.
    private static let longest = 256

    package let key: PublicKey
    private let signature: [UInt8]

    /// Signs `body` with the key of a device.
    package init(signing body: [UInt8], with key: borrowing DeviceKey) throws(OpenSSLFailure) {
        self.key = key.publicKey
        signature = try key.sign(body)
    }

    /// Parses the value of the field. Returns nil unless it contains an Ed25519 key and a signature.
    package init?(parsing text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard text.utf8.count <= Self.longest, parts.count == 2, let der = try? Base64.decode(String(parts[0])),
            let signature = try? Base64.decode(String(parts[1])), let key = try? PublicKey(parsingDER: der),
            key.algorithm == .ed25519
        else { return nil }
        self.key = key
        self.signature = signature
    }

    /// The value of the field.
    package var field: String { "\(Base64.encode(key.spki)):\(Base64.encode(signature))" }

    /// Whether the key signed `body`.
    package func isValid(over body: [UInt8]) throws(OpenSSLFailure) -> Bool {
        try key.verifies(signature: signature, over: body)
    }
}
