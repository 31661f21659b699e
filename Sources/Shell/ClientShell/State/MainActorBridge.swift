public import BundleCore

/// A web view that lives on the main thread, as in most toolkits.
@MainActor public protocol MainActorWebView: AnyObject, Sendable {
    /// Sets the serving root of pages that load from now on. The root exists for as long as the client is kept. An
    /// implementation reports a client that it cannot show with `startupDidFail`.
    func setServerBasePath(_ client: ReadyClient)
    /// Reloads the page, after the shell's `pageWillLoad`.
    func reload()
    /// Receives the new status.
    func update(_ status: ShellStatus)
}

/// Forwards the calls of a shell to a web view on the main thread in order. The shell does not wait for them.
///
/// Calls are dropped once the view is deallocated.
public final class MainActorBridge: ShellBridge {
    private typealias Call = @MainActor @Sendable (any MainActorWebView) -> Void

    private let calls: AsyncStream<Call>.Continuation

    /// Creates a bridge to a view, which it does not retain.
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

    /// Forwards the client to the main thread.
    public func setServerBasePath(_ client: ReadyClient) { calls.yield { $0.setServerBasePath(client) } }

    /// Forwards the reload to the main thread.
    public func reload() { calls.yield { $0.reload() } }

    /// Forwards the status to the main thread.
    public func update(_ status: ShellStatus) { calls.yield { $0.update(status) } }
}
