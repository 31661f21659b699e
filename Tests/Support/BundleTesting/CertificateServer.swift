/// An HTTPS server for 127.0.0.1 that requires a certificate of the client. It requires `openssl` and `python3`.
///
/// It responds to GET with "ok", and opens WebSockets.
package final class CertificateServer: Sendable {
    package let port: Int
    private let authority: TestAuthority
    private let folder: TemporaryFolder
    private let process: Command

    /// Starts a server with the certificate of `authority` for clients with certificates of the authority in the file `clients`. With
    /// `page`, it accepts every client and responds with status 400 and this title, as nginx does for invalid certificates.
    package init(_ authority: TestAuthority, clients: String, page: String = "") throws {
        folder = try TemporaryFolder()
        self.authority = authority
        let script = try folder.write(Array(Self.script.utf8), to: "server.py")
        process = try Command(["python3", script, authority.certificateFile, authority.keyFile, clients, page])
        let line = process.nextLine()
        guard let port = Int(line) else { throw CommandError(command: ["python3", script], printed: line) }
        self.port = port
    }

    private static let script = """
        import base64, hashlib, http.server, ssl, sys
        page = sys.argv[4]
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def do_GET(self):
                key = self.headers.get("Sec-WebSocket-Key")
                if key and not page:
                    digest = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
                    self.send_response(101)
                    self.send_header("Upgrade", "websocket")
                    self.send_header("Connection", "Upgrade")
                    self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
                    self.end_headers()
                    self.rfile.read()
                    return
                body = f"<html>\\n<head><title>400 {page}</title></head>".encode() if page else b"ok"
                self.send_response(400 if page else 200)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = True
            def log_message(self, *arguments):
                pass
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[1], sys.argv[2])
        context.load_verify_locations(sys.argv[3])
        context.verify_mode = ssl.CERT_NONE if page else ssl.CERT_REQUIRED
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.handle_error = lambda *arguments: None
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        print(server.server_port, flush=True)
        server.serve_forever()
        """
}
