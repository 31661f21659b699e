public import BundleValues

/// That somebody signed in, until when, and with what token.
public struct UserSession: Sendable, Equatable {
    /// What is shown to the feed's server.
    public let token: AccessToken
    /// When somebody signed in.
    public let since: Timestamp
    /// The first moment at which it is worth nothing; nil where only the server knows.
    public let expires: Timestamp?

    /// States a session.
    public init(token: AccessToken, since: Timestamp, expires: Timestamp?) {
        self.token = token
        self.since = since
        self.expires = expires
    }

    /// Whether it is worth anything at `time`.
    public func isValid(at time: Timestamp) -> Bool { expires.map { time < $0 } ?? true }
}
