import BundleSigning
@testable import BundleShell
@testable import ClientServer
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

@Suite struct MetricsTests {
    @Test(arguments: [
        (1.0, "1"), (0, "0"), (-3, "-3"), (0.25, "0.25"), (1_700_000_000, "1700000000"), (1e300, "1e+300"),
        (.infinity, "+Inf"), (-.infinity, "-Inf"), (.nan, "NaN"),
    ])
    func `formats numbers as Go parses them`(value: Double, text: String) {
        let family = MetricFamily("m", .gauge, help: "h", samples: [.init(value)])
        #expect(MetricsText.text(of: [family]) == "# HELP m h\n# TYPE m gauge\nm \(text)\n")
    }

    @Test(arguments: [
        ("plain", "plain"), ("a\"b", "a\\\"b"), ("a\\b", "a\\\\b"), ("a\nb", "a\\nb"), ("\\n", "\\\\n"), ("ü€", "ü€"),
        ("", ""), ("{le=\"1\"} 2", "{le=\\\"1\\\"} 2"),
    ])
    func `escapes labels`(value: String, text: String) {
        let family = MetricFamily(
            "m", .counter, help: "h", samples: [.init(2, labels: [("one", value), ("two", "x")])])
        #expect(MetricsText.text(of: [family]).hasSuffix("\nm{one=\"\(text)\",two=\"x\"} 2\n"))
    }

    @Test func `keeps quotes in help texts and escapes line breaks`() {
        let family = MetricFamily("m", .gauge, help: "a \"b\" \\ c\nd", samples: [.init(1)])
        #expect(MetricsText.text(of: [family]).hasPrefix("# HELP m a \"b\" \\\\ c\\nd\n# TYPE m gauge\n"))
    }

    @Test func `keeps the order of families and omits those without samples`() {
        let text = MetricsText.text(of: [
            MetricFamily(
                "b", .gauge, help: "B", samples: [.init(1, labels: [("x", "1")]), .init(2, labels: [("x", "2")])]),
            MetricFamily("none", .gauge, help: "N", samples: []),
            MetricFamily("a", .counter, help: "A", samples: [.init(3)]),
        ])
        #expect(
            text == """
                # HELP b B
                # TYPE b gauge
                b{x="1"} 1
                b{x="2"} 2
                # HELP a A
                # TYPE a counter
                a 3

                """)
    }

    // MARK: Screen

    @Test
    func `reports a client on the screen once a page was loaded, and counts lost pages and browser restarts`() {
        var metrics = ShellMetrics(startedAt: Self.start)
        func state(_ word: String) -> Bool { lines(metrics).contains("clientctl_screen_state{state=\"\(word)\"} 1") }
        metrics.note(LaunchState.client)
        #expect(state("starting") && !state("client"))
        metrics.note(.launched(Self.name, isTrial: true), at: Self.start, reading: .zero)
        #expect(state("client") && !state("starting"))
        metrics.note(.waiting(reason: Self.failure))
        #expect(state("waiting"))
        metrics.note(LaunchState.client)
        #expect(state("starting"))
        metrics.noteLostPage()
        metrics.noteBrowserRestart()
        metrics.note(.unconfirmed(Self.name, "late"), at: Self.start, reading: .zero)
        metrics.note(.blank(Self.name, isOver: false), at: Self.start, reading: .zero)
        metrics.note(.blank(Self.name, isOver: true), at: Self.start, reading: .zero)
        for name in ["pages_lost", "browser_restarts", "unconfirmed_starts", "blank_screens"] {
            #expect(lines(metrics).contains("clientctl_\(name)_total 1"))
        }
    }

    // MARK: Counters

    private static let start = Timestamp(clamping: 1_800_000_000)
    private static let name = ClientName("v1.2.3") ?? .embedded
    private static let other = ClientName("v2.0.0") ?? .embedded
    private static let failure = UpdateFailure(.healthFailed, subject: "x", "it failed")

    private func lines(_ metrics: ShellMetrics, _ ledger: Ledger? = nil) -> [String] {
        MetricsText.text(of: metrics.families(ledger, at: Self.start)).split(separator: "\n").map(String.init)
    }

    private func after(_ events: [(ShellEvent, Duration)]) -> [String] {
        var metrics = ShellMetrics(startedAt: Self.start)
        for (event, reading) in events { metrics.note(event, at: Self.start, reading: reading) }
        return lines(metrics)
    }

    @Test func `starts with counters at zero and without unknown values`() {
        let lines = lines(ShellMetrics(startedAt: Self.start)).filter { !$0.hasPrefix("#") }
        #expect(
            lines.filter { !$0.contains("start_duration") } == [
                "clientctl_update_available 0", "clientctl_launches_total 0", "clientctl_unconfirmed_starts_total 0",
                "clientctl_blank_screens_total 0",
                "clientctl_rollbacks_total 0", "clientctl_pages_lost_total 0", "clientctl_browser_restarts_total 0",
                "clientctl_check_successes_total 0", "clientctl_downloaded_bytes_total 0",
                "clientctl_process_start_time_seconds 1800000000",
            ])
        #expect(lines.contains("clientctl_start_duration_seconds_count 0"))
        #expect(!lines.contains { $0.hasPrefix("clientctl_last_start") })
    }

    @Test func `counts a launch, its confirmation, an update and a rollback`() {
        let lines = after([
            (.launched(Self.name, isTrial: true), .seconds(10)), (.confirmed(Self.name), .milliseconds(10_750)),
            (.updateAvailable(Self.other), .seconds(11)), (.launched(Self.other, isTrial: true), .seconds(12)),
            (.rolledBack(Self.other, to: Self.name, Self.failure), .seconds(15)),
            // A confirmation of a page that has been replaced.
            (.confirmed(Self.other), .seconds(16)), (.launched(Self.name, isTrial: false), .seconds(17)),
        ])
        for line in [
            "clientctl_client_info{version=\"1.2.3\",source=\"archive\"} 1", "clientctl_update_available 0",
            "clientctl_launches_total 3", "clientctl_rollbacks_total 1", "clientctl_last_start_duration_seconds 0.75",
            "clientctl_start_duration_seconds_bucket{le=\"0.5\"} 0",
            "clientctl_start_duration_seconds_bucket{le=\"1\"} 1",
            "clientctl_start_duration_seconds_bucket{le=\"30\"} 1",
            "clientctl_start_duration_seconds_bucket{le=\"+Inf\"} 1", "clientctl_start_duration_seconds_sum 0.75",
            "clientctl_start_duration_seconds_count 1",
        ] { #expect(lines.contains(line), "\(line)") }
        for line in lines where line.hasPrefix("#") { #expect(lines.filter { $0 == line }.count == 1) }
    }

    @Test func `reports an available update until it is shown`() {
        let there = after([(.updateAvailable(Self.other), .zero), (.launched(Self.name, isTrial: false), .zero)])
        #expect(there.contains("clientctl_update_available 1"))
        let shown = after([(.updateAvailable(Self.other), .zero), (.launched(Self.other, isTrial: true), .zero)])
        #expect(shown.contains("clientctl_update_available 0"))
    }

    @Test func `reports the source of the seed as embedded`() {
        let lines = after([(.launched(.embedded, isTrial: false), .zero)])
        #expect(lines.contains("clientctl_client_info{version=\"embedded\",source=\"embedded\"} 1"))
    }

    @Test(
        arguments: [
            (
                [
                    UpdateEvent.downloading(bytes: 0, of: 10), .downloading(bytes: 4, of: 10),
                    .downloading(bytes: 10, of: 10),
                ], 10
            ),
            // The download resumes where it stopped.
            ([.downloading(bytes: 6, of: 10), .downloading(bytes: 10, of: 10)], 4),
            // The download starts again.
            (
                [
                    .downloading(bytes: 0, of: 9), .downloading(bytes: 5, of: 9), .downloading(bytes: 0, of: 9),
                    .downloading(bytes: 3, of: 9),
                ], 8
            ),
            // Two downloads.
            (
                [
                    .downloading(bytes: 0, of: 9), .downloading(bytes: 5, of: 9), .settling, .planning,
                    .downloading(bytes: 7, of: nil), .downloading(bytes: 8, of: nil),
                ], 6
            ),
            ([.unpacking(files: 9, of: 10), .packing(bytes: 5, of: 6)], 0),
        ] as [([UpdateEvent], Int)])
    func `does not count bytes that were on the disk before`(events: [UpdateEvent], bytes: Int) {
        var metrics = ShellMetrics(startedAt: Self.start)
        for event in events { metrics.note(event) }
        #expect(lines(metrics).contains("clientctl_downloaded_bytes_total \(bytes)"))
    }

    @Test func `counts checks by their result`() {
        var metrics = ShellMetrics(startedAt: Self.start)
        func check(_ code: FailureCode?, next: Duration?, after seconds: Int) {
            metrics.note(
                .checked(code.map { UpdateFailure($0, subject: "s", "m") }, next: next),
                at: Timestamp(clamping: Self.start.secondsSinceEpoch + seconds), reading: .seconds(seconds))
        }
        check(nil, next: .seconds(900), after: 1)
        check(.networkUnavailable, next: .seconds(60), after: 2)
        check(.httpStatus, next: .seconds(60), after: 3)
        check(.networkUnavailable, next: .seconds(90), after: 4)
        var lines = lines(metrics)
        for line in [
            "clientctl_last_check_timestamp_seconds 1800000004",
            "clientctl_last_successful_check_timestamp_seconds 1800000001",
            "clientctl_next_check_timestamp_seconds 1800000094", "clientctl_check_successes_total 1",
            "clientctl_check_failures_total{code=\"httpStatus\"} 1",
            "clientctl_check_failures_total{code=\"networkUnavailable\"} 2",
        ] { #expect(lines.contains(line), "\(line)") }
        check(nil, next: nil, after: 5)
        lines = self.lines(metrics)
        #expect(!lines.contains { $0.hasPrefix("clientctl_next_check") })
    }

    @Test func `reports the channel that the store records`() throws {
        var ledger = Ledger()
        #expect(lines(ShellMetrics(startedAt: Self.start), ledger).contains("clientctl_blocked_versions 0"))
        #expect(!lines(ShellMetrics(startedAt: Self.start), ledger).contains { $0.contains("channel_") })
        ledger.feed.follow(
            FeedMemory.ChannelMemory(
                name: "sta\"ble", sequence: 17, payloadSha256: try SHA256Digest.of([]), signers: [],
                issuedAt: Self.start, expires: Timestamp(clamping: Self.start.secondsSinceEpoch + 129_600),
                recalled: [],
                minimumVersion: nil, leftOut: []))
        let version = try SemanticVersion(parsing: "1.2.0")
        ledger.miss(.archive(version), after: UpdateFailure(.httpStatus, subject: "", "503"), at: Self.start)
        let lines = lines(ShellMetrics(startedAt: Self.start), ledger)
        for line in [
            "clientctl_wanted_since_timestamp_seconds{version=\"1.2.0\",source=\"archive\"} 1800000000",
            "clientctl_channel_sequence{channel=\"sta\\\"ble\"} 17",
            "clientctl_channel_expires_timestamp_seconds{channel=\"sta\\\"ble\"} 1800129600",
            "clientctl_channel_remaining_seconds{channel=\"sta\\\"ble\"} 129600",
        ] { #expect(lines.contains(line), "\(line)") }
    }
}
