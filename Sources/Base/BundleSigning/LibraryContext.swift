import COpenSSL

/// An OpenSSL library context with the default provider and without a configuration file. Neither `OPENSSL_CONF` nor
/// providers that other code loads can change a verification.
///
/// The context alone is not enough. The first digest makes OpenSSL 3.0 read the configuration file of the process, and a
/// default engine in that file takes precedence over the provider of the context. So the process does not read the file
/// at all.
///
/// Unchecked Sendable: the pointers are set once and never freed. Threads may share a library context and fetched digests
/// (openssl-threads(7)).
final class LibraryContext: @unchecked Sendable {
    let pointer: OpaquePointer
    /// Fetched once: a fetch costs four times the digest of a small input.
    let sha256: OpaquePointer
    let sha1: OpaquePointer
    let sha512: OpaquePointer

    private static let shared = Result { () throws(OpenSSLFailure) in try LibraryContext() }

    /// The context of the process. A failure to create it is stored too.
    static func current() throws(OpenSSLFailure) -> LibraryContext { try shared.get() }

    private init() throws(OpenSSLFailure) {
        ERR_clear_error()
        guard OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_LOAD_CONFIG), nil) == 1 else {
            throw OpenSSLFailure(draining: "starting without a configuration file")
        }
        guard let pointer = OSSL_LIB_CTX_new() else { throw OpenSSLFailure(draining: "making a library context") }
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

/// Protects signatures from OpenSSL's configuration file.
package enum OpenSSLIsolation {
    /// Makes the process ignore OpenSSL's configuration file and `OPENSSL_CONF`.
    ///
    /// The first digest or key has the same effect. A program in which other code uses OpenSSL, for example for TLS,
    /// calls this first: OpenSSL reads the file once, and an engine from it would take part in verifications. The other
    /// code then works with OpenSSL's defaults.
    package static func begin() throws(OpenSSLFailure) { _ = try LibraryContext.current() }
}

/// A failed call of OpenSSL with all its reasons.
///
/// Creating a failure clears the error queue of the thread, so that later failures do not include its reasons.
package struct OpenSSLFailure: Error, Hashable, CustomStringConvertible {
    /// The operation as a phrase that follows "OpenSSL failed", such as "reading a public key".
    package let operation: String
    /// OpenSSL's reasons, the first cause first. They can be empty.
    package let reasons: [String]
    /// The library and reason codes of `reasons`.
    let codes: [ErrorCode]

    struct ErrorCode: Hashable {
        let library: Int32
        let reason: Int32
    }

    init(draining operation: String) {
        let entries = Array(sequence(state: ()) { _ in Self.nextEntry() })
        self.operation = operation
        reasons = entries.map(\.text)
        codes = entries.map(\.code)
    }

    package var description: String {
        reasons.isEmpty
            ? "OpenSSL failed \(operation) and gave no reason"
            : "OpenSSL failed \(operation): \(reasons.joined(separator: "; "))"
    }

    private static func nextEntry() -> (text: String, code: ErrorCode)? {
        var data: UnsafePointer<CChar>?
        var flags: Int32 = 0
        let code = ERR_get_error_all(nil, nil, nil, &data, &flags)
        guard code != 0 else { return nil }
        let library = ERR_GET_LIB(code)
        let reason = ERR_GET_REASON(code)
        var text = ERR_reason_error_string(code).map { String(cString: $0) } ?? "reason \(reason) of library \(library)"
        if let data, flags & ERR_TXT_STRING != 0, data.pointee != 0 { text += " (\(String(cString: data)))" }
        return (text, ErrorCode(library: library, reason: reason))
    }
}
