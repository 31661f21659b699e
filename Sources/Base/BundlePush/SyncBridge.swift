/// Where the owner of a socket tells what happens to it; one for each socket.
///
/// What is told after the end, or to the bridge of a socket that was given up, is not heard.
package final class SyncBridge: Sendable {
    let opened = Promised<Void>()
    let queue: MessageQueue
    private let maximumMessage: Int

    init(_ limit: MessageQueue.Limit, maximumMessage: Int) {
        queue = MessageQueue(limit)
        self.maximumMessage = maximumMessage
    }

    /// The handshake is done.
    package func onConnected() { opened.settle(.success(())) }

    /// A whole binary message came. Returns when there is room for the next one: read no further before.
    package func onBinaryMessage(_ bytes: [UInt8]) async { await pass(.binary(bytes)) }

    /// A whole text message came. Returns when there is room for the next one: read no further before.
    package func onTextMessage(_ text: String) async { await pass(.text(text)) }

    /// The other side answered a ping.
    package func onPong() { queue.add(.pong) }

    /// The socket was closed in good order.
    package func onDisconnected() {
        opened.settle(.failure(TransportError.lost("it was closed before it was open")))
        queue.end(nil)
    }

    /// The socket could not be opened, or broke.
    package func onError(_ message: String) {
        opened.settle(.failure(TransportError.unreachable(message)))
        queue.end(.lost(message))
    }

    private func pass(_ message: TransportMessage) async {
        if message.byteCount > maximumMessage {
            queue.end(.messageTooLarge(limit: maximumMessage))
        } else {
            // Cancelled is the owner's task: it reads no further.
            try? await queue.put(message)
        }
    }
}
