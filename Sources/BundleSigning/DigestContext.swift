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

    deinit {
        EVP_MD_CTX_free(pointer)
    }
}
