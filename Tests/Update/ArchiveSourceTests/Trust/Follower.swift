import ArchiveSource
import BundleCore
import BundleValues
import BundlePlatform
import BundleTesting
import Glibc
import Testing

/// A device that follows a `TrustFeed`, with a store of its own.
struct Follower: Sendable {
    /// libarchive reads names in the process's character set, and Swift starts in "C".
    private static let readsUTF8 = setlocale(LC_CTYPE, "C.UTF-8") != nil
    private static let fetcher: any Fetcher = {
        var options = FetchOptions(userAgent: "tests")
        // A gate may hold an answer for as long as a busy machine takes.
        options.stallTimeout = .seconds(300)
        return CurlFetcher(options: options)
    }()

    let feed: TrustFeed
    let folder: TemporaryFolder
    var anchor: TrustAnchor
    var now = Day.number(10)
    var appId: String?
    var shell = "1.0.0"
    var deviceId: String? = "device-1"
    var groups: [String]?
    var path = "/channels/stable.json"
    /// Another server than the feed's own.
    var source: FeedAddress?
    var fetcher = Self.fetcher

    init(_ feed: TrustFeed, trusting anchor: TrustAnchor? = nil) throws {
        try #require(Self.readsUTF8)
        self.feed = feed
        folder = try TemporaryFolder()
        appId = feed.appId
        self.anchor = try anchor ?? feed.pinned()
    }

    var store: String { folder.file("store") }

    func channel() throws -> ArchiveSource {
        let url = try feed.server.url(path)
        let standard = path == "/manifest.json" ? FeedAddress.manifest(url) : .channel(url)
        return ArchiveSource(
            source: source ?? standard, anchor: anchor,
            deviceId: ArchiveSource.DeviceId(given: deviceId, groups: groups),
            limits: ArchiveLimits(), fetcher: fetcher, now: { [now] in now }, report: { _ in })
    }

    func updater() throws -> Updater<ArchiveSource> {
        let device = Updater<ArchiveSource>.Device(
            store: store, shell: try SemanticVersion(parsing: shell), appId: appId, keep: 8)
        return Updater(source: try channel(), device: device, warn: { _ in })
    }

    func update() async throws -> UpdateOutcome { try await updater().update() }

    func inventory() throws -> Inventory { try Inventory.read(at: store) }

    /// What the store remembers of the feed.
    func memory() throws -> FeedMemory { try inventory().ledger.feed }

    /// The sequence of the channel that is known.
    func sequence() throws -> Int? { try memory().followed?.sequence }

    // MARK: What an update comes to

    /// Installs `version`, which runs next.
    func installs(_ version: String, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        do {
            let outcome = try await update()
            guard case .installed(let installed, _) = outcome else {
                Issue.record("not installed: \(outcome)", sourceLocation: sourceLocation)
                return
            }
            #expect(installed.description == version, sourceLocation: sourceLocation)
        } catch {
            Issue.record("\(UpdateFailure(error).code): \(error)", sourceLocation: sourceLocation)
        }
        try runs("v\(version)", sourceLocation: sourceLocation)
    }

    /// Has nothing to do, and `name` runs next.
    func stays(at name: String, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let before = try inventory().bundles
        do {
            switch try await update() {
            case .upToDate(_, _, let newest), .notInRollout(_, _, let newest, _):
                #expect(newest.description == name, sourceLocation: sourceLocation)
            case let outcome:
                Issue.record("it does something: \(outcome)", sourceLocation: sourceLocation)
                return
            }
        } catch {
            Issue.record("\(UpdateFailure(error).code): \(error)", sourceLocation: sourceLocation)
        }
        #expect(try inventory().bundles == before, sourceLocation: sourceLocation)
        try runs(name, sourceLocation: sourceLocation)
    }

    /// Refuses for the reason `code`: the clients and the choice between them are what they were; what is remembered as well,
    /// unless the scenario says that something is `learnt`.
    @discardableResult
    func refuses(
        _ code: FailureCode, learnt: Bool = false, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> UpdateFailure {
        let before = try inventory()
        var failure: UpdateFailure?
        do { _ = try await update() } catch { failure = UpdateFailure(error) }
        #expect(failure?.code == code, "\(failure?.message ?? "taken")", sourceLocation: sourceLocation)
        let after = try inventory()
        #expect(after.bundles == before.bundles, sourceLocation: sourceLocation)
        #expect(after.ledger.current == before.ledger.current, sourceLocation: sourceLocation)
        #expect(after.ledger.pending == before.ledger.pending, sourceLocation: sourceLocation)
        if learnt {
            #expect(after.ledger.feed != before.ledger.feed, sourceLocation: sourceLocation)
        } else {
            #expect(after.ledger.feed == before.ledger.feed, sourceLocation: sourceLocation)
            #expect(after.ledger.blocks == before.ledger.blocks, sourceLocation: sourceLocation)
        }
        return try #require(failure, sourceLocation: sourceLocation)
    }

    /// `name` is the client that is launched next.
    func runs(_ name: String, sourceLocation: SourceLocation = #_sourceLocation) throws {
        let ledger = try inventory().ledger
        #expect((ledger.pending ?? ledger.current).description == name, sourceLocation: sourceLocation)
    }
}

/// One row of a table: a device that has 1.0.0 by document 1 meets a document 2 that should bring 1.1.0.
struct Scenario: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// Why nothing is installed; nil where 1.1.0 is.
    let code: FailureCode?
    private let trust: @Sendable (TrustFeed) -> TrustRoot
    private let arrange: @Sendable (TrustFeed) throws -> Void

    init(
        _ name: String, _ code: FailureCode?,
        trusting trust: @escaping @Sendable (TrustFeed) -> TrustRoot = { $0.trustRoot() },
        _ arrange: @escaping @Sendable (TrustFeed) throws -> Void
    ) {
        testDescription = name
        self.code = code
        self.trust = trust
        self.arrange = arrange
    }

    /// What the publisher, or somebody in its place, does.
    func prepare(_ feed: TrustFeed) throws { try arrange(feed) }

    /// Plays it; `learnt` where the refusal comes after the document, which is remembered.
    @discardableResult
    func run(appId: String? = nil, learnt: Bool = false) async throws -> UpdateFailure? {
        let feed = try TrustFeed(appId: appId)
        let device = try Follower(feed, trusting: try feed.pinned(trust(feed), by: feed.keys))
        // Whoever must sign, has.
        let first = feed.document(1, [try feed.release("1.0.0", by: [feed.release] + feed.keys)])
        try feed.offer(first, by: feed.keys)
        try await device.installs("1.0.0")
        try arrange(feed)
        guard let code else {
            try await device.installs("1.1.0")
            return nil
        }
        let failure = try await device.refuses(code, learnt: learnt)
        if learnt { #expect(try device.sequence() == 2) }
        return failure
    }
}
