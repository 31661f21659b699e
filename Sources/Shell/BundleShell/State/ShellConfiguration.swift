public import BundleCore
import BundleFetch
public import BundleValues

/// The settings of a shell, as values. Its collaborators are passed separately.
public struct ShellConfiguration: Sendable {
    /// The device and its store.
    package var device: Launcher.LaunchDevice
    /// The number of clients to keep after a confirmed start.
    public var keep = RetentionRule.defaultKeep
    /// The time in which a client on trial has to confirm its start.
    public var startupTimeout = StartupTimeout.standard
    /// The pages that count as visible. The time of a start passes only while a page is visible.
    public var visibility = Visibility.assumed
    /// The interval at which the store is read for changes by other processes.
    public var storeInterval = Duration.milliseconds(500)
    /// Whether the shell runs without a store, which is full, read-only or broken, until it can be opened.
    package var waitsForStore = false
    /// The polling for updates; nil for checks on request only.
    public var polling: Polling?
    /// The pause after a failed start before a page is offered the same client again.
    public var retryPause = RetryRule.standardPause
    /// Checks a client on trial after its page has confirmed its start, and after the endpoints of its release have answered; nil if
    /// that is enough.
    public var healthCheck: HealthCheck?
    /// The consequence of a start that a page confirms with a blank screen.
    package var blankScreens = BlankScreens.fail
    /// The origin of the pages, such as `http://127.0.0.1:12000/`, where required endpoints that are paths are requested. Without
    /// it, such a path has to be a file of the client.
    public var pageOrigin: FetchURL?
    /// Receives the answers of required endpoints from pages that request them; nil if the shell itself requests them.
    package var endpointWatch: EndpointWatch?
    /// Requests required endpoints; nil for a fetcher with the standard options. `DeviceContainer` sets the one of its feed.
    package var endpointFetcher: (any Fetcher)?
    /// The times at which a ready client is shown without a request. Outside them the page stays. Nil: any load or
    /// request shows it, at any time.
    public var activation: ActivationWindows?

    /// Creates the default settings for a device.
    ///
    /// - Parameters:
    ///   - store: The path of the folder with the clients, which is created if it is missing.
    ///   - shellVersion: The version of the program. Releases that need a newer one are not shown.
    ///   - seed: The folder with the shell's own client, which a device without another client shows; nil if there is none.
    public init(store: String, shellVersion: SemanticVersion, seed: String? = nil) {
        device = Launcher.LaunchDevice(store: store, shell: shellVersion, seed: seed, verifies: false)
    }

    /// Creates the default settings for `device`.
    package init(device: Launcher.LaunchDevice) { self.device = device }

    /// Whether all files of a client are compared with its receipt before its launch.
    public var verifiesFiles: Bool {
        get { device.verifies }
        set { device.verifies = newValue }
    }

    /// The sources whose clients may run, in order of preference; nil for the order that the store has.
    public var sources: SourceOrder? {
        get { device.sources }
        set { device.sources = newValue }
    }

    /// Waits until `endpoints` have answered or have failed. Without a network, it waits until there is one.
    func check(_ endpoints: ReleaseEndpoints) async -> HealthResult {
        if let endpointWatch { return await endpointWatch.check(endpoints.addresses) }
        do {
            let fetcher = try endpointFetcher ?? DeviceContainer.fetcher(FetchOptions(userAgent: "ClientBundles"))
            let probe = EndpointProbe(fetcher, origin: pageOrigin)
            return await probe.check(endpoints, within: startupTimeout) ?? .failed("the device was stopped")
        } catch {
            return .failed("the required endpoints cannot be requested: \(UpdateFailure(error).message)")
        }
    }
}

extension ShellConfiguration {
    /// The pages that count as visible.
    public enum Visibility: Sendable, Equatable {
        /// Every page, until the shell reports it hidden.
        case assumed
        /// Pages that report so, as in a browser. A page without reports counts after three times the startup
        /// timeout.
        case reported
    }

    /// The polling for updates.
    public struct Polling: Sendable, Equatable {
        /// The interval and jitter.
        public let pace: PollPace
        /// Whether a channel may set another pace.
        public let yields: Bool

        /// Creates polling at `pace`, until a channel sets another one if this `yields` to it.
        public init(_ pace: PollPace, yields: Bool) {
            self.pace = pace
            self.yields = yields
        }
    }
}

/// The consequence of a start that a page confirms with a blank screen.
package enum BlankScreens: String, Sendable, CaseIterable {
    /// It fails a client on trial, and is an event of any other one.
    case fail
    /// It is an event.
    case warn
    /// Pages do not look at their screens.
    case allow
}

/// Returns the check whether a device works with a client that it shows; nil if there is nothing to check.
public typealias HealthCheck = @Sendable (ReadyClient) -> (@Sendable () async -> HealthResult)?

/// The result of a health check.
public enum HealthResult: Sendable, Equatable {
    /// The device works with the client.
    case passed
    /// The client has failed its start, for this reason.
    case failed(String)
}

/// Installs the newest client from its sources. Calls may overlap, as `UpdateRunner.check` allows.
public typealias UpdateStep = @Sendable () async -> CheckResult

/// The result of a check of one or more sources.
public struct CheckResult: Sendable {
    /// The failures, in the order of the sources.
    public let failures: [any Error]
    /// Whether at least one source did not fail.
    public let hasResponse: Bool
    /// The shortest interval that a source requested; nil if none did.
    public let pace: PollPace?
    /// The time until the hours begin for which a download waits; nil if none does.
    package var resumesIn: Duration?
    /// The clients that the check installed.
    package var installed: [InstallReport] = []

    init(failures: [any Error], hasResponse: Bool, pace: PollPace?) {
        (self.failures, self.hasResponse, self.pace) = (failures, hasResponse, pace)
    }

    /// Runs `check` of one source. `pace` returns the pace that the source requested in its last response.
    public init(
        pace: @Sendable () async -> PollPace? = { nil }, of check: @Sendable () async throws -> Void
    ) async {
        do {
            try await check()
            self.init(failures: [], hasResponse: true, pace: await pace())
        } catch {
            self.init(failures: [error], hasResponse: false, pace: await pace())
        }
    }

    /// Joins the results of several sources.
    package init(joining results: [CheckResult]) {
        failures = results.flatMap(\.failures)
        hasResponse = results.contains(where: \.hasResponse)
        pace = results.compactMap(\.pace).min { $0.interval < $1.interval }
        resumesIn = results.compactMap(\.resumesIn).min()
        installed = results.flatMap(\.installed)
    }

    /// The outcome for the plan of the next check. One failed source does not delay the others.
    var outcome: PollRule.PollOutcome {
        guard !hasResponse, let error = failures.first else { return .answered }
        return PollRule.PollOutcome(UpdateFailure(error), asked: (error as? FetchError)?.retryAfter)
    }
}
