import BundleTransport
import BundleSockets
import BundleTesting

/// A server that echoes messages and exposes its sockets.
struct EchoServer {
    let server: SocketServer
    /// The open sockets in order, if the server does not echo.
    let opened: AsyncStream<SocketTransport>
    /// The end of each connection; nil for a normal end.
    let ends: AsyncStream<TransportError?>

    var port: Int { server.port }

    static func start(
        limits: SocketLimits = EchoServer.limits, echoes: Bool = true, port: Int = 0
    ) async throws -> EchoServer {
        let (opened, opening) = AsyncStream<SocketTransport>.makeStream()
        let (ends, ending) = AsyncStream<TransportError?>.makeStream()
        let server = try await SocketServer.start(
            port: port,
            WebSocketUpgrade(UpgradeRule(path: "/push"), limits: limits) { socket, _ in
                guard echoes else {
                    opening.yield(socket)
                    return
                }
                Task { ending.yield(await echo(over: socket)) }
            })
        return EchoServer(server: server, opened: opened, ends: ends)
    }

    /// Small limits that tests can exceed, with a handshake timeout for a busy machine.
    static var limits: SocketLimits {
        var limits = SocketLimits()
        limits.message = 64 << 10
        limits.handshake = .seconds(60)
        return limits
    }

    private static func echo(over socket: SocketTransport) async -> TransportError? {
        do {
            while let message = try await socket.receive() {
                switch message {
                case .text(let text): try await socket.sendText(text)
                case .binary(let bytes): try await socket.sendBinary(bytes)
                case .pong: try await socket.sendText("pong")
                }
            }
            return nil
        } catch {
            return error as? TransportError ?? .lost("\(error)")
        }
    }

    func end() async -> TransportError?? { await ends.first { _ in true } }
}
