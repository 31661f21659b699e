import BundleSockets

extension SocketConnector.Configuration {
    /// Returns a configuration with a handshake timeout that only a missing response exceeds, even on a busy machine.
    static func patient() -> Self {
        var configuration = Self(userAgent: "tests/1")
        configuration.limits.handshake = .seconds(60)
        return configuration
    }
}
