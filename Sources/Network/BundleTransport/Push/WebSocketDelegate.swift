/// The owner of a WebSocket outside of this package, such as `URLSessionWebSocketTask` in an Apple shell.
///
/// It has one socket at a time and reports its events to the bridge. Methods that do not wait can be written without
/// `async`. A method must not call its caller and wait for it.
public protocol WebSocketDelegate: Sendable {
    /// Starts to open a socket. Its events go to `bridge` and to no earlier bridge.
    func openWebSocket(_ url: SocketURL, reportingTo bridge: SyncBridge) async

    /// Sends a binary message. Returns when the operating system has accepted it, so that a slow peer slows the sender
    /// down.
    func sendBinary(_ bytes: [UInt8]) async throws

    /// Sends a text message in the same way.
    func sendText(_ text: String) async throws

    /// Sends a ping. The answer is reported to the bridge.
    func sendPing() async throws

    /// Closes the socket, even while it is opening.
    func closeWebSocket() async
}
