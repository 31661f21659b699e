import BundleCore
import BundleFetch
import BundleTransport
import BundleValues
import ClientShell
import Synchronization

/// A program of another package with its own WebSocket, screen and health check. It configures its downloads and declines a version.
/// `Scripts/checks/library` builds it against the product ClientBundles.
@main
struct Embedder {
    static func main() async throws {
        guard CommandLine.arguments.count == 5 else {
            print("usage: Embedder STORE SHELL-VERSION CHANNEL-URL TRUST")
            return
        }
        let arguments = CommandLine.arguments
        let store = arguments[1]
        let feed = try FetchURL(parsing: arguments[3])
        let sessions = MemorySessions()
        var options = FetchOptions(userAgent: "Embedder/1.0")
        options.proxy = ""
        options.stallTimeout = .seconds(10)
        options.clientCertificate = ClientCertificate(path: "/etc/embedder/device.p12", keyPath: nil)

        let device = Launcher.LaunchDevice(
            store: store, shell: try SemanticVersion(parsing: arguments[2]), seed: nil, verifies: false)
        var configuration = ShellConfiguration(device: device)
        configuration.healthCheck = { client in { client.root.path.isEmpty ? .failed("there is no page") : .passed } }
        let environment = Environment(log: { print("shell: \($0)") })
        var container = DeviceContainer(configuration, environment: environment)
        container.feed = DeviceContainer.Feed(
            .channel(feed), trust: arguments[4], appId: nil,
            fetcher: try DeviceContainer.fetcher(options, for: feed, sessions: sessions, environment: environment))
        container.shouldDownload = { version in version.semantic.map { $0.description != "1.0.1" } ?? true }

        container.fetchPolicy.rate = 256_000
        container.fetchPolicy.hours = [try ActivationWindows(parsing: "22:00-05:00")]
        container.fetchPolicy.meteredBudget = 2_000_000
        container.fetchPolicy.deltas = .only
        container.fetchPolicy.mirrors = [try FetchURL(parsing: "http://cache.local:8080/")]
        container.isMetered = { true }

        let screen = Screen()
        let shell = try container.shell(bridge: screen)
        let listening = try container.listening(
            push: "wss://updates.example.com/push", options: options,
            sockets: DelegateConnector(OwnSocket()), environment: environment)
        let restore = RestoreSession(sessions, environment: environment)
        let boot = AppBootstrapper(restoreSession: restore, prepareLaunch: Preparation(shell: shell), router: screen)
        await boot.start()
        await withTaskGroup { group in
            group.addTask { await shell.run() }
            group.addTask { await listening.run(shell) }
        }
        try await sessions.change { $0.signOut(at: .now) }
        await shell.sessionDidEnd()
    }
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
    func setServerBasePath(_ client: ReadyClient) { print("showing \(client.name) from \(client.root.path)") }

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
