/// Which variables a program does not inherit of this one's environment, by their names. A pure rule.
enum WithheldVariables {
    /// What the service manager gave to this process alone.
    case ofService
    /// Those, and the variables that set flags: they are for `clientctl`.
    case settings
    /// Those, and every variable with the name of a secret: a browser runs the code of others.
    case secrets

    private static let service = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]
    private static let words = [
        "ACCESS_KEY", "API_KEY", "APIKEY", "CREDENTIAL", "PASSPHRASE", "PASSWD", "PASSWORD", "PRIVATE_KEY", "SECRET",
        "SSH_AUTH_SOCK", "TOKEN",
    ]

    /// Whether a program starts without the variable `name`.
    func contains(_ name: String) -> Bool {
        if Self.service.contains(name) { return true }
        if case .ofService = self { return false }
        if name.hasPrefix(FlagNames.variables) { return true }
        guard case .secrets = self else { return false }
        let upper = name.uppercased()
        return upper.hasPrefix("AWS_") || Self.words.contains { upper.contains($0) }
    }
}
