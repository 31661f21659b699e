import COpenSSL

/// A private key. Its memory is overwritten when it is deinitialized.
package struct PrivateKey: ~Copyable {
    package let publicKey: PublicKey
    let handle: KeyHandle

    /// Throws if the algorithm is not accepted, or if a trial signature shows that the private and public key do not
    /// match.
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

    /// Generates a key with OpenSSL's random generator. RSA keys have 3072 bits and no restrictions.
    package static func generate(_ algorithm: KeyAlgorithm) throws(KeyError) -> PrivateKey {
        ERR_clear_error()
        defer { ERR_clear_error() }
        let key = try KeyError.wrapping { () throws(OpenSSLFailure) in try KeyHandle(generating: algorithm) }
        return try PrivateKey(checking: key)
    }

    /// Signs a message and verifies the signature before returning it, because a faulty signature can reveal the private
    /// key.
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

    init(generating algorithm: KeyAlgorithm, rsaBits: Int32 = generatedRSABits) throws(OpenSSLFailure) {
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
            algorithm != .rsaPSS || EVP_PKEY_CTX_set_rsa_keygen_bits(context, rsaBits) == 1,
            EVP_PKEY_generate(context, &key) == 1, let key
        else { throw OpenSSLFailure(draining: "generating an \(algorithm.rawValue) key") }
        self.init(owning: key)
    }
}

extension PrivateKey {
    /// The iterations of PBKDF2. OpenSSL's default of 2048 is too weak.
    static let passphraseRounds: Int32 = 600_000
    private static let saltByteCount = 16

    /// Encodes the key as a PKCS#8 block: `PRIVATE KEY`, or with a passphrase `ENCRYPTED PRIVATE KEY` with PBES2 (RFC
    /// 8018), PBKDF2-HMAC-SHA256, 600,000 iterations and AES-256-CBC.
    ///
    /// Without a passphrase the result is secret, and the caller has to restrict access to its file. Throws
    /// `KeyError.emptyPassphrase` if the passphrase is empty.
    package func pem(passphrase: [UInt8]?) throws(KeyError) -> [UInt8] {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard let envelope = EVP_PKEY2PKCS8(handle.pointer) else {
            throw .openSSL(OpenSSLFailure(draining: "wrapping a private key"))
        }
        defer { PKCS8_PRIV_KEY_INFO_free(envelope) }
        guard let passphrase else {
            var der = try KeyError.wrapping { () throws(OpenSSLFailure) in
                try derBytes(of: "a private key") { i2d_PKCS8_PRIV_KEY_INFO(envelope, $0) }
            }
            defer { cleanse(&der) }
            return PEM.encode(der, label: "PRIVATE KEY")
        }
        guard !passphrase.isEmpty else { throw .emptyPassphrase }
        let der = try KeyError.wrapping { () throws(OpenSSLFailure) in try Self.sealed(envelope, with: passphrase) }
        return PEM.encode(der, label: "ENCRYPTED PRIVATE KEY")
    }

    private static func sealed(_ envelope: OpaquePointer, with passphrase: [UInt8]) throws(OpenSSLFailure) -> [UInt8] {
        let library = try LibraryContext.current()
        let cipher = EVP_CIPHER_fetch(library.pointer, "AES-256-CBC", nil)
        defer { EVP_CIPHER_free(cipher) }
        var salt = [UInt8](repeating: 0, count: saltByteCount)
        guard cipher != nil, RAND_bytes_ex(library.pointer, &salt, salt.count, 0) == 1 else {
            throw OpenSSLFailure(draining: "preparing to encrypt a private key")
        }
        let sealed = passphrase.withUnsafeBytes { passphrase in
            PKCS8_encrypt_ex(
                NID_hmacWithSHA256, cipher, passphrase.bindMemory(to: CChar.self).baseAddress,
                Int32(clamping: passphrase.count), &salt, Int32(saltByteCount), passphraseRounds, envelope,
                library.pointer, nil)
        }
        guard let sealed else { throw OpenSSLFailure(draining: "encrypting a private key") }
        defer { X509_SIG_free(sealed) }
        return try derBytes(of: "an encrypted private key") { i2d_X509_SIG(sealed, $0) }
    }
}

extension PrivateKey {
    /// The PEM label of a private key.
    private enum KeyForm: String {
        case plain = "PRIVATE KEY"
        case encrypted = "ENCRYPTED PRIVATE KEY"
        case traditionalRSA = "RSA PRIVATE KEY"
        case traditionalEC = "EC PRIVATE KEY"
    }

    /// Reads a file with exactly one private key: PKCS#8 (RFC 5958), plain or encrypted, or an unencrypted `RSA PRIVATE
    /// KEY` or `EC PRIVATE KEY`.
    ///
    /// It calls `passphrase` only for an encrypted key, passes on its errors and overwrites the returned copy. Callers
    /// have to overwrite any copy of their own. Throws `KeyError` for any other file.
    package init(parsingPEM bytes: [UInt8], passphrase: () throws -> [UInt8]) throws {
        ERR_clear_error()
        defer { ERR_clear_error() }
        var (form, block) = try Self.soleKey(in: bytes)
        defer { cleanse(&block.base64) }
        var der = try block.der()
        defer { cleanse(&der) }
        let key: KeyHandle
        switch form {
        case .plain:
            if Self.isSecondPKCS8(der) { throw KeyError.secondPKCS8 }
            key = try KeyHandle(parsingPKCS8: der)
        case .encrypted:
            var passphrase = try passphrase()
            defer { cleanse(&passphrase) }
            key = try KeyHandle(parsingEncryptedPKCS8: der, passphrase: passphrase)
        case .traditionalRSA: key = try KeyHandle(parsingTraditional: der, type: EVP_PKEY_RSA)
        case .traditionalEC: key = try KeyHandle(parsingTraditional: der, type: EVP_PKEY_EC)
        }
        try self.init(checking: key)
    }

    /// Whether `der` is a sequence that begins with the version 1, which stands for version 2. RFC 5958 adds the public key to it.
    private static func isSecondPKCS8(_ der: [UInt8]) -> Bool {
        guard der.count > 2, der[0] == 0x30 else { return false }
        let lengthBytes = der[1] < 0x80 ? 1 : 1 + Int(der[1] & 0x7f)
        return der.dropFirst(1 + lengthBytes).starts(with: [0x02, 0x01, 0x01])
    }

    /// Returns the private key of a file. `openssl ecparam -genkey` writes a separate block with the curve before it.
    private static func soleKey(in bytes: [UInt8]) throws(KeyError) -> (KeyForm, PEM.KeyBlock) {
        let blocks = try PEM.blocks(in: bytes).filter { $0.label != "EC PARAMETERS" }
        guard let block = blocks.first else { throw .noPEMBlock }
        guard blocks.count == 1 else { throw .severalPEMBlocks(labels: blocks.map(\.label)) }
        guard !block.label.hasSuffix("PUBLIC KEY") else { throw .publicKeyGiven }
        guard let form = KeyForm(rawValue: block.label) else { throw .unexpectedPEMBlock(label: block.label) }
        guard !block.hasHeaders else { throw .traditionalEncryption }
        return (form, block)
    }
}

extension KeyHandle {
    fileprivate init(parsingTraditional der: [UInt8], type: Int32) throws(KeyError) {
        self = try Self.parsed(der, as: "a traditional private key") { library, cursor, length in
            d2i_PrivateKey_ex(type, nil, &cursor, length, library, nil)
        }
    }

    fileprivate init(parsingPKCS8 der: [UInt8]) throws(KeyError) {
        self = try Self.parsed(der, as: "a PKCS#8 private key") { library, cursor, length in
            let envelope = d2i_PKCS8_PRIV_KEY_INFO(nil, &cursor, length)
            defer { PKCS8_PRIV_KEY_INFO_free(envelope) }
            return envelope.flatMap { EVP_PKCS82PKEY_ex($0, library, nil) }
        }
    }

    fileprivate init(parsingEncryptedPKCS8 der: [UInt8], passphrase: [UInt8]) throws(KeyError) {
        do {
            self = try Self.parsed(der, as: "an encrypted PKCS#8 private key") { library, cursor, length in
                guard let sealed = d2i_X509_SIG(nil, &cursor, length) else { return nil }
                defer { X509_SIG_free(sealed) }
                let envelope = passphrase.withUnsafeBytes { passphrase in
                    PKCS8_decrypt_ex(
                        sealed, passphrase.bindMemory(to: CChar.self).baseAddress,
                        Int32(clamping: passphrase.count), library, nil)
                }
                defer { PKCS8_PRIV_KEY_INFO_free(envelope) }
                return envelope.flatMap { EVP_PKCS82PKEY_ex($0, library, nil) }
            }
        } catch .malformedDER(let failure) where failure.isFromWrongPassphrase {
            throw .wrongPassphrase
        }
    }
}

extension OpenSSLFailure {
    /// A wrong passphrase causes a padding error, or in one of 256 cases plaintext that is not a key.
    fileprivate var isFromWrongPassphrase: Bool {
        codes.contains { code in
            code.library == ERR_LIB_PKCS12
                && [PKCS12_R_PKCS12_CIPHERFINAL_ERROR, PKCS12_R_DECODE_ERROR].contains(code.reason)
        }
    }
}
