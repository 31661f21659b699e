/// One open socket for text messages.
public protocol MessageTransport: Sendable {
    /// Sends one text message; throws when the socket is closed.
    func send(_ text: String) async throws

    /// The next text message, in order; nil when the other side closed. One call at a time.
    ///
    /// Returns or throws soon after `close`, and after its task is cancelled. Messages larger than a few MiB should be refused
    /// by throwing, before they are in memory.
    func receive() async throws -> String?

    /// Closes the socket; more than one call is one. Returns soon, whatever the other side does.
    func close() async
}

/// Opens sockets.
public protocol TransportConnector: Sendable {
    /// Opens one; follows no redirect. Ends soon after its task is cancelled.
    func connect(to url: DDPURL) async throws -> any MessageTransport
}
