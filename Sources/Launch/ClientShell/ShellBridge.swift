public import BundleCore

/// The web view's side: what a shell does for the client.
///
/// A `ClientShell` calls it on its own thread, one call at a time, and does nothing else until a call returns. So what is called
/// may block for a moment, but must not wait for the shell; a web view that lives on another thread is sent there.
public protocol ShellBridge: Sendable {
    /// Pages that are loaded from now on come from this client's serving root; pages that are shown keep theirs.
    func setServerBasePath(_ client: ReadyClient) throws
    /// Loads the page again. The shell's `pageWillLoad` is called before the first byte is shown, as for any load.
    func reload()
    /// What runs or could run has changed; called before anything that follows from it.
    func update(_ status: ShellStatus)
}

extension ShellBridge {
    /// For those that ask the shell instead.
    public func update(_ status: ShellStatus) {}
}

/// What of a shell its pages may know.
public struct ShellStatus: Sendable, Equatable {
    /// The token of the launch that runs; nil where none does.
    public let token: LaunchToken?
    /// The client that runs.
    public let current: ClientName?
    /// The client that could be shown in its place.
    public let available: ClientName?

    /// States what runs; nothing by default.
    public init(token: LaunchToken? = nil, current: ClientName? = nil, available: ClientName? = nil) {
        self.token = token
        self.current = current
        self.available = available
    }
}
