import Testing

import BundleFormats
@testable import BundlePublish

@Suite("FeedExport") struct FeedExportRuleTests {
    @Test(arguments: [
        ("client.tar.zst", "releases/v1.0.0/manifest.json", "releases/v1.0.0/client.tar.zst"),
        ("releases/v1.0.0/a.zip", "manifest.json", "releases/v1.0.0/a.zip"),
        ("../releases/v1.0.0/a.zip", "channels/stable.json", "releases/v1.0.0/a.zip"),
        ("./a", "b", "a"), ("../a", "manifest.json", nil), ("../../a", "channels/stable.json", nil), ("/a", "b", nil),
        ("https://h/a", "b", nil), ("a?b", "c", nil), ("%2e%2e/a", "b/c", nil), ("a//b", "c", nil), ("..", "a/b", nil),
    ]) func `resolves only paths inside the feed`(url: String, document: String, path: String?) {
        #expect(FeedExport.path(of: url, from: document) == path)
    }
}
