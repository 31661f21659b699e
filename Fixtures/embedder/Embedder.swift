import ClientBundles
import Synchronization

/// A program of another package with its own WebSocket, screen, health check, sessions and downloads. It reads its settings from a file and
/// declines a version. `Scripts/checks/library` builds it against the product ClientBundles, without SwiftNIO.
@main
struct Embedder {
    static func main() async throws {
        guard CommandLine.arguments.count == 2 else {
            print("usage: Embedder SETTINGS.json")
            return
        }
        let environment = Environment(log: { print("shell: \($0)") })
        let file = ConfigFile(
            CommandLine.arguments[1], userAgent: "Embedder/1.0", ignoring: ["volume"], environment: environment)
        var device = try await file.load()
        device.configuration.startupTimeout = try StartupTimeout(.seconds(45))
        device.configuration.healthCheck = { client in
            { client.root.path.isEmpty ? .failed("there is no page") : .passed }
        }
        device.network.proxy = ""
        device.network.stallTimeout = .seconds(10)
        device.network.clientCertificate = ClientCertificate(path: "/etc/embedder/device.p12", keyPath: nil)
        let sessions = MemorySessions()
        device.sessions = sessions
        // The fetcher of the container has the options and the sessions of this moment.
        let url = try FetchURL(parsing: "https://updates.example.com/channels/stable.json")
        let fetcher = CountingFetcher(inner: try device.fetcher(for: url))
        device.feed = DeviceContainer.Feed(.channel(url), trust: "release.pub.pem", fetcher: fetcher)
        device.shouldDownload = { version in version.semantic.map { $0.description != "1.0.1" } ?? true }
        device.fetchPolicy.rate = 256_000
        device.fetchPolicy.hours = [try ActivationWindows(parsing: "22:00-05:00")]
        device.fetchPolicy.meteredBudget = 2_000_000
        device.fetchPolicy.deltas = .only
        device.fetchPolicy.mirrors = [try FetchURL(parsing: "http://cache.local:8080/")]
        device.isMetered = { true }

        let screen = Screen()
        let shell = try device.shell(bridge: screen)
        let listening = try device.listening(sockets: DelegateConnector(OwnSocket()))
        let boot = AppBootstrapper(
            restoreSession: RestoreSession(sessions, environment: environment),
            prepareLaunch: Preparation(shell: shell), router: screen)
        await boot.start()
        await withTaskGroup { group in
            group.addTask { await shell.run() }
            group.addTask { await listening.run(shell) }
            group.addTask { await Self.observe(shell) }
        }
        try await sessions.change { $0.signOut(at: .now) }
        await shell.sessionDidEnd()
    }

    private static func observe(_ shell: ClientShell) async {
        for await event in shell.events {
            switch event {
            case .downloading(let bytes, let size): print("\(bytes) of \(size.map { "\($0)" } ?? "?") bytes")
            case .failed(let failure) where failure.code == .networkUnavailable: print("offline")
            case .rolledBack(let left, to: let target, let failure):
                print("\(left) was replaced by \(target): \(failure.message)")
                if let notes = try? await shell.deviceStatus().ready?.facts?.notes { print(notes) }
            default: break
            }
        }
    }
}

/// Counts the downloads that continue, and passes each request on.
private struct CountingFetcher: Fetcher {
    let inner: any Fetcher
    private let resumed = Counter()

    init(inner: any Fetcher) { self.inner = inner }

    func fetch<Sink: FetchSink & ~Copyable>(_ request: FetchRequest, into sink: inout Sink) async throws -> FetchHead {
        if let resume = request.resume { resumed.add("from byte \(resume.offset), \(resume.validator ?? "any tag")") }
        return try await inner.fetch(request, into: &sink)
    }
}

private final class Counter: Sendable {
    private let lines = Mutex<[String]>([])

    func add(_ line: String) { lines.withLock { $0.append(line) } }
}

/// A session repository that forgets the session at the end of the program.
private actor MemorySessions: SessionRepository {
    private var current = SessionRecord.open

    func record() -> SessionRecord { current }

    @discardableResult
    func change(_ body: @Sendable (inout SessionRecord) -> Void) -> SessionRecord {
        body(&current)
        return current
    }
}

/// Starts the shell, whether or not a user is signed in.
private struct Preparation: PrepareLaunchUseCase {
    let shell: ClientShell

    func execute(for session: SessionStatus) async -> LaunchState {
        do {
            try await shell.start()
            return LaunchState(session)
        } catch {
            return LaunchState(session, without: UpdateFailure(error), hasSeed: false, isWaiting: false)
        }
    }
}

/// A screen that prints what it shows.
private final class Screen: ShellBridge, LaunchRouting {
    func show(_ client: ReadyClient) { print("showing \(client.name) from \(client.root.path)") }

    func reload() { print("loading again") }

    func route(to state: LaunchState) async { print("state: \(state)") }
}

/// A WebSocket that never opens, of a program whose system owns the sockets.
private final class OwnSocket: WebSocketDelegate {
    private let current = Mutex<SyncBridge?>(nil)

    func openWebSocket(_ url: SocketURL, reportingTo bridge: SyncBridge) {
        current.withLock { $0 = bridge }
        bridge.onError("\(url.host):\(url.port) is not opened in this example")
    }

    func sendBinary(_ bytes: [UInt8]) async throws { throw TransportError.isClosed }

    func sendText(_ text: String) async throws { throw TransportError.isClosed }

    func sendPing() async throws { throw TransportError.isClosed }

    func closeWebSocket() { current.withLock { $0 = nil } }
}
