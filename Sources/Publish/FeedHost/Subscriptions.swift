import BundleValues
import ArchiveSource

/// Which channels a relay watches: those that it was told to, or else those that sockets ask for, up to a bound. Pure.
///
/// A channel that nobody asks for any more is watched until its next look, so that coming and going makes no look come sooner. One that
/// is too many waits for its turn, and a channel that the upstream does not have gives it one.
struct Subscriptions {
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
        /// As many are watched as may be, so it waits for its turn; whether this one is asked for the first time.
        case isOneTooMany(isFirst: Bool)
    }

    /// What a watch has found at its last look.
    enum Finding: Equatable {
        case something
        /// The upstream does not have the channel; whether it has had none for a while.
        case nothing(isLasting: Bool)
    }

    /// What becomes of a watch that has looked.
    enum Review: Equatable {
        case goesOn
        /// It ends, and that of another channel begins in its place.
        case ends(next: String?)
    }

    /// Names cost a request a second each, and whoever opens a socket chooses them.
    static let most = 64

    private let isFixed: Bool
    private var sockets: [String: Int]
    /// The same of those that are not watched; the lowest ticket is the next. Some were watched, and nothing was found.
    private var waiting: [String: (sockets: Int, ticket: Int, wasWatched: Bool)] = [:]
    private var tickets = 0
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
        if sockets.count >= Self.most {
            wait(channel, 1, wasWatched: false)
            return .isOneTooMany(isFirst: isFirst(channel))
        }
        sockets[channel] = 1
        return .begins
    }

    /// A socket that counts is gone.
    mutating func leave(_ subscription: ChannelSubscription) {
        let channel = Self.channel(of: subscription)
        if let count = sockets[channel] {
            sockets[channel] = max(0, count - 1)
        } else if let (count, ticket, wasWatched) = waiting[channel] {
            waiting[channel] = count > 1 ? (count - 1, ticket, wasWatched) : nil
        }
    }

    /// Whether the watch of a channel ends here: since nobody wants to hear of it when the next look `isDue`; or, where it has found
    /// nothing, since another one waits. One that was watched itself, and not found, waits until nothing is found for a while, so that
    /// they do not take turns at every look.
    mutating func review(_ channel: String, _ found: Finding, isDue: Bool) -> Review {
        guard !isFixed, let count = sockets[channel] else { return .goesOn }
        let isUnwanted = count == 0 && isDue
        let next: String?
        switch found {
        case _ where isUnwanted: next = nextWaiting(orWatched: true)
        case .something: return .goesOn
        case .nothing(let isLasting):
            next = nextWaiting(orWatched: isLasting && isDue)
            if next == nil { return .goesOn }
        }
        sockets[channel] = nil
        if let next { sockets[next] = waiting.removeValue(forKey: next)?.sockets }
        if count > 0 { wait(channel, count, wasWatched: true) }
        return .ends(next: next)
    }

    private func nextWaiting(orWatched: Bool) -> String? {
        waiting.filter { orWatched || !$0.value.wasWatched }.min { $0.value.ticket < $1.value.ticket }?.key
    }

    private mutating func wait(_ channel: String, _ count: Int, wasWatched: Bool) {
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
