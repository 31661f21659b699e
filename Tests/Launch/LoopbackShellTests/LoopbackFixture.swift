import Testing
import BundleCore
import BundleValues
import BundleServe
import BundleTesting
import ClientShell
import Glibc
import Synchronization

@testable import LoopbackShell

/// A host with a real shell and no server: a test is its pages, and passes the shell's events on when it wants to.
final class LoopbackFixture: Sendable {
    private let folder: TemporaryFolder
    private let store: String
    let clock = ManualClock()
    let bridge = LoopbackBridge()
    let shell: ClientShell
    let host: LoopbackHost

    /// Shows the seed, or what is `installed`; nothing yet where it is not started.
    init(installed version: String? = nil, starts: Bool = true, hasSeed: Bool = true) async throws {
        folder = try TemporaryFolder()
        store = folder.file("store")
        try folder.writeTree(["index.html": Array("<title>seed</title>".utf8)], to: "seed")
        if let version { try await Self.install(version, in: store) }
        var configuration = ShellConfiguration(
            device: .init(
                store: store, shell: try SemanticVersion(parsing: "1.0.0"), seed: hasSeed ? folder.file("seed") : nil,
                verifies: false))
        configuration.visibility = .reported
        shell = try ClientShell(configuration, update: nil, bridge: bridge, clock: clock, warn: { _ in })
        if starts { try await shell.start() }
        host = try LoopbackHost(shell, bridge, clock: clock) { _ in }
    }

    /// Installs as another process would.
    func install(_ version: String) async throws { try await Self.install(version, in: store) }

    /// The seed has no page any more.
    func damageSeed() throws { try #require(unlink(folder.file("seed/index.html")) == 0) }

    private static func install(_ version: String, in store: String) async throws {
        let shell = try SemanticVersion(parsing: "1.0.0")
        _ = try await Updater(
            source: MemorySource(try MemoryOffer(version, files: nil)),
            device: .init(store: store, shell: shell, appId: nil, keep: 9), warn: { _ in }
        ).update()
    }

    /// A page as a browser loads it; its token.
    func page() async throws -> String { try await host.page(isBrowser: true).token }

    /// The shell tells that something failed; `what` stands in the message.
    func fail(_ what: String) {
        host.pass(.failed(UpdateFailure(.networkUnavailable, subject: "x", what)))
    }

    /// The client that is ready is shown from the next page on, and pages are told.
    func reload(_ token: String) async throws { _ = try await host.call("reload", token: token, body: [:]) }

    /// Everything that a stream has told by now: its end is the end of all streams. The page with `token` says that it heard it.
    func told(_ events: AsyncStream<PageEvent>, heardBy token: String? = nil) async -> [String] {
        bridge.finish()
        var lines: [String] = []
        for await event in events {
            lines.append(Self.line(event))
            if let token, let id = event.id { await hear(id, token) }
        }
        return lines
    }

    func hear(_ id: Int, _ token: String) async {
        await #expect(throws: Never.self) {
            _ = try await host.call("heard", token: token, body: ["id": .integer(id)])
        }
    }

    /// `error code: message`, `updateAvailable 1.0.0` or `reload`.
    private static func line(_ event: PageEvent) -> String {
        let code = event.data["code"]?.stringValue
        let more = [code.map { "\($0):" }, event.data["message"]?.stringValue, event.data["version"]?.stringValue]
        return ([event.name] + more.compactMap(\.self)).joined(separator: " ")
    }
}
