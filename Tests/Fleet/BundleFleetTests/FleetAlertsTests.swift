import BundleFormats
import BundleTesting
import BundleValues
import Testing

@testable import BundleFleet

@Suite("FleetAlerts") struct FleetAlertsTests {
    private static let start = Timestamp(clamping: 1_800_000_000)

    private static func later(_ seconds: Int) -> Timestamp {
        Timestamp(clamping: start.secondsSinceEpoch + seconds)
    }

    private static func row(
        _ number: Int, silent: Bool = false, blocked: [String] = [], conflict: Bool = false
    ) -> RosterRow {
        let digits = String(number, radix: 16)
        var post = RosterPost(
            device: String(repeating: "0", count: 16 - digits.count) + digits, name: "Screen \(number)", state: .good,
            program: "0.9.0", interval: 900, runs: "1.0.0")
        post.blocked = blocked
        let seen = silent ? later(-3600) : start
        return RosterRow(
            post: post, seen: seen, first: seen, since: seen, conflict: conflict ? start : nil,
            conflicts: conflict ? 1 : 0)
    }

    private static func problems(_ rows: [RosterRow]) -> FleetProblems {
        var problems = FleetProblems()
        problems.add(rows, at: start)
        return problems
    }

    private static func channel(expires: Timestamp, at now: Timestamp) -> FleetProblems {
        var problems = FleetProblems()
        let document = ChannelDocument(
            appId: nil, channel: "stable", sequence: 1, issuedAt: start, expires: expires)
        problems.add(document, expiringBefore: later(3 * 86_400), at: now)
        return problems
    }

    @Test func `a fleet without problems makes no alert`() {
        var alerts = FleetAlerts(pause: .seconds(600))
        #expect(alerts.alerts(for: Self.problems([Self.row(1), Self.row(2)]), at: Self.start).isEmpty)
    }

    @Test func `the first reading announces each kind of problem once`() {
        var alerts = FleetAlerts(pause: .seconds(600))
        let rows = [
            Self.row(1, silent: true), Self.row(2, silent: true), Self.row(3, blocked: ["1.1.0"]),
            Self.row(4, blocked: ["1.1.0"]), Self.row(5, conflict: true),
        ]
        let first = alerts.alerts(for: Self.problems(rows), at: Self.start)
        #expect(
            first.map(\.text) == [
                "2 devices became silent: Screen 1, Screen 2.", "Devices blocked 1 release: 1.1.0 on 2 devices.",
                "Another key signs for 1 device: Screen 5.",
            ])
        #expect(first.map(\.facts["ALERT_COUNT"]) == ["2", "1", "1"])
        #expect(alerts.alerts(for: Self.problems(rows), at: Self.later(3600)).isEmpty)
    }

    @Test func `a device that returns is one alert`() {
        var alerts = FleetAlerts(pause: .seconds(600))
        _ = alerts.alerts(for: Self.problems([Self.row(1, silent: true)]), at: Self.start)
        let back = alerts.alerts(for: Self.problems([Self.row(1)]), at: Self.later(600))
        #expect(back.map(\.text) == ["1 device is no longer silent: Screen 1."])
        #expect(back.first?.facts["ALERT_STATE"] == "ended" && back.first?.facts["ALERT_COUNT"] == "0")
    }

    @Test func `a forgotten device is not announced as recovered`() {
        var alerts = FleetAlerts(pause: .zero)
        _ = alerts.alerts(for: Self.problems([Self.row(1, silent: true), Self.row(2)]), at: Self.start)
        let gone = alerts.alerts(for: Self.problems([Self.row(2)]), at: Self.later(60))
        #expect(gone.map(\.text) == ["1 device is no longer silent: Screen 1 (forgotten)."])
    }

    @Test func `a retracted alert is repeated after the pause, with later changes`() {
        var alerts = FleetAlerts(pause: .seconds(600))
        _ = alerts.alerts(for: Self.problems([Self.row(1, silent: true)]), at: Self.start)
        alerts.retract(.silent)
        let both = Self.problems([Self.row(1, silent: true), Self.row(2, silent: true)])
        #expect(alerts.alerts(for: both, at: Self.later(60)).isEmpty)
        #expect(
            alerts.alerts(for: both, at: Self.later(600)).map(\.text) == [
                "2 devices became silent: Screen 1, Screen 2."
            ])
    }

    @Test func `500 devices at once are one message, with the first names`() {
        var alerts = FleetAlerts(pause: .seconds(600))
        let told = alerts.alerts(for: Self.problems((0..<500).map { Self.row($0, silent: true) }), at: Self.start)
        #expect(told.count == 1 && told[0].text.hasSuffix("Screen 4, and 495 more."), "\(told[0].text)")
        #expect(told[0].text.utf8.count < 200)
    }

    @Test func `changes within the pause are one message, and those that undo each other none`() {
        var alerts = FleetAlerts(pause: .seconds(600))
        var told = 0
        // One more device each minute, for an hour.
        for minute in 0..<60 {
            let rows = (0...minute).map { Self.row($0, silent: true) }
            told += alerts.alerts(for: Self.problems(rows), at: Self.later(minute * 60)).count
        }
        #expect(told == 6)
        var flapping = FleetAlerts(pause: .seconds(600))
        _ = flapping.alerts(for: Self.problems([Self.row(1, silent: true)]), at: Self.start)
        for minute in 1..<10 {
            let rows = [Self.row(1, silent: minute % 2 == 0)]
            #expect(flapping.alerts(for: Self.problems(rows), at: Self.later(minute * 60)).isEmpty)
        }
        #expect(flapping.alerts(for: Self.problems([Self.row(1, silent: true)]), at: Self.later(700)).isEmpty)
    }

    @Test func `more devices that block the same release are no news`() {
        var alerts = FleetAlerts(pause: .seconds(1))
        _ = alerts.alerts(for: Self.problems([Self.row(1, blocked: ["1.1.0"])]), at: Self.start)
        let more = (1..<9).map { Self.row($0, blocked: ["1.1.0"]) }
        #expect(alerts.alerts(for: Self.problems(more), at: Self.later(60)).isEmpty)
        let other = alerts.alerts(
            for: Self.problems(more + [Self.row(9, blocked: ["1.2.0"])]), at: Self.later(120))
        #expect(other.map(\.began) == [["1.2.0 on 1 device"]])
    }

    @Test func `a channel that expires soon, then has expired, then is renewed is three alerts`() {
        var alerts = FleetAlerts(pause: .seconds(600))
        let expires = Self.later(86_400)
        func told(_ expires: Timestamp, after seconds: Int) -> [String] {
            alerts.alerts(for: Self.channel(expires: expires, at: Self.later(seconds)), at: Self.later(seconds)).map(
                \.text)
        }
        #expect(told(expires, after: 0).first?.contains("stable expires at 20") == true)
        #expect(told(expires, after: 3600).isEmpty)
        #expect(told(expires, after: 90_000).first?.contains("stable expired at 20") == true)
        #expect(told(Self.later(30 * 86_400), after: 100_000) == ["1 channel was signed again: stable."])
    }

    @Test func `a roster that is away is one alert and one recovery, and its devices do not return meanwhile`() {
        var alerts = FleetAlerts(pause: .seconds(600))
        _ = alerts.alerts(for: Self.problems([Self.row(1, silent: true)]), at: Self.start)
        var away = FleetProblems()
        away.add(.roster, UpdateFailure(.networkUnavailable, subject: "roster", "No route to the host."))
        let told = (1...20).flatMap { alerts.alerts(for: away, at: Self.later($0 * 60)) }
        #expect(told.map(\.text) == ["The roster cannot be read: No route to the host."])
        let back = alerts.alerts(for: Self.problems([Self.row(1, silent: true)]), at: Self.later(3600))
        #expect(back.map(\.text) == ["The roster can be read again."])
    }

    @Test func `names of devices cannot add lines or controls to an alert`() {
        var alerts = FleetAlerts(pause: .seconds(600))
        var row = Self.row(1, silent: true)
        var post = row.post
        post.name = "a\n\u{1B}[31mb\u{202E}"
        row = RosterRow(
            post: post, seen: row.seen, first: row.seen, since: row.seen, conflict: nil, conflicts: 0)
        let text = alerts.alerts(for: Self.problems([row]), at: Self.start).first?.text ?? ""
        #expect(!text.isEmpty && text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x202E })
    }
}
