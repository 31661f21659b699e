import ArchiveSource
import BundleTestTraits
import BundleTesting
import BundleValues
import Synchronization
import Testing

@testable import BundleFleet

/// Tests the polls of a relay with the test's clock.
@Suite("UpstreamWatch", .inTurn) struct UpstreamWatchTests {
    private let clock = ManualClock()
    private let upstream: FakeUpstream
    private let announcer = Announcer()
    private let messages = Messages()

    init() { upstream = FakeUpstream(clock) }

    private final class Messages: Sendable {
        let sentences = Mutex<[String]>([])
        func count(_ part: String) -> Int { sentences.withLock { $0.count { $0.contains(part) } } }
    }

    private func watch(_ channels: [String] = [], fraction: Double = 1) throws -> UpstreamWatch {
        let feed = try Upstream(
            FetchURL(parsing: "https://cdn.example/feed"), channels: channels, fetcher: upstream)
        let watch = UpstreamWatch(
            feed, announcer: announcer,
            environment: Environment(
                clock: clock, random: { $0.lowerBound + ($0.upperBound - $0.lowerBound) * fraction },
                log: { [messages] sentence in messages.sentences.withLock { $0.append(sentence) } }))
        watch.begin()
        return watch
    }

    /// Advances the clock by `wait` when a task sleeps until then, and returns after the poll that follows.
    private func pass(_ wait: Duration, sleepers: Int = 1) async {
        let end = clock.now.sinceStart + wait
        await clock.sleeper(until: end)
        clock.advance(by: wait)
        while clock.wakeTimes.count < sleepers { await Task.yield() }
    }

    /// Returns after the first poll of each watch.
    private func settled(_ sleepers: Int = 1) async {
        while clock.wakeTimes.count < sleepers { await Task.yield() }
    }

    @Test func `announces a change, sends no body for an unchanged file, and polls once a second`()
        async throws
    {
        try upstream.publish(17)
        let watch = try watch(["stable"])
        await settled()
        #expect(announcer.sequences.numbers == ["stable": 17])
        await pass(.seconds(1))
        await pass(.seconds(1))
        try upstream.publish(18)
        await pass(.seconds(1))
        #expect(announcer.sequences.numbers == ["stable": 18])
        let polls = upstream.polls
        #expect(polls.map(\.moment) == [.zero, .seconds(1), .seconds(2), .seconds(3)])
        #expect(polls[0].tag == nil && polls[1].tag != nil && polls[1].tag == polls[3].tag)
        await watch.stop()
        #expect(
            messages.sentences.withLock { $0 } == [
                "watching https://cdn.example/feed/channels/stable.json; sequence 17",
                "announced sequence 18 of the channel stable",
            ])
    }

    @Test func `does not announce an older copy`() async throws {
        try upstream.publish(17)
        let watch = try watch(["stable"])
        await settled()
        try upstream.publish(16)
        await pass(.seconds(1))
        #expect(announcer.sequences.numbers == ["stable": 17])
        #expect(messages.count("sequence 16, which is older than 17") == 1)
        try upstream.publish(19)
        await pass(.seconds(1))
        #expect(announcer.sequences.numbers == ["stable": 19])
        await watch.stop()
    }

    @Test func `polls a failed upstream less often and announces its sequence after it recovers`() async throws {
        try upstream.publish(17)
        let watch = try watch(["stable"])
        await settled()
        upstream.fail(.unreachable(try FetchURL(parsing: "https://cdn.example/"), reason: "refused"))
        await pass(.seconds(1))
        for wait in [2, 4, 8, 16, 32, 60] { await pass(.seconds(wait)) }
        upstream.fail(.httpStatus(503, try FetchURL(parsing: "https://cdn.example/"), retryAfter: .seconds(180)))
        try upstream.publish(18)
        await pass(.seconds(60))
        upstream.fail(nil)
        // The wait that the server asked for, and the backoff after it.
        await pass(.seconds(240))
        #expect(announcer.sequences.numbers == ["stable": 18])
        await pass(.seconds(1))
        #expect(upstream.polls.count == 11)
        #expect(messages.count("refused") == 1)
        #expect(messages.count("watching ") == 2)
        await watch.stop()
    }

    @Test func `polls each channel on its own`() async throws {
        try upstream.publish(1, "beta")
        upstream.put(Array("<html>".utf8), "page")
        try upstream.publish(1, "other", as: "wrong")
        let watch = try watch(["beta", "none", "page", "wrong"])
        await settled(4)
        #expect(announcer.sequences.numbers == ["beta": 1])
        #expect(messages.count("none.json does not exist") == 1)
        #expect(messages.count("page.json cannot be read") == 1)
        #expect(
            messages.count("wrong.json cannot be read, so it is not announced: it is the file of the channel other")
                == 1)
        try upstream.publish(2, "beta")
        try upstream.publish(1, "none")
        await pass(.seconds(1), sleepers: 4)
        #expect(announcer.sequences.numbers == ["beta": 2])
        await pass(.seconds(1), sleepers: 4)
        #expect(announcer.sequences.numbers == ["beta": 2, "none": 1])
        await watch.stop()
    }

    @Test func `watches channels while sockets subscribe to them without additional polls`()
        async throws
    {
        try upstream.publish(1)
        try upstream.publish(5, "beta")
        let watch = try watch()
        #expect(watch.enter(.only("beta")))
        await settled()
        #expect(announcer.sequences.numbers == ["beta": 5])
        for _ in 0..<10 {
            watch.leave(.only("beta"))
            #expect(watch.enter(.only("beta")))
        }
        await pass(.seconds(1))
        #expect(upstream.polls(of: "beta").map(\.moment) == [.zero, .seconds(1)])
        // Older devices send no subscription, which means the standard channel.
        #expect(watch.enter(.all))
        await settled(2)
        #expect(announcer.sequences.numbers == ["beta": 5, "stable": 1])
        watch.leave(.only("beta"))
        await pass(.seconds(1))
        #expect(upstream.polls(of: "beta").count == 2)
        await pass(.seconds(1))
        #expect(upstream.polls(of: "beta").count == 2)
        // The announced sequence stays, so an older one is not announced later.
        try upstream.publish(4, "beta")
        #expect(watch.enter(.only("beta")))
        await settled(2)
        #expect(announcer.sequences.numbers["beta"] == 5)
        await watch.stop()
    }

    @Test func `reports a subscription beyond the limit once`() async throws {
        let watch = try watch(["stable"])
        for _ in 0..<3 { #expect(!watch.enter(.only("beta"))) }
        #expect(messages.count("the channel beta, which is not watched") == 1)
        #expect(!watch.enter(.all))
        #expect(!watch.enter(.only("stable")))
        await watch.stop()
        let open = try self.watch()
        for number in 0..<100 { #expect(open.enter(.only("c\(number)"))) }
        #expect(messages.count("64 channels are watched already") == 36)
        await open.stop()
    }

    @Test func `watches an existing channel despite many subscriptions to missing ones, without additional polls`()
        async throws
    {
        try upstream.publish(7)
        let watch = try watch()
        for number in 0..<64 { #expect(watch.enter(.only("junk\(number)"))) }
        await settled(64)
        #expect(watch.enter(.all))
        await pass(.seconds(1), sleepers: 64)
        #expect(announcer.sequences.numbers == ["stable": 7])
        // One of 64 channels was replaced and waits; the others are polled as before.
        #expect(upstream.polls.count == 65)
        await pass(.seconds(1), sleepers: 64)
        try upstream.publish(8)
        await pass(.seconds(1), sleepers: 64)
        #expect(announcer.sequences.numbers == ["stable": 8])
        #expect(upstream.polls.count == 65 + 63 + 2)
        await watch.stop()
    }

    @Test func `keeps watching a channel whose file is missing for a while`() async throws {
        try upstream.publish(7)
        let watch = try watch()
        #expect(watch.enter(.all))
        for number in 0..<70 { #expect(watch.enter(.only("junk\(number)"))) }
        await settled(64)
        upstream.put(nil, "stable")
        for _ in 0..<3 { await pass(.seconds(1), sleepers: 64) }
        try upstream.publish(8)
        for _ in 0..<4 { await pass(.seconds(1), sleepers: 64) }
        #expect(announcer.sequences.numbers == ["stable": 8])
        await watch.stop()
    }

    @Test(arguments: [
        ("https://h/feed", "https://h/feed/channels/a.json"), ("https://h", "https://h/channels/a.json"),
        ("http://h:81/", "http://h:81/channels/a.json"),
    ])
    func `adds a trailing slash to the URL of a feed`(url: String, document: String) throws {
        let feed = try Upstream(FetchURL(parsing: url), channels: [], fetcher: upstream)
        #expect(try feed.document(of: "a").description == document)
    }

    @Test(arguments: ["file:///srv/feed", "https://h/?token=x", "https://h/feed#a"])
    func `rejects a URL that cannot be a feed`(url: String) throws {
        let url = try FetchURL(parsing: url)
        #expect(throws: FetchError.self) { try Upstream(url, channels: [], fetcher: upstream) }
    }
}
