import BundleTransport

/// The limits and timeouts of one socket.
package struct SocketLimits: Sendable {
    /// The largest message in either direction, in bytes, in any number of frames.
    package var message = 1 << 20
    /// The number of messages that may wait to be received. Reading pauses at the limit.
    package var waitingMessages = 16
    /// The bytes that may wait to be received. Reading pauses at the limit.
    package var waitingBytes = 256 << 10
    /// The bytes that may wait to be sent.
    package var unsent = 1 << 20
    /// The time without progress in sending after which the connection is closed.
    package var stall = Duration.seconds(30)
    /// The timeout for name resolution, connection, TLS and handshake together.
    package var handshake = Duration.seconds(10)
    /// The time for the peer to close after this side.
    package var closing = Duration.seconds(1)
    /// The silence after which a ping is sent, and the time for its answer. With nil the user of the transport sends
    /// pings, as `SyncClient` does.
    package var heartbeat: Duration?

    package init() {}

    var waiting: MessageQueue.Limit { MessageQueue.Limit(messages: waitingMessages, bytes: waitingBytes) }
}
