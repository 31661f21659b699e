import BundleTransport
import Synchronization

/// Opens sockets to a server that a test controls.
final class ScriptedServer: TransportConnector {
    /// The result of a connection attempt.
    enum Answer: Sendable { case accept, refuse, hang, acceptLate }

    private let answers: Mutex<[Answer]>
    private let sockets: AsyncStream<ScriptedSocket>
    private let opened: AsyncStream<ScriptedSocket>.Continuation

    /// Creates a server that answers the first attempts with `answers` and accepts later ones.
    init(_ answers: [Answer] = []) {
        self.answers = Mutex(answers)
        (sockets, opened) = AsyncStream.makeStream()
    }

    func connect(_ url: SocketURL) async throws -> any SyncTransport {
        switch answers.withLock({ $0.isEmpty ? .accept : $0.removeFirst() }) {
        case .accept: return open()
        case .refuse: throw TransportError.unreachable("refused")
        case .hang:
            await untilCancelled()
            throw CancellationError()
        case .acceptLate:
            await untilCancelled()
            return open()
        }
    }

    /// Returns the next socket of a client.
    func accept() async throws -> ScriptedSocket {
        for await socket in sockets { return socket }
        throw CancellationError()
    }

    private func open() -> ScriptedSocket {
        let socket = ScriptedSocket()
        opened.yield(socket)
        return socket
    }
}

/// Sleeps until the task is cancelled.
func untilCancelled() async {
    let (stream, continuation) = AsyncStream<Void>.makeStream()
    for await _ in stream {}
    continuation.finish()
}

/// Both ends of a socket. The watcher has the client's end.
final class ScriptedSocket: SyncTransport {

    private let toClient: AsyncStream<TransportMessage?>
    private let client: AsyncStream<TransportMessage?>.Continuation
    private let toServer: AsyncStream<String>
    private let server: AsyncStream<String>.Continuation
    private let takesNothing = Mutex(false)

    init() {
        (toClient, client) = AsyncStream.makeStream()
        (toServer, server) = AsyncStream.makeStream()
    }

    // MARK: The client's end

    func sendText(_ text: String) async throws {
        if takesNothing.withLock({ $0 }) {
            await untilCancelled()
            throw CancellationError()
        }
        if case .terminated = server.yield(text) { throw TransportError.isClosed }
    }

    func sendBinary(_ bytes: [UInt8]) async throws { try await sendText("binary") }

    func sendPing() async throws { try await sendText("ping") }

    func receive() async throws -> TransportMessage? {
        for await message in toClient {
            guard let message else { throw TransportError.lost("torn") }
            return message
        }
        return nil
    }

    func close() async {
        client.finish()
        server.finish()
    }

    // MARK: The server's end

    /// Sends text frames.
    func send(_ texts: String...) {
        for text in texts { client.yield(.text(text)) }
    }

    /// Sends a message other than text.
    func send(_ message: TransportMessage) { client.yield(message) }

    /// Returns the next text frame of the client, or nil when it closed.
    func nextText() async -> String? {
        for await text in toServer { return text }
        return nil
    }

    /// Closes the socket normally.
    func hangUp() { client.finish() }

    /// Breaks the connection.
    func tear() { client.yield(nil) }

    /// Stops reading from the client.
    func stall() { takesNothing.withLock { $0 = true } }
}
