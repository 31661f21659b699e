import BundleSigning
import BundleTesting
import BundleShell
import Synchronization
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

/// A log of warnings.
private final class ToldBridge: ShellBridge {
    private let calls = Mutex<(client: ClientName?, reloads: Int)>((nil, 0))

    var client: ClientName? { calls.withLock { $0.client } }
    var reloads: Int { calls.withLock { $0.reloads } }

    func show(_ client: ReadyClient) { calls.withLock { $0.client = client.name } }

    func reload() { calls.withLock { $0.reloads += 1 } }
}

@Suite struct BlockedClientTests {
    private let folder: TemporaryFolder
    private let bridge = ToldBridge()
    private let keeper: LedgerKeeper

    init() throws {
        folder = try TemporaryFolder()
        keeper = LedgerKeeper(root: try StoreFolders(below: try StoreFolders.openRoot(folder.file("store"))).root)
    }

    private func version(_ text: String) throws -> SemanticVersion { try SemanticVersion(parsing: text) }

    private func client(_ text: String) throws -> ClientVersion { .archive(try version(text)) }

    private func install(_ text: String) throws {
        _ = try folder.writeTree(["index.html": Array("<p>\(text)".utf8)], to: "store/clients/v\(text)")
        let shells = try ShellRange(minimum: version("1.0.0"), maximum: nil)
        let entry = Ledger.Entry(
            identity: BundleIdentity(version: try version(text), shells: shells),
            contentSha256: try .of([]), installedSize: 1, fileCount: 1, installedAt: .now)
        try keeper.apply([.installed(entry)])
    }

    private func shell() async throws -> ClientShell {
        let device = Launcher.LaunchDevice(
            store: folder.file("store"), shell: try version("1.0.0"), seed: nil, verifies: false)
        let shell = try ClientShell(
            ShellConfiguration(device: device), update: nil, bridge: bridge,
            environment: Environment(clock: ManualClock()))
        try await shell.start()
        return shell
    }

    @Test func `replaces a client at once when an operator blocks it`() async throws {
        try install("1.0.0")
        try install("2.0.0")
        let shell = try await shell()
        try await shell.startupDidComplete(try await shell.pageWillLoad().token)
        await shell.removed()
        _ = try Verdicts(store: folder.file("store"), environment: Environment()).rollBack(
            to: .installed(try client("1.0.0")))
        try await shell.checkForUpdates()
        #expect(bridge.client == .installed(try client("1.0.0")))
        #expect(bridge.reloads == 1)
        #expect(try await shell.pageWillLoad().name == .installed(client("1.0.0")))
    }

    @Test func `replaces a blocked client by the next installed one if nothing else could be shown`() async throws {
        try install("1.0.0")
        let shell = try await shell()
        for _ in 0..<2 { await shell.startupDidFail(try await shell.pageWillLoad().token, reason: "broken") }
        #expect(try keeper.read().block(on: try client("1.0.0")) != nil)
        try install("2.0.0")
        try await shell.checkForUpdates()
        #expect(bridge.client == .installed(try client("2.0.0")))
        #expect(try await shell.pageWillLoad().name == .installed(client("2.0.0")))
    }

    private func learn(recalled: [String] = [], floor: String? = nil, leftOut: [String] = []) throws {
        let before = try keeper.read().feed
        var feed = before
        feed.follow(
            FeedMemory.ChannelMemory(
                name: "stable", sequence: 2, payloadSha256: try .of([]), signers: [], issuedAt: .now, expires: .now,
                recalled: try recalled.map { FeedMemory.Recall(version: try version($0), reason: "it leaks") },
                minimumVersion: try floor.map(version), leftOut: try leftOut.map(version)))
        try keeper.apply([.recorded(FeedUpdate(before: before, after: feed))])
    }

    @Test(arguments: [true, false]) func `replaces a client at once when its channel recalls it`(_ isRecalled: Bool)
        async throws
    {
        try install("1.0.0")
        try install("2.0.0")
        try install("3.0.0")
        let shell = try await shell()
        try await shell.startupDidComplete(try await shell.pageWillLoad().token)
        await shell.removed()
        #expect(await shell.currentVersion == .installed(try client("3.0.0")))
        let expected = isRecalled ? "2.0.0" : "embedded"
        if isRecalled { try learn(recalled: ["3.0.0"]) } else { try learn(floor: "4.0.0") }
        // Without another client, a client that must not run stays until one is installed.
        try await shell.checkForUpdates()
        if isRecalled {
            #expect(bridge.client == .installed(try client(expected)))
            #expect(bridge.reloads == 1)
            #expect(try await shell.pageWillLoad().name == .installed(client(expected)))
        } else {
            #expect(bridge.reloads == 0)
        }
        #expect(try await shell.client(named: .installed(try client("3.0.0"))) == nil)
    }

    @Test func `keeps a client until the next launch when a rollout no longer includes it`() async throws {
        try install("1.0.0")
        try install("2.0.0")
        let running = try await shell()
        try await running.startupDidComplete(try await running.pageWillLoad().token)
        await running.removed()
        try learn(leftOut: ["2.0.0"])
        try await running.checkForUpdates()
        #expect(bridge.reloads == 0)
        #expect(await running.availableVersion == .installed(try client("1.0.0")))
        try await running.reload()
        #expect(try await running.pageWillLoad().name == .installed(client("1.0.0")))
    }
}
