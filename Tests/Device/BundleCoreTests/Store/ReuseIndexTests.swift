import BundleValues
import BundleDisk
import BundleSigning
import BundleTesting
import Testing

@testable import BundleCore

struct ReuseIndexTests {
    private static let receipt = "receipts/v1.0.0.json"

    private static func bench(_ files: [String: String]) async throws -> StoreBench {
        let bench = try StoreBench()
        _ = try await bench.updater(try MemoryOffer("1.0.0", files: files)).update()
        return bench
    }

    private static func candidate(_ bench: StoreBench, _ text: String, size: Int? = nil) async throws
        -> ReuseIndex.ReuseCandidate?
    {
        let index = try await bench.open().reuseIndex()
        return index.candidate(try .of(Array(text.utf8)), size: size ?? text.utf8.count)
    }

    @Test func `finds content by digest and size`() async throws {
        let bench = try await Self.bench(["index.html": "one", "a/\"b\".js": "two", "é": ""])
        let found = try #require(try await Self.candidate(bench, "two"))
        #expect(found.record.path.string == "a/\"b\".js")
        #expect(found.tree.path == bench.path + "/clients/v1.0.0")
        #expect(try await Self.candidate(bench, "")?.record.path.string == "é")
        #expect(try await Self.candidate(bench, "three") == nil)
        #expect(try await Self.candidate(bench, "two", size: 4) == nil)
    }

    @Test func `prefers the newest client with the content`() async throws {
        let bench = try await Self.bench(["index.html": "one"])
        _ = try await bench.updater(try MemoryOffer("1.1.0", files: ["index.html": "two", "old.html": "one"])).update()
        #expect(try await Self.candidate(bench, "one")?.record.path.string == "old.html")
    }

    @Test func `finds nothing in a store without clients`() async throws {
        let bench = try StoreBench()
        let index = try await bench.open().reuseIndex()
        #expect(index.candidate(try .of(Array("one".utf8)), size: 3) == nil)
    }

    @Test(arguments: [
        ("\"path\":\"index.html\"", "\"path\":\"../../x\""), ("\"path\":\"index.html\"", "\"path\":\"/etc/passwd\""),
        ("\"size\":3", "\"size\":03"), ("{\"path\"", "{\"Path\""), ("\"}\n]", "\" }\n]"), ("\"}\n]", "x\"}\n]"),
    ])
    func `ignores a changed line`(part: String, instead: String) async throws {
        let bench = try await Self.bench(["index.html": "one"])
        let text = try #require(try bench.text(Self.receipt))
        let spoilt = text.replacingFirst(part, with: instead)
        #expect(spoilt != text)
        try bench.write(spoilt, to: Self.receipt)
        #expect(try await Self.candidate(bench, "one") == nil)
    }

    @Test func `ignores a changed digest`() async throws {
        let bench = try await Self.bench(["index.html": "one"])
        let digest = try SHA256Digest.of(Array("one".utf8)).hex
        let text = try #require(try bench.text(Self.receipt))
        // The index compares 16 digits, and the record all of them.
        let spoilt = String(digest.prefix(16)) + String(repeating: "0", count: 48)
        try bench.write(text.replacing(digest, with: spoilt), to: Self.receipt)
        #expect(try await Self.candidate(bench, "one") == nil)
        try bench.write(text.replacing(digest, with: digest.uppercased()), to: Self.receipt)
        #expect(try await Self.candidate(bench, "one") == nil)
    }

    @Test func `ignores a receipt that changes after it was indexed`() async throws {
        let bench = try await Self.bench(["index.html": "one"])
        let index = try await bench.open().reuseIndex()
        #expect(index.candidate(try .of(Array("one".utf8)), size: 3) != nil)
        // The index keeps the file open, so the file is changed in place.
        let file = try bench.root().file(appending: Self.receipt)
        try file.truncate(to: 0)
        #expect(index.candidate(try .of(Array("one".utf8)), size: 3) == nil)
    }

    @Test func `ignores a client without a receipt or a folder`() async throws {
        for missing in [Self.receipt, "clients/v1.0.0"] {
            let bench = try await Self.bench(["index.html": "one"])
            let inventory = try Inventory.read(at: bench.path)
            try bench.remove(missing)
            let index = ReuseIndex(inventory.bundles, in: try bench.root())
            #expect(index.candidate(try .of(Array("one".utf8)), size: 3) == nil)
        }
    }
}
