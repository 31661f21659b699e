import Synchronization
import BundleDisk
import BundleFormats
import BundleServe
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@Suite(.ownThread) struct ServerStopTests {
    @Test func `completes a response when the server stops, and rejects later requests`() async throws {
        let fixture = try await Fixture()
        let bytes = Array(String(repeating: "one of its lines\n", count: 1_200_000).utf8)
        let root = try Directory.open(try fixture.folder.writeTree(["huge.bin": bytes], to: "huge"))
        let site = try Site(root: root, index: Fixture.index)
        fixture.host.with { $0.current = site }
        let busy = try fixture.connect()
        busy.send(fixture.request("/huge.bin") + fixture.request("/huge.bin"))
        _ = try busy.receive(upTo: "\r\n\r\n")
        let idle = try fixture.connect()
        idle.send(fixture.request("/missing.js"))
        #expect(try idle.receiveAnswer().status == 404)
        let server = fixture.server
        // Not a child of this task, which would wait for this thread.
        let stopped = Task(priority: .high) { await server.stop(grace: .seconds(120)) }
        #expect(try idle.receiveAll() == [])
        #expect(try busy.receive(exactly: bytes.count) == bytes)
        #expect(try busy.receiveAll() == [])
        await stopped.value
        // Another test's server may have the port by now; it does not have such a file.
        let late = try? fixture.connect()
        late?.send(fixture.request("/huge.bin"))
        #expect((try? late?.receiveAnswer().status) != 200)
    }

    @Test func `closes connections that outlast the grace period`() async throws {
        let fixture = try await Fixture()
        let root = try Directory.open(
            try fixture.folder.writeTree(["huge.bin": [UInt8](repeating: 1, count: 30_000_000)], to: "huge"))
        let site = try Site(root: root, index: Fixture.index)
        fixture.host.with { $0.current = site }
        let connection = try fixture.connect()
        connection.send(fixture.request("/huge.bin"))
        _ = try connection.receive(upTo: "\r\n\r\n")
        await fixture.server.stop(grace: .milliseconds(50))
        let received = (try? connection.receiveAll()) ?? []
        #expect(received.count < 30_000_000)
    }

    @Test func `ends event streams when the server stops`() async throws {
        let fixture = try await Fixture { $0.limits.heartbeat = .seconds(3600) }
        _ = try fixture.ask("/", navigation)
        let connection = try fixture.connect()
        connection.send(fixture.request("/__clientctl/v1/events", ["X-Client-Token: token-1"]))
        #expect(try connection.receiveAnswer().status == 200)
        let server = fixture.server
        // Not a child of this task, which would wait for this thread.
        let stopped = Task(priority: .high) { await server.stop(grace: .seconds(120)) }
        #expect(try connection.receiveAll() == [])
        try await eventually { fixture.host.with { $0.endedStreams } == 1 }
        await stopped.value
    }

    @Test func `accepts a second stop of a server`() async throws {
        let fixture = try await Fixture()
        await fixture.server.stop(grace: .seconds(1))
        await fixture.server.stop(grace: .seconds(1))
    }
}

@Suite(.ownThread) struct ServerStartTests {
    private func start(_ fixture: Fixture, _ port: PortChoice) async throws -> PageServer {
        try await PageServer.start(ServerConfiguration(port: port, bridge: Fixture.bridge), host: fixture.host)
    }

    @Test func `closes the server and its connections with its last reference`() async throws {
        let fixture = try await Fixture()
        func connection() async throws -> RawConnection {
            var configuration = ServerConfiguration(port: .fixed(0), bridge: Fixture.bridge)
            configuration.limits.idle = .seconds(600)
            let server = try await PageServer.start(configuration, host: fixture.host)
            let connection = try RawConnection(port: server.port)
            connection.send("GET /plain HTTP/1.1\r\nHost: 127.0.0.1:\(server.port)\r\n\r\n")
            #expect(try connection.receiveAnswer().status == 200)
            return connection
        }
        #expect(try await connection().receiveAll() == [])
    }

    @Test func `rejects a fixed port that is in use`() async throws {
        let fixture = try await Fixture()
        // A port outside the system's ephemeral range: another process could receive one of that range between stop
        // and start.
        let taken = try await start(fixture, .derived(appId: "fixed\(getpid())"))
        let port = taken.port
        await #expect(throws: ServerFailure.portBusy(port)) { try await start(fixture, .fixed(port)) }
        #expect("\(ServerFailure.portBusy(port))".contains("\(port)"))
        await taken.stop(grace: .seconds(1))
        let again = try await start(fixture, .fixed(port))
        #expect(again.port == port && again.wantedPort == port)
        await again.stop(grace: .seconds(1))
    }

    @Test(arguments: [-1, 65536, Int.max])
    func `rejects an invalid port number`(port: Int) async throws {
        let fixture = try await Fixture()
        await #expect(throws: ServerFailure.port(port)) { try await start(fixture, .fixed(port)) }
    }

    @Test func `selects another port if the application's port is in use, and reports it`() async throws {
        let fixture = try await Fixture()
        let first = try await start(fixture, .derived(appId: "abc"))
        let second = try await start(fixture, .derived(appId: "abc"))
        #expect(first.wantedPort == 12368 && second.wantedPort == 12368)
        #expect(PortChoice.range.contains(first.port) && PortChoice.range.contains(second.port))
        #expect(second.port != first.port)
        await first.stop(grace: .seconds(1))
        await second.stop(grace: .seconds(1))
    }

    @Test func `listens on 127.0.0.1 only`() async throws {
        let fixture = try await Fixture()
        #expect(throws: SystemCallError.self) { try RawConnection(host: "127.0.0.2", port: fixture.server.port) }
    }

    @Test(arguments: [
        ("script-src", "'unsafe-eval'; object-src *", true), ("script-src", "a b", true), ("script-src", "a,b", true),
        ("script-src", "", true),
        ("script-src", "a\r\nX: y", true), ("script-src", "ü", true), ("script_src", "'self'", true),
        ("", "'self'", true), ("sandbox", "allow-scripts", true), ("report-uri", "/x", true),
        ("connect-src", "https://api.example.com:8443/path", false),
    ])
    func `rejects an invalid source of a content security policy`(directive: String, source: String, fails: Bool)
        async throws
    {
        let fixture = try await Fixture()
        var configuration = ServerConfiguration(port: .fixed(0), bridge: Fixture.bridge)
        configuration.extraSources = [directive: [source]]
        do {
            try await PageServer.start(configuration, host: fixture.host).stop(grace: .zero)
            #expect(!fails)
        } catch is PolicyRefusal {
            #expect(fails)
        }
    }

    @Test(arguments: ["a\r\nb", "ü"])
    func `rejects an invalid permissions policy`(text: String) async throws {
        let fixture = try await Fixture()
        var configuration = ServerConfiguration(port: .fixed(0), bridge: Fixture.bridge)
        configuration.policies.permissions = ["camera": text]
        await #expect(throws: PolicyRefusal.permissions) {
            try await PageServer.start(configuration, host: fixture.host)
        }
    }
}
