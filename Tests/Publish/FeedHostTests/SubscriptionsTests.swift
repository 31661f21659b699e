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
        func retire(_ channel: String) -> Bool { value.retire(channel) }
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
        #expect(watched.retire("c2"))
        #expect(watched.enter(.only("more")) == .begins)
        #expect(watched.channels.count == Subscriptions.most)
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
