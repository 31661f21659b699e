/// One open connection that carries messages both ways, in order.
///
/// What every implementation promises, and the contract suite checks: messages arrive whole, once and in the order of
/// sending. What came before the other side's end is received before the end. Whoever waits in a call when its task is
/// cancelled, or when `close` is called, stops waiting soon. Memory is bounded: an implementation reads from the network
/// only as fast as messages are received, and sends only as fast as the other side takes.
package protocol SyncTransport: Sendable {
    /// Sends one binary message; returns when the system has taken it. Throws `TransportError`.
    ///
    /// A message that is too large is refused, and the connection stays. When the task is cancelled, the message may or
    /// may not be sent.
    func sendBinary(_ bytes: [UInt8]) async throws

    /// Sends one text message, as `sendBinary` does.
    func sendText(_ text: String) async throws

    /// Asks the other side for a sign of life; the answer is received as `.pong`.
    func sendPing() async throws

    /// The next message; nil when the connection ended in good order. Throws `TransportError` where it ended otherwise,
    /// each time again.
    func receive() async throws -> TransportMessage?

    /// Ends the connection, and returns when it is: after a short while at most, whatever the other side does, also in a
    /// task that is cancelled. What was not received is gone. More than one call is one.
    func close() async
}
