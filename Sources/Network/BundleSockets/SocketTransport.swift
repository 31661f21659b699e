package import BundleTransport
package import NIOCore
import NIOPosix
import NIOWebSocket

/// An open WebSocket of a client or server. It is closed with its last reference.
package final class SocketTransport: SyncTransport {
    private let channel: any Channel
    private let handler: NIOLoopBound<SocketHandler>
    private let queue: MessageQueue
    private let maximumMessage: Int

    /// Adds the handler after the frame decoder of an upgraded channel. Call it on the event loop.
    init(on channel: any Channel, _ side: SocketHandler.Side, _ limits: SocketLimits) throws {
        self.channel = channel
        maximumMessage = limits.message
        queue = MessageQueue(limits.waiting) { channel.read() }
        let handler = SocketHandler(side, limits, queue)
        self.handler = NIOLoopBound(handler, eventLoop: channel.eventLoop)
        try channel.pipeline.syncOperations.addHandler(handler)
    }

    deinit { channel.close(promise: nil) }

    /// The IP address of the peer, if the system reports it.
    package var peer: String { channel.remoteAddress?.ipAddress ?? "unknown" }

    /// Succeeds when the connection is closed.
    package var closed: EventLoopFuture<Void> { channel.closeFuture }

    package func sendBinary(_ bytes: [UInt8]) async throws {
        try await send(.binary, bytes.count) { ByteBuffer(bytes: bytes) }
    }

    package func sendText(_ text: String) async throws {
        try await send(.text, text.utf8.count) { ByteBuffer(string: text) }
    }

    package func sendPing() async throws {
        try await send(.ping, 0) { ByteBuffer() }
    }

    private func send(_ opcode: WebSocketOpcode, _ count: Int, _ data: () -> ByteBuffer) async throws {
        if count > maximumMessage { throw TransportError.messageTooLarge(limit: maximumMessage) }
        try Task.checkCancellation()
        let sent = Promised<Void>()
        let (handler, buffer) = (handler, data())
        channel.eventLoop.execute { handler.value.send(opcode, buffer, sent) }
        try await sent.value
    }

    /// Sends a text message without waiting. It closes the connection if too many bytes wait to be sent.
    func post(_ text: ByteBuffer) {
        let handler = handler
        channel.eventLoop.execute { handler.value.send(.text, text, nil) }
    }

    /// Drops all received messages from now on.
    func ignoreIncoming() {
        let handler = handler
        queue.drop()
        channel.eventLoop.execute {
            handler.value.dropsMessages = true
            self.channel.read()
        }
    }

    package func receive() async throws -> TransportMessage? { try await queue.take() }

    /// Sends a close frame and closes the connection.
    package func close() async {
        let handler = handler
        queue.discard()
        channel.eventLoop.execute { handler.value.startClosing() }
        await withCheckedContinuation { continuation in
            channel.closeFuture.whenComplete { _ in continuation.resume() }
        }
    }
}
