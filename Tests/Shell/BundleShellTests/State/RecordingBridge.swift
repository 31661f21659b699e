import BundleCore
import BundleValues
import BundleDisk
import BundleShell
import Synchronization

/// A bridge without a web view that records its calls in order.
final class RecordingBridge: ShellBridge {
    struct Refusal: Error {}

    private struct State {
        var calls: [String] = []
        var pages: [String] = []
        var refuses = false
    }

    private let state = Mutex(State())

    /// The calls, such as `base v1.0.0` and `reload`.
    var calls: [String] { state.withLock { $0.calls } }

    /// The index page of each base path.
    var pages: [String] { state.withLock { $0.pages } }

    /// Refuses base paths from now on.
    func refuse(_ refuses: Bool = true) { state.withLock { $0.refuses = refuses } }

    func show(_ client: ReadyClient) throws {
        let bytes = try client.root.directory.contents("index.html", maximumBytes: 1 << 20) ?? []
        try state.withLock { state in
            if state.refuses { throw Refusal() }
            state.calls.append("base \(client.name)")
            state.pages.append(String(decoding: bytes, as: UTF8.self))
        }
    }

    func reload() { state.withLock { $0.calls.append("reload") } }
}

/// A web view on the main thread that records its calls, for a shell behind a `MainActorBridge`.
@MainActor final class RecordingView: MainActorWebView {
    private(set) var calls: [String] = []

    func show(_ client: ReadyClient) { record("base \(client.name)") }
    func reload() { record("reload") }
    func update(_ status: ShellStatus) { record("now \(status.current.map { "\($0)" } ?? "nothing")") }

    private func record(_ call: String) {
        MainActor.assertIsolated()
        calls.append(call)
    }
}
