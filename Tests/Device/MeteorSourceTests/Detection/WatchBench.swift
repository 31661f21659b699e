import BundleValues
import BundleTransport
import BundleTesting
import Synchronization
import Testing

@testable import MeteorSource

/// A server that a test controls.
protocol PlayedServer: TransportConnector {
    associatedtype Peer: PlayedSocket
    /// Returns the next socket of a client.
    func accept() async throws -> Peer
}

/// The server's end of a socket.
protocol PlayedSocket: Sendable {
    /// Sends text messages.
    func send(_ texts: String...)
    /// Returns the next text message of the client, or nil when it disconnected.
    func nextText() async -> String?
}

extension ScriptedServer: PlayedServer {}
extension ScriptedSocket: PlayedSocket {}

/// A watch with a server that the test controls. Random waits have their minimum.
final class WatchBench<Server: PlayedServer>: Sendable {
    let clock = ManualClock()
    let server: Server
    private let watcher: VersionWatcher
    private let onCheck: @Sendable (MeteorVersion) async -> Void
    private let (checked, checks) = AsyncStream<String>.makeStream()
    private let state: WatchBenchState

    /// `check` runs for each update check after it is recorded.
    init(
        of server: Server, running: String? = "one",
        check: @escaping @Sendable (MeteorVersion) async -> Void = { _ in }
    ) throws {
        watcher = VersionWatcher(
            VersionWatcher.Configuration(url: try DDPURL(parsing: "wss://h/"), appId: "app"), connector: server,
            environment: Environment(clock: clock, random: { $0.lowerBound }))
        state = WatchBenchState(running: running)
        (self.server, onCheck) = (server, check)
    }

    /// The reports about the connection, without log sentences.
    var reports: [LinkReport] { state.reports.withLock { $0.filter { $0.sentence == nil } } }

    /// The log sentences.
    var sentences: [String] { state.reports.withLock { $0.compactMap(\.sentence) } }

    /// Returns when a log sentence contains `words`.
    func waitForLog(containing words: String) async throws {
        while !sentences.contains(where: { $0.contains(words) }) { try await Task.sleep(for: .milliseconds(1)) }
    }

    /// Sets the running version.
    func run(version: String?) { state.running.withLock { $0 = version } }

    /// Returns the next version of an update check.
    func check() async -> String? {
        for await version in checked { return version }
        return nil
    }

    /// Controls the server until the client has subscribed.
    func subscribe() async throws -> Server.Peer {
        let socket = try await server.accept()
        #expect(await socket.nextText() == DDPTexts.connect)
        socket.send(#"{"server_id":"0"}"#, DDPTexts.connected)
        #expect(await socket.nextText() == DDPTexts.sub)
        return socket
    }

    /// Returns when the client has read all messages.
    func drain(_ socket: Server.Peer) async {
        socket.send(#"{"msg":"ping","id":"settled"}"#)
        #expect(await socket.nextText() == #"{"msg":"pong","id":"settled"}"#)
    }

    /// Advances the clock when a task sleeps.
    func pass(_ wait: Duration) async {
        let moment = clock.now.sinceStart + wait
        await clock.sleeper(until: moment)
        clock.advance(by: wait)
    }

    /// Watches while `test` controls the server, then cancels. Returns the end of the watch.
    @discardableResult
    func watch(_ test: @escaping @Sendable (WatchBench) async throws -> Void) async throws -> VersionWatcher.WatchEnd {
        try await withThrowingTaskGroup(of: VersionWatcher.WatchEnd.self) { group in
            group.addTask { [self] in
                await watcher.run(
                    running: { [state] in state.runningVersion },
                    onNewVersion: { [checks, onCheck] version in
                        checks.yield(version.description)
                        await onCheck(version)
                    }, report: { [state] report in state.take(report) })
            }
            try await test(self)
            group.cancelAll()
            return try await group.next() ?? .cancelled
        }
    }
}

extension WatchBench where Server == ScriptedServer {
    /// Creates a bench with a server in memory.
    convenience init(
        _ answers: [ScriptedServer.Answer] = [], running: String? = "one",
        check: @escaping @Sendable (MeteorVersion) async -> Void = { _ in }
    ) throws {
        try self.init(of: ScriptedServer(answers), running: running, check: check)
    }
}

/// The running version and the records of a watch.
private final class WatchBenchState: Sendable {
    let reports = Mutex<[LinkReport]>([])
    let running: Mutex<String?>

    init(running: String?) {
        self.running = Mutex(running)
    }

    var runningVersion: MeteorVersion? { running.withLock { $0 }.flatMap { try? MeteorVersion(parsing: $0) } }

    func take(_ report: LinkReport) { reports.withLock { $0.append(report) } }
}

extension LinkReport {
    fileprivate var sentence: String? {
        if case .note(let sentence) = self { sentence } else { nil }
    }
}
