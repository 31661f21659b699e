import BundlePush
import BundleTestTraits
import BundleTesting
import Synchronization
import Testing

@testable import ArchiveSource

@Suite(.inTurn) struct `A watch of a channel` {
    private func release(_ sequence: Int, _ channel: String = "stable") -> String {
        SyncMessage.release(channel: channel, sequence: sequence).text
    }

    @Test func `has the feed looked at when there is another document`() async throws {
        try await Watch().run { watch in
            let host = try await watch.accept()
            host.say(SyncMessage.hello(version: 1).text, release(17))
            await watch.checked()
            #expect(watch.reports == [.link(.connected), .heard(sequence: 17)])
            watch.know(17)
            host.say(release(17), release(18))
            await watch.pass(.seconds(1))
            await watch.checked()
            #expect(watch.reports.last == .heard(sequence: 18))
        }
    }

    @Test func `has one check made at a time, and the next for what was announced last`() async throws {
        try await Watch().run { watch in
            watch.know(16)
            watch.keepChecking(true)
            let host = try await watch.accept()
            host.say(release(17))
            await watch.checked()
            for sequence in 18...60 { host.say(release(sequence)) }
            await host.settled()
            #expect(watch.reports == [.link(.connected), .heard(sequence: 17)])
            watch.know(18)
            watch.keepChecking(false)
            await watch.pass(.seconds(1))
            await watch.checked()
            #expect(watch.reports == [.link(.connected), .heard(sequence: 17), .heard(sequence: 60)])
        }
    }

    /// What is no reason to look.
    static let idle = [
        SyncMessage.hello(version: 1).text, SyncMessage.hello(version: 99).text,
        SyncMessage.release(channel: "beta", sequence: 17).text, SyncMessage.unknown(type: "weather").text,
        #"{"type":"release","channel":"stable"}"#, #"{"type":"release","channel":"stable","sequence":0}"#,
        #"{"type":"release","channel":"stable","sequence":"17"}"#,
        #"{"type":"release","channel":"../stable","sequence":17}"#, "", "{", "17", "\u{0}",
        #"{"type":"release","channel":"stable","sequence":17,"x":""# + String(repeating: "x", count: 4096) + #""}"#,
    ]

    @Test(arguments: idle)
    func `ignores what does not concern it`(text: String) async throws {
        try await Watch().run { watch in
            watch.know(16)
            watch.think(true)
            let host = try await watch.accept()
            host.say(release(20))
            await watch.asked()
            // What is heard last is what counts when the device has made up its mind.
            host.say(text, text)
            host.say(.binary(Array(release(17).utf8)))
            host.say(.pong)
            await host.settled()
            watch.think(false)
            await watch.checked()
            #expect(watch.reports.filter { $0 != .link(.connected) && !$0.isNote } == [.heard(sequence: 20)])
            #expect(watch.reports.count { $0.isNote } <= 1)
        }
    }

    @Test func `a message that is far too large ends the connection, and another one is opened`() async throws {
        try await Watch().run { watch in
            let host = try await watch.accept()
            host.say(String(repeating: "x", count: 64 << 10 + 1))
            await watch.pass(.seconds(1))
            let other = try await watch.accept()
            other.say(release(1))
            await watch.checked()
            #expect(
                watch.reports == [
                    .link(.connected), .link(.lost("a message has more than 65536 bytes")), .link(.connected),
                    .heard(sequence: 1),
                ])
        }
    }

    @Test func `comes back, tells of a loss once, and hears what it missed`() async throws {
        try await Watch(refusals: 3).run { watch in
            watch.know(16)
            for seconds in [1, 2, 4] { await watch.pass(.seconds(seconds)) }
            let host = try await watch.accept()
            host.say(release(16), release(17))
            await watch.checked()
            #expect(
                watch.reports == [
                    .link(.lost("no connection: refused")), .link(.connected), .heard(sequence: 17),
                ])
        }
    }

    @Test func `has the feed looked at once more where a cache on the way was older, and no more then`() async throws {
        try await Watch().run { watch in
            watch.know(16)
            let host = try await watch.accept()
            host.say(release(17))
            await watch.checked()
            await watch.pass(.seconds(60))
            await watch.checked()
            #expect(watch.reports == [.link(.connected), .heard(sequence: 17), .heard(sequence: 17)])
            // What comes between is heard at once, and not when its turn is.
            watch.know(17)
            host.say(release(18))
            await watch.pass(.seconds(2))
            await watch.checked()
            #expect(watch.reports.last == .heard(sequence: 18))
        }
    }

    @Test func `cancelling ends a check that is under way`() async throws {
        try await Watch().run { watch in
            watch.keepChecking(true)
            let host = try await watch.accept()
            host.say(release(1))
            await watch.checked()
        }
    }
}

extension ReleaseWatcher.Report {
    fileprivate var isNote: Bool {
        if case .link(.note) = self { true } else { false }
    }
}

/// A watch of `stable`, whose host the test plays.
private final class Watch: TransportConnector {
    let clock = ManualClock()
    private let refusals: Mutex<Int>
    private let known = Mutex<Int?>(nil)
    private let thinking = Gate()
    private let questions: AsyncStream<Void>
    private let asking: AsyncStream<Void>.Continuation
    private let told = Mutex<[ReleaseWatcher.Report]>([])
    private let hosts: AsyncStream<PlayedHost>
    private let opened: AsyncStream<PlayedHost>.Continuation
    private let working = Gate()
    private let checks: AsyncStream<Void>
    private let checking: AsyncStream<Void>.Continuation

    init(refusals: Int = 0) {
        self.refusals = Mutex(refusals)
        (hosts, opened) = AsyncStream.makeStream()
        (checks, checking) = AsyncStream.makeStream()
        (questions, asking) = AsyncStream.makeStream()
    }

    var reports: [ReleaseWatcher.Report] { told.withLock { $0 } }

    func know(_ sequence: Int?) { known.withLock { $0 = sequence } }

    /// A check that has begun does not end before this is false again, or it is cancelled.
    func keepChecking(_ keeps: Bool) { working.close(keeps) }

    private func check() async {
        checking.yield()
        await working.pass()
    }

    /// What it knows is not told before it has stopped thinking.
    func think(_ thinks: Bool) { thinking.close(thinks) }

    /// Returns when it was asked what it knows.
    func asked() async {
        for await _ in questions { return }
    }

    private func answer() async -> Int? {
        asking.yield()
        await thinking.pass()
        return known.withLock { $0 }
    }

    func connect(_ url: SocketURL) async throws -> any SyncTransport {
        let isRefused = refusals.withLock { left in
            left -= 1
            return left >= 0
        }
        if isRefused { throw TransportError.unreachable("refused") }
        let host = PlayedHost()
        opened.yield(host)
        return host
    }

    /// The next connection, from the host's side.
    func accept() async throws -> PlayedHost {
        for await host in hosts { return host }
        throw CancellationError()
    }

    /// Returns when another check has begun.
    func checked() async {
        for await _ in checks { return }
    }

    /// Moves the time to when somebody waits for it.
    func pass(_ wait: Duration) async {
        await clock.sleeper(until: clock.now.sinceStart + wait)
        clock.advance(by: wait)
    }

    /// Watches while `test` plays the host, then cancels and waits for the end.
    func run(_ test: @escaping @Sendable (Watch) async throws -> Void) async throws {
        let watcher = ReleaseWatcher(
            SyncClient.Configuration(url: try SocketURL(parsing: "ws://h/push")), channel: "stable", connector: self,
            clock: clock, random: { _ in 1 }, known: { [self] in await answer() },
            check: { [self] _ in await check() }, report: { [self] report in told.withLock { $0.append(report) } }
        )
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await watcher.run() }
            defer { group.cancelAll() }
            try await test(self)
        }
    }
}

/// Lets nobody pass while it is closed, but who is cancelled; one may wait at it.
private final class Gate: Sendable {
    private typealias Closed = (stream: AsyncStream<Never>, continuation: AsyncStream<Never>.Continuation)
    private let closed = Mutex<Closed?>(nil)

    func close(_ closes: Bool) {
        let before = closed.withLock { closed in
            defer { closed = closes ? AsyncStream<Never>.makeStream() : nil }
            return closed
        }
        before?.continuation.finish()
    }

    func pass() async {
        guard let passing = closed.withLock({ $0?.stream }) else { return }
        for await _ in passing {}
    }
}

/// Both ends of one connection; the device's is a transport.
private final class PlayedHost: SyncTransport {
    private let said = Mutex(0)
    private let asked = Mutex(0)
    private let questions: AsyncStream<Void>
    private let asking: AsyncStream<Void>.Continuation
    private let messages: AsyncStream<TransportMessage>
    private let sent: AsyncStream<TransportMessage>.Continuation

    init() {
        (messages, sent) = AsyncStream.makeStream()
        (questions, asking) = AsyncStream.makeStream()
    }

    func say(_ texts: String...) { for text in texts { say(.text(text)) } }

    func say(_ message: TransportMessage) {
        said.withLock { $0 += 1 }
        sent.yield(message)
    }

    /// Returns when everything that was said has been worked on: the device asks for more.
    func settled() async {
        for await _ in questions where asked.withLock({ $0 }) > said.withLock({ $0 }) { return }
    }

    func sendBinary(_ bytes: [UInt8]) async throws {}

    func sendText(_ text: String) async throws {}

    func sendPing() async throws { sent.yield(.pong) }

    func receive() async throws -> TransportMessage? {
        asked.withLock { $0 += 1 }
        asking.yield()
        for await message in messages { return message }
        return nil
    }

    func close() async { sent.finish() }
}
