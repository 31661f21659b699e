import BundleSockets

extension SocketConnector.Configuration {
    /// Waits for a handshake so long that only what never comes takes longer, on a busy machine too.
    static func patient() -> Self {
        var configuration = Self(userAgent: "tests/1")
        configuration.limits.handshake = .seconds(60)
        return configuration
    }
}
