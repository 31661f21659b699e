import BundleValues
import BundleTransport
import BundleTestTraits
import BundleTesting
import Synchronization
import Testing

import BundleFormats
@testable import ArchiveSource

@Suite(.inTurn) struct ReleaseWatcherTests {
    private func release(_ sequence: Int, _ channel: String = "stable") -> String {
        SyncMessage.release(channel: channel, sequence: sequence).text
    }

    @Test func `checks the feed after an announcement of a new document`() async throws {
        try await Watch().run { watch in
            let host = try await watch.accept()
            host.send(SyncMessage.hello(version: 1).text, release(17))
            await watch.checked()
            #expect(watch.reports == [.link(.connected), .announced(sequence: 17)])
            watch.know(17)
            host.send(release(17), release(18))
            await watch.pass(.seconds(1))
            await watch.checked()
            #expect(watch.reports.last == .announced(sequence: 18))
        }
    }

    @Test func `runs one check at a time, the next for the last announcement`() async throws {
        try await Watch().run { watch in
            watch.know(16)
            watch.keepChecking(true)
            let host = try await watch.accept()
            host.send(release(17))
            await watch.checked()
            for sequence in 18...60 { host.send(release(sequence)) }
            await host.settled()
            #expect(watch.reports == [.link(.connected), .announced(sequence: 17)])
            watch.know(18)
            watch.keepChecking(false)
            await watch.pass(.seconds(1))
            await watch.checked()
            #expect(watch.reports == [.link(.connected), .announced(sequence: 17), .announced(sequence: 60)])
        }
    }

    /// Messages that must not start a check.
    static let idle = [
        SyncMessage.hello(version: 1).text, SyncMessage.hello(version: 99).text,
        SyncMessage.release(channel: "beta", sequence: 17).text, SyncMessage.unknown(type: "weather").text,
        #"{"type":"release","channel":"stable"}"#, #"{"type":"release","channel":"stable","sequence":0}"#,
        #"{"type":"release","channel":"stable","sequence":"17"}"#,
        #"{"type":"release","channel":"../stable","sequence":17}"#, "", "{", "17", "\u{0}",
        #"{"type":"release","channel":"stable","sequence":17,"x":""# + String(repeating: "x", count: 4096) + #""}"#,
    ]

    @Test(arguments: idle)
    func `ignores invalid messages and other channels`(text: String) async throws {
        try await Watch().run { watch in
            watch.know(16)
            watch.delayAnswer(true)
            let host = try await watch.accept()
            host.send(release(20))
            await watch.asked()
            // The last announcement counts when `known` returns.
            host.send(text, text)
            host.send(.binary(Array(release(17).utf8)))
            host.send(.pong)
            await host.settled()
            watch.delayAnswer(false)
            await watch.checked()
            #expect(watch.reports.filter { $0 != .link(.connected) && !$0.isNote } == [.announced(sequence: 20)])
            #expect(watch.reports.count { $0.isNote } <= 1)
        }
    }

    @Test func `reconnects after a message that is too large`() async throws {
        try await Watch().run { watch in
            let host = try await watch.accept()
            host.send(String(repeating: "x", count: 64 << 10 + 1))
            await watch.pass(.seconds(1))
            let other = try await watch.accept()
            other.send(release(1))
            await watch.checked()
            #expect(
                watch.reports == [
                    .link(.connected), .link(.lost("a message has more than 65536 bytes")), .link(.connected),
                    .announced(sequence: 1),
                ])
        }
    }

    @Test func `reconnects, reports a loss once and receives missed announcements`() async throws {
        try await Watch(refusals: 3).run { watch in
            watch.know(16)
            for seconds in [1, 2, 4] { await watch.pass(.seconds(seconds)) }
            let host = try await watch.accept()
            host.send(release(16), release(17))
            await watch.checked()
            #expect(
                watch.reports == [
                    .link(.lost("no connection: refused")), .link(.connected), .announced(sequence: 17),
                ])
        }
    }

    @Test func `repeats a check once if a cache returned an older document`() async throws {
        try await Watch().run { watch in
            watch.know(16)
            let host = try await watch.accept()
            host.send(release(17))
            await watch.checked()
            await watch.pass(.seconds(60))
            await watch.checked()
            #expect(watch.reports == [.link(.connected), .announced(sequence: 17), .announced(sequence: 17)])
            // An announcement during the pause is handled at once.
            watch.know(17)
            host.send(release(18))
            await watch.pass(.seconds(2))
            await watch.checked()
            #expect(watch.reports.last == .announced(sequence: 18))
        }
    }

    @Test func `ends a running check when it is cancelled`() async throws {
        try await Watch().run { watch in
            watch.keepChecking(true)
            let host = try await watch.accept()
            host.send(release(1))
            await watch.checked()
        }
    }
}

extension ReleaseWatcher.WatcherReport {
    fileprivate var isNote: Bool {
        if case .link(.note) = self { true } else { false }
    }
}

/// A watch of `stable` with a host that the test controls.
private final class Watch: TransportConnector {
    let clock = ManualClock()
    private let refusals: Mutex<Int>
    private let known = Mutex<Int?>(nil)
    private let answering = Gate()
    private let questions: AsyncStream<Void>
    private let asking: AsyncStream<Void>.Continuation
    private let received = Mutex<[ReleaseWatcher.WatcherReport]>([])
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

    var reports: [ReleaseWatcher.WatcherReport] { received.withLock { $0 } }

    func know(_ sequence: Int?) { known.withLock { $0 = sequence } }

    /// Delays the end of a check until the next call with false, or its cancellation.
    func keepChecking(_ keeps: Bool) { working.close(keeps) }

    private func check() async {
        checking.yield()
        await working.pass()
    }

    /// Delays the result of `known` until the next call with false.
    func delayAnswer(_ delays: Bool) { answering.close(delays) }

    /// Waits for a call of `known`.
    func asked() async {
        for await _ in questions { return }
    }

    private func answer() async -> Int? {
        asking.yield()
        await answering.pass()
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

    /// Returns the host's side of the next connection.
    func accept() async throws -> PlayedHost {
        for await host in hosts { return host }
        throw CancellationError()
    }

    /// Waits for the start of a check.
    func checked() async {
        for await _ in checks { return }
    }

    /// Waits for a sleeper, then advances the clock by `wait`.
    func pass(_ wait: Duration) async {
        await clock.sleeper(until: clock.now.sinceStart + wait)
        clock.advance(by: wait)
    }

    /// Runs the watch while `test` controls the host, then cancels it and waits for its end.
    func run(_ test: @escaping @Sendable (Watch) async throws -> Void) async throws {
        let watcher = ReleaseWatcher(
            SyncClient.Configuration(url: try SocketURL(parsing: "ws://h/push")), channel: "stable", connector: self,
            environment: Environment(clock: clock, random: { _ in 1 }))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [self] in
                await watcher.run(
                    known: { [self] in await answer() }, check: { [self] _ in await check() },
                    report: { [self] report in received.withLock { $0.append(report) } })
            }
            defer { group.cancelAll() }
            try await test(self)
        }
    }
}

/// A gate for one task, which waits while it is closed or until it is cancelled.
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

/// Both ends of a connection. The device's end is a transport.
private final class PlayedHost: SyncTransport {
    private let sentCount = Mutex(0)
    private let asked = Mutex(0)
    private let questions: AsyncStream<Void>
    private let asking: AsyncStream<Void>.Continuation
    private let messages: AsyncStream<TransportMessage>
    private let sent: AsyncStream<TransportMessage>.Continuation

    init() {
        (messages, sent) = AsyncStream.makeStream()
        (questions, asking) = AsyncStream.makeStream()
    }

    func send(_ texts: String...) { for text in texts { send(.text(text)) } }

    func send(_ message: TransportMessage) {
        sentCount.withLock { $0 += 1 }
        sent.yield(message)
    }

    /// Waits until the device has processed every message and receives again.
    func settled() async {
        for await _ in questions where asked.withLock({ $0 }) > sentCount.withLock({ $0 }) { return }
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
