import COpenSSL

/// The RSA key of 2048 bits with which a publisher makes bundles for the updater plugins of phones. A phone has the public half in
/// its configuration.
package struct PhoneKey: ~Copyable {
    static let bits = 2048

    private let key: PrivateKey

    /// Generates a key with OpenSSL's random generator.
    package static func generate() throws(KeyError) -> PhoneKey {
        ERR_clear_error()
        defer { ERR_clear_error() }
        let handle = try KeyError.wrapping { () throws(OpenSSLFailure) in
            try KeyHandle(generating: .rsaPSS, rsaBits: Int32(bits))
        }
        return try PhoneKey(try PrivateKey(checking: handle))
    }

    /// Throws unless `key` is an RSA key of exactly 2048 bits without restrictions: the plugins accept no other size.
    package init(_ key: consuming PrivateKey) throws(KeyError) {
        guard EVP_PKEY_is_a(key.handle.pointer, "RSA") == 1, key.publicKey.bits == Self.bits else {
            throw .notForPhones("\(key.publicKey.algorithm.rawValue) with \(key.publicKey.bits) bits")
        }
        self.key = key
    }

    package var publicKey: PublicKey { key.publicKey }

    /// Encodes the private key as `PrivateKey.pem(passphrase:)` does.
    package func pem(passphrase: [UInt8]?) throws(KeyError) -> [UInt8] { try key.pem(passphrase: passphrase) }

    /// The public key in PKCS#1 as an `RSA PUBLIC KEY` block, which Capgo's plugin expects.
    package func pkcs1PEM() throws(OpenSSLFailure) -> [UInt8] {
        PEM.encode(try pkcs1(), label: "RSA PUBLIC KEY")
    }

    /// The first 20 base64 digits of the public key in PKCS#1. Capgo's plugin sends them as `key_id`.
    package func keyId() throws(OpenSSLFailure) -> String {
        String(decoding: Base64.encodedBytes(try pkcs1()).prefix(20), as: UTF8.self)
    }

    private func pkcs1() throws(OpenSSLFailure) -> [UInt8] {
        let pointer = key.handle.pointer
        return try derBytes(of: "an RSA key") { i2d_PublicKey(pointer, $0) }
    }

    // MARK: Operations

    /// Returns the private operation of PKCS#1 v1.5 on `bytes`, padded with block type 1 and without an algorithm name. The public
    /// key recovers `bytes` from it.
    package func seal(_ bytes: [UInt8]) throws(OpenSSLFailure) -> [UInt8] {
        let context = try operation { EVP_PKEY_sign_init($0) }
        defer { EVP_PKEY_CTX_free(context) }
        var sealed = [UInt8](repeating: 0, count: Self.bits / 8)
        var length = sealed.count
        guard EVP_PKEY_sign(context, &sealed, &length, bytes, bytes.count) == 1, length == sealed.count else {
            throw OpenSSLFailure(draining: "sealing \(bytes.count) bytes")
        }
        // A faulty operation can reveal the private key.
        guard try open(sealed) == bytes else { throw OpenSSLFailure(draining: "sealing bytes that open again") }
        return sealed
    }

    private func open(_ sealed: [UInt8]) throws(OpenSSLFailure) -> [UInt8] {
        let context = try operation { EVP_PKEY_verify_recover_init($0) }
        defer { EVP_PKEY_CTX_free(context) }
        var bytes = [UInt8](repeating: 0, count: Self.bits / 8)
        var length = bytes.count
        guard EVP_PKEY_verify_recover(context, &bytes, &length, sealed, sealed.count) == 1 else {
            throw OpenSSLFailure(draining: "opening sealed bytes")
        }
        return Array(bytes.prefix(length))
    }

    /// Returns the signature RSASSA-PKCS1-v1_5 with SHA-256 of a file with this digest, which Capawesome's plugin expects.
    package func signature(of digest: SHA256Digest) throws(OpenSSLFailure) -> [UInt8] {
        // The signature is the private operation on the DER of DigestInfo (RFC 8017, section 9.2).
        let prefix: [UInt8] = [
            0x30, 0x31, 0x30, 0x0D, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04,
            0x20,
        ]
        return try seal(prefix + digest.withUnsafeBytes { Array($0) })
    }

    private func operation(_ begin: (OpaquePointer?) -> Int32) throws(OpenSSLFailure) -> OpaquePointer {
        ERR_clear_error()
        let library = try LibraryContext.current()
        guard let context = EVP_PKEY_CTX_new_from_pkey(library.pointer, key.handle.pointer, nil) else {
            throw OpenSSLFailure(draining: "preparing an RSA key")
        }
        guard begin(context) == 1, EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1 else {
            EVP_PKEY_CTX_free(context)
            throw OpenSSLFailure(draining: "choosing PKCS#1 v1.5")
        }
        return context
    }

    /// Returns the AES key and the initialization vector for a file with this digest, by HKDF-SHA256 (RFC 5869) from the private
    /// key. The same file always gets the same ones, and no other file does.
    package func session(for digest: SHA256Digest) throws -> (key: [UInt8], iv: [UInt8]) {
        var secret = try key.pem(passphrase: nil)
        defer { cleanse(&secret) }
        let extracted = try Self.hmac(key: digest.withUnsafeBytes { Array($0) }, secret)
        // One block of HKDF-Expand has the 32 bytes that are needed.
        let expanded = try Self.hmac(key: extracted, Array("swap-clients phone bundle v1".utf8) + [1])
        return (Array(expanded[..<16]), Array(expanded[16...]))
    }

    private static func hmac(key: [UInt8], _ message: [UInt8]) throws(OpenSSLFailure) -> [UInt8] {
        let library = try LibraryContext.current()
        var code = [UInt8](repeating: 0, count: SHA256Digest.byteCount)
        var length = 0
        let found = EVP_Q_mac(
            library.pointer, "HMAC", nil, "SHA256", nil, key, key.count, message, message.count, &code, code.count,
            &length)
        guard found != nil, length == code.count else { throw OpenSSLFailure(draining: "deriving a key") }
        return code
    }
}

/// Encrypts a stream with AES-128-CBC and the padding of PKCS#7.
package struct PhoneCipher: ~Copyable {
    private let context: OpaquePointer

    package init(key: [UInt8], iv: [UInt8]) throws(OpenSSLFailure) { context = try Self.start(key: key, iv: iv) }

    private static func start(key: [UInt8], iv: [UInt8]) throws(OpenSSLFailure) -> OpaquePointer {
        let library = try LibraryContext.current()
        let cipher = EVP_CIPHER_fetch(library.pointer, "AES-128-CBC", nil)
        defer { EVP_CIPHER_free(cipher) }
        guard key.count == 16, iv.count == 16, let context = EVP_CIPHER_CTX_new() else {
            throw OpenSSLFailure(draining: "making a cipher")
        }
        guard EVP_EncryptInit_ex2(context, cipher, key, iv, nil) == 1 else {
            EVP_CIPHER_CTX_free(context)
            throw OpenSSLFailure(draining: "starting a cipher")
        }
        return context
    }

    deinit { EVP_CIPHER_CTX_free(context) }

    /// Returns the encrypted bytes that are complete by now.
    package mutating func update(_ bytes: UnsafeRawBufferPointer) throws(OpenSSLFailure) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: bytes.count + 16)
        var length: Int32 = 0
        let input = bytes.bindMemory(to: UInt8.self).baseAddress
        guard EVP_EncryptUpdate(context, &output, &length, input, Int32(clamping: bytes.count)) == 1 else {
            throw OpenSSLFailure(draining: "encrypting \(bytes.count) bytes")
        }
        return Array(output.prefix(Int(length)))
    }

    /// Returns the last block.
    package consuming func finish() throws(OpenSSLFailure) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: 16)
        var length: Int32 = 0
        guard EVP_EncryptFinal_ex(context, &output, &length) == 1 else {
            throw OpenSSLFailure(draining: "ending a cipher")
        }
        return Array(output.prefix(Int(length)))
    }
}
