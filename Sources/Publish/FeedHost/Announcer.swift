import ArchiveSource
import BundleSockets
import Synchronization

/// Tells every socket what the channels have, when it comes and when that changes.
final class Announcer: Sendable {
    private let hub = SocketHub()
    private let present = Mutex(ChannelSequences())

    var sequences: ChannelSequences { present.withLock { $0 } }

    /// Whoever comes is told all there is that it wants to hear of; what changes from then on is announced to it, too.
    func add(_ socket: SocketTransport, _ subscription: ChannelSubscription) {
        present.withLock { present in
            let news = present.news(since: ChannelSequences()).filter {
                [nil, $0.channel].contains(subscription.channel)
            }
            hub.add(
                socket, topic: subscription.channel,
                greeting: [SyncMessage.hello(version: SyncMessage.version).text] + news.map(\.text))
        }
    }

    /// Notes what the channels have now, and announces what is new.
    func update(to fresh: ChannelSequences) { update { _ in fresh } }

    /// Notes what one channel has now, and announces it where that is new.
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
