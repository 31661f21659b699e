import BundleFormats
import ArchiveSource
import BundleTesting
import Testing

/// Runs the contract of update sources with signed archives.
struct ContractTests {
    @Test func `satisfies the source contract with a flat manifest`() async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        device.path = "/manifest.json"
        try feed.offerFlat("1.0.0")
        #expect(try await SourceContract(device.channel(), appId: feed.appId).broken() == [])
    }

    @Test func `satisfies the source contract with a channel document and a chain of roots`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        for version in 2...4 { try feed.publish(version) }
        try feed.offer(1, ["1.0.0"])
        #expect(try await SourceContract(device.channel(), appId: feed.appId).broken() == [])
    }
}
