import ArchiveSource
import BundleTesting
import BundleValues
import Testing

@testable import BundleFormats
@testable import BundleCore

@Suite struct RampTests {
    /// 1%, 50% and 100% from days 10, 12 and 14.
    private static func ramp(heldAt: Timestamp? = nil) throws -> Ramp {
        try #require(
            Ramp(
                [(10, 10), (12, 500), (14, 1000)].map { Ramp.RampStep(at: Day.number($0), rollout: $1) }, heldAt: heldAt
            ))
    }

    @Test(arguments: [
        (Day.number(10, -1), 0), (Day.number(10), 10), (Day.number(12, -1), 10), (Day.number(12), 500),
        (Day.number(13), 500), (Day.number(14), 1000), (Day.number(400), 1000),
    ])
    func `returns the percentage of the last step that has begun`(time: Timestamp, share: Int) throws {
        #expect(try Self.ramp().share(at: time) == share)
    }

    @Test func `stops a held ramp and delays its remaining steps by the pause`() throws {
        let held = try Self.ramp().holding(at: Day.number(11))
        #expect(held.share(at: Day.number(400)) == 10)
        #expect(held.remaining(at: Day.number(400)).map(\.rollout) == [500, 1000])
        #expect(held.holding(at: Day.number(13)) == held, "held since the first pause")
        let moved = held.resuming(at: Day.number(21))
        #expect(moved.heldAt == nil)
        #expect(moved.steps.map(\.at) == [Day.number(10), Day.number(22), Day.number(24)])
        #expect(moved.share(at: Day.number(21)) == 10)
        // A clock that was set back does not move steps.
        #expect(held.resuming(at: Day.number(9)).steps == (try Self.ramp().steps))
        #expect(try Self.ramp().resuming(at: Day.number(21)) == Self.ramp())
    }

    @Test func `requires ascending percentages and times before the year 9999`() throws {
        let made = try #require(Ramp([10, 100, 1000], every: 3600, from: Day.number(1)))
        #expect(made.steps.map(\.at) == [Day.number(1), Day.number(1, 3600), Day.number(1, 7200)])
        #expect(Ramp([], every: 1, from: Day.number(1)) == nil)
        #expect(Ramp([10, 10], every: 1, from: Day.number(1)) == nil)
        #expect(Ramp([0, 10], every: 1, from: Day.number(1)) == nil)
        #expect(Ramp([10, 1001], every: 1, from: Day.number(1)) == nil)
        #expect(Ramp([10, 100], every: 0, from: Day.number(1)) == nil)
        #expect(Ramp([10, 100], every: .max, from: Day.number(1)) == nil)
        #expect(Ramp([10, 100, 1000], every: .max / 2 + 1, from: Day.number(1)) == nil)
        #expect(Ramp(Array(1...20), every: 1, from: Day.number(1))?.steps.count == 20)
        #expect(Ramp(Array(1...21), every: 1, from: Day.number(1)) == nil)
    }

    /// The bucket of the device is 636.
    @Test(arguments: [
        (Day.number(11), false, RolloutRule.Membership.leftOut), (Day.number(11), true, .admittedBefore),
        (Day.number(14), false, .inBucket), (Day.number(14), true, .inBucket),
    ])
    func `keeps a device that the same document admitted before`(
        time: Timestamp, wasIn: Bool, membership: RolloutRule.Membership
    ) throws {
        let feed = try TrustFeed()
        var release = try feed.release("1.1.0")
        (release.ramp, release.salt) = (try Self.ramp(), "1.1.0")
        let device = try RolloutRule.RolloutDevice(id: "device-1", groups: [])
        #expect(try RolloutRule.judge(release, on: device, at: time, wasIn: wasIn) == membership)
        // No step admits the device.
        release.ramp = Ramp([10, 20], every: 60, from: Day.number(10))
        #expect(try RolloutRule.judge(release, on: device, at: time, wasIn: wasIn) == .leftOut)
        (release.ramp, release.rollout) = (nil, 10)
        #expect(try RolloutRule.judge(release, on: device, at: time, wasIn: wasIn) == .leftOut)
    }

    private func settled(_ feed: TrustFeed) async throws -> Follower {
        let device = try Follower(feed)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        return device
    }

    private func offer(_ feed: TrustFeed, _ sequence: Int, ramp: Ramp?, isPaused: Bool = false) throws {
        var release = try feed.release("1.1.0")
        (release.ramp, release.salt, release.isPaused) = (ramp, "1.1.0", isPaused)
        try feed.offer(feed.document(sequence, [try feed.release("1.0.0"), release]))
    }

    @Test func `TUF-317: admits a device at the time of a step without a new document`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        try offer(feed, 2, ramp: try Self.ramp())
        for day in [10, 12] {
            device.now = Day.number(day)
            try await device.stays(at: "v1.0.0")
            #expect(try device.memory().followed?.leftOut.map(\.description) == ["1.1.0"])
        }
        device.now = Day.number(14)
        try await device.installs("1.1.0")
    }

    @Test func `TUF-318: keeps a release after the clock was set back`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        try offer(feed, 2, ramp: try Self.ramp())
        device.now = Day.number(14)
        try await device.installs("1.1.0")
        device.now = Day.number(1)
        try await device.stays(at: "v1.1.0")
        // Another document is judged by its own time, at which it excludes the device.
        try offer(feed, 3, ramp: try Self.ramp())
        try await device.stays(at: "v1.0.0")
    }

    @Test(arguments: [Day.number(0), Day.number(14)])
    func `judges a document by its own time if the clock is behind`(clock: Timestamp) async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        // This document is issued on the ninth day.
        let ramp = Ramp([10, 1000], every: 86_400, from: Day.number(10))
        try offer(feed, 2, ramp: ramp)
        device.now = Day.number(14)
        try await device.installs("1.1.0")
        device.now = clock
        // Signed again after the last step.
        var release = try feed.release("1.1.0")
        (release.ramp, release.salt) = (ramp, "1.1.0")
        var document = feed.document(3, [try feed.release("1.0.0"), release])
        (document.issuedAt, document.expires) = (Day.number(12), Day.number(40))
        try feed.offer(document)
        try await device.stays(at: "v1.1.0")
    }

    @Test func `TUF-319: raises a clock that is behind to a signed time`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        device.now = Day.number(-100)
        // Documents are issued on the ninth day.
        try offer(feed, 2, ramp: Ramp([10, 1000], every: 86_400, from: Day.number(8)))
        try await device.installs("1.1.0")
    }

    @Test func `TUF-320: admits no device while a ramp is held`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        try offer(feed, 2, ramp: try Self.ramp(heldAt: Day.number(13)), isPaused: true)
        device.now = Day.number(20)
        try await device.stays(at: "v1.0.0")
        try offer(feed, 3, ramp: try Self.ramp(heldAt: Day.number(13)).resuming(at: Day.number(20)))
        try await device.stays(at: "v1.0.0")
        device.now = Day.number(21)
        try await device.installs("1.1.0")
    }

    private static func step(_ at: String, _ rollout: Int) -> JSONValue {
        .object(["at": .string(at), "rollout": .integer(rollout)])
    }

    private static let first = step("2027-01-01T00:00:00Z", 10)

    @Test(
        arguments: [
            ("empty steps", ["ramp": .object(["steps": .array([])])]),
            ("missing steps", ["ramp": .object([:])]),
            ("a list", ["ramp": .array([first])]),
            (
                "times that do not ascend",
                ["ramp": .object(["steps": .array([first, step("2027-01-01T00:00:00Z", 20)])])]
            ),
            (
                "percentages that do not ascend",
                ["ramp": .object(["steps": .array([first, step("2027-01-02T00:00:00Z", 10)])])]
            ),
            ("more than all", ["ramp": .object(["steps": .array([step("2027-01-01T00:00:00Z", 1001)])])]),
            ("zero", ["ramp": .object(["steps": .array([step("2027-01-01T00:00:00Z", 0)])])]),
            ("an invalid time", ["ramp": .object(["steps": .array([step("tomorrow", 10)])])]),
            (
                "21 steps",
                [
                    "ramp": .object([
                        "steps": .array((1...21).map { step("2027-01-\($0 < 10 ? "0" : "")\($0)T00:00:00Z", $0) })
                    ])
                ]
            ),
            ("beside a rollout", ["ramp": .object(["steps": .array([first])]), "rollout": .integer(10)]),
            (
                "held, but not paused",
                ["ramp": .object(["steps": .array([first]), "heldAt": .string("2027-01-01T00:00:00Z")])]
            ),
            ("paused, but not held", ["ramp": .object(["steps": .array([first])]), "paused": .bool(true)]),
        ] as [(String, JSONObject)])
    func `TUF-321: rejects an invalid ramp`(name: String, members: JSONObject) async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(2) { payload in
            try edited(payload) { document in
                var release = document["releases"]?.arrayValue?.first?.objectValue ?? [:]
                for member in members.members { release[member.name] = member.value }
                document["releases"] = .array([.object(release)])
            }
        }
        try await device.refuses(.manifestMalformed)
    }

    @Test func `TUF-322: parses a written ramp to the same values`() throws {
        let feed = try TrustFeed()
        for heldAt in [nil, Day.number(11)] {
            var release = try feed.release("1.1.0")
            (release.ramp, release.isPaused) = (try Self.ramp(heldAt: heldAt), heldAt != nil)
            let written = ChannelFormat.envelope(feed.document(1, [release]))
            let read = try ChannelFormat.parse(written).claims
            #expect(read.releases.map(\.ramp) == [release.ramp])
            #expect(ChannelFormat.payload(read) == written.payload)
        }
    }
}
