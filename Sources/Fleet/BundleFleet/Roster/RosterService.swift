/// What a host does with the messages of devices to a roster.
package enum RosterService: Sendable {
    /// It stores and shows them. The tokens authorize the readers.
    case store(RosterStore, operators: BearerTokens)
    /// It passes them to the host that stores them, and shows nothing.
    case relay(RosterRelay)

    /// The roster, unless another host stores it.
    package var store: RosterStore? { if case .store(let store, _) = self { store } else { nil } }

    var operators: BearerTokens? { if case .store(_, let operators) = self { operators } else { nil } }

    /// Whether devices may send pictures of their screens.
    var takesPictures: Bool { store?.keepsPictures ?? true }

    func take(_ message: [UInt8], isPicture: Bool, from sender: RosterMessenger) async -> RosterVerdict {
        switch self {
        case .store(let store, _) where isPicture: await store.takePicture(message, from: sender)
        case .store(let store, _): await store.take(message, from: sender)
        case .relay(let relay): await relay.take(message, isPicture: isPicture, from: sender)
        }
    }
}

/// The sender of a message, as its request describes it.
struct RosterMessenger: Sendable {
    /// The value of `X-Device-Key`.
    let key: String?
    let address: String
    /// The value of `Authorization`.
    let authorization: String?

    init(key: String?, address: String, authorization: String? = nil) {
        (self.key, self.address, self.authorization) = (key, address, authorization)
    }
}

/// The result of a message to a roster.
enum RosterVerdict: Sendable, Equatable {
    case taken
    /// The message is invalid, for this reason.
    case malformed(String)
    /// The message is not signed by the key that the host pinned for the device.
    case conflict
    /// There were too many messages. The sender may retry after this number of seconds.
    case tooMany(retryAfter: Int)
    /// The disk accepts no writes, or the roster has no room for another device.
    case full
    /// The host keeps no pictures.
    case unwanted
    /// The host that stores the roster requires a token, which the sender did not send.
    case unauthorized
    /// The host that stores the roster did not accept it.
    case unreachable
}
