public import BundleCore
package import BundleValues

/// The web view of a shell.
///
/// A `ClientShell` calls it on its own thread, one call at a time, and waits for each call. An implementation may block for a
/// moment, but must not wait for the shell. `MainActorBridge` adapts web views that live on the main thread.
public protocol ShellBridge: Sendable {
    /// Sets the client of pages that load from now on. Loaded pages keep theirs.
    func show(_ client: ReadyClient) throws
    /// Reloads the page. The shell's `pageWillLoad` is called before the first byte is shown, as for any load.
    func reload()
    /// Receives the new status before any call that follows from it.
    func update(_ status: ShellStatus)
}

extension ShellBridge {
    /// Ignores the status.
    public func update(_ status: ShellStatus) {}
}

/// The part of a shell's state that pages may read.
public struct ShellStatus: Sendable, Equatable {
    /// The token of the running launch; nil if there is none.
    public let token: LaunchToken?
    /// The running client.
    public let current: ClientName?
    /// The client that could replace the current one.
    public let available: ClientName?
    /// The facts about `available` that pages may read.
    package var facts: ClientFacts?
    /// The client that failed once and is tried once more later; nil if there is none.
    package var waiting: WaitingClient?

    /// Creates a status; by default, of a shell that runs nothing.
    public init(token: LaunchToken? = nil, current: ClientName? = nil, available: ClientName? = nil) {
        self.token = token
        self.current = current
        self.available = available
    }
}

/// A client whose start failed once, before its second trial.
package struct WaitingClient: Sendable, Equatable {
    package let name: ClientName
    private let failure: StartFailure

    package init(_ name: ClientName, _ failure: StartFailure) { (self.name, self.failure) = (name, failure) }

    /// A sentence for people about the failure and the start of the second trial.
    package var message: String { "\(name) \(failure.sequel)." }

    /// The members for pages.
    package var members: JSONObject { ["version": .string(name.shortDescription), "message": .string(message)] }
}

/// A web view that lives on the main thread, as in most toolkits.
@MainActor public protocol MainActorWebView: AnyObject, Sendable {
    /// Sets the client of pages that load from now on. Its serving root exists for as long as the client is kept. An
    /// implementation reports a client that it cannot show with `startupDidFail`.
    func show(_ client: ReadyClient)
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
    public func show(_ client: ReadyClient) { calls.yield { $0.show(client) } }

    /// Forwards the reload to the main thread.
    public func reload() { calls.yield { $0.reload() } }

    /// Forwards the status to the main thread.
    public func update(_ status: ShellStatus) { calls.yield { $0.update(status) } }
}
