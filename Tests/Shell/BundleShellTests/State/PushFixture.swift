import BundleCore
import BundleValues
import BundleDisk
import BundleTesting
import BundleShell
import Glibc
import MeteorSource
import MeteorTesting
import Synchronization
import Testing

/// A bridge that serves the client which it received.
final class ServingBridge: ShellBridge {
    private struct State {
        var calls: [String] = []
        var client: ReadyClient?
    }

    private let state = Mutex(State())

    /// The calls, such as `base meteor-version2` and `reload`.
    var calls: [String] { state.withLock { $0.calls } }

    /// The number of reloads.
    var reloads: Int { calls.count { $0 == "reload" } }

    /// The folder of the served client.
    var basePath: String { state.withLock { $0.client?.root.path } ?? "" }

    /// Returns the bytes at a URL path; nil if there are none.
    func served(_ urlPath: String) throws -> [UInt8]? {
        let root = state.withLock { $0.client?.root.directory }
        return try root?.contents(urlPath == "/" ? "index.html" : String(urlPath.dropFirst()), maximumBytes: 1 << 20)
    }

    /// The version in the page's text.
    func pageVersion() throws -> String? {
        try served("/").flatMap { try RuntimeConfig.read(page: $0).pageVersion }
    }

    func show(_ client: ReadyClient) {
        state.withLock { state in
            state.calls.append("base \(client.name)")
            state.client = client
        }
    }

    func reload() { state.withLock { $0.calls.append("reload") } }
}

/// A shell with a Meteor seed that follows a Meteor server with the Cordova suite's versions, and a manual clock.
final class PushFixture: Sendable {
    private let folder: TemporaryFolder
    private let warnings = Mutex<[String]>([])
    let fixtures: CordovaFixtures
    let server: MeteorServer
    let clock = ManualClock()
    let bridge = ServingBridge()

    var store: String { folder.file("store") }
    var warningLines: [String] { warnings.withLock { $0 } }

    init() throws {
        folder = try TemporaryFolder()
        fixtures = try CordovaFixtures(in: folder.file("fixtures"))
        server = try MeteorServer([fixtures.versions], tags: .contentDigest)
        try server.serve(version: "version1")
    }

    func shell(configure: (inout ShellConfiguration) throws -> Void = { _ in }) throws -> ClientShell {
        var configuration = ShellConfiguration(
            store: store, shellVersion: try SemanticVersion(parsing: "1.0.0"), seed: fixtures.seed)
        try configure(&configuration)
        let log: @Sendable (String) -> Void = { line in self.warnings.withLock { $0.append(line) } }
        var container = DeviceContainer(
            configuration, userAgent: "tests", environment: Environment(clock: clock, log: log))
        container.server = DeviceContainer.Server(
            MeteorServerOptions(rootURL: try FetchURL(parsing: server.rootURL), platform: .android))
        return try container.shell(bridge: bridge)
    }

    /// Returns a shell that shows its page. It waits until an earlier shell has released the store.
    func start(configure: (inout ShellConfiguration) throws -> Void = { _ in }) async throws -> PushSession {
        while true {
            do {
                let shell = try shell(configure: configure)
                return try await PushSession(self, shell)
            } catch let failure as UpdateFailure where failure.code == .storeLocked {
                try await Task.sleep(for: .milliseconds(5))
            }
        }
    }

    func ledger() throws -> Ledger { try Inventory.read(at: store).ledger }

    func versionsOnDisk() throws -> [String] { try Directory.open(store).directory("meteor").list().sorted() }

    /// Returns whether the page and two of its files are of `version`: one that every version changes, and one that
    /// none does.
    func expectPage(of version: CordovaVersion, sourceLocation: SourceLocation = #_sourceLocation) throws {
        #expect(try bridge.pageVersion() == version.rawValue, sourceLocation: sourceLocation)
        for (url, path) in [
            ("/some-file", "app/some-file"), ("/some-text.txt", "app/some-text.txt"),
            ("/some-other-file", "app/some-other-file"), ("/app/template.mobileapp.js", "app/template.mobileapp.js"),
        ] {
            let wanted = try fixtures.content(of: path, in: version)
            #expect(try bridge.served(url) ?? [] == wanted, "\(url)", sourceLocation: sourceLocation)
        }
    }

    /// Returns whether exactly these URL paths were requested since the version changed, besides the manifest, each
    /// once and with its query.
    func expectRequests(page: Bool, _ assets: [String], sourceLocation: SourceLocation = #_sourceLocation) {
        var wanted = ["/__cordova/manifest.json": 1]
        if page { wanted["/__cordova/"] = 1 }
        for asset in assets { wanted["/__cordova\(asset)?meteor_dont_serve_index=true", default: 0] += 1 }
        #expect(server.requestsSinceLastSwitch.multiset == wanted, sourceLocation: sourceLocation)
    }

    /// The URL paths of the script that every version changes, and of its source map.
    func template(of version: CordovaVersion) -> [String] {
        ["/app/template.mobileapp.js", fixtures.sourceMapURL(of: "app/template.mobileapp.js", in: version)]
    }
}

/// A shell with its page and its events.
struct PushSession {
    private let fixture: PushFixture
    let shell: ClientShell
    var events: EventReader
    var launched: Launched

    init(_ fixture: PushFixture, _ shell: ClientShell) async throws {
        self.fixture = fixture
        self.shell = shell
        try await shell.start()
        launched = try await shell.pageWillLoad()
        events = EventReader(shell)
        _ = await events.next()
    }

    /// Serves `version` and checks for updates; expects that it becomes available under `name`.
    mutating func check(_ version: CordovaVersion, as name: String? = nil) async throws {
        try fixture.server.serve(version: version.rawValue)
        try await shell.checkForUpdates()
        #expect(await events.line() == "available \(name ?? "meteor-\(version.version)")")
    }

    /// Shows the available version.
    mutating func reload() async throws {
        try await shell.reload()
        launched = try await shell.pageWillLoad()
        #expect(await events.line() == "launched \(launched.name)\(launched.isTrial ? " on trial" : "")")
    }

    /// Confirms the start of the page.
    mutating func confirm() async throws {
        try await shell.startupDidComplete(launched.token)
        await shell.removed()
        #expect(await events.line() == "confirmed \(launched.name)")
        await shell.removed()
    }

    /// Installs `version`, shows it and confirms its start.
    mutating func follow(_ version: CordovaVersion) async throws {
        try await check(version)
        try await reload()
        try await confirm()
    }
}
