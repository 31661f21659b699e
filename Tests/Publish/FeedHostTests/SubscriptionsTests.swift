import ArchiveSource
import Testing

@testable import FeedHost

/// Which channels a relay watches.
@Suite struct SubscriptionsTests {
    private final class Watched {
        private var value: Subscriptions

        init(to channels: [String]) { value = Subscriptions(to: channels) }

        var channels: Set<String> { value.channels }
        func enter(_ subscription: ChannelSubscription) -> Subscriptions.Verdict { value.enter(subscription) }
        func leave(_ subscription: ChannelSubscription) { value.leave(subscription) }
        func review(
            _ channel: String, _ found: Subscriptions.Finding = .something, isDue: Bool = true
        ) -> Subscriptions.Review {
            value.review(channel, found, isDue: isDue)
        }
        /// Whether it ends, and nothing takes its place.
        func retire(_ channel: String) -> Bool { review(channel) == .ends(next: nil) }
    }

    @Test func `those that sockets ask for, while they do`() {
        let watched = Watched(to: [])
        #expect(watched.enter(.only("beta")) == .begins)
        #expect(watched.enter(.only("beta")) == .counts)
        #expect(watched.enter(.all) == .begins)
        #expect(watched.channels == ["beta", "stable"])
        watched.leave(.only("beta"))
        #expect(!watched.retire("beta"))
        watched.leave(.only("beta"))
        #expect(watched.enter(.only("beta")) == .counts)
        watched.leave(.only("beta"))
        #expect(watched.retire("beta"))
        #expect(watched.channels == ["stable"])
        #expect(watched.enter(.only("beta")) == .begins)
        watched.leave(.all)
        #expect(watched.retire("stable"))
    }

    @Test func `no more than can be afforded`() {
        let watched = Watched(to: [])
        for number in 0..<Subscriptions.most { #expect(watched.enter(.only("c\(number)")) == .begins) }
        #expect(watched.enter(.only("more")) == .isOneTooMany(isFirst: true))
        #expect(watched.enter(.only("more")) == .isOneTooMany(isFirst: false))
        #expect(watched.enter(.only("c1")) == .counts)
        for number in 0..<1000 { _ = watched.enter(.only("d\(number)")) }
        #expect(watched.enter(.only("the last")) == .isOneTooMany(isFirst: false))
        watched.leave(.only("c2"))
        #expect(watched.review("c2", isDue: false) == .goesOn)
        #expect(watched.review("c2") == .ends(next: "more"))
        #expect(watched.channels.contains("more"))
        #expect(watched.channels.count == Subscriptions.most)
        // Two sockets came for it.
        watched.leave(.only("more"))
        #expect(watched.review("more") == .goesOn)
        watched.leave(.only("more"))
        #expect(watched.review("more") == .ends(next: "d0"))
    }

    @Test func `what the upstream does not have makes room for what waits, and waits in its turn`() {
        let watched = Watched(to: [])
        for number in 0..<Subscriptions.most { #expect(watched.enter(.only("junk\(number)")) == .begins) }
        let nothing = Subscriptions.Finding.nothing(isLasting: false)
        #expect(watched.review("junk0", nothing, isDue: false) == .goesOn)
        #expect(watched.enter(.all) == .isOneTooMany(isFirst: true))
        #expect(watched.review("junk1") == .goesOn)
        #expect(watched.review("junk0", nothing, isDue: false) == .ends(next: "stable"))
        #expect(watched.channels.contains("stable") && !watched.channels.contains("junk0"))
        #expect(watched.review("stable") == .goesOn)
        // What was not found is looked for again, but not at every look of another.
        let lasting = Subscriptions.Finding.nothing(isLasting: true)
        #expect(watched.review("junk1", nothing) == .goesOn)
        #expect(watched.review("junk1", lasting, isDue: false) == .goesOn)
        #expect(watched.review("junk1", lasting) == .ends(next: "junk0"))
        #expect(watched.enter(.only("beta")) == .isOneTooMany(isFirst: true))
        #expect(watched.review("junk2", nothing, isDue: false) == .ends(next: "beta"))
        // Sockets that go take their turn with them.
        watched.leave(.only("junk1"))
        #expect(watched.review("junk3", lasting) == .ends(next: "junk2"))
        watched.leave(.only("junk3"))
        #expect(watched.review("junk4", lasting) == .goesOn)
        watched.leave(.all)
        #expect(watched.retire("stable"))
        #expect(watched.channels.count == Subscriptions.most - 1)
    }

    @Test func `those that it is told to, whoever asks for what`() {
        let watched = Watched(to: ["beta", "stable", "beta"])
        #expect(watched.enter(.only("beta")) == .isWatched)
        #expect(watched.enter(.all) == .isWatched)
        #expect(watched.enter(.only("nightly")) == .isOther(isFirst: true))
        #expect(watched.enter(.only("nightly")) == .isOther(isFirst: false))
        #expect(!watched.retire("beta"))
        #expect(watched.channels == ["beta", "stable"])
    }

    @Test func `a relay without the standard channel does not take it for one`() {
        let watched = Watched(to: ["beta"])
        #expect(watched.enter(.all) == .isWatched)
        #expect(watched.channels == ["beta"])
    }
}
