import BundleFetch
import BundleValues
import BundleTesting
import ClientShell
import Testing

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
}
