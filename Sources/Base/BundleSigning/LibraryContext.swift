import COpenSSL

/// The part of OpenSSL that this target works in: its own library context with the default provider and no
/// configuration file, so that neither `OPENSSL_CONF` nor a provider that other code loads can change a verification.
///
/// The context alone is not enough: the first digest makes OpenSSL 3.0 read the configuration file for the process, and
/// an engine that the file names as the default is asked before the context's own provider. So reading is switched off.
///
/// Sendable, unchecked: the two pointers are set once and never freed, and OpenSSL promises that a library context and a
/// fetched digest may be used from many threads (openssl-threads(7)); both count references and lock inside.
final class LibraryContext: @unchecked Sendable {
    let pointer: OpaquePointer
    /// SHA-256, fetched once: a fetch for each digest costs four times the digest of a small input.
    let sha256: OpaquePointer
    let sha1: OpaquePointer
    let sha512: OpaquePointer

    private static let shared = Result { () throws(OpenSSLFailure) in try LibraryContext() }

    /// The process's context, made at the first call; the failure to make it is remembered too.
    static func current() throws(OpenSSLFailure) -> LibraryContext {
        try shared.get()
    }

    private init() throws(OpenSSLFailure) {
        ERR_clear_error()
        guard OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_LOAD_CONFIG), nil) == 1 else {
            throw OpenSSLFailure(draining: "starting without a configuration file")
        }
        guard let pointer = OSSL_LIB_CTX_new() else {
            throw OpenSSLFailure(draining: "making a library context")
        }
        guard OSSL_PROVIDER_load(pointer, "default") != nil else {
            let failure = OpenSSLFailure(draining: "loading its default provider")
            OSSL_LIB_CTX_free(pointer)
            throw failure
        }
        do throws(OpenSSLFailure) {
            sha256 = try Self.fetch("SHA256", from: pointer)
            sha1 = try Self.fetch("SHA1", from: pointer)
            sha512 = try Self.fetch("SHA512", from: pointer)
        } catch {
            OSSL_LIB_CTX_free(pointer)
            throw error
        }
        self.pointer = pointer
    }

    private static func fetch(_ name: String, from library: OpaquePointer) throws(OpenSSLFailure) -> OpaquePointer {
        guard let method = EVP_MD_fetch(library, name, nil) else { throw OpenSSLFailure(draining: "fetching \(name)") }
        return method
    }
}
