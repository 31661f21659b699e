/// Opens transports.
package protocol TransportConnector: Sendable {
    /// Opens one and returns when messages can be exchanged; follows no redirect. Throws `TransportError`.
    ///
    /// Ends soon after its task is cancelled, and leaves no connection behind then.
    func connect(_ url: SocketURL) async throws -> any SyncTransport
}
