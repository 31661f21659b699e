package import BundleValues

/// An HTTPS server for 127.0.0.1 with a certificate of its own authority. It requires `openssl` and `python3`.
package final class TLSServer: Sendable {
    /// The PEM file of the authority.
    package var caFile: String { authority.authorityFile }
    private let authority: TestAuthority
    private let folder: TemporaryFolder
    private let process: Command
    private let port: Int

    /// Starts a server that responds to `/ok` with "ok", redirects `away` to `redirect`, and serves the files of
    /// `serving` below `prefix`.
    package init(
        redirect: String = "/ok", serving files: String = "/nonexistent", below prefix: String = "",
        redirecting away: String = "/away"
    ) throws {
        folder = try TemporaryFolder()
        authority = try TestAuthority(names: "IP:127.0.0.1")
        let script = try folder.write(Array(Self.script.utf8), to: "server.py")
        process = try Command([
            "python3", script, authority.certificateFile, authority.keyFile, redirect, files, prefix, away,
        ])
        let line = process.nextLine()
        guard let port = Int(line) else { throw CommandError(command: ["python3", script], printed: line) }
        self.port = port
    }

    /// Returns the URL of a path. The certificate is valid for 127.0.0.1 only.
    package func url(_ path: String, host: String = "127.0.0.1") throws -> FetchURL {
        try FetchURL(parsing: "https://\(host):\(port)\(path)")
    }

    private static let script = """
        import http.server, os, ssl, sys
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def do_GET(self):
                path = self.path.split("?")[0]
                is_away = path == sys.argv[6]
                body = b"ok" if path == "/ok" else b""
                file = sys.argv[4] + path[len(sys.argv[5]):] if path.startswith(sys.argv[5]) else ""
                if file.endswith("/"):
                    file += "index.html"
                if os.path.isfile(file):
                    body = open(file, "rb").read()
                self.send_response(302 if is_away else 200 if body else 404)
                if is_away:
                    self.send_header("Location", sys.argv[3])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            def log_message(self, *arguments):
                pass
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[1], sys.argv[2])
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.handle_error = lambda *arguments: None
        server.socket = context.wrap_socket(server.socket, server_side=True)
        print(server.server_port, flush=True)
        server.serve_forever()
        """
}
