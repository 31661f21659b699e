import COpenSSL

extension PrivateKey {
    /// The rounds of PBKDF2 that a passphrase goes through; OpenSSL's own default of 2048 is weak.
    static let passphraseRounds: Int32 = 600_000
    private static let saltByteCount = 16

    /// The key as one PKCS#8 block: `PRIVATE KEY`, or with a passphrase `ENCRYPTED PRIVATE KEY` under PBES2
    /// (RFC 8018) with PBKDF2-HMAC-SHA256, 600 000 rounds and AES-256-CBC.
    ///
    /// The result is secret without a passphrase: the caller writes it to a file that nobody else may read. An empty
    /// passphrase throws `KeyError.emptyPassphrase`.
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
