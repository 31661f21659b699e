import BundleValues
import ArchiveSource

/// Decides which channels a relay watches: the configured ones, or otherwise those that sockets subscribe to, up to a
/// limit.
///
/// A channel without sockets is watched until its next poll, so that reconnecting clients cause no additional polls. A
/// channel beyond the limit waits until another one ends or does not exist in the upstream.
struct Subscriptions {
    /// The result of a subscription.
    enum Verdict: Equatable {
        /// The watch of the channel starts.
        case starts
        /// The channel is watched already and has one more socket.
        case joins
        /// The channel is configured, so it is watched in any case.
        case isWatched
        /// The channel is not one of the configured ones. `isFirst` is true for the first such subscription.
        case isOther(isFirst: Bool)
        /// The channel waits because the limit is reached. `isFirst` is true for its first subscription.
        case waits(isFirst: Bool)
    }

    /// The result of the last poll of a channel.
    enum Finding: Equatable {
        case something
        /// The upstream does not have the channel. `isLasting` is true after a while.
        case nothing(isLasting: Bool)
    }

    /// The decision about a watch after a poll.
    enum Review: Equatable {
        case continues
        /// The watch ends, and that of `next` starts.
        case ends(next: String?)
    }

    /// The largest number of watched channels. Each costs a request per second, and any client can choose the names.
    static let most = 64

    private let isFixed: Bool
    private var sockets: [String: Int]
    /// The channels that wait, ordered by ticket, lowest first. `wasWatched` marks those that did not exist.
    private var waiting: [String: (sockets: Int, ticket: Int, wasWatched: Bool)] = [:]
    private var tickets = 0
    private var refused: Set<String> = []

    /// Watches `channels` only, or all subscribed channels if it is empty.
    init(to channels: [String]) {
        isFixed = !channels.isEmpty
        sockets = Dictionary(channels.map { ($0, 0) }) { first, _ in first }
    }

    var channels: Set<String> { Set(sockets.keys) }

    /// A socket subscribed to a channel. A subscription to all channels is one to the standard channel.
    mutating func enter(_ subscription: ChannelSubscription) -> Verdict {
        let channel = Self.channel(of: subscription)
        if isFixed {
            let isWatched = subscription == .all || sockets[channel] != nil
            return isWatched ? .isWatched : .isOther(isFirst: isFirst(channel))
        }
        if let count = sockets[channel] {
            sockets[channel] = count + 1
            return .joins
        }
        if sockets.count >= Self.most {
            wait(channel, count: 1, wasWatched: false)
            return .waits(isFirst: isFirst(channel))
        }
        sockets[channel] = 1
        return .starts
    }

    /// A counted socket disconnected.
    mutating func leave(_ subscription: ChannelSubscription) {
        let channel = Self.channel(of: subscription)
        if let count = sockets[channel] {
            sockets[channel] = max(0, count - 1)
        } else if let (count, ticket, wasWatched) = waiting[channel] {
            waiting[channel] = count > 1 ? (count - 1, ticket, wasWatched) : nil
        }
    }

    /// Decides whether the watch of a channel ends: if it has no sockets when the next poll is due, or if it does not
    /// exist and another channel waits. A channel that was watched before without being found replaces it only after a
    /// while, so that missing channels do not alternate at every poll.
    mutating func review(_ channel: String, found: Finding, isDue: Bool) -> Review {
        guard !isFixed, let count = sockets[channel] else { return .continues }
        let isUnwanted = count == 0 && isDue
        let next: String?
        switch found {
        case _ where isUnwanted: next = nextWaiting(orWatched: true)
        case .something: return .continues
        case .nothing(let isLasting):
            next = nextWaiting(orWatched: isLasting && isDue)
            if next == nil { return .continues }
        }
        sockets[channel] = nil
        if let next { sockets[next] = waiting.removeValue(forKey: next)?.sockets }
        if count > 0 { wait(channel, count: count, wasWatched: true) }
        return .ends(next: next)
    }

    private func nextWaiting(orWatched: Bool) -> String? {
        waiting.filter { orWatched || !$0.value.wasWatched }.min { $0.value.ticket < $1.value.ticket }?.key
    }

    private mutating func wait(_ channel: String, count: Int, wasWatched: Bool) {
        tickets += 1
        let (sockets, ticket, before) = waiting[channel] ?? (0, tickets, wasWatched)
        waiting[channel] = (sockets + count, ticket, before)
    }

    private static func channel(of subscription: ChannelSubscription) -> String {
        subscription.channel ?? ChannelFileName.standard
    }

    private mutating func isFirst(_ channel: String) -> Bool {
        refused.count < Self.most && refused.insert(channel).inserted
    }
}
