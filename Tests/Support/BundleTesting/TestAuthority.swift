/// A certificate authority of its own with one server's certificate, in a temporary folder; needs `openssl`.
package final class TestAuthority: Sendable {
    /// The PEM file of the authority.
    package let authorityFile: String
    /// The server's certificate.
    package let certificateFile: String
    /// The server's private key.
    package let keyFile: String
    private let folder: TemporaryFolder

    /// Makes both; `names` is the certificate's subject alternative name, as in `IP:127.0.0.1` or `DNS:localhost`. `days` may be
    /// negative for one that is out of date.
    package init(names: String, days: Int = 2) throws {
        folder = try TemporaryFolder()
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        authorityFile = folder.file("ca.pem")
        certificateFile = folder.file("server.pem")
        keyFile = folder.file("server.key")
        try Command.run(
            ["openssl", "req", "-x509", "-days", "2", "-subj", "/CN=test authority"] + key
                + ["-keyout", folder.file("ca.key"), "-out", authorityFile])
        try Command.run(
            ["openssl", "req", "-subj", "/CN=test server"] + key + [
                "-keyout", keyFile, "-out", folder.file("server.csr"),
            ])
        let extensions = try folder.write(Array("subjectAltName=\(names)\n".utf8), to: "server.ext")
        try Command.run([
            "openssl", "x509", "-req", "-days", "\(days)", "-in", folder.file("server.csr"), "-CA", authorityFile,
            "-CAkey", folder.file("ca.key"), "-CAcreateserial", "-extfile", extensions, "-out", certificateFile,
        ])
    }
}
