/// What a `SyncClient` tells.
package enum SyncEvent: Sendable, Equatable {
    /// A connection is open. What was said while there was none is not said again: ask.
    case connected
    /// A text message came.
    case text(String)
    /// A binary message came.
    case binary([UInt8])
    /// There was no connection to be had, or it is over; the next attempt is after `retry`.
    case lost(TransportError, retry: Duration)
}
