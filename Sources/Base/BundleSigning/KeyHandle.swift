import COpenSSL

/// The owner of an `EVP_PKEY`.
struct KeyHandle: ~Copyable {
    let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) { self.pointer = pointer }

    deinit { EVP_PKEY_free(pointer) }

    /// Reads a SubjectPublicKeyInfo (RFC 5280). Throws if bytes follow it.
    init(parsingPublic der: [UInt8]) throws(KeyError) {
        self = try Self.parsed(der, as: "a public key") { library, cursor, length in
            d2i_PUBKEY_ex(nil, &cursor, length, library, nil)
        }
    }

    /// Creates an Ed25519 key from its encoded point.
    init(ed25519 point: ArraySlice<UInt8>) throws(KeyError) {
        let library = try KeyError.wrapping { () throws(OpenSSLFailure) in try LibraryContext.current() }
        let pointer = point.withUnsafeBufferPointer {
            EVP_PKEY_new_raw_public_key_ex(library.pointer, "ED25519", nil, $0.baseAddress, $0.count)
        }
        guard let pointer else { throw .openSSL(OpenSSLFailure(draining: "reading an Ed25519 key")) }
        self.init(owning: pointer)
    }

    /// Returns the SubjectPublicKeyInfo in DER.
    func publicDER() throws(OpenSSLFailure) -> [UInt8] {
        try derBytes(of: "a public key") { i2d_PUBKEY(pointer, $0) }
    }

    /// Calls a `d2i` function. Throws if it does not consume all bytes.
    static func parsed(
        _ der: [UInt8], as kind: String,
        with decode: (_ library: OpaquePointer, inout UnsafePointer<UInt8>?, Int) -> OpaquePointer?
    ) throws(KeyError) -> KeyHandle {
        let library = try KeyError.wrapping { () throws(OpenSSLFailure) in try LibraryContext.current() }
        var consumed = 0
        let pointer = der.withUnsafeBufferPointer { buffer -> OpaquePointer? in
            var cursor = buffer.baseAddress
            let pointer = decode(library.pointer, &cursor, buffer.count)
            if let start = buffer.baseAddress, let cursor { consumed = cursor - start }
            return pointer
        }
        guard let pointer else { throw .malformedDER(OpenSSLFailure(draining: "reading \(kind)")) }
        let key = KeyHandle(owning: pointer)
        guard consumed == der.count else { throw .trailingBytes(count: der.count - consumed) }
        return key
    }
}

/// Calls an `i2d` function twice: for the length and for the bytes.
func derBytes(
    of kind: String, _ encode: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32
) throws(OpenSSLFailure) -> [UInt8] {
    let length = encode(nil)
    guard length > 0 else { throw OpenSSLFailure(draining: "writing \(kind)") }
    let bytes = [UInt8](unsafeUninitializedCapacity: Int(length)) { buffer, count in
        var cursor = buffer.baseAddress
        count = encode(&cursor) == length ? Int(length) : 0
    }
    guard !bytes.isEmpty else { throw OpenSSLFailure(draining: "writing \(kind)") }
    return bytes
}

extension KeyError {
    /// Converts an OpenSSL failure to a `KeyError`.
    static func wrapping<Value: ~Copyable>(
        _ body: () throws(OpenSSLFailure) -> Value
    ) throws(KeyError) -> Value {
        do {
            return try body()
        } catch {
            throw .openSSL(error)
        }
    }
}

extension KeyHandle {
    /// The accepted sizes of an RSA modulus. OpenSSL does not verify with larger ones.
    private static let rsaBits = 2048...16384

    /// Returns the signature algorithm of the key. Throws if the key is not accepted.
    func algorithm() throws(KeyError) -> KeyAlgorithm {
        if EVP_PKEY_is_a(pointer, "ED25519") == 1 { return .ed25519 }
        if EVP_PKEY_is_a(pointer, "EC") == 1 {
            try checkCurve()
            return .ecdsaP256
        }
        if EVP_PKEY_is_a(pointer, "RSA") == 1 || EVP_PKEY_is_a(pointer, "RSA-PSS") == 1 {
            try checkRSA()
            return .rsaPSS
        }
        throw .unsupportedAlgorithm(EVP_PKEY_get0_type_name(pointer).map { String(cString: $0) } ?? "unnamed")
    }

    /// Returns the size of the key for display: 256 for elliptic curves, otherwise the size of the modulus.
    func bits(for algorithm: KeyAlgorithm) -> Int {
        algorithm == .rsaPSS ? Int(EVP_PKEY_get_bits(pointer)) : 256
    }

    private func checkCurve() throws(KeyError) {
        var isExplicit: Int32 = 0
        guard EVP_PKEY_get_int_param(pointer, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS, &isExplicit) == 1,
            isExplicit == 0
        else { throw .explicitCurve }
        let curve = try textParameter(OSSL_PKEY_PARAM_GROUP_NAME)
        guard curve == "prime256v1" else { throw .unsupportedCurve(curve) }
        guard try textParameter(OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT) == "uncompressed" else {
            throw .compressedPoint
        }
    }

    private func checkRSA() throws(KeyError) {
        let bits = Int(EVP_PKEY_get_bits(pointer))
        guard Self.rsaBits.contains(bits) else { throw .unsupportedRSASize(bits: bits) }
        var exponent: OpaquePointer?
        guard EVP_PKEY_get_bn_param(pointer, OSSL_PKEY_PARAM_RSA_E, &exponent) == 1 else {
            throw .openSSL(OpenSSLFailure(draining: "reading an RSA key's exponent"))
        }
        defer { BN_free(exponent) }
        guard BN_is_word(exponent, 65_537) == 1 else { throw .unsupportedRSAExponent }
    }

    private func textParameter(_ name: String) throws(KeyError) -> String {
        let text = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 80) { buffer -> String? in
            guard EVP_PKEY_get_utf8_string_param(pointer, name, buffer.baseAddress, buffer.count, nil) == 1,
                let start = buffer.baseAddress
            else { return nil }
            return String(cString: start)
        }
        guard let text else { throw .openSSL(OpenSSLFailure(draining: "reading a key's \(name)")) }
        return text
    }
}

/// An `EVP_MD_CTX` for one signature. The algorithm of the key alone determines the signature scheme.
struct SignatureContext: ~Copyable {
    private let context: DigestContext
    private let algorithm: KeyAlgorithm
    /// The largest signature in bytes. RSA signatures always have this length.
    private let maximumLength: Int

    enum SignatureUse {
        case sign, verify
    }

    init(to purpose: SignatureUse, with key: borrowing KeyHandle, algorithm: KeyAlgorithm) throws(OpenSSLFailure) {
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
        // Sets the salt length instead of "auto", which would accept a salt of any length.
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

    /// Whether the signature is valid. Any result of OpenSSL except 1 means no.
    consuming func verifies(_ signature: [UInt8], over message: [UInt8]) -> Bool {
        guard hasPossibleLength(signature) else { return false }
        return signature.withUnsafeBufferPointer { signature in
            message.withUnsafeBufferPointer { message in
                EVP_DigestVerify(
                    context.pointer, signature.baseAddress, signature.count, message.baseAddress, message.count) == 1
            }
        }
    }

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

    /// OpenSSL accepts an RSA signature without its leading zero bytes, which RFC 8017, section 8.1.2, forbids.
    private func hasPossibleLength(_ signature: [UInt8]) -> Bool {
        switch algorithm {
        case .ed25519, .rsaPSS: signature.count == maximumLength
        case .ecdsaP256: (1...maximumLength).contains(signature.count)
        }
    }
}
