public import BundleCore

/// A web view that lives on the main thread, as those of most toolkits do.
@MainActor public protocol MainActorWebView: AnyObject, Sendable {
    /// Pages that are loaded from now on come from this client's serving root, which stays for as long as the client is kept. What
    /// cannot be shown is told to the shell by `startupDidFail`.
    func setServerBasePath(_ client: ReadyClient)
    /// Loads the page again, after the shell's `pageWillLoad`.
    func reload()
    /// What runs or could run has changed.
    func update(_ status: ShellStatus)
}

/// Brings what a shell does for its client to a web view on the main thread, in the same order; the shell waits for none of it.
///
/// Calls of a view that is gone are dropped.
public final class MainActorBridge: ShellBridge {
    private typealias Call = @MainActor @Sendable (any MainActorWebView) -> Void

    private let calls: AsyncStream<Call>.Continuation

    /// For a view, which is not kept.
    public init(_ view: any MainActorWebView) {
        let (stream, calls) = AsyncStream<Call>.makeStream()
        self.calls = calls
        Task { @MainActor [weak view] in
            for await call in stream {
                guard let view else { return }
                call(view)
            }
        }
    }

    deinit { calls.finish() }

    /// Hands the client over on the main thread.
    public func setServerBasePath(_ client: ReadyClient) { calls.yield { $0.setServerBasePath(client) } }

    /// Has the page loaded again from the main thread.
    public func reload() { calls.yield { $0.reload() } }

    /// Tells the status on the main thread.
    public func update(_ status: ShellStatus) { calls.yield { $0.update(status) } }
}
