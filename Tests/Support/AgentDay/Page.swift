import BundleCore
import BundleValues
import BundleDisk
import ClientShell
import Synchronization

/// The web view: it remembers what it is to show, and that it is to load.
final class Page: ShellBridge {
    private struct State {
        var client: ReadyClient?
        var isToLoad = false
    }

    private let state = Mutex(State())

    func setServerBasePath(_ client: ReadyClient) { state.withLock { $0.client = client } }

    func reload() { state.withLock { $0.isToLoad = true } }

    /// Whether a load was asked for since this was asked last.
    func isToLoad() -> Bool {
        state.withLock { state in
            defer { state.isToLoad = false }
            return state.isToLoad
        }
    }

    /// The index page that is served now.
    func contents() throws -> String {
        let directory = state.withLock { $0.client?.root.directory }
        return String(decoding: try directory?.contents("index.html", maximumBytes: 1 << 16) ?? [], as: UTF8.self)
    }
}

/// What the agent tells, until somebody reads it.
final class Inbox: Sendable {
    private let state = Mutex((events: [ShellEvent](), installed: [ClientVersion](), warnings: [String]()))

    func add(_ event: ShellEvent) { state.withLock { $0.events.append(event) } }

    func add(installed version: ClientVersion) { state.withLock { $0.installed.append(version) } }

    func warn(_ line: String) { state.withLock { $0.warnings.append(line) } }

    /// Everything since the last time.
    func take() -> (events: [ShellEvent], installed: [ClientVersion], warnings: [String]) {
        state.withLock { state in
            defer { state = ([], [], []) }
            return state
        }
    }
}
