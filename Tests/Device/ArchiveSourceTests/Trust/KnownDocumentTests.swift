import ArchiveSource
import BundleCore
import BundleTesting
import BundleValues
import Synchronization
import Testing

@Suite struct KnownDocumentTests {
    private static let path = "/channels/stable.json"

    private let feed: TrustFeed
    private let device: Follower
    private let clock = DeviceClock()
    private let updater: Updater<ArchiveSource>

    private final class DeviceClock: Sendable {
        let now = Mutex(Day.number(10))
    }

    init() throws {
        feed = try TrustFeed()
        device = try Follower(feed)
        let source = ArchiveSource(
            source: .channel(try feed.server.url(Self.path)), anchor: device.anchor,
            deviceId: ArchiveSource.DeviceId(given: "device-1"), limits: ArchiveLimits(), fetcher: device.fetcher,
            environment: Environment(now: { [clock] in clock.now.withLock { $0 } }), report: UpdateObserver())
        updater = Updater(
            source: source,
            device: Updater<ArchiveSource>.UpdateDevice(
                store: device.store, shell: try SemanticVersion(parsing: "1.0.0"), appId: nil, keep: 8),
            environment: Environment())
    }

    /// Serves a document with an entity tag.
    private func offer(_ sequence: Int, _ versions: [String], tag: String) throws {
        var document = feed.document(sequence, try versions.map { try feed.release($0) })
        document.sequence = sequence
        let bytes = try ChannelFormat.envelope(document).signed(by: [feed.channel]).document
        feed.server.set(Self.path, .resource(bytes, entityTag: tag))
    }

    /// The entity tags in the requests for the document.
    private var tags: [String?] { feed.server.requests.filter { $0.target == Self.path }.map { $0["If-None-Match"] } }

    @Test func `decides by the stored document if the server returns 304`() async throws {
        try offer(1, ["1.0.0"], tag: "\"1\"")
        _ = try await updater.update()
        try device.runs("v1.0.0")
        _ = try await updater.update()
        try offer(2, ["1.1.0"], tag: "\"2\"")
        _ = try await updater.update()
        try device.runs("v1.1.0")
        #expect(tags == [nil, "\"1\"", "\"1\""])
        #expect(try device.sequence() == 2)
    }

    @Test func `rejects a stored document that has expired`() async throws {
        try offer(1, ["1.0.0"], tag: "\"1\"")
        _ = try await updater.update()
        clock.now.withLock { $0 = Day.number(41) }
        let failure = await #expect(throws: (any Error).self) { try await updater.update() }
        #expect(failure.map { UpdateFailure($0).code } == .expired)
        #expect(tags == [nil, "\"1\""])
    }

    @Test func `does not store the entity tag of a refused document`() async throws {
        let document = feed.document(1, [try feed.release("1.0.0")])
        let bytes = try ChannelFormat.envelope(document).signed(by: [feed.release]).document
        feed.server.set(Self.path, .resource(bytes, entityTag: "\"1\""))
        await #expect(throws: (any Error).self) { try await updater.update() }
        try offer(1, ["1.0.0"], tag: "\"1\"")
        _ = try await updater.update()
        try device.runs("v1.0.0")
        #expect(tags == [nil, nil])
    }
}
