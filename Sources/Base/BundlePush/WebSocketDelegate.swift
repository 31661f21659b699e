/// Whoever owns a WebSocket that this package does not: an Apple shell its `URLSessionWebSocketTask`, a web page its own.
///
/// It has one socket at a time. It is told what to do with it, and tells the bridge what happens to it. Methods that wait for
/// nothing may be written without `async`. None may call back into the one who calls and wait for it.
package protocol WebSocketDelegate: Sendable {
    /// Begins to open a socket; what becomes of it is told to `bridge`, and to no earlier one.
    func openWebSocket(_ url: SocketURL, reportingTo bridge: SyncBridge) async

    /// Sends a binary message; returns when the system has taken it, so that a slow other side slows the sender.
    func sendBinary(_ bytes: [UInt8]) async throws

    /// Sends a text message likewise.
    func sendText(_ text: String) async throws

    /// Sends a ping; the answer is told to the bridge.
    func sendPing() async throws

    /// Closes the socket, also while it is being opened.
    func closeWebSocket() async
}
