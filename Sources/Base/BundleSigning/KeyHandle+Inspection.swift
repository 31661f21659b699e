import COpenSSL

extension KeyHandle {
    /// The sizes of RSA modulus that are accepted; above the upper one OpenSSL refuses to verify.
    private static let rsaBits = 2048...16384

    /// The algorithm that this key signs with, or the reason why it may not sign here.
    func algorithm() throws(KeyError) -> KeyAlgorithm {
        if EVP_PKEY_is_a(pointer, "ED25519") == 1 {
            return .ed25519
        }
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

    /// The size that names the key: 256 for both elliptic curves, the modulus for RSA.
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
