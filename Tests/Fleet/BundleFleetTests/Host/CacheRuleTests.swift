import Testing

@testable import BundleFleet

@Suite("CacheRule")
struct CacheRuleTests {
    private static let files = [
        CacheRule.CachedFile(path: "releases/v1.0.0/a", size: 10, use: 3),
        CacheRule.CachedFile(path: "releases/v1.1.0/b", size: 10, use: 1),
        CacheRule.CachedFile(path: "releases/v1.2.0/c", size: 10, use: 2),
        CacheRule.CachedFile(path: "releases/v1.2.0/d", size: 10, use: 0),
    ]

    @Test(arguments: [
        (0, []), (1, ["releases/v1.1.0/b"]), (10, ["releases/v1.1.0/b"]),
        (11, ["releases/v1.1.0/b", "releases/v1.0.0/a"]),
        (21, ["releases/v1.1.0/b", "releases/v1.0.0/a", "releases/v1.2.0/d"]),
        (1000, ["releases/v1.1.0/b", "releases/v1.0.0/a", "releases/v1.2.0/d", "releases/v1.2.0/c"]),
    ]) func `removes the least recently used files, those of an offered release last`(excess: Int, victims: [String]) {
        #expect(CacheRule.victims(Self.files, offered: ["releases/v1.2.0/c"], excess: excess) == victims)
    }
}
