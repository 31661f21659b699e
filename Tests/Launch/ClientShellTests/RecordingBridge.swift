import BundleCore
import BundleValues
import BundleDisk
import ClientShell
import Synchronization

/// A web view's side that shows nothing and remembers what it was told, in order.
final class RecordingBridge: ShellBridge {
    struct Refusal: Error {}

    private struct State {
        var calls: [String] = []
        var pages: [String] = []
        var refuses = false
    }

    private let state = Mutex(State())

    /// `base v1.0.0` and `reload`.
    var calls: [String] { state.withLock { $0.calls } }

    /// The index page of each base path.
    var pages: [String] { state.withLock { $0.pages } }

    /// From now on no base path is accepted.
    func refuse(_ refuses: Bool = true) { state.withLock { $0.refuses = refuses } }

    func setServerBasePath(_ client: ReadyClient) throws {
        let bytes = try client.root.directory.contents("index.html", maximumBytes: 1 << 20) ?? []
        try state.withLock { state in
            if state.refuses { throw Refusal() }
            state.calls.append("base \(client.name)")
            state.pages.append(String(decoding: bytes, as: UTF8.self))
        }
    }

    func reload() { state.withLock { $0.calls.append("reload") } }
}

/// The same on the main thread, for a shell behind a `MainActorBridge`.
@MainActor final class RecordingView: MainActorWebView {
    private(set) var calls: [String] = []

    func setServerBasePath(_ client: ReadyClient) { record("base \(client.name)") }
    func reload() { record("reload") }
    func update(_ status: ShellStatus) { record("now \(status.current.map { "\($0)" } ?? "nothing")") }

    private func record(_ call: String) {
        MainActor.assertIsolated()
        calls.append(call)
    }
}
