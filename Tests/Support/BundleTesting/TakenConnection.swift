import Synchronization

/// A connection of `LoopbackServer` that no longer speaks HTTP.
package final class TakenConnection: Sendable {
    private let socket: Socket
    private let sending = Mutex(())

    init(_ socket: Socket) { self.socket = socket }

    /// Exactly `count` bytes, at most 1 MiB; nil at the end of the connection.
    package func read(_ count: Int) -> [UInt8]? { socket.read(count) }

    /// Sends bytes in one piece, also while another thread sends; false when the other side is gone.
    @discardableResult
    package func write(_ bytes: [UInt8]) -> Bool { sending.withLock { _ in socket.write(bytes) } }

    /// Ends it: whoever reads gets the end.
    package func close() { socket.shutDown() }
}
