import ArchiveSource
import BundleCore
import BundleValues
import BundleFetch
import BundleTesting
import Glibc
import Testing

/// A device with its own store that follows a `TrustFeed`.
struct Follower: Sendable {
    /// libarchive reads names in the process's character set, and Swift starts in "C".
    private static let readsUTF8 = setlocale(LC_CTYPE, "C.UTF-8") != nil
    private static let fetcher: any Fetcher = {
        var options = FetchOptions(userAgent: "tests")
        // A gate may delay a response on a busy machine.
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
    /// The address on another server; nil for the feed's own.
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
            limits: ArchiveLimits(), fetcher: fetcher, environment: Environment(now: { [now] in now }),
            report: UpdateObserver()
        )
    }

    func updater() throws -> Updater<ArchiveSource> {
        let device = Updater<ArchiveSource>.UpdateDevice(
            store: store, shell: try SemanticVersion(parsing: shell), appId: appId, keep: 8)
        return Updater(source: try channel(), device: device, environment: Environment())
    }

    func update() async throws -> UpdateOutcome { try await updater().update() }

    func inventory() throws -> Inventory { try Inventory.read(at: store) }

    /// The stored state of the feed.
    func memory() throws -> FeedMemory { try inventory().ledger.feed }

    /// The stored sequence of the channel.
    func sequence() throws -> Int? { try memory().followed?.sequence }

    // MARK: Expected results of an update

    /// Expects that an update installs `version`, which runs next.
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

    /// Expects that an update changes nothing and `name` runs next.
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

    /// Expects that an update fails with `code` and keeps the clients and their selection. It also keeps the memory,
    /// unless `learnt` is true.
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

    /// Expects that the next launch is of `name`.
    func runs(_ name: String, sourceLocation: SourceLocation = #_sourceLocation) throws {
        let ledger = try inventory().ledger
        #expect((ledger.pending ?? ledger.current).description == name, sourceLocation: sourceLocation)
    }
}

/// A row of a table: a device installed 1.0.0 by document 1, and document 2 offers 1.1.0.
struct Scenario: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// The expected error; nil if 1.1.0 is installed.
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

    /// Publishes document 2 as the publisher or an attacker.
    func prepare(_ feed: TrustFeed) throws { try arrange(feed) }

    /// Runs the scenario. `learnt` is true if the refusal follows an accepted document.
    @discardableResult
    func run(appId: String? = nil, learnt: Bool = false) async throws -> UpdateFailure? {
        let feed = try TrustFeed(appId: appId)
        let device = try Follower(feed, trusting: try feed.pinned(trust(feed), by: feed.keys))
        // All keys sign, so that every threshold is reached.
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
