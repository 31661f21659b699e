/// Receives the events of one socket from its owner.
///
/// Events after the end, or of an abandoned socket, are ignored.
public final class SyncBridge: Sendable {
    let opened = Promised<Void>()
    let queue: MessageQueue
    private let maximumMessage: Int

    init(_ limit: MessageQueue.Limit, maximumMessage: Int) {
        queue = MessageQueue(limit)
        self.maximumMessage = maximumMessage
    }

    /// The handshake is complete.
    public func onConnected() { opened.settle(.success(())) }

    /// A binary message arrived. Returns when the next one may be read.
    public func onBinaryMessage(_ bytes: [UInt8]) async { await pass(.binary(bytes)) }

    /// A text message arrived. Returns when the next one may be read.
    public func onTextMessage(_ text: String) async { await pass(.text(text)) }

    /// The peer answered a ping.
    public func onPong() { queue.add(.pong) }

    /// The socket was closed normally.
    public func onDisconnected() {
        opened.settle(.failure(TransportError.lost("it was closed before it was open")))
        queue.end(nil)
    }

    /// The socket failed to open, or was lost.
    public func onError(_ message: String) {
        opened.settle(.failure(TransportError.unreachable(message)))
        queue.end(.lost(message))
    }

    private func pass(_ message: TransportMessage) async {
        if message.byteCount > maximumMessage {
            queue.end(.messageTooLarge(limit: maximumMessage))
        } else {
            // The cancelled task belongs to the owner, who then stops reading.
            try? await queue.put(message)
        }
    }
}
