import BundleCore
import BundleFetch
import BundleTesting
import BundleTransport
import BundleValues
import ClientServer
import Synchronization
import Testing

@testable import BundleShell

struct ContainerTests {
    private let folder: TemporaryFolder
    private let server: LoopbackServer

    init() throws {
        folder = try TemporaryFolder()
        server = try LoopbackServer(["/a": Route([7])])
    }

    private func container(_ sessions: (any SessionRepository)? = nil) throws -> DeviceContainer {
        let configuration = ShellConfiguration(
            store: folder.file("store"), shellVersion: try SemanticVersion(parsing: "1.0.0"))
        var container = DeviceContainer(
            configuration, userAgent: "t", environment: Environment(log: { Issue.record("\($0)") }))
        if let sessions { container.sessions = sessions }
        return container
    }

    private func session() throws -> UserSession {
        UserSession(token: try AccessToken(tokenFile: Array("s3cret".utf8)), since: .now, expires: nil)
    }

    @Test func `sends the session of a store to its feed only`() async throws {
        let other = try LoopbackServer(["/b": Route([8])])
        let session = try session()
        let container = try container()
        try await container.sessions.change { $0.signIn(session) }
        let fetcher = try container.fetcher(for: try server.url("/"))
        #expect(try await fetcher.fetchBytes(try server.url("/a"), maximumBytes: 9) == [7])
        #expect(try await fetcher.fetchBytes(try other.url("/b"), maximumBytes: 9) == [8])
        #expect(server.requests.map { $0["Authorization"] } == ["Bearer s3cret"])
        #expect(other.requests.map { $0["Authorization"] } == [nil])
    }

    @Test func `sends the session of a program's own repository to the feed and to the host that pushes`() async throws
    {
        let (sessions, session) = (MemorySessions(), try session())
        sessions.change { $0.signIn(session) }
        var container = try container(sessions)
        container.feed = DeviceContainer.Feed(.channel(try server.url("/channels/stable.json")), trust: "none")
        container.push = "ws://127.0.0.1:\(server.port)/push"
        let host = try #require(try container.listening().host)
        _ = try? await host.connector.connect(host.address)
        _ = try? await container.fetcher(for: try server.url("/")).fetchBytes(try server.url("/a"), maximumBytes: 9)
        #expect(server.requests.map { $0["Authorization"] } == ["Bearer s3cret", "Bearer s3cret"])
        #expect(server.requests.last?["User-Agent"] == "t")
    }

    @Test func `passes the progress of a download twice a second, and its end`() async {
        let clock = ManualClock()
        let progress = DownloadProgress(clock)
        let (events, observers) = AsyncStream<ShellEvent>.makeStream()
        progress.pass(to: observers)
        for (time, bytes) in [(0, 1), (499, 2), (1, 3), (499, 4), (0, 9), (501, 5)] {
            clock.advance(by: .milliseconds(time))
            progress.note(.downloading(bytes: bytes, of: bytes == 5 ? nil : 9))
        }
        observers.finish()
        var seen: [ShellEvent] = []
        for await event in events { seen.append(event) }
        #expect(
            seen == [
                .downloading(bytes: 1, of: 9), .downloading(bytes: 3, of: 9), .downloading(bytes: 9, of: 9),
                .downloading(bytes: 5, of: nil),
            ])
    }
}

struct ConfigFileTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func load(_ text: String, ignoring: Set<String> = []) async throws -> DeviceContainer {
        let path = try folder.write(Array(text.utf8), to: "settings.json")
        return try await ConfigFile(path, userAgent: "t", ignoring: ignoring).load()
    }

    @Test func `reads the flags of a device, with paths from the folder of the file`() async throws {
        let container = try await load(
            """
            {"store": "store", "shell-version": "1.2.0", "seed": "/seed", "channel": "https://x.test/channels/stable.json",
             "trust": "a.pub.pem", "app-id": "app", "group": "lobby", "push": "wss://x.test/push", "keep": 5,
             "startup-timeout": "20s", "check-interval": "1h", "verify-on-launch": "yes", "proxy": "http://proxy.test:1", "port": 9}
            """, ignoring: ["port"])
        let configuration = container.configuration
        #expect(configuration.device.store == folder.file("store") && configuration.device.seed == "/seed")
        #expect(configuration.device.shell.description == "1.2.0" && configuration.verifiesFiles)
        #expect(configuration.keep == 5 && configuration.startupTimeout.duration == .seconds(20))
        #expect(configuration.polling == .init(PollPace(every: .seconds(3600)), yields: false))
        #expect(configuration.retryPause == .seconds(3600) && configuration.device.layout != nil)
        let feed = try #require(container.feed)
        #expect(feed.source == .channel(try FetchURL(parsing: "https://x.test/channels/stable.json")))
        #expect(feed.trust == folder.file("a.pub.pem") && feed.appId == "app" && feed.groups == ["lobby"])
        #expect(container.push == "wss://x.test/push" && container.network.proxy == "http://proxy.test:1")
    }

    @Test(arguments: [
        (#"{"shell-version": "1.0.0"}"#, "store is missing"),
        (#"{"store": "s", "chanel": "x"}"#, "chanel is not a setting of this program"),
        (#"{"store": "s", "startup-timeout": "20"}"#, "startup-timeout is not valid"),
        (#"{"store": "s", "startup-timeout": "1d"}"#, "startup-timeout is not valid"),
        (#"{"store": "s", "check-interval": "0s"}"#, "check-interval is less than 1s"),
        (#"{"store": "s", "proxy": "proxy.test"}"#, "proxy is none or the URL of a proxy"),
        (#"{"store": "s", "client-key": "k.pem"}"#, "client-key needs client-cert"),
        (#"{"store": "s", "platform": "web"}"#, "platform is android or ios"),
        (#"{"store": "s", "meteor": "file:///x"}"#, "meteor is the http or https URL of a server"),
        (#"{"store": "s", "keep": 0}"#, "keep is not a whole number of 1 or more"),
        (#"{"store": "s", "channel": "https://x.test/c.json"}"#, "trust is missing"),
        (
            #"{"store": "s", "trust": "t", "channel": "https://x.test/c.json", "manifest": "m.json"}"#,
            "exclude each other"
        ),
        (#"["store"]"#, "is not a JSON object"),
    ])
    func `refuses a file that misses a setting or has a wrong one`(text: String, reason: String) async throws {
        let failure = await #expect(throws: UpdateFailure.self) { try await load(text) }
        #expect(
            failure?.code == .configInvalid && failure?.message.contains(reason) == true, "\(failure?.message ?? "")")
    }
}

private final class MemorySessions: SessionRepository {
    private let stored = Mutex(SessionRecord.open)

    func record() -> SessionRecord { stored.withLock(\.self) }

    @discardableResult
    func change(_ body: @Sendable (inout SessionRecord) -> Void) -> SessionRecord {
        stored.withLock { record in
            body(&record)
            return record
        }
    }
}
