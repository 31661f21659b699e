/// The variables that a started program does not inherit, besides `OwnVariables`. A pure rule about names.
enum WithheldVariables {
    /// Variables of the service manager for this process only.
    case ofService
    /// Also variables with the name of a secret, because a browser runs foreign code.
    case secrets

    private static let service = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]
    private static let words = [
        "ACCESS_KEY", "API_KEY", "APIKEY", "CREDENTIAL", "PASSPHRASE", "PASSWD", "PASSWORD", "PRIVATE_KEY", "SECRET",
        "SSH_AUTH_SOCK", "TOKEN",
    ]

    /// Returns true if a program does not inherit the variable `name`.
    func contains(_ name: String) -> Bool {
        if Self.service.contains(name) { return true }
        guard case .secrets = self else { return false }
        let upper = name.uppercased()
        return upper.hasPrefix("AWS_") || Self.words.contains { upper.contains($0) }
    }
}
