import ArchiveSource
import Testing

@testable import BundleFleet

@Suite("Subscriptions") struct SubscriptionsTests {
    private final class Watched {
        private var value: Subscriptions

        init(to channels: [String]) { value = Subscriptions(to: channels) }

        var channels: Set<String> { value.channels }
        func enter(_ subscription: ChannelSubscription) -> Subscriptions.Verdict { value.enter(subscription) }
        func leave(_ subscription: ChannelSubscription) { value.leave(subscription) }
        func review(
            _ channel: String, found: Subscriptions.Finding = .something, isDue: Bool = true
        ) -> Subscriptions.Review {
            value.review(channel, found: found, isDue: isDue)
        }
        /// Whether the watch ends without a replacement.
        func retire(_ channel: String) -> Bool { review(channel) == .ends(next: nil) }
    }

    @Test func `watches channels while sockets subscribe to them`() {
        let watched = Watched(to: [])
        #expect(watched.enter(.only("beta")) == .starts)
        #expect(watched.enter(.only("beta")) == .joins)
        #expect(watched.enter(.all) == .starts)
        #expect(watched.channels == ["beta", "stable"])
        watched.leave(.only("beta"))
        #expect(!watched.retire("beta"))
        watched.leave(.only("beta"))
        #expect(watched.enter(.only("beta")) == .joins)
        watched.leave(.only("beta"))
        #expect(watched.retire("beta"))
        #expect(watched.channels == ["stable"])
        #expect(watched.enter(.only("beta")) == .starts)
        watched.leave(.all)
        #expect(watched.retire("stable"))
    }

    @Test func `limits the number of channels`() {
        let watched = Watched(to: [])
        for number in 0..<Subscriptions.most { #expect(watched.enter(.only("c\(number)")) == .starts) }
        #expect(watched.enter(.only("more")) == .waits(isFirst: true))
        #expect(watched.enter(.only("more")) == .waits(isFirst: false))
        #expect(watched.enter(.only("c1")) == .joins)
        for number in 0..<1000 { _ = watched.enter(.only("d\(number)")) }
        #expect(watched.enter(.only("the last")) == .waits(isFirst: false))
        watched.leave(.only("c2"))
        #expect(watched.review("c2", isDue: false) == .continues)
        #expect(watched.review("c2") == .ends(next: "more"))
        #expect(watched.channels.contains("more"))
        #expect(watched.channels.count == Subscriptions.most)
        // Two sockets subscribed to it.
        watched.leave(.only("more"))
        #expect(watched.review("more") == .continues)
        watched.leave(.only("more"))
        #expect(watched.review("more") == .ends(next: "d0"))
    }

    @Test func `replaces a missing channel by a waiting one`() {
        let watched = Watched(to: [])
        for number in 0..<Subscriptions.most { #expect(watched.enter(.only("junk\(number)")) == .starts) }
        let nothing = Subscriptions.Finding.nothing(isLasting: false)
        #expect(watched.review("junk0", found: nothing, isDue: false) == .continues)
        #expect(watched.enter(.all) == .waits(isFirst: true))
        #expect(watched.review("junk1") == .continues)
        #expect(watched.review("junk0", found: nothing, isDue: false) == .ends(next: "stable"))
        #expect(watched.channels.contains("stable") && !watched.channels.contains("junk0"))
        #expect(watched.review("stable") == .continues)
        // Channels that were not found return later, but not at every poll of another one.
        let lasting = Subscriptions.Finding.nothing(isLasting: true)
        #expect(watched.review("junk1", found: nothing) == .continues)
        #expect(watched.review("junk1", found: lasting, isDue: false) == .continues)
        #expect(watched.review("junk1", found: lasting) == .ends(next: "junk0"))
        #expect(watched.enter(.only("beta")) == .waits(isFirst: true))
        #expect(watched.review("junk2", found: nothing, isDue: false) == .ends(next: "beta"))
        // Channels without sockets leave the queue.
        watched.leave(.only("junk1"))
        #expect(watched.review("junk3", found: lasting) == .ends(next: "junk2"))
        watched.leave(.only("junk3"))
        #expect(watched.review("junk4", found: lasting) == .continues)
        watched.leave(.all)
        #expect(watched.retire("stable"))
        #expect(watched.channels.count == Subscriptions.most - 1)
    }

    @Test func `watches only configured channels`() {
        let watched = Watched(to: ["beta", "stable", "beta"])
        #expect(watched.enter(.only("beta")) == .isWatched)
        #expect(watched.enter(.all) == .isWatched)
        #expect(watched.enter(.only("nightly")) == .isOther(isFirst: true))
        #expect(watched.enter(.only("nightly")) == .isOther(isFirst: false))
        #expect(!watched.retire("beta"))
        #expect(watched.channels == ["beta", "stable"])
    }

    @Test func `rejects a subscription to all channels for a relay without the standard channel`() {
        let watched = Watched(to: ["beta"])
        #expect(watched.enter(.all) == .isWatched)
        #expect(watched.channels == ["beta"])
    }
}
