import Synchronization

/// A connection of `LoopbackServer` after HTTP.
package final class TakenConnection: Sendable {
    private let socket: Socket
    private let sending = Mutex(())

    init(_ socket: Socket) { self.socket = socket }

    /// Returns `count` bytes, at most 1 MiB, or nil at the end of the connection.
    package func read(_ count: Int) -> [UInt8]? { socket.read(count) }

    /// Sends bytes at once, even while another thread sends. Returns false when the peer disconnected.
    @discardableResult
    package func write(_ bytes: [UInt8]) -> Bool { sending.withLock { _ in socket.write(bytes) } }

    /// Ends the connection and wakes its reader.
    package func close() { socket.shutDown() }
}
