import COpenSSL

/// Owns one `EVP_MD_CTX`, the state of a running digest or signature.
struct DigestContext: ~Copyable {
    let pointer: OpaquePointer

    init() throws(OpenSSLFailure) {
        guard let pointer = EVP_MD_CTX_new() else {
            throw OpenSSLFailure(draining: "making a digest context")
        }
        self.pointer = pointer
    }

    /// Adds `bytes` to the digest.
    func update(_ bytes: UnsafeRawBufferPointer) throws(OpenSSLFailure) {
        try require(EVP_DigestUpdate(pointer, bytes.baseAddress, bytes.count), bytes.count)
    }

    /// Adds `bytes` to the digest.
    func update(_ bytes: [UInt8]) throws(OpenSSLFailure) {
        let result = bytes.withUnsafeBytes { [pointer] in EVP_DigestUpdate(pointer, $0.baseAddress, $0.count) }
        try require(result, bytes.count)
    }

    private func require(_ result: Int32, _ count: Int) throws(OpenSSLFailure) {
        if result != 1 { throw OpenSSLFailure(draining: "digesting \(count) bytes") }
    }

    deinit {
        EVP_MD_CTX_free(pointer)
    }
}
