import COpenSSL

/// A private key that can sign; its memory is wiped when it goes.
package struct PrivateKey: ~Copyable {
    /// The public half.
    package let publicKey: PublicKey
    let handle: KeyHandle

    /// Takes a key that is of an accepted kind and whose halves belong together, which a trial signature shows.
    init(checking key: consuming KeyHandle) throws(KeyError) {
        let publicKey = try PublicKey(of: key)
        let isWhole = try KeyError.wrapping { () throws(OpenSSLFailure) in
            let trial = try SignatureContext(to: .sign, with: key, algorithm: publicKey.algorithm).sign([])
            return try publicKey.verifies(signature: trial, over: [])
        }
        guard isWhole else { throw .mismatchedHalves }
        self.publicKey = publicKey
        handle = key
    }

    /// Makes a key from OpenSSL's random generator: RSA keys have 3072 bits and no restrictions of their own.
    package static func generate(_ algorithm: KeyAlgorithm) throws(KeyError) -> PrivateKey {
        ERR_clear_error()
        defer { ERR_clear_error() }
        let key = try KeyError.wrapping { () throws(OpenSSLFailure) in try KeyHandle(generating: algorithm) }
        return try PrivateKey(checking: key)
    }

    /// The signature over `message`, checked with the public half before it is handed out: a fault while signing
    /// can give the private key away.
    package func sign(_ message: [UInt8]) throws(OpenSSLFailure) -> [UInt8] {
        ERR_clear_error()
        defer { ERR_clear_error() }
        let algorithm = publicKey.algorithm
        let signature = try SignatureContext(to: .sign, with: handle, algorithm: algorithm).sign(message)
        guard try publicKey.verifies(signature: signature, over: message) else {
            throw OpenSSLFailure(draining: "making a signature that verifies")
        }
        return signature
    }
}

extension KeyHandle {
    static let generatedRSABits: Int32 = 3072

    init(generating algorithm: KeyAlgorithm) throws(OpenSSLFailure) {
        let library = try LibraryContext.current()
        let name =
            switch algorithm {
            case .ed25519: "ED25519"
            case .ecdsaP256: "EC"
            case .rsaPSS: "RSA"
            }
        let context = EVP_PKEY_CTX_new_from_name(library.pointer, name, nil)
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1,
            algorithm != .ecdsaP256 || EVP_PKEY_CTX_set_group_name(context, "P-256") == 1,
            algorithm != .rsaPSS || EVP_PKEY_CTX_set_rsa_keygen_bits(context, Self.generatedRSABits) == 1,
            EVP_PKEY_generate(context, &key) == 1, let key
        else { throw OpenSSLFailure(draining: "generating an \(algorithm.rawValue) key") }
        self.init(owning: key)
    }
}
