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
    public var polling: Polling?
    /// When a client that is ready is shown without being asked for; outside of them the page is not touched. Nil: whoever loads
    /// the page or asks for it gets it, at any time.
    public var activation: ActivationWindows?

    /// The defaults, for `device`.
    public init(device: Launcher.Device) {
        self.device = device
    }
}

extension ShellConfiguration {
    /// How often updates are checked for.
    public struct Polling: Sendable, Equatable {
        /// The pace.
        public let pace: PollPace
        /// Whether a channel may ask for another one.
        public let yields: Bool

        /// At `pace`, until a channel asks for another one, if this `yields` to it.
        public init(_ pace: PollPace, yields: Bool) {
            self.pace = pace
            self.yields = yields
        }
    }
}

/// Brings the newest client into the store, by whatever channel; several calls may be made at once, as `UpdateRunner.check`
/// takes them. Returns how often the channel asks to be checked, where it says so.
public typealias UpdateStep = @Sendable () async throws -> PollPace?

/// The steps of several channels as one: each is taken, whatever becomes of the others; the first failure is thrown at the end.
/// The shortest interval counts.
public func allOf(_ steps: [UpdateStep]) -> UpdateStep {
    {
        var failure: (any Error)?
        var paces: [PollPace] = []
        for step in steps {
            do { paces += [try await step()].compactMap(\.self) } catch { failure = failure ?? error }
        }
        if let failure { throw failure }
        return paces.min { $0.interval < $1.interval }
    }
}
