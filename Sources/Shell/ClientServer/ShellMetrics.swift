package import BundleCore
package import BundleValues
package import BundleShell

/// The counters of a shell since it started, as values.
package struct ShellMetrics: Sendable {
    private let startedAt: Timestamp
    private var shown: ClientName?
    /// Whether a page of a client was loaded after the last page of the shell itself.
    private var isShown = false
    private var available: ClientName?
    private var launches = 0
    private var rollbacks = 0
    private var unconfirmed = 0
    private var blankScreens = 0
    private var lostPages = 0
    private var browserRestarts = 0
    private var bytes = 0
    /// The counted bytes of the present download; nil if there is none.
    private var counted: Int?
    private var lastCheck: Timestamp?
    private var lastGoodCheck: Timestamp?
    private var nextCheck: Timestamp?
    private var goodChecks = 0
    private var failedChecks: [FailureCode: Int] = [:]
    private var launch: (name: ClientName, reading: Duration)?
    private var starts = DurationHistogram()
    private var state: LaunchState?
    private var links: [String: Bool] = [:]
    private var routes: [DownloadRoute.Reason: Int] = [:]

    /// Creates the metrics of a shell that has just started.
    package init(startedAt: Timestamp) { self.startedAt = startedAt }

    // MARK: Events

    /// Counts an event. `reading` is of a monotonic clock.
    package mutating func note(_ event: ShellEvent, at time: Timestamp, reading: Duration) {
        switch event {
        case .updateAvailable(let name): available = name
        case .downloading, .installed, .failed, .complained: break
        case .unconfirmed: unconfirmed += 1
        case .checked(let failure, let next): recordCheck(failure, next: next, at: time)
        case .launched(let name, _):
            (shown, isShown) = (name, true)
            if available == name { available = nil }
            launches += 1
            launch = (name, reading)
        case .confirmed(let name):
            if let launch, launch.name == name { starts.note(reading - launch.reading) }
            launch = nil
        case .blank(_, let isOver): if !isOver { blankScreens += 1 }
        case .rolledBack(_, _, let failure):
            rollbacks += 1
            if failure.code == .blankScreen { blankScreens += 1 }
            launch = nil
        }
    }

    private mutating func recordCheck(_ failure: UpdateFailure?, next: Duration?, at time: Timestamp) {
        lastCheck = time
        nextCheck = next.map { Timestamp(clamping: time.secondsSinceEpoch + Int($0.components.seconds)) }
        if let failure {
            failedChecks[failure.code, default: 0] += 1
        } else {
            lastGoodCheck = time
            goodChecks += 1
        }
    }

    /// Counts the progress of an update. Bytes that a resumed download found on the disk are not counted.
    package mutating func note(_ event: UpdateEvent) {
        if case .routed(let route) = event { routes[route.reason, default: 0] += 1 }
        guard case .downloading(let done, _) = event else {
            counted = nil
            return
        }
        if let counted, done > counted { bytes += done - counted }
        counted = done
    }

    /// Records the state on the screen.
    package mutating func note(_ state: LaunchState) {
        self.state = state
        switch state {
        case .client, .guests, .updateRequired: break
        case .signedOut, .locked, .maintenance, .waiting, .failure: isShown = false
        }
    }

    package mutating func noteLostPage() { lostPages += 1 }

    package mutating func noteBrowserRestart() { browserRestarts += 1 }

    /// Records whether the connection to `peer`, "host" or "meteor", is up.
    package mutating func note(link peer: String, isUp: Bool) { links[peer] = isUp }

    // MARK: Metrics

    /// Returns all metrics at `now`. `ledger` is that of the store; nil if it is unreadable.
    package func families(_ ledger: Ledger?, at now: Timestamp) -> [MetricFamily] {
        clients + screen + (ledger.map { store($0, now) } ?? []) + checks
            + [Self.one("process_start_time_seconds", .gauge, "When this process started.", Self.seconds(startedAt))]
    }

    private var clients: [MetricFamily] {
        let labels = shown.map { name in
            [
                (name: "version", value: name.shortDescription),
                (name: "source", value: name.version?.source.rawValue ?? "embedded"),
            ]
        }
        return [
            MetricFamily(
                "clientctl_client_info", .gauge, help: "The client that was shown last.",
                samples: labels.map { [.init(1, labels: $0)] } ?? []),
            Self.one(
                "update_available", .gauge, "Whether another client is ready to be shown.", available == nil ? 0 : 1),
            Self.one("launches_total", .counter, "Launches of clients.", Double(launches)),
            Self.one(
                "unconfirmed_starts_total", .counter,
                "Starts of clients that confirmed an earlier start, but not this one.", Double(unconfirmed)),
            Self.one(
                "blank_screens_total", .counter, "Starts of clients that were confirmed with a blank screen.",
                Double(blankScreens)),
            Self.one(
                "rollbacks_total", .counter, "Clients that were replaced because they failed.",
                Double(rollbacks)),
            MetricFamily(
                "clientctl_last_start_duration_seconds", .gauge,
                help: "Time from the last confirmed launch to its confirmation.",
                samples: starts.last.map { [.init($0)] } ?? []),
            MetricFamily(
                "clientctl_start_duration_seconds", .histogram, help: "Time from a launch to its confirmation.",
                samples: starts.samples),
        ]
    }

    private var screen: [MetricFamily] {
        let words = [
            "starting", "client", "guests", "signedOut", "locked", "maintenance", "updateRequired", "waiting",
            "failure",
        ]
        return [
            MetricFamily(
                "clientctl_screen_state", .gauge,
                help: "1 for the present state of the screen, 0 for every other state.",
                samples: screenState.map { shown in
                    words.map { .init($0 == shown ? 1 : 0, labels: [(name: "state", value: $0)]) }
                } ?? []),
            Self.one("pages_lost_total", .counter, "Pages in front that were lost.", Double(lostPages)),
            Self.one(
                "browser_restarts_total", .counter, "Starts of the browser after the first one.",
                Double(browserRestarts)),
            MetricFamily(
                "clientctl_link_up", .gauge, help: "Whether the connection for update notifications is up.",
                samples: links.sorted { $0.key < $1.key }.map {
                    .init($0.value ? 1 : 0, labels: [(name: "to", value: $0.key)])
                }),
        ]
    }

    /// The state for the metric. A client is on the screen once a page was loaded.
    private var screenState: String? {
        switch state {
        case .client?, .guests?, .updateRequired?: isShown ? state?.word : "starting"
        case let state: state?.word
        }
    }

    private func store(_ ledger: Ledger, _ now: Timestamp) -> [MetricFamily] {
        let channel = ledger.feed.followed
        let labels = [(name: "channel", value: channel?.name ?? "")]
        func about(_ name: String, _ help: String, _ value: (FeedMemory.ChannelMemory) -> Double) -> MetricFamily {
            MetricFamily(
                "clientctl_\(name)", .gauge, help: help,
                samples: channel.map { [.init(value($0), labels: labels)] } ?? [])
        }
        return [
            Self.one("blocked_versions", .gauge, "Versions that must not run here.", Double(ledger.blocks.count)),
            about("channel_sequence", "Sequence of the last accepted channel file.") { Double($0.sequence) },
            about("channel_expires_timestamp_seconds", "When that channel file expires.") { Self.seconds($0.expires) },
            about("channel_remaining_seconds", "Time until it expires; negative afterwards.") {
                Self.seconds($0.expires) - Self.seconds(now)
            },
            MetricFamily(
                "clientctl_wanted_since_timestamp_seconds", .gauge,
                help: "Since when a version has been offered to this device without arriving.",
                samples: ledger.wanted.map { wanted in
                    .init(
                        Self.seconds(wanted.since),
                        labels: [
                            (name: "version", value: wanted.version.description),
                            (name: "source", value: wanted.version.source.rawValue),
                        ])
                }),
        ]
    }

    private var checks: [MetricFamily] {
        func moment(_ name: String, _ help: String, _ time: Timestamp?) -> MetricFamily {
            MetricFamily("clientctl_\(name)", .gauge, help: help, samples: time.map { [.init(Self.seconds($0))] } ?? [])
        }
        let failures = failedChecks.sorted { $0.key.rawValue < $1.key.rawValue }
        return [
            moment("last_check_timestamp_seconds", "When a check for updates ended last.", lastCheck),
            moment(
                "last_successful_check_timestamp_seconds", "When the last successful check for updates ended.",
                lastGoodCheck),
            moment("next_check_timestamp_seconds", "The latest time of the next check for updates.", nextCheck),
            Self.one("check_successes_total", .counter, "Checks for updates that did not fail.", Double(goodChecks)),
            MetricFamily(
                "clientctl_check_failures_total", .counter,
                help: "Checks for updates that failed, by the public reason.",
                samples: failures.map { .init(Double($0.value), labels: [(name: "code", value: $0.key.rawValue)]) }),
            Self.one("downloaded_bytes_total", .counter, "Bytes of releases that were downloaded.", Double(bytes)),
            MetricFamily(
                "clientctl_routes_total", .counter,
                help: "Releases that were downloaded as a delta or as an archive, by reason.",
                samples: routes.sorted { $0.key.rawValue < $1.key.rawValue }.map {
                    .init(
                        Double($0.value),
                        labels: [
                            (name: "route", value: DownloadRoute($0.key).word),
                            (name: "reason", value: $0.key.rawValue),
                        ])
                }),
        ]
    }

    private static func one(
        _ name: String, _ kind: MetricFamily.Kind, _ help: String, _ value: Double
    ) -> MetricFamily { MetricFamily("clientctl_\(name)", kind, help: help, samples: [.init(value)]) }

    private static func seconds(_ time: Timestamp) -> Double { Double(time.secondsSinceEpoch) }
}

extension LaunchState {
    /// The state's name in metrics.
    fileprivate var word: String {
        switch self {
        case .client: "client"
        case .guests: "guests"
        case .signedOut: "signedOut"
        case .locked: "locked"
        case .maintenance: "maintenance"
        case .updateRequired: "updateRequired"
        case .waiting: "waiting"
        case .failure: "failure"
        }
    }
}

/// The durations of starts.
struct DurationHistogram: Sendable {
    /// Upper bounds in seconds. A start that exceeds the usual timeout is a rollback.
    private static let bounds = [0.25, 0.5, 1, 2.5, 5, 10, 30]

    private var counts = [Int](repeating: 0, count: bounds.count)
    private var sum = 0.0
    private var count = 0
    private(set) var last: Double?

    mutating func note(_ duration: Duration) {
        let seconds = max(0, duration / .seconds(1))
        for (index, bound) in Self.bounds.enumerated() where seconds <= bound { counts[index] += 1 }
        sum += seconds
        count += 1
        last = seconds
    }

    var samples: [MetricFamily.MetricSample] {
        let buckets = zip(Self.bounds + [.infinity], counts + [count])
        return buckets.map { bound, count in
            .init(Double(count), labels: [(name: "le", value: MetricsText.bound(bound))], suffix: "_bucket")
        } + [.init(sum, suffix: "_sum"), .init(Double(count), suffix: "_count")]
    }
}
