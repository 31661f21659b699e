import BundleTransport
import NIOCore
import Synchronization

/// Sockets that receive the same messages, without a task for each.
///
/// A socket can be limited to one topic. Received messages are dropped. A socket that does not read, so that more than
/// `unsent` bytes wait for it, is closed; its client reconnects.
package final class SocketHub: Sendable {
    private struct Member {
        let socket: SocketTransport
        /// nil for all topics.
        let topic: String?
    }

    private let sockets = Mutex<[ObjectIdentifier: Member]>([:])

    package init() {}

    package var count: Int { sockets.withLock { $0.count } }

    /// Adds a socket and sends it the messages of `greeting` first. The hub removes it when it closes. With a `topic` it
    /// receives the announcements of that topic only.
    package func add(_ socket: SocketTransport, topic: String? = nil, greeting: [String] = []) {
        let id = ObjectIdentifier(socket)
        socket.ignoreIncoming()
        sockets.withLock { sockets in
            for text in greeting { socket.post(ByteBuffer(string: text)) }
            sockets[id] = Member(socket: socket, topic: topic)
        }
        socket.closed.whenComplete { [weak self] _ in
            // This can be the last reference, which must not be released inside the lock.
            let gone = self?.sockets.withLock { $0.removeValue(forKey: id) }
            _ = gone
        }
    }

    /// Sends a text message to the present sockets of `topic` and of all topics. They share its bytes.
    package func announce(_ text: String, topic: String) {
        let bytes = ByteBuffer(string: text)
        for member in sockets.withLock({ Array($0.values) }) where member.topic == nil || member.topic == topic {
            member.socket.post(bytes)
        }
    }

    package func close() async {
        let all = sockets.withLock { Array($0.values) }
        await withTaskGroup(of: Void.self) { group in
            for member in all { group.addTask { await member.socket.close() } }
        }
    }
}
