import COpenSSL

extension PrivateKey {
    /// How a file carries a private key.
    private enum Form: String {
        case plain = "PRIVATE KEY"
        case encrypted = "ENCRYPTED PRIVATE KEY"
        case traditionalRSA = "RSA PRIVATE KEY"
        case traditionalEC = "EC PRIVATE KEY"
    }

    /// Reads a file with exactly one private key: PKCS#8 (RFC 5958), plain or encrypted, or the traditional
    /// `RSA PRIVATE KEY` and `EC PRIVATE KEY`, unencrypted.
    ///
    /// `passphrase` is called only for an encrypted key; what it throws is passed on. The copy that it returns is
    /// wiped, an original that the caller keeps is the caller's to wipe. Everything else throws `KeyError`.
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
            key = try KeyHandle(parsingPKCS8: der)
        case .encrypted:
            var passphrase = try passphrase()
            defer { cleanse(&passphrase) }
            key = try KeyHandle(parsingEncryptedPKCS8: der, passphrase: passphrase)
        case .traditionalRSA:
            key = try KeyHandle(parsingTraditional: der, type: EVP_PKEY_RSA)
        case .traditionalEC:
            key = try KeyHandle(parsingTraditional: der, type: EVP_PKEY_EC)
        }
        try self.init(checking: key)
    }

    /// The file's private key. `openssl ecparam -genkey` writes the curve in a block of its own before it.
    private static func soleKey(in bytes: [UInt8]) throws(KeyError) -> (Form, PEM.Block) {
        let blocks = try PEM.blocks(in: bytes).filter { $0.label != "EC PARAMETERS" }
        guard let block = blocks.first else { throw .noPEMBlock }
        guard blocks.count == 1 else { throw .severalPEMBlocks(labels: blocks.map(\.label)) }
        guard !block.label.hasSuffix("PUBLIC KEY") else { throw .publicKeyGiven }
        guard let form = Form(rawValue: block.label) else { throw .unexpectedPEMBlock(label: block.label) }
        guard !block.hasHeaders else { throw .traditionalEncryption }
        return (form, block)
    }
}

extension KeyHandle {
    fileprivate init(parsingTraditional der: [UInt8], type: Int32) throws(KeyError) {
        let library = try KeyError.wrapping { () throws(OpenSSLFailure) in try LibraryContext.current() }
        self = try Self.parsed(der, as: "a traditional private key") { cursor, length in
            d2i_PrivateKey_ex(type, nil, &cursor, length, library.pointer, nil)
        }
    }

    fileprivate init(parsingPKCS8 der: [UInt8]) throws(KeyError) {
        let library = try KeyError.wrapping { () throws(OpenSSLFailure) in try LibraryContext.current() }
        self = try Self.parsed(der, as: "a PKCS#8 private key") { cursor, length in
            let envelope = d2i_PKCS8_PRIV_KEY_INFO(nil, &cursor, length)
            defer { PKCS8_PRIV_KEY_INFO_free(envelope) }
            return envelope.flatMap { EVP_PKCS82PKEY_ex($0, library.pointer, nil) }
        }
    }

    fileprivate init(parsingEncryptedPKCS8 der: [UInt8], passphrase: [UInt8]) throws(KeyError) {
        let library = try KeyError.wrapping { () throws(OpenSSLFailure) in try LibraryContext.current() }
        do {
            self = try Self.parsed(der, as: "an encrypted PKCS#8 private key") { cursor, length in
                guard let sealed = d2i_X509_SIG(nil, &cursor, length) else { return nil }
                defer { X509_SIG_free(sealed) }
                let envelope = passphrase.withUnsafeBytes { passphrase in
                    PKCS8_decrypt_ex(
                        sealed, passphrase.bindMemory(to: CChar.self).baseAddress,
                        Int32(clamping: passphrase.count), library.pointer, nil)
                }
                defer { PKCS8_PRIV_KEY_INFO_free(envelope) }
                return envelope.flatMap { EVP_PKCS82PKEY_ex($0, library.pointer, nil) }
            }
        } catch .malformedDER(let failure) where failure.isFromWrongPassphrase {
            throw .wrongPassphrase
        }
    }
}

extension OpenSSLFailure {
    /// A wrong passphrase shows as bad padding, or once in 256 tries as plaintext that is no key.
    fileprivate var isFromWrongPassphrase: Bool {
        codes.contains { code in
            code.library == ERR_LIB_PKCS12
                && [PKCS12_R_PKCS12_CIPHERFINAL_ERROR, PKCS12_R_DECODE_ERROR].contains(code.reason)
        }
    }
}
