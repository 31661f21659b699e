import ArchiveSource
import BundleCore
import BundleValues
import BundleSigning
import BundleTesting
import Testing

@Suite struct StateTests {
    @Test func `TUF-301: stores a document before its archive is downloaded`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.offer(3, ["1.0.0"])
        feed.server.set(TrustFeed.archivePath("1.0.0"), Route().with { $0.raw = [] })
        try await device.refuses(.networkUnavailable, learnt: true)
        #expect(try device.sequence() == 3)
        let old = try ChannelFormat.envelope(feed.document(2, [])).signed(by: [feed.channel]).document
        let new = feed.document(3, [try feed.release("1.0.0")])
        feed.serve(old)
        try await device.refuses(.rollbackAttempt)
        try feed.offer(new)
        try await device.installs("1.0.0")
    }

    @Test func `TUF-302: keeps the installed client without a network`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        feed.server.stop()
        try await device.refuses(.networkUnavailable)
        try device.runs("v1.0.0")
    }

    @Test func `TUF-303: does not write to an up-to-date store`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        let before = try TreeSnapshot(of: device.store)
        try await device.stays(at: "v1.0.0")
        #expect(try TreeSnapshot(of: device.store).changes(since: before) == [])
    }

    @Test func `TUF-304: keeps what a concurrent update stored if the offer is older`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        try feed.offer(2, ["1.1.0"])
        let late = try device.updater()
        let offer = try await late.latestOffer()
        // Another process stores the recall of 1.1.0 and follows two roots.
        let bad = FeedMemory.Recall(version: try SemanticVersion(parsing: "1.1.0"), reason: "")
        try feed.offer(3, ["1.0.0"]) { $0.recalled = [bad] }
        try feed.publish(2)
        try feed.publish(3)
        try await device.stays(at: "v1.0.0")
        let outcome = try await late.update(to: offer)
        guard case .upToDate(_, _, let newest) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(newest.description == "v1.0.0")
        #expect(try device.sequence() == 3)
        #expect(try device.memory().trust?.version == 3)
        #expect(try device.memory().followed?.recalled == [bad])
        try device.runs("v1.0.0")
    }

    @Test func `TUF-305: stores the same state after two concurrent updates`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.publish(2)
        try feed.offer(4, ["1.0.0"])
        let late = try device.updater()
        let offer = try await late.latestOffer()
        try await device.installs("1.0.0")
        let memory = try device.memory()
        guard case .upToDate = try await late.update(to: offer) else {
            Issue.record("installed twice")
            return
        }
        #expect(try device.memory() == memory)
    }

    @Test func `TUF-312: applies the newer recall after two concurrent updates`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.offer(1, ["1.0.0", "1.1.0"])
        try await device.installs("1.1.0")
        let bad = FeedMemory.Recall(version: try SemanticVersion(parsing: "1.1.0"), reason: "")
        try feed.offer(3, ["1.0.0"]) { $0.recalled = [bad] }
        let late = try device.updater()
        let offer = try await late.latestOffer()
        // Another process receives an old document from a cache.
        try feed.offer(2, ["1.0.0", "1.1.0"])
        try await device.stays(at: "v1.1.0")
        _ = try await late.update(to: offer)
        #expect(try device.sequence() == 3)
        #expect(try device.memory().followed?.recalled == [bad])
        try device.runs("v1.0.0")
    }

    @Test func `TUF-306: stores the state of sixteen channels`() async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        for number in 1...18 {
            device.path = "/channels/c\(number).json"
            try feed.offer(number, []) { $0.channel = "c\(number)" }
            try await device.stays(at: "embedded")
        }
        #expect(try device.memory().channels.map(\.name) == (3...18).map { "c\($0)" })
    }

    @Test func `TUF-307: keeps the stored state if the trust anchor changes`() async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        try feed.publish(2)
        try feed.offer(4, ["1.0.0"])
        try await device.installs("1.0.0")
        let chain = device.anchor
        device.anchor = .keys(TrustedKeys([feed.channel.trusted.keys[0], feed.release.trusted.keys[0]]))
        try feed.offer(3, ["1.1.0"])
        try await device.refuses(.rollbackAttempt)
        device.anchor = chain
        try await device.refuses(.rollbackAttempt)
        #expect(try device.memory().trust?.version == 2)
    }
}
