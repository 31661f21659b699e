/// Stores the messages of devices, or passes them to the host that stores them.
package protocol RosterReceiver: Sendable {
    /// Stores a message. The message is on the disk when it returns `taken`.
    func take(_ message: [UInt8], from sender: RosterMessenger) async -> RosterVerdict
}

/// The sender of a message, as its request describes it.
package struct RosterMessenger: Sendable {
    /// The value of `X-Device-Key`.
    package let key: String?
    package let address: String
    /// The value of `Authorization`.
    package let authorization: String?

    package init(key: String?, address: String, authorization: String? = nil) {
        (self.key, self.address, self.authorization) = (key, address, authorization)
    }
}

/// Shows the stored messages to an operator.
package protocol RosterReader: Sendable {
    /// Returns one part of the roster as JSON; nil if the query is invalid.
    func document(query: String) async throws -> [UInt8]?
    /// Returns the list of devices as a page; nil if the query is invalid.
    func page(query: String) async throws -> RosterDisplay?
    /// Returns the page of one device; nil if the roster does not have it.
    func page(of device: String) async throws -> RosterDisplay?
    /// Removes the device that the body of a request names. Returns whether the roster had it; nil if the body is invalid.
    func forget(_ message: [UInt8]) async throws -> Bool?
    /// Returns the totals in the text format of Prometheus.
    func metrics() async -> String
}

/// An HTML page of a roster.
package struct RosterDisplay: Sendable {
    package let html: String
    /// Its content security policy.
    package let policy: String

    package init(html: String, policy: String) { (self.html, self.policy) = (html, policy) }
}

/// The result of a message to a roster.
package enum RosterVerdict: Sendable, Equatable {
    case taken
    /// The message is invalid, for this reason.
    case malformed(String)
    /// The message is not signed by the key that the host pinned for the device.
    case conflict
    /// There were too many messages. The sender may retry after this number of seconds.
    case tooMany(retryAfter: Int)
    /// The disk accepts no writes, or the roster has no room for another device.
    case full
    /// The host that stores the roster requires a token, which the sender did not send.
    case unauthorized
    /// The host that stores the roster did not accept it.
    case unreachable
}

/// The roster of a feed's server.
package struct RosterService: Sendable {
    let receiver: any RosterReceiver
    let reader: (any RosterReader)?
    let operators: BearerTokens?

    /// Creates the roster of a host. `operators` are the tokens that authorize its readers.
    package init(_ receiver: any RosterReceiver & RosterReader, operators: BearerTokens) {
        (self.receiver, reader, self.operators) = (receiver, receiver, operators)
    }

    /// Creates the roster of a relay, which shows nothing.
    package init(passing receiver: any RosterReceiver) { (self.receiver, reader, operators) = (receiver, nil, nil) }
}
