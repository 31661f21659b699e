import BundleFetch
import BundleTransport
import BundleSockets
import BundleTesting
import MeteorTesting
import Synchronization

/// A server on a real port that a test controls. Clients reach it by any URL.
final class LoopbackDDP: PlayedServer {
    private let connector: SocketConnector
    private let sockets: AsyncStream<LoopbackSocket>
    private let server: LoopbackServer?
    private let port: Int

    private static func connector() -> SocketConnector {
        var configuration = SocketConnector.Configuration(userAgent: "test/1")
        // Only a hang exceeds this limit; other times depend on the test's clock.
        configuration.limits.handshake = .seconds(300)
        return SocketConnector(
            configuration, over: CurlStreamConnector(options: FetchOptions(userAgent: "test/1")))
    }

    /// Connects clients to the server at `port` instead of a controlled one.
    init(at port: Int) {
        connector = Self.connector()
        sockets = AsyncStream { $0.finish() }
        server = nil
        self.port = port
    }

    /// Creates a server that responds to the first requests with `answers` and opens sockets for later ones.
    init(_ answers: [Route] = []) throws {
        connector = Self.connector()
        let (sockets, opened) = AsyncStream<LoopbackSocket>.makeStream()
        self.sockets = sockets
        let left = Mutex(answers)
        let server = try LoopbackServer { request in
            if let answer = left.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { return answer }
            let route = try? SocketPeer.answer(request) { peer in
                let socket = LoopbackSocket(peer)
                opened.yield(socket)
                socket.listen()
            }
            return route ?? Route(status: 400)
        }
        self.server = server
        port = server.port
    }

    /// Returns when a request has arrived.
    func waitForRequest() async throws {
        while server?.requests.isEmpty ?? false { try await Task.sleep(for: .milliseconds(2)) }
    }

    func connect(_ url: SocketURL) async throws -> any SyncTransport {
        try await connector.connect(try SocketURL(parsing: "ws://127.0.0.1:\(port)\(url.target)"))
    }

    func accept() async throws -> LoopbackSocket {
        for await socket in sockets { return socket }
        throw CancellationError()
    }
}

/// The server's end of a real socket.
final class LoopbackSocket: PlayedSocket {
    let peer: SocketPeer
    private let texts: AsyncStream<String>
    private let received: AsyncStream<String>.Continuation

    init(_ peer: SocketPeer) {
        self.peer = peer
        (texts, received) = AsyncStream.makeStream()
    }

    /// Receives messages until the client disconnects.
    func listen() {
        while let text = peer.nextText() { received.yield(text) }
        received.finish()
    }

    func send(_ texts: String...) { for text in texts { peer.sendText(text) } }

    func nextText() async -> String? {
        for await text in texts { return text }
        return nil
    }
}
