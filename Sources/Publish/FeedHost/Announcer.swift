import ArchiveSource
import BundleSockets
import Synchronization

/// Tells every socket what the channels have, when it comes and when that changes.
final class Announcer: Sendable {
    private let hub = SocketHub()
    private let present = Mutex(ChannelSequences())

    var sequences: ChannelSequences { present.withLock { $0 } }

    /// Whoever comes is told all there is; what changes from then on is announced to it, too.
    func add(_ socket: SocketTransport) {
        present.withLock { present in
            hub.add(
                socket,
                greeting: [SyncMessage.hello(version: SyncMessage.version).text]
                    + present.news(since: ChannelSequences()))
        }
    }

    /// Notes what the channels have now, and announces what is new.
    func update(to fresh: ChannelSequences) {
        present.withLock { present in
            for text in fresh.news(since: present) { hub.announce(text) }
            present = fresh
        }
    }

    func close() async { await hub.close() }
}
