public import BundleCore

/// The web view's side: what a shell does for the client.
public protocol ShellBridge: Sendable {
    /// Pages that are loaded from now on come from this client's serving root; pages that are shown keep theirs.
    func setServerBasePath(_ client: ReadyClient) async throws
    /// Loads the page again. The shell calls `pageWillLoad` before it shows the first byte, as for any load.
    func reload() async
}
