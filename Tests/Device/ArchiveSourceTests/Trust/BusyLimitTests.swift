import ArchiveSource
import BundleTesting
import BundleValues
import Testing

@testable import BundleCore

@Suite struct BusyLimitTests {
    @Test func `TUF-332: stores the busy limit of the channel`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        for (sequence, limit) in [(1, nil), (2, 120), (3, 0)] as [(Int, Int?)] {
            try feed.offer(sequence, ["1.0.0"]) { $0.busyLimit = limit }
            if sequence == 1 { try await device.installs("1.0.0") } else { try await device.stays(at: "v1.0.0") }
            #expect(try device.memory().followed?.busyLimit == limit)
        }
    }

    @Test(arguments: [JSONValue.integer(3601), .integer(-1), .string("10m")])
    func `TUF-333: rejects a busy limit above an hour`(limit: JSONValue) async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.offer(1) { payload in try edited(payload) { $0["busyLimit"] = limit } }
        try await device.refuses(.manifestMalformed)
    }
}
