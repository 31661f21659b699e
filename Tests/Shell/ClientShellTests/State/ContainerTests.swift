import BundleTransport
import BundleFetch
import BundleValues
import BundleTesting
import BundleCore
import Synchronization
import Testing

@testable import ClientShell

struct ContainerTests {
    @Test func `sends the session of a store to its feed only`() async throws {
        let folder = try TemporaryFolder()
        let server = try LoopbackServer(["/a": Route([7])])
        let other = try LoopbackServer(["/b": Route([8])])
        let session = UserSession(
            token: try AccessToken(tokenFile: Array("s3cret".utf8)), since: .now, expires: nil)
        try await DeviceContainer.sessions(store: folder.file("store")).change { $0.signIn(session) }
        let fetcher = try DeviceContainer.fetcher(
            userAgent: "t", for: try server.url("/"), sessions: DeviceContainer.sessions(store: folder.file("store")),
            environment: Environment(log: { Issue.record("\($0)") }))
        #expect(try await fetcher.fetchBytes(try server.url("/a"), maximumBytes: 9) == [7])
        #expect(try await fetcher.fetchBytes(try other.url("/b"), maximumBytes: 9) == [8])
        #expect(server.requests.map { $0["Authorization"] } == ["Bearer s3cret"])
        #expect(other.requests.map { $0["Authorization"] } == [nil])
    }

    @Test func `sends the session of a program's own repository to the host that pushes`() async throws {
        let folder = try TemporaryFolder()
        let server = try LoopbackServer()
        let device = Launcher.LaunchDevice(
            store: folder.file("store"), shell: try SemanticVersion(parsing: "1.0.0"), seed: nil, verifies: false)
        var container = DeviceContainer(ShellConfiguration(device: device), environment: Environment())
        container.feed = DeviceContainer.Feed(
            .channel(try server.url("/channels/stable.json")), trust: "none", appId: nil,
            fetcher: try DeviceContainer.fetcher(userAgent: "t"))
        let sessions: any SessionRepository = MemorySessions()
        let session = UserSession(token: try AccessToken(tokenFile: Array("s3cret".utf8)), since: .now, expires: nil)
        try await sessions.change { $0.signIn(session) }
        container.sessions = sessions
        let listening = try container.listening(
            push: "ws://127.0.0.1:\(server.port)/push", userAgent: "t", environment: Environment())
        let host = try #require(listening.host)
        _ = try? await host.connector.connect(host.address)
        #expect(server.requests.map { $0["Authorization"] } == ["Bearer s3cret"])
    }
}

private final class MemorySessions: SessionRepository {
    private let stored = Mutex(SessionRecord.open)

    func record() -> SessionRecord { stored.withLock(\.self) }

    func change(_ body: @Sendable (inout SessionRecord) -> Void) -> SessionRecord {
        stored.withLock { record in
            body(&record)
            return record
        }
    }
}
