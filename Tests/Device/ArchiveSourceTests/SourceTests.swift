import BundleCore
import BundleValues
import BundleDisk
import BundleTesting
import BundleFetch
import BundleSigning
import Testing

@testable import BundleFormats
@testable import ArchiveSource

@Suite struct ManifestRequestTests {
    private func manifest(at url: String) throws -> Manifest {
        Manifest(
            version: try SemanticVersion(parsing: "1.0.0"), url: url, sha256: try SHA256Digest.of([]),
            shells: try ShellRange(minimum: SemanticVersion(parsing: "1.0.0")))
    }

    @Test(arguments: [
        ("https://a.example/m.json", "http://a.example/c.zip"), ("https://a.example/m.json", "file:///etc/passwd"),
        ("http://a.example/m.json", "file:///etc/passwd"), ("https://a.example/m.json", "ftp://a.example/c.zip"),
    ])
    func `rejects an archive URL with a less protected scheme than its manifest`(source: String, archive: String) throws
    {
        let url = try FetchURL(parsing: source)
        let refusal = #expect(throws: ManifestRefusal.self) {
            try ManifestRequest.archiveURL(of: manifest(at: archive), at: url)
        }
        #expect(refusal?.member == "manifest.url")
        #expect(refusal.map { UpdateFailure($0).code } == .manifestMalformed)
    }

    @Test(arguments: [
        ("https://a.example/f/m.json", "c.zip", "https://a.example/f/c.zip"),
        ("https://a.example/m.json", "https://b.example/c.zip", "https://b.example/c.zip"),
        ("http://a.example/m.json", "https://b.example/c.zip", "https://b.example/c.zip"),
        ("file:///feed/m.json", "../c.zip", "file:///c.zip"),
        ("file:///feed/m.json", "https://a.example/c.zip", "https://a.example/c.zip"),
    ])
    func `accepts an archive URL on another host or path`(source: String, archive: String, found: String) throws {
        let url = try ManifestRequest.archiveURL(of: manifest(at: archive), at: FetchURL(parsing: source))
        #expect(url.description == found)
    }

    /// Returns the error of the download of a file with `count` bytes.
    private func refusal(
        ofBytes count: Int, _ fetch: (FetchURL, CurlFetcher) async throws -> Void
    ) async throws -> String? {
        let folder = try TemporaryDirectory.ofTests()
        try folder.directory.replaceFile("document", with: [UInt8](repeating: 0x20, count: count))
        let url = try FetchURL(filePath: Array("\(folder.directory.path)/document".utf8))
        do {
            try await fetch(url, CurlFetcher(options: FetchOptions(userAgent: "tests")))
            return nil
        } catch {
            return UpdateFailure(error).message
        }
    }

    @Test func `rejects a manifest above its size limit`() async throws {
        let limit = ManifestFormat.maximumBytes
        #expect(try await refusal(ofBytes: limit) { _ = try await ManifestRequest.fetch($0, with: $1) } == nil)
        let message = try await refusal(ofBytes: limit + 1) { _ = try await ManifestRequest.fetch($0, with: $1) }
        #expect(message?.contains("is longer than \(limit) bytes") == true)
    }

    @Test func `rejects a channel document above its size limit`() async throws {
        let limit = ChannelFormat.maximumBytes
        #expect(try await refusal(ofBytes: limit) { _ = try await ManifestRequest.fetchChannel($0, with: $1) } == nil)
        let message = try await refusal(ofBytes: limit + 1) { _ = try await ManifestRequest.fetchChannel($0, with: $1) }
        #expect(message?.contains("is longer than \(limit) bytes") == true)
    }

    @Test func `rejects a trust root above its size limit`() async throws {
        let limit = TrustRootFormat.maximumBytes
        let trust = try CurrentTrust(try TrustFeed().pinned(), memory: FeedMemory())
        let refusal = { (count: Int) in
            let folder = try TemporaryDirectory.ofTests()
            try folder.directory.replaceFile("2.json", with: [UInt8](repeating: 0x20, count: count))
            let url = try FetchURL(filePath: Array("\(folder.directory.path)/feed.json".utf8))
            let update = TrustUpdate(
                source: url, folder: ".", fetcher: CurlFetcher(options: FetchOptions(userAgent: "tests")))
            return await #expect(throws: DocumentRefusal.self) { _ = try await update.next(after: trust) }
        }
        #expect(try await refusal(limit)?.problem.contains("strict JSON") == true)
        #expect(try await refusal(limit + 1)?.problem == "is longer than \(limit) bytes")
    }
}
