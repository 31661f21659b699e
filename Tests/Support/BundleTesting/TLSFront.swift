/// A TLS proxy in front of a port of this machine. It requires `openssl` and `python3`.
///
/// It rejects clients that offer ALPN protocols, because the port supports none of them.
package final class TLSFront: Sendable {
    package let port: Int
    private let authority: TestAuthority
    private let folder: TemporaryFolder
    private let process: Command

    /// Starts a proxy with the certificate of `authority` that passes connections to `port`.
    package init(_ authority: TestAuthority, before port: Int) throws {
        folder = try TemporaryFolder()
        self.authority = authority
        let script = try folder.write(Array(Self.script.utf8), to: "front.py")
        process = try Command(["python3", script, authority.certificateFile, authority.keyFile, "\(port)"])
        let line = process.nextLine()
        guard let port = Int(line) else { throw CommandError(command: ["python3", script], printed: line) }
        self.port = port
    }

    private static let script = """
        import asyncio, ssl, sys
        async def carry(reader, writer):
            try:
                while data := await reader.read(16384):
                    writer.write(data)
                    await writer.drain()
            except (OSError, ssl.SSLError):
                pass
            writer.close()
        async def serve(reader, writer):
            try:
                if writer.get_extra_info("ssl_object").selected_alpn_protocol():
                    return writer.close()
                near, far = await asyncio.open_connection("127.0.0.1", int(sys.argv[3]), limit=16384)
            except OSError:
                return writer.close()
            await asyncio.gather(carry(reader, far), carry(near, writer))
        async def main():
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(sys.argv[1], sys.argv[2])
            context.set_alpn_protocols(["h2", "http/1.1"])
            server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context, limit=16384)
            print(server.sockets[0].getsockname()[1], flush=True)
            await server.serve_forever()
        asyncio.run(main())
        """
}
