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

/// How a program keeps OpenSSL's configuration file out of its signatures.
package enum OpenSSLIsolation {
    /// Makes this process ignore OpenSSL's configuration file, whatever `OPENSSL_CONF` says.
    ///
    /// The first digest or key does the same. A program in which other code uses OpenSSL too, say for TLS, calls this
    /// before that code runs: OpenSSL reads the file once, and an engine named in a file that was read before would take
    /// part in verifications. Such other code then works with OpenSSL's built-in defaults.
    package static func begin() throws(OpenSSLFailure) {
        _ = try LibraryContext.current()
    }
}

/// A call into OpenSSL that failed, with everything that OpenSSL said about it.
///
/// Making one empties the calling thread's error queue, so no later call can be blamed for it.
package struct OpenSSLFailure: Error, Hashable, CustomStringConvertible {
    /// What was being done, as words that follow "OpenSSL failed".
    package let operation: String
    /// OpenSSL's own reasons, the first cause first; empty if it gave none.
    package let reasons: [String]
    /// The library and reason numbers behind `reasons`, for callers that tell causes apart.
    let codes: [ErrorCode]

    struct ErrorCode: Hashable {
        let library: Int32
        let reason: Int32
    }

    init(draining operation: String) {
        var reasons: [String] = []
        var codes: [ErrorCode] = []
        while let entry = Self.nextEntry() {
            reasons.append(entry.text)
            codes.append(entry.code)
        }
        self.operation = operation
        self.reasons = reasons
        self.codes = codes
    }

    /// One sentence: what failed and every reason that was given.
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
        if let data, flags & ERR_TXT_STRING != 0, data.pointee != 0 {
            text += " (\(String(cString: data)))"
        }
        return (text, ErrorCode(library: library, reason: reason))
    }
}
