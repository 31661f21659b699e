import ArchiveSource
import BundleTesting
import BundleValues
import Testing

@testable import BundleFormats
@testable import BundleCore

@Suite struct GroupTests {
    private func settled(_ feed: TrustFeed, in groups: [String]? = nil) async throws -> Follower {
        var device = try Follower(feed)
        device.groups = groups
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        return device
    }

    private func offer(
        _ feed: TrustFeed, _ sequence: Int, _ groups: [String], only: Bool = false, rollout: Int = 0,
        isPaused: Bool = false
    ) throws {
        var release = try feed.release("1.1.0")
        (release.groups, release.isOnlyForGroups, release.isPaused) = (groups, only, isPaused)
        (release.rollout, release.salt) = (rollout, "1.1.0")
        try feed.offer(feed.document(sequence, [try feed.release("1.0.0"), release]))
    }

    @Test func `TUF-323: installs a release for a group regardless of the percentage`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, in: ["eu", "qa"])
        let other = try await settled(feed, in: ["us"])
        try offer(feed, 2, ["beta", "qa"])
        try await device.installs("1.1.0")
        try await other.stays(at: "v1.0.0")
        #expect(try other.memory().followed?.leftOut.map(\.description) == ["1.1.0"])
    }

    @Test func `TUF-324: excludes other devices from a release for groups only`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, in: ["qa"])
        let other = try await settled(feed)
        try offer(feed, 2, ["qa"], only: true, rollout: 1000)
        try await other.stays(at: "v1.0.0")
        try await device.installs("1.1.0")
        // A device that leaves the group returns to the previous release.
        var left = device
        left.groups = []
        try await left.stays(at: "v1.0.0")
    }

    @Test func `TUF-325: stores the groups until others are configured`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed, in: ["qa"])
        device.groups = nil
        try offer(feed, 2, ["qa"])
        try await device.installs("1.1.0")
        #expect(try device.memory().groups == ["qa"])
        device.groups = []
        try await device.stays(at: "v1.0.0")
        #expect(try device.memory().groups == [])
    }

    /// `printf device-1 | sha256sum`
    @Test func `TUF-326: addresses a single device by the hash of its id`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        #expect(try DeviceGroup.single("device-1") == "device:03204de92e11fc8c")
        try offer(feed, 2, ["device:0000000000000000"])
        try await device.stays(at: "v1.0.0")
        try offer(feed, 3, ["device:03204de92e11fc8c"], only: true)
        try await device.installs("1.1.0")
    }

    @Test func `TUF-327: applies a pause to groups`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, in: ["qa"])
        try offer(feed, 2, ["qa"], isPaused: true)
        try await device.stays(at: "v1.0.0")
    }

    @Test(
        arguments: [
            ("no list", ["groups": .string("qa")]), ("a capital letter", ["groups": .array([.string("QA")])]),
            ("an empty name", ["groups": .array([.string("")])]),
            ("a name that means no group", ["groups": .array([.string("none")])]),
            ("a name too long", ["groups": .array([.string(String(repeating: "a", count: 65))])]),
            ("half a device", ["groups": .array([.string("device:5a3d")])]),
            ("a device in capitals", ["groups": .array([.string("device:03204DE92E11FC8C")])]),
            ("one twice", ["groups": .array([.string("qa"), .string("qa")])]),
            ("101 groups", ["groups": .array((0...100).map { .string("g\($0)") })]),
            ("alone, without groups", ["only": .bool(true)]),
            ("alone, neither true nor false", ["groups": .array([.string("qa")]), "only": .integer(1)]),
        ] as [(String, JSONObject)])
    func `TUF-328: rejects invalid groups`(name: String, members: JSONObject) async throws {
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

    @Test func `TUF-329: parses written groups to the same values`() throws {
        let feed = try TrustFeed()
        var release = try feed.release("1.1.0")
        (release.groups, release.isOnlyForGroups) = (["device:03204de92e11fc8c", "qa"], true)
        let written = ChannelFormat.envelope(feed.document(1, [release]))
        let read = try ChannelFormat.parse(written).claims
        #expect(read.releases[0].groups == release.groups)
        #expect(read.releases[0].isOnlyForGroups)
        #expect(ChannelFormat.payload(read) == written.payload)
    }

    @Test func `parses the groups of a device from a comma-separated list`() {
        #expect(DeviceGroup.list("qa,eu,qa") == ["eu", "qa"])
        #expect(DeviceGroup.list("none") == [])
        for text in ["", "qa,", "qa, eu", "QA", ".qa", "device:03204de92e11fc8c", "qa,none"] {
            #expect(DeviceGroup.list(text) == nil, "\(text)")
        }
        #expect(DeviceGroup.list((1...16).map { "g\($0)" }.joined(separator: ","))?.count == 16)
        #expect(DeviceGroup.list((1...17).map { "g\($0)" }.joined(separator: ",")) == nil)
    }
}
