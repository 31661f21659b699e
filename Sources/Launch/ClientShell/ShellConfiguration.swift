public import BundleCore
import BundleValues

/// How a shell runs: values only, the collaborators come beside it.
public struct ShellConfiguration: Sendable {
    /// Who and where the device is.
    public var device: Launcher.Device
    /// Clients to keep after a good start.
    public var keep = RetentionRule.defaultKeep
    /// How long a client on trial may take to confirm its start.
    public var startupTimeout = StartupTimeout.standard
    /// Which pages count as seen: a start's time runs only while somebody sees it.
    public var visibility = Visibility.assumed
    /// How often the store is looked at for changes that others made.
    public var storeInterval = Duration.milliseconds(500)
    /// How often updates are checked for; nil for only when asked.
    public var polling: Polling?
    /// How long after a failed start a page is offered the same client again.
    public var retryPause = RetryRule.standardPause
    /// When a client that is ready is shown without being asked for; outside of them the page is not touched. Nil: whoever loads
    /// the page or asks for it gets it, at any time.
    public var activation: ActivationWindows?

    /// The defaults, for `device`.
    public init(device: Launcher.Device) {
        self.device = device
    }
}

extension ShellConfiguration {
    /// Which pages count as seen.
    public enum Visibility: Sendable, Equatable {
        /// Every page, until the shell says that it is hidden.
        case assumed
        /// Those that report so, as in a browser; one that reports nothing counts from three times the startup timeout on.
        case reported
    }

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

/// Brings the newest client into the store, by whatever source; several calls may be made at once, as `UpdateRunner.check`
/// takes them.
public typealias UpdateStep = @Sendable () async -> CheckResult

/// How a check of one or more channels ended.
public struct CheckResult: Sendable {
    /// Why channels failed, in the order of the channels.
    public let failures: [any Error]
    /// Whether one of them did not fail.
    public let hasResponse: Bool
    /// How often the channels ask to be checked, the shortest interval; nil where none says so.
    public let pace: PollPace?

    /// The end of one channel's `check`; `pace` is what it asked for when it answered last.
    public static func of(
        pace: @Sendable () async -> PollPace? = { nil }, _ check: @Sendable () async throws -> Void
    ) async -> CheckResult {
        do {
            try await check()
            return CheckResult(failures: [], hasResponse: true, pace: await pace())
        } catch {
            return CheckResult(failures: [error], hasResponse: false, pace: await pace())
        }
    }

    /// What it means for the next check: one channel in trouble does not keep a device from asking the others.
    var outcome: PollRule.Outcome {
        guard !hasResponse, let error = failures.first else { return .answered }
        return PollRule.Outcome(UpdateFailure(error), asked: (error as? FetchError)?.retryAfter)
    }
}

/// The steps of several channels as one: each is taken, whatever becomes of the others.
package func allOf(_ steps: [UpdateStep]) -> UpdateStep {
    {
        var results: [CheckResult] = []
        for step in steps { results.append(await step()) }
        return CheckResult(
            failures: results.flatMap(\.failures), hasResponse: results.contains(where: \.hasResponse),
            pace: results.compactMap(\.pace).min { $0.interval < $1.interval })
    }
}
