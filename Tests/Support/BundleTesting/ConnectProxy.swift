/// An HTTP proxy of this machine that supports only tunnels (CONNECT). It requires `python3`.
///
/// All names lead to one port of this machine, so the names need not exist.
package final class ConnectProxy: Sendable {
    package let port: Int
    private let folder: TemporaryFolder
    private let process: Command

    /// Starts a proxy whose tunnels lead to `port`. It rejects requests if `status` is not 200.
    package init(to port: Int, status: Int = 200) throws {
        folder = try TemporaryFolder()
        let script = try folder.write(Array(Self.script.utf8), to: "proxy.py")
        process = try Command(["python3", script, "\(port)", "\(status)"])
        let line = process.nextLine()
        guard let port = Int(line) else { throw CommandError(command: ["python3", script], printed: line) }
        self.port = port
    }

    /// Waits for the next request and returns its header lines joined into one line.
    package func nextRequest() -> String { process.nextLine() }

    private static let script = """
        import asyncio, sys
        async def carry(reader, writer):
            try:
                while data := await reader.read(16384):
                    writer.write(data)
                    await writer.drain()
            except OSError:
                pass
            writer.close()
        async def serve(reader, writer):
            try:
                head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode("latin-1")
            except asyncio.IncompleteReadError:
                return writer.close()
            print(head.replace("\\r\\n", "|"), flush=True)
            if sys.argv[2] != "200" or not head.startswith("CONNECT "):
                writer.write(f"HTTP/1.1 {sys.argv[2] if sys.argv[2] != '200' else 405} No\\r\\nContent-Length: 0\\r\\n\\r\\n".encode())
                return writer.close()
            near, far = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
            writer.write(b"HTTP/1.1 200 Connection established\\r\\n\\r\\n")
            await asyncio.gather(carry(reader, far), carry(near, writer))
        async def main():
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            print(server.sockets[0].getsockname()[1], flush=True)
            await server.serve_forever()
        asyncio.run(main())
        """
}
