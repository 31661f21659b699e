import BundlePush
import NIOCore
import Synchronization

/// Sockets that are told the same things, without a task for each.
///
/// What the other sides say is dropped. One that does not take what it is told, so that more than the limit of `unsent` bytes
/// waits for it, is closed: it comes back and asks.
package final class SocketHub: Sendable {
    private let sockets = Mutex<[ObjectIdentifier: SocketTransport]>([:])

    /// A hub without sockets.
    package init() {}

    /// How many sockets there are.
    package var count: Int { sockets.withLock { $0.count } }

    /// Takes in a socket and tells it `greeting`, one text message each, before anything else. It is let go when it closes.
    package func add(_ socket: SocketTransport, greeting: [String] = []) {
        let id = ObjectIdentifier(socket)
        socket.ignoreIncoming()
        sockets.withLock { sockets in
            for text in greeting { socket.post(ByteBuffer(string: text)) }
            sockets[id] = socket
        }
        socket.closed.whenComplete { [weak self] _ in
            // The last reference may be this one, and its end must not come inside the lock.
            let gone = self?.sockets.withLock { $0.removeValue(forKey: id) }
            _ = gone
        }
    }

    /// Tells a text message to all that are there now; the bytes are shared.
    package func announce(_ text: String) {
        let bytes = ByteBuffer(string: text)
        for socket in sockets.withLock({ Array($0.values) }) { socket.post(bytes) }
    }

    /// Closes all.
    package func close() async {
        let all = sockets.withLock { Array($0.values) }
        await withTaskGroup(of: Void.self) { group in
            for socket in all { group.addTask { await socket.close() } }
        }
    }
}
