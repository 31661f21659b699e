import BundleValues
import ArchiveSource

/// Which channels a relay watches: those that it was told to, or else those that sockets ask for, up to a bound. Pure.
///
/// A channel that nobody asks for any more is watched until its next look, so that coming and going makes no look come sooner.
struct Subscriptions: Equatable {
    /// What becomes of a channel that a socket asks for.
    enum Verdict: Equatable {
        /// It is to be watched from now on, while there are sockets that ask for it.
        case begins
        /// It is watched, and this socket is one more that asks for it.
        case counts
        /// It is watched whoever asks for it.
        case isWatched
        /// It is not among those that the relay was told to watch; whether that is asked for the first time.
        case isOther(isFirst: Bool)
        /// As many are watched as may be; whether this one is asked for the first time.
        case isOneTooMany(isFirst: Bool)
    }

    /// Names cost a request a second each, and whoever opens a socket chooses them.
    static let most = 64

    private let isFixed: Bool
    private var sockets: [String: Int]
    private var refused: Set<String> = []

    /// Watches `channels` and no others; without any, what is asked for.
    init(to channels: [String]) {
        isFixed = !channels.isEmpty
        sockets = Dictionary(channels.map { ($0, 0) }) { first, _ in first }
    }

    var channels: Set<String> { Set(sockets.keys) }

    /// A socket is there that wants to hear of a channel; who wants to hear of all means the standard one at least.
    mutating func enter(_ subscription: ChannelSubscription) -> Verdict {
        let channel = Self.channel(of: subscription)
        if isFixed {
            let isWatched = subscription == .all || sockets[channel] != nil
            return isWatched ? .isWatched : .isOther(isFirst: isFirst(channel))
        }
        if let count = sockets[channel] {
            sockets[channel] = count + 1
            return .counts
        }
        if sockets.count >= Self.most { return .isOneTooMany(isFirst: isFirst(channel)) }
        sockets[channel] = 1
        return .begins
    }

    /// A socket that counts is gone.
    mutating func leave(_ subscription: ChannelSubscription) {
        let channel = Self.channel(of: subscription)
        if let count = sockets[channel] { sockets[channel] = max(0, count - 1) }
    }

    /// Whether the watch of a channel ends here, since nobody wants to hear of it.
    mutating func retire(_ channel: String) -> Bool {
        if isFixed || sockets[channel] != 0 { return false }
        sockets[channel] = nil
        return true
    }

    private static func channel(of subscription: ChannelSubscription) -> String {
        subscription.channel ?? ChannelFileName.standard
    }

    private mutating func isFirst(_ channel: String) -> Bool {
        refused.count < Self.most && refused.insert(channel).inserted
    }
}
