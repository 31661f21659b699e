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
