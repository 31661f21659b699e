import BundleDisk
import BundleFetch
import BundleTestTraits
import BundleTesting
import BundleValues
import Synchronization
import Testing

import BundleFormats
@testable import BundlePublish

/// The guarantees of every kind of feed location.
@Suite("FeedLocation", .ownThread) struct FeedLocationTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// Returns an empty location as two commands see it.
    private func locations(_ kind: LocationKind) throws -> (one: any FeedLocation, other: any FeedLocation) {
        (try kind.location(in: folder), try kind.location(in: folder))
    }

    private func text(_ location: any FeedLocation, _ name: String) throws -> String? {
        try location.read(name, maximumBytes: 1 << 20).map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test(arguments: LocationKind.all)
    func `creates a file once, and does not change an existing one`(_ kind: LocationKind) throws {
        let (one, other) = try locations(kind)
        #expect(try text(one, "releases/v1.0.0/manifest.json") == nil)
        #expect(try one.create("releases/v1.0.0/manifest.json", with: .bytes(Array("first".utf8))))
        #expect(try !other.create("releases/v1.0.0/manifest.json", with: .bytes(Array("second".utf8))))
        #expect(try text(other, "releases/v1.0.0/manifest.json") == "first")
    }

    @Test(arguments: LocationKind.all)
    func `replaces a file only if it is unchanged since it was read`(_ kind: LocationKind) throws {
        let (one, other) = try locations(kind)
        let name = "channels/stable.json"
        try one.replace(name, with: Array("1".utf8), version: nil)
        #expect(throws: FeedConflict(name, in: other)) { try other.replace(name, with: Array("x".utf8), version: nil) }
        let read = try #require(try one.read(name, maximumBytes: 9))
        #expect(try other.read(name, maximumBytes: 9) == read)
        try other.replace(name, with: Array("2".utf8), version: read.version)
        #expect(throws: FeedConflict(name, in: one)) {
            try one.replace(name, with: Array("x".utf8), version: read.version)
        }
        #expect(try text(one, name) == "2")
        let version = try one.read(name, maximumBytes: 9)?.version
        #expect(version != read.version)
        try other.remove(name)
        #expect(throws: FeedConflict(name, in: one)) { try one.replace(name, with: Array("x".utf8), version: version) }
        #expect(try text(one, name) == nil)
    }

    @Test func `removes the temporary file of a stopped publisher at the next change`() throws {
        let path = folder.file("left")
        try folder.writeTree(
            [
                "left/manifest.json.new": [], "left/channels/beta.json.new": [], "left/channels/beta.json": [1],
                "left/trust/2.json.new": [2], "left/notes.new": [3], "left/channels/x.json.new/file": [4],
                // A draft of a release, or one that was being removed.
                "left/releases/.publish-x/manifest.json": [6], "left/releases/v1.0.0/manifest.json": [7],
            ], to: ".")
        try FeedFolder(path).replace("channels/stable.json", with: [5], version: nil)
        #expect(
            Set(try TreeSnapshot(of: path).files.keys)
                == [
                    "channels/beta.json", "channels/stable.json", "notes.new", "channels/x.json.new/file",
                    "releases/v1.0.0/manifest.json",
                ])
    }

    @Test(arguments: LocationKind.all)
    func `removes a file, and ignores a missing one`(_ kind: LocationKind) throws {
        let (one, other) = try locations(kind)
        try one.remove("releases/v1.0.0/manifest.json")
        #expect(try one.create("releases/v1.0.0/manifest.json", with: .bytes([1])))
        #expect(try one.create("releases/v1.0.0/a", with: .bytes([1])))
        try other.remove("releases/v1.0.0/manifest.json")
        try other.remove("releases/v1.0.0/manifest.json")
        #expect(try one.read("releases/v1.0.0/manifest.json", maximumBytes: 9) == nil)
        #expect(try one.list("").map(\.name) == ["releases/v1.0.0/a"])
    }

    @Test(arguments: LocationKind.all)
    func `removes a release, and ignores a missing one`(_ kind: LocationKind) throws {
        let (one, other) = try locations(kind)
        try one.remove("releases/v1.0.0/")
        for name in ["v1.0.0/manifest.json", "v1.0.0/a.delta", "v1.0.00/a"] {
            #expect(try one.create("releases/\(name)", with: .bytes([1])))
        }
        try other.remove("releases/v1.0.0/")
        try other.remove("releases/v1.0.0/")
        #expect(try one.list("").map(\.name) == ["releases/v1.0.00/a"])
        if let folder = one.address.folder {
            #expect(try Directory.open("\(folder)/releases").list() == ["v1.0.00"])
        }
    }

    @Test(arguments: LocationKind.all)
    func `lists the files below a folder with their sizes`(_ kind: LocationKind) throws {
        let (one, other) = try locations(kind)
        #expect(try one.list("") == [])
        for (name, size) in [("manifest.json", 1), ("channels/stable.json", 2), ("channels/stable/1.json", 3)] {
            #expect(try one.create(name, with: .bytes(Array(repeating: 7, count: size))))
        }
        #expect(try one.create("channelsx/a.json", with: .bytes([1])))
        func listed(_ folder: String) throws -> Set<String> {
            Set(try other.list(folder).map { "\($0.name) \($0.size)" })
        }
        #expect(try listed("channels") == ["channels/stable.json 2", "channels/stable/1.json 3"])
        #expect(try listed("channels/stable") == ["channels/stable/1.json 3"])
        let now = Timestamp.now.secondsSinceEpoch
        #expect(try other.list("").allSatisfy { abs(($0.written?.secondsSinceEpoch ?? 0) - now) < 600 })
        #expect(try other.list("trust") == [])
        #expect(try other.list("").count == 4)
    }

    @Test(arguments: LocationKind.all)
    func `streams a large file unchanged`(_ kind: LocationKind) throws {
        let (one, other) = try locations(kind)
        let bytes = noise(3_000_001)
        try folder.write(bytes, to: "large")
        #expect(try one.create("a/large", with: .file(File.open(reading: folder.file("large")))))
        var found: [UInt8] = []
        #expect(try other.stream("a/large", maximumBytes: 3_000_001) { found += $0 })
        #expect(found == bytes)
        #expect(try !other.stream("a/small", maximumBytes: 3_000_001) { found += $0 })
        #expect(throws: (any Error).self) { try other.stream("a/large", maximumBytes: 3_000_000) { _ in } }
        #expect(throws: (any Error).self) { try other.read("a/large", maximumBytes: 3_000_000) }
        #expect(try other.read("a/large", maximumBytes: 3_000_001)?.bytes == bytes)
    }

    @Test(arguments: LocationKind.all)
    func `has a release only after its draft is committed`(_ kind: LocationKind) throws {
        let (one, other) = try locations(kind)
        let draft = try one.draft(FeedWait())
        try draft.scratch.createDurableFile("client.tar", with: [1, 2, 3])
        try draft.scratch.createDurableFile("one.delta", with: [5])
        #expect(try other.list("") == [])
        #expect(!draft.isCommitted)
        try draft.commit("v1.0.0", archive: "client.tar", besides: ["one.delta"], manifest: [4])
        #expect(draft.isCommitted)
        let names = ["client.tar", "one.delta", "manifest.json"].map { "releases/v1.0.0/\($0)" }
        #expect(try Set(other.list("").map(\.name)) == Set(names))
        #expect(try names.map { try other.read($0, maximumBytes: 9)?.bytes } == [[1, 2, 3], [5], [4]])
    }

    @Test(arguments: LocationKind.all.filter { $0 != .singleWriterBucket })
    func `keeps the changes of concurrent publishers`(_ kind: LocationKind) throws {
        let (one, _) = try locations(kind)
        let location = folder.path
        let failures = Mutex<[String]>([])
        let threads = try (0..<4).map { _ in
            try BlockingThread {
                do {
                    for _ in 0..<3 { try Self.count(in: try kind.location(inFolder: location)) }
                } catch {
                    failures.withLock { $0.append("\(error)") }
                }
            }
        }
        for thread in threads { thread.join() }
        #expect(failures.withLock { $0 } == [])
        #expect(try text(one, "count") == "12")
    }

    @Test(.enabled(if: TestBucket.missing == nil, "\(TestBucket.missing ?? "")"))
    func `runs with a bucket of an object store`() {
        #expect(LocationKind.all.contains(.bucket))
    }

    /// Increments the number in the file `count`.
    private static func count(in location: any FeedLocation) throws {
        for attempt in 1... {
            do {
                return try location.change(FeedWait(.seconds(60)), channels: [], draft: { () -> Never? in nil }) { _ in
                    let read = try location.read("count", maximumBytes: 99)
                    let number = read.flatMap { Int(String(decoding: $0.bytes, as: UTF8.self)) } ?? 0
                    try location.replace("count", with: Array("\(number + 1)".utf8), version: read?.version)
                }
            } catch let failure as UpdateFailure where failure.code == .storeLocked && attempt < 20 {
                // A publisher that lost six attempts gets an error and has changed nothing.
            }
        }
    }
}

/// A kind of location.
enum LocationKind: String, CaseIterable, CustomTestStringConvertible {
    case folder
    /// A bucket of an object store that verifies signatures; without one, a test is skipped by name.
    case bucket
    /// The same for a single writer, for a store without conditional writes.
    case singleWriterBucket

    static let all = TestBucket.missing == nil ? allCases : [.folder]
    var testDescription: String { rawValue }

    func location(in folder: TemporaryFolder) throws -> any FeedLocation { try location(inFolder: folder.path) }

    func location(inFolder path: String) throws -> any FeedLocation {
        if self == .folder { return FeedFolder("\(path)/location") }
        var terms = BucketTerms()
        terms.isSingleWriter = self == .singleWriterBucket
        terms.firstPause = .milliseconds(5)
        let store = try TestBucket.forAllTests.get()
        let prefix = path.split(separator: "/").joined(separator: "/")
        let address = try #require(BucketAddress(parsing: "s3://feeds/\(prefix)/x"))
        let keys = try #require(AccessKeys(id: store.keyId, secret: store.secret, sessionToken: nil))
        // The store handles one request after the other, for all tests.
        var options = FetchOptions(userAgent: "test")
        (options.stallTimeout, options.slowFloor) = (.seconds(600), 0)
        let client = ObjectClient(
            bucket: try FetchURL(parsing: "\(store.url)/feeds"), region: "us-east-1", keys: keys,
            options: options)
        return BucketLocation(address, client: client, terms: terms)
    }
}
