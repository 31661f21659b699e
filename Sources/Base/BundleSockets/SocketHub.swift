import BundlePush
import NIOCore
import Synchronization

/// Sockets that are told the same things, without a task for each.
///
/// Each may be there for one topic only. What the other sides say is dropped. One that does not take what it is told, so that
/// more than the limit of `unsent` bytes waits for it, is closed: it comes back and asks.
package final class SocketHub: Sendable {
    private struct Member {
        let socket: SocketTransport
        /// Nil is every topic.
        let topic: String?
    }

    private let sockets = Mutex<[ObjectIdentifier: Member]>([:])

    /// A hub without sockets.
    package init() {}

    /// How many sockets there are.
    package var count: Int { sockets.withLock { $0.count } }

    /// Takes in a socket and tells it `greeting`, one text message each, before anything else. It is let go when it closes.
    /// With a `topic` it is told of no other.
    package func add(_ socket: SocketTransport, topic: String? = nil, greeting: [String] = []) {
        let id = ObjectIdentifier(socket)
        socket.ignoreIncoming()
        sockets.withLock { sockets in
            for text in greeting { socket.post(ByteBuffer(string: text)) }
            sockets[id] = Member(socket: socket, topic: topic)
        }
        socket.closed.whenComplete { [weak self] _ in
            // The last reference may be this one, and its end must not come inside the lock.
            let gone = self?.sockets.withLock { $0.removeValue(forKey: id) }
            _ = gone
        }
    }

    /// Tells a text message about `topic` to those that are there now for it, or for every topic; the bytes are shared.
    package func announce(_ text: String, topic: String) {
        let bytes = ByteBuffer(string: text)
        for member in sockets.withLock({ Array($0.values) }) where member.topic == nil || member.topic == topic {
            member.socket.post(bytes)
        }
    }

    /// Closes all.
    package func close() async {
        let all = sockets.withLock { Array($0.values) }
        await withTaskGroup(of: Void.self) { group in
            for member in all { group.addTask { await member.socket.close() } }
        }
    }
}
