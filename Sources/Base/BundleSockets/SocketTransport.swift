package import BundlePush
package import NIOCore
import NIOPosix
import NIOWebSocket

/// An open WebSocket, of either side. Closed with its last reference.
package final class SocketTransport: SyncTransport {
    private let channel: any Channel
    private let handler: NIOLoopBound<SocketHandler>
    private let queue: MessageQueue
    private let maximumMessage: Int

    /// Puts itself behind the frame decoder of a channel that was upgraded; called on its event loop.
    init(on channel: any Channel, _ side: SocketHandler.Side, _ limits: SocketLimits) throws {
        self.channel = channel
        maximumMessage = limits.message
        queue = MessageQueue(limits.waiting) { channel.read() }
        let handler = SocketHandler(side, limits, queue)
        self.handler = NIOLoopBound(handler, eventLoop: channel.eventLoop)
        try channel.pipeline.syncOperations.addHandler(handler)
    }

    deinit { channel.close(promise: nil) }

    /// The address of the other side, as far as the system knows it.
    package var peer: String { channel.remoteAddress?.ipAddress ?? "unknown" }

    /// Done when the connection is gone.
    package var closed: EventLoopFuture<Void> { channel.closeFuture }

    /// Sends one binary message.
    package func sendBinary(_ bytes: [UInt8]) async throws {
        try await send(.binary, bytes.count) { ByteBuffer(bytes: bytes) }
    }

    /// Sends one text message.
    package func sendText(_ text: String) async throws {
        try await send(.text, text.utf8.count) { ByteBuffer(string: text) }
    }

    /// Asks the other side for a sign of life.
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

    /// Sends a text message that nobody waits for; ends the connection when the other side takes so little that too much waits.
    func post(_ text: ByteBuffer) {
        let handler = handler
        channel.eventLoop.execute { handler.value.send(.text, text, nil) }
    }

    /// Drops whatever the other side says from now on, so that it need not be received.
    func ignoreIncoming() {
        let handler = handler
        queue.drop()
        channel.eventLoop.execute {
            handler.value.isDeaf = true
            self.channel.read()
        }
    }

    /// The next message.
    package func receive() async throws -> TransportMessage? { try await queue.take() }

    /// Says farewell to the other side and closes.
    package func close() async {
        let handler = handler
        queue.discard()
        channel.eventLoop.execute { handler.value.leave() }
        await withCheckedContinuation { continuation in
            channel.closeFuture.whenComplete { _ in continuation.resume() }
        }
    }
}
