/// Opens streams of bytes to servers, inside TLS where the URL asks for it; the frames of a WebSocket are put onto one.
package protocol StreamConnector: Sendable {
    /// Opens a stream and gives its near end, a connected socket of this process that the caller closes.
    ///
    /// What is written there reaches the server in order, and its end is the end of the connection. Throws `TransportError`; ends
    /// soon after its task is cancelled, and leaves nothing open then.
    func connectStream(_ url: SocketURL) async throws -> Int32
}
