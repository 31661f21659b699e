import BundlePush

/// What one socket takes, lets wait, and waits for.
package struct SocketLimits: Sendable {
    /// The largest message that comes in or goes out, in bytes, in however many pieces.
    package var message = 1 << 20
    /// Messages that may wait to be received; while there are as many, nothing is read.
    package var waitingMessages = 16
    /// Bytes that may wait to be received likewise.
    package var waitingBytes = 256 << 10
    /// Bytes that may wait to be sent.
    package var unsent = 1 << 20
    /// Without any progress in sending, after which the connection is given up.
    package var stall = Duration.seconds(30)
    /// For name, connection, TLS and handshake together.
    package var handshake = Duration.seconds(10)
    /// For the other side to close after this one.
    package var farewell = Duration.seconds(1)
    /// Asks a silent other side for a sign of life after this long, and gives it up after as long again; nil leaves that to
    /// whoever uses the transport, as `SyncClient` does.
    package var heartbeat: Duration?

    /// The limits as they are recommended.
    package init() {}

    var waiting: MessageQueue.Limit { MessageQueue.Limit(messages: waitingMessages, bytes: waitingBytes) }
}
