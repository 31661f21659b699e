/// A certificate authority with one server certificate, in a temporary folder. It requires `openssl`.
package final class TestAuthority: Sendable {
    /// The PEM file of the authority.
    package let authorityFile: String
    package let certificateFile: String
    package let keyFile: String
    private let folder: TemporaryFolder

    /// Creates both certificates. `names` is the subject alternative name, such as `IP:127.0.0.1` or `DNS:localhost`.
    /// Negative `days` create an expired certificate.
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
