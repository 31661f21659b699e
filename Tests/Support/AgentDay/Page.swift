import BundleCore
import BundleValues
import BundleDisk
import BundleShell
import Synchronization

/// The web view: it stores the client to show and the request to load.
final class Page: ShellBridge {
    private struct State {
        var client: ReadyClient?
        var isToLoad = false
    }

    private let state = Mutex(State())

    func show(_ client: ReadyClient) { state.withLock { $0.client = client } }

    func reload() { state.withLock { $0.isToLoad = true } }

    /// Returns whether a load was requested since the last call.
    func isToLoad() -> Bool {
        state.withLock { state in
            defer { state.isToLoad = false }
            return state.isToLoad
        }
    }

    /// Returns the index page that is served now.
    func contents() throws -> String {
        let directory = state.withLock { $0.client?.root.directory }
        return String(decoding: try directory?.contents("index.html", maximumBytes: 1 << 16) ?? [], as: UTF8.self)
    }
}

/// Collects the events of the agent.
final class Inbox: Sendable {
    private let state = Mutex((events: [ShellEvent](), installed: [ClientVersion](), warnings: [String]()))

    func add(_ event: ShellEvent) { state.withLock { $0.events.append(event) } }

    func add(installed version: ClientVersion) { state.withLock { $0.installed.append(version) } }

    func warn(_ line: String) { state.withLock { $0.warnings.append(line) } }

    /// Returns the events since the last call.
    func take() -> (events: [ShellEvent], installed: [ClientVersion], warnings: [String]) {
        state.withLock { state in
            defer { state = ([], [], []) }
            return state
        }
    }
}
