public import BundleCore

/// How a shell runs: values only, the collaborators come beside it.
public struct ShellConfiguration: Sendable {
    /// Who and where the device is.
    public var device: Launcher.Device
    /// Clients to keep after a good start.
    public var keep = RetentionRule.defaultKeep
    /// How long a client on trial may take to confirm its start.
    public var startupTimeout = StartupTimeout.standard
    /// How often the store is looked at for changes that others made.
    public var storeInterval = Duration.milliseconds(500)
    /// How often updates are checked for; nil for only when asked.
    public var checkInterval: Duration?

    /// The defaults, for `device`.
    public init(device: Launcher.Device) {
        self.device = device
    }
}

/// Brings the newest client into the store, by whatever channel; several calls may be made at once, as `UpdateRunner.check`
/// takes them.
public typealias UpdateStep = @Sendable () async throws -> Void

/// The steps of several channels as one: each is taken, whatever becomes of the others; the first failure is thrown at the end.
public func allOf(_ steps: [UpdateStep]) -> UpdateStep {
    {
        var failure: (any Error)?
        for step in steps {
            do { try await step() } catch { failure = failure ?? error }
        }
        if let failure { throw failure }
    }
}
