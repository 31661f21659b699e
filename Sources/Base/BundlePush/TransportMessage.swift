/// What comes over a transport.
package enum TransportMessage: Sendable, Equatable {
    /// A whole text message.
    case text(String)
    /// A whole binary message.
    case binary([UInt8])
    /// The other side answered a ping.
    case pong

    /// How many bytes its content has.
    package var byteCount: Int {
        switch self {
        case .text(let text): text.utf8.count
        case .binary(let bytes): bytes.count
        case .pong: 0
        }
    }
}
