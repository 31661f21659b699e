import Testing
import BundleCore
import BundleValues
import BundleServe
import BundleTesting
@testable import BundleShell
@testable import ClientServer
import Glibc
import Synchronization

/// A host with a real shell and no server. A test acts as its pages, and forwards the shell's events.
final class LoopbackFixture: Sendable {
    private let folder: TemporaryFolder
    private let store: String
    let clock = ManualClock()
    let bridge = LoopbackBridge()
    let shell: ClientShell
    let host: LoopbackHost

    /// Shows the seed or the `installed` clients; nothing if it is not started. `lose` receives the loss of a page that reports nothing
    /// for `heartbeat`, while `isFollowed`.
    init(
        installed version: String? = nil, starts: Bool = true, hasSeed: Bool = true, heartbeat: Duration? = nil,
        isFollowed: Bool = true, lose: @escaping @Sendable (String) -> Void = { _ in }
    ) async throws {
        folder = try TemporaryFolder()
        store = folder.file("store")
        try folder.writeTree(["index.html": Array("<title>seed</title>".utf8)], to: "seed")
        if let version { try await Self.install(version, in: store) }
        var configuration = ShellConfiguration(
            device: .init(
                store: store, shell: try SemanticVersion(parsing: "1.0.0"), seed: hasSeed ? folder.file("seed") : nil,
                verifies: false))
        configuration.visibility = .reported
        shell = try ClientShell(
            configuration, update: nil, bridge: bridge, environment: Environment(clock: clock))
        if starts { try await shell.start() }
        host = try LoopbackHost(
            shell, bridge, clock: clock, heartbeat: heartbeat, isFollowed: { isFollowed }, lose: lose
        ) { _ in }
    }

    /// Installs a version as another process would.
    func install(_ version: String) async throws { try await Self.install(version, in: store) }

    /// Removes the page of the seed.
    func damageSeed() throws { try #require(unlink(folder.file("seed/index.html")) == 0) }

    private static func install(_ version: String, in store: String) async throws {
        let shell = try SemanticVersion(parsing: "1.0.0")
        _ = try await Updater(
            source: MemorySource(try MemoryOffer(version, files: nil)),
            device: .init(store: store, shell: shell, appId: nil, keep: 9), environment: Environment()
        ).update()
    }

    /// Loads a page as a browser does, and returns its token.
    func page() async throws -> String { try await host.page(isBrowser: true).token }

    /// Sends a failure of the shell with `what` in its message.
    func fail(_ what: String) {
        host.pass(.failed(UpdateFailure(.networkUnavailable, subject: "x", what)))
    }

    /// Shows the client that is ready from the next page on, and notifies the pages.
    func reload(_ token: String) async throws { _ = try await host.call("reload", token: token, body: [:]) }

    /// Ends all streams and returns the events of one. The page with `token` acknowledges the errors in it.
    func received(_ events: AsyncStream<PageEvent>, acknowledgedBy token: String? = nil) async -> [String] {
        bridge.finish()
        var lines: [String] = []
        for await event in events {
            lines.append(Self.line(event))
            if let token, let id = event.id { await acknowledge(id, token) }
        }
        return lines
    }

    func acknowledge(_ id: Int, _ token: String) async {
        await #expect(throws: Never.self) {
            _ = try await host.call("heard", token: token, body: ["id": .integer(id)])
        }
    }

    /// Returns an event as text, such as `error code: message`, `updateAvailable 1.0.0` or `reload`.
    private static func line(_ event: PageEvent) -> String {
        let code = event.data["code"]?.stringValue
        let more = [code.map { "\($0):" }, event.data["message"]?.stringValue, event.data["version"]?.stringValue]
        return ([event.name] + more.compactMap(\.self)).joined(separator: " ")
    }
}
