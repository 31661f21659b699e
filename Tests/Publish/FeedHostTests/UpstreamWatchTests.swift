import ArchiveSource
import BundleTestTraits
import BundleTesting
import BundleValues
import Synchronization
import Testing

@testable import FeedHost

/// How a relay watches its upstream, by a clock of its own.
@Suite(.inTurn) struct UpstreamWatchTests {
    private let clock = ManualClock()
    private let upstream: FakeUpstream
    private let announcer = Announcer()
    private let said = Sayings()

    init() { upstream = FakeUpstream(clock) }

    private final class Sayings: Sendable {
        let sentences = Mutex<[String]>([])
        func count(_ part: String) -> Int { sentences.withLock { $0.count { $0.contains(part) } } }
    }

    private func watch(_ channels: [String] = [], draw: Double = 1) throws -> UpstreamWatch {
        let place = try Upstream(
            FetchURL(parsing: "https://cdn.example/feed"), channels: channels, fetcher: upstream)
        let watch = UpstreamWatch(
            place, announcer, clock: clock, random: { $0.lowerBound + ($0.upperBound - $0.lowerBound) * draw },
            say: { [said] sentence in said.sentences.withLock { $0.append(sentence) } })
        watch.begin()
        return watch
    }

    /// Lets `wait` pass, once somebody sleeps until then, and returns when the look that follows is over.
    private func pass(_ wait: Duration, sleepers: Int = 1) async {
        let end = clock.now.sinceStart + wait
        await clock.sleeper(until: end)
        clock.advance(by: wait)
        while clock.wakeTimes.count < sleepers { await Task.yield() }
    }

    /// Returns when the first look of as many watches is over.
    private func settled(_ sleepers: Int = 1) async {
        while clock.wakeTimes.count < sleepers { await Task.yield() }
    }

    @Test func `a change is announced, an unchanged document costs no bytes, and a second lies between two looks`()
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
        let looks = upstream.looks
        #expect(looks.map(\.moment) == [.zero, .seconds(1), .seconds(2), .seconds(3)])
        #expect(looks[0].tag == nil && looks[1].tag != nil && looks[1].tag == looks[3].tag)
        await watch.stop()
        #expect(
            said.sentences.withLock { $0 } == [
                "watching https://cdn.example/feed/channels/stable.json; sequence 17",
                "announced sequence 18 of the channel stable",
            ])
    }

    @Test func `an older copy is announced to nobody`() async throws {
        try upstream.publish(17)
        let watch = try watch(["stable"])
        await settled()
        try upstream.publish(16)
        await pass(.seconds(1))
        #expect(announcer.sequences.numbers == ["stable": 17])
        #expect(said.count("sequence 16 after 17") == 1)
        try upstream.publish(19)
        await pass(.seconds(1))
        #expect(announcer.sequences.numbers == ["stable": 19])
        await watch.stop()
    }

    @Test func `an upstream that dies is asked less and less; when it is back, what it has is announced`() async throws
    {
        try upstream.publish(17)
        let watch = try watch(["stable"])
        await settled()
        upstream.fail(.unreachable(try FetchURL(parsing: "https://cdn.example/"), reason: "refused"))
        await pass(.seconds(1))
        for wait in [2, 4, 8, 16, 32, 60] { await pass(.seconds(wait)) }
        upstream.fail(.httpStatus(503, try FetchURL(parsing: "https://cdn.example/"), retryAfter: .seconds(300)))
        try upstream.publish(18)
        await pass(.seconds(60))
        upstream.fail(nil)
        // What it asks for, and the back-off behind that.
        await pass(.seconds(360))
        #expect(announcer.sequences.numbers == ["stable": 18])
        await pass(.seconds(1))
        #expect(upstream.looks.count == 11)
        #expect(said.count("refused") == 1)
        #expect(said.count("watching ") == 2)
        await watch.stop()
    }

    @Test func `each channel is looked at by itself`() async throws {
        try upstream.publish(1, "beta")
        upstream.put(Array("<html>".utf8), "page")
        try upstream.publish(1, "other", as: "wrong")
        let watch = try watch(["beta", "none", "page", "wrong"])
        await settled(4)
        #expect(announcer.sequences.numbers == ["beta": 1])
        #expect(said.count("none.json is not there") == 1)
        #expect(said.count("page.json cannot be read") == 1)
        #expect(
            said.count("wrong.json cannot be read, so nobody is told of it: it is the document of the channel other")
                == 1)
        try upstream.publish(2, "beta")
        try upstream.publish(1, "none")
        await pass(.seconds(1), sleepers: 4)
        #expect(announcer.sequences.numbers == ["beta": 2])
        await pass(.seconds(1), sleepers: 4)
        #expect(announcer.sequences.numbers == ["beta": 2, "none": 1])
        await watch.stop()
    }

    @Test func `channels are watched for as long as sockets ask for them, and no look comes sooner for it`()
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
        #expect(upstream.looks(at: "beta").map(\.moment) == [.zero, .seconds(1)])
        // Devices of before ask for nothing, and mean the standard channel.
        #expect(watch.enter(.all))
        await settled(2)
        #expect(announcer.sequences.numbers == ["beta": 5, "stable": 1])
        watch.leave(.only("beta"))
        await pass(.seconds(1))
        #expect(upstream.looks(at: "beta").count == 2)
        await pass(.seconds(1))
        #expect(upstream.looks(at: "beta").count == 2)
        // What it had stands: nothing older is announced later.
        try upstream.publish(4, "beta")
        #expect(watch.enter(.only("beta")))
        await settled(2)
        #expect(announcer.sequences.numbers["beta"] == 5)
        await watch.stop()
    }

    @Test func `who asks for too much is told of to people once`() async throws {
        let watch = try watch(["stable"])
        for _ in 0..<3 { #expect(!watch.enter(.only("beta"))) }
        #expect(said.count("the channel beta, which is not watched") == 1)
        #expect(!watch.enter(.all))
        #expect(!watch.enter(.only("stable")))
        await watch.stop()
        let open = try self.watch()
        for number in 0..<100 { #expect(open.enter(.only("c\(number)"))) }
        #expect(said.count("64 are watched already") == 36)
        await open.stop()
    }

    @Test func `sockets for what is not there keep nobody from a channel that is, and cause no more looks`()
        async throws
    {
        try upstream.publish(7)
        let watch = try watch()
        for number in 0..<64 { #expect(watch.enter(.only("junk\(number)"))) }
        await settled(64)
        #expect(watch.enter(.all))
        await pass(.seconds(1), sleepers: 64)
        #expect(announcer.sequences.numbers == ["stable": 7])
        // One of 64 gave its place away, and waits for its turn; the others are looked at as before.
        #expect(upstream.looks.count == 65)
        await pass(.seconds(1), sleepers: 64)
        try upstream.publish(8)
        await pass(.seconds(1), sleepers: 64)
        #expect(announcer.sequences.numbers == ["stable": 8])
        #expect(upstream.looks.count == 65 + 63 + 2)
        await watch.stop()
    }

    @Test func `a channel that was there keeps its place while its document is away`() async throws {
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
    func `the address of a feed has a slash at its end, written or not`(url: String, document: String) throws {
        let place = try Upstream(FetchURL(parsing: url), channels: [], fetcher: upstream)
        #expect(try place.document(of: "a").description == document)
    }

    @Test(arguments: ["file:///srv/feed", "https://h/?token=x", "https://h/feed#a"])
    func `what can be no feed's address is refused`(url: String) throws {
        let url = try FetchURL(parsing: url)
        #expect(throws: FetchError.self) { try Upstream(url, channels: [], fetcher: upstream) }
    }
}
