import ArchiveSource
import BundleTesting
import BundleValues
import Testing

@testable import BundleFormats
@testable import BundleCore

@Suite struct UrgentTests {
    private func offer(_ feed: TrustFeed, _ sequence: Int, urgent: Bool) throws {
        var release = try feed.release("1.1.0")
        release.isUrgent = urgent
        try feed.offer(feed.document(sequence, [try feed.release("1.0.0"), release]))
    }

    @Test func `TUF-330: stores urgent releases until a document changes them`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try offer(feed, 1, urgent: true)
        try await device.installs("1.1.0")
        let ledger = try device.inventory().ledger
        #expect(ledger.isUrgent(.archive(try SemanticVersion(parsing: "1.1.0"))))
        #expect(!ledger.isUrgent(.archive(try SemanticVersion(parsing: "1.0.0"))))
        try offer(feed, 2, urgent: false)
        try await device.stays(at: "v1.1.0")
        #expect(try device.memory().followed?.urgent == [])
    }

    @Test func `TUF-331: rejects an urgent member that is not true or false`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.offer(1) { payload in
            try edited(payload) { document in
                var release = document["releases"]?.arrayValue?.first?.objectValue ?? [:]
                release["urgent"] = .integer(1)
                document["releases"] = .array([.object(release)])
            }
        }
        try await device.refuses(.manifestMalformed)
    }

    @Test func `reports a channel as urgent if its highest release that may run is urgent`() throws {
        let feed = try TrustFeed()
        var document = feed.document(1, [try feed.release("1.0.0"), try feed.release("1.1.0")])
        #expect(!document.isUrgent)
        document.releases[0].isUrgent = true
        #expect(!document.isUrgent)
        document.releases[1].isUrgent = true
        #expect(document.isUrgent)
        let read = try ChannelFormat.parse(ChannelFormat.envelope(document)).claims
        #expect(read.releases.map(\.isUrgent) == [true, true])
        document.releases[1].isPaused = true
        #expect(!document.isUrgent)
        document.recalled = [FeedMemory.Recall(version: try SemanticVersion(parsing: "1.1.0"), reason: "")]
        #expect(document.isUrgent)
    }
}
