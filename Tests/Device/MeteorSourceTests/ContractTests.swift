import BundleCore
import BundleFetch
import BundleTesting
import MeteorSource
import MeteorTesting
import Testing

/// Checks the contracts of sources and fetchers for hot code push.
@Suite("Hot code push: contracts") struct ContractTests {
    @Test func `keeps the contract of UpdateSource`() async throws {
        let (device, _) = try PushedDevice.cordova(serving: .version2)
        let layout = MeteorBundles(platform: .android)
        let channel = try MeteorSource(
            try device.source(), seed: try device.seed.map { try SeedFolder(at: $0, layout: layout) },
            fetcher: CurlFetcher(options: FetchOptions(userAgent: "tests")), report: UpdateObserver())
        #expect(try await SourceContract(channel).broken() == [])
    }

    @Test func `keeps the contract of Fetcher in the fetchers of these tests`() async throws {
        let bytes = (0..<5000).map { UInt8(truncatingIfNeeded: $0) }
        let server = try LoopbackServer(["/a": .resource(bytes, entityTag: "\"e\"", lastModified: "date")])
        let place = FetcherContract.Place(
            try server.url("/a"), holding: bytes, missing: try server.url("/missing"))
        let curl = CurlFetcher(options: FetchOptions(userAgent: "tests"))
        #expect(await FetcherContract(Counting(curl), at: place).broken() == [])
        #expect(await FetcherContract(Detour(curl, to: try server.url("/b"), times: 0), at: place).broken() == [])
    }
}
