/// A load balancer on a port of this machine, which passes each connection to the first of several ports that accepts it.
/// It requires `python3`.
package final class Balancer: Sendable {
    package let port: Int
    private let folder: TemporaryFolder
    private let process: Command

    /// Starts a balancer for `ports`, which it tries in order.
    package init(before ports: [Int]) throws {
        folder = try TemporaryFolder()
        let script = try folder.write(Array(Self.script.utf8), to: "balancer.py")
        process = try Command(["python3", script] + ports.map { "\($0)" })
        let line = process.nextLine()
        guard let port = Int(line) else { throw CommandError(command: ["python3", script], printed: line) }
        self.port = port
    }

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
            for port in sys.argv[1:]:
                try:
                    near, far = await asyncio.open_connection("127.0.0.1", int(port))
                except OSError:
                    continue
                return await asyncio.gather(carry(reader, far), carry(near, writer))
            writer.close()
        async def main():
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            print(server.sockets[0].getsockname()[1], flush=True)
            await server.serve_forever()
        asyncio.run(main())
        """
}
