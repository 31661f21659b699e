import ArchiveSource
import BundleSockets
import Synchronization

/// Sends the sequences of the channels to sockets, when they connect and after each change.
final class Announcer: Sendable {
    private let hub = SocketHub()
    private let present = Mutex(ChannelSequences())

    var sequences: ChannelSequences { present.withLock { $0 } }

    /// Adds a socket. It receives the present sequences of its subscription and later changes.
    func add(_ socket: SocketTransport, to subscription: ChannelSubscription) {
        present.withLock { present in
            let news = present.news(since: ChannelSequences()).filter {
                [nil, $0.channel].contains(subscription.channel)
            }
            hub.add(
                socket, topic: subscription.channel,
                greeting: [SyncMessage.hello(version: SyncMessage.version).text] + news.map(\.text))
        }
    }

    /// Stores the sequences of all channels and announces changes.
    func update(to fresh: ChannelSequences) { update { _ in fresh } }

    /// Stores the sequence of one channel and announces a change.
    func update(_ channel: String, to sequence: Int, isUrgent: Bool = false) {
        update { $0.with(sequence, isUrgent: isUrgent, of: channel) }
    }

    private func update(_ change: (ChannelSequences) -> ChannelSequences) {
        present.withLock { present in
            let fresh = change(present)
            for news in fresh.news(since: present) { hub.announce(news.text, topic: news.channel) }
            present = fresh
        }
    }

    func close() async { await hub.close() }
}
