import Glibc
import Synchronization

/// The rest of a response, which a test writes piece by piece for one connection.
package final class Feed: Sendable {
    private struct State {
        var pieces: [[UInt8]] = []
        var isEnded = false
        var isComplete = false
    }

    private let state = Mutex(State())
    private let signal: Gate

    package init() throws { signal = try Gate() }

    /// Sends these bytes at once.
    package func send(_ text: String) { change { $0.pieces.append(Array(text.utf8)) } }

    /// Sends these bytes at once.
    package func send(_ bytes: [UInt8]) { change { $0.pieces.append(bytes) } }

    /// Ends the connection. A chunked body is incomplete unless `complete` is true.
    package func end(complete: Bool = true) {
        change {
            $0.isEnded = true
            $0.isComplete = complete
        }
    }

    var isComplete: Bool { state.withLock { $0.isComplete } }

    private func change(_ change: (inout State) -> Void) {
        state.withLock { change(&$0) }
        signal.open()
    }

    /// Returns the next piece, or nil at the end of the feed and when the peer of `descriptor` disconnected.
    func next(besides descriptor: Int32) -> [UInt8]? {
        while true {
            let (piece, isEnded) = state.withLock { state in
                (state.pieces.isEmpty ? nil : state.pieces.removeFirst(), state.isEnded)
            }
            if let piece { return piece }
            if isEnded || !signal.waitOnce(besides: descriptor) { return nil }
        }
    }
}
