import COpenSSL

/// An `EVP_MD_CTX` set up to sign or verify one message with one key, the scheme fixed by the key's algorithm alone.
struct SignatureContext: ~Copyable {
    private let context: DigestContext
    private let algorithm: KeyAlgorithm
    /// The bytes of the longest signature that the key makes; an RSA key makes no shorter one.
    private let maximumLength: Int

    enum Purpose {
        case sign, verify
    }

    init(to purpose: Purpose, with key: borrowing KeyHandle, algorithm: KeyAlgorithm) throws(OpenSSLFailure) {
        let library = try LibraryContext.current()
        let digestName: String? = algorithm == .ed25519 ? nil : "SHA256"
        let context = try DigestContext()
        var keyContext: OpaquePointer?
        let initialize =
            switch purpose {
            case .sign: EVP_DigestSignInit_ex
            case .verify: EVP_DigestVerifyInit_ex
            }
        guard initialize(context.pointer, &keyContext, digestName, library.pointer, nil, key.pointer, nil) == 1 else {
            throw OpenSSLFailure(draining: "starting a signature with an \(algorithm.rawValue) key")
        }
        // The salt's length is a number, never "auto": a verifier that takes any salt accepts signatures nobody meant.
        guard
            algorithm != .rsaPSS
                || EVP_PKEY_CTX_set_rsa_padding(keyContext, RSA_PKCS1_PSS_PADDING) == 1
                    && EVP_PKEY_CTX_set_rsa_pss_saltlen(keyContext, Int32(SHA256Digest.byteCount)) == 1
                    && EVP_PKEY_CTX_set_rsa_mgf1_md_name(keyContext, "SHA256", nil) == 1
        else { throw OpenSSLFailure(draining: "choosing PSS with SHA-256 and a salt of 32 bytes") }
        self.context = context
        self.algorithm = algorithm
        maximumLength = Int(EVP_PKEY_get_size(key.pointer))
    }

    /// Whether `signature` is this key's over `message`; anything but OpenSSL's plain yes is a no.
    consuming func verifies(_ signature: [UInt8], over message: [UInt8]) -> Bool {
        guard hasPossibleLength(signature) else { return false }
        return signature.withUnsafeBufferPointer { signature in
            message.withUnsafeBufferPointer { message in
                EVP_DigestVerify(
                    context.pointer, signature.baseAddress, signature.count, message.baseAddress, message.count) == 1
            }
        }
    }

    /// The signature over `message`.
    consuming func sign(_ message: [UInt8]) throws(OpenSSLFailure) -> [UInt8] {
        var capacity = 0
        let signature = message.withUnsafeBufferPointer { message -> [UInt8] in
            guard EVP_DigestSign(context.pointer, nil, &capacity, message.baseAddress, message.count) == 1 else {
                return []
            }
            return [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
                var length = buffer.count
                let result = EVP_DigestSign(
                    context.pointer, buffer.baseAddress, &length, message.baseAddress, message.count)
                count = result == 1 ? length : 0
            }
        }
        guard !signature.isEmpty else { throw OpenSSLFailure(draining: "signing \(message.count) bytes") }
        return signature
    }

    /// OpenSSL takes an RSA signature whose leading zero bytes were cut off, which RFC 8017 section 8.1.2 forbids.
    private func hasPossibleLength(_ signature: [UInt8]) -> Bool {
        switch algorithm {
        case .ed25519, .rsaPSS: signature.count == maximumLength
        case .ecdsaP256: (1...maximumLength).contains(signature.count)
        }
    }
}
