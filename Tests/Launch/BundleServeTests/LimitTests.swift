import Synchronization
import BundleDisk
import BundleServe
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@Suite(.ownThread) struct `A connection` {
    @Test(arguments: ["G", "GET /app.js HTTP/1.1\r\nHost: a\r\n"])
    func `that brings its head too slowly is closed`(start: String) async throws {
        let fixture = try await Fixture { $0.limits.request = .milliseconds(50) }
        let connection = try fixture.connect()
        connection.send(start)
        #expect(try connection.receiveAll() == [])
    }

    @Test func `that drips its head is closed all the same`() async throws {
        // No other limit closes it within the minute.
        let fixture = try await Fixture {
            $0.limits.request = .milliseconds(50)
            $0.limits.idle = .seconds(600)
            $0.limits.stall = .seconds(600)
        }
        let connection = try fixture.connect(patience: 5)
        let clock = ContinuousClock()
        let start = clock.now
        var isOpen = true
        while isOpen, clock.now - start < .seconds(60) {
            connection.send("a")
            // No answer for 5 ms is an error; an end is an end.
            guard let answer = try? connection.receive() else { continue }
            try #require(answer.isEmpty, "an answer to half a head")
            isOpen = false
        }
        #expect(!isOpen)
    }

    @Test func `that never brings its body is closed`() async throws {
        let fixture = try await Fixture { $0.limits.request = .milliseconds(50) }
        _ = try fixture.ask("/", navigation)
        let connection = try fixture.connect()
        connection.send(
            fixture.request(
                "/__clientctl/v1/reload", method: "POST",
                [
                    "Origin: http://127.0.0.1:\(fixture.server.port)", "Content-Type: application/json",
                    "X-Client-Token: token-1", "Content-Length: 7",
                ]) + "{")
        #expect(try connection.receiveAll() == [])
        #expect(fixture.host.with { $0.calls.isEmpty })
    }

    @Test func `that is idle too long is closed`() async throws {
        let fixture = try await Fixture { $0.limits.idle = BusyMachine.limit(2) }
        let used = try fixture.connect()
        used.send(fixture.request("/plain"))
        let fresh = try fixture.connect()
        #expect(try used.receiveAnswer().status == 200)
        #expect(try used.receiveAll() == [])
        #expect(try fresh.receiveAll() == [])
    }

    /// More than the kernel keeps between a server and who does not read.
    private static let huge = [UInt8](repeating: 1, count: 30_000_000)

    /// A server of nothing but `huge`, and a connection that has read the head of its answer.
    private func asked(_ change: (inout ServerConfiguration) -> Void) async throws -> (Fixture, RawConnection) {
        let fixture = try await Fixture(change)
        let root = try Directory.open(try fixture.folder.writeTree(["huge.bin": Self.huge], to: "huge"))
        let site = try Site(root: root, index: Fixture.index)
        fixture.host.with { $0.current = site }
        let connection = try fixture.connect(receiveBuffer: 65_536)
        connection.send(fixture.request("/huge.bin"))
        _ = try connection.receive(upTo: "\r\n\r\n")
        return (fixture, connection)
    }

    @Test func `that does not read its answer is closed`() async throws {
        let (fixture, stalled) = try await asked {
            $0.limits.stall = .milliseconds(200)
            $0.limits.connections = 1
        }
        // Less than the 30 s of a server that nobody configured.
        let next = try fixture.connect(patience: 28_000)
        next.send(fixture.request("/missing.bin"))
        // There is room for it once the other one is closed.
        #expect(try next.receiveAnswer().status == 404)
        let received = (try? stalled.receiveAll()) ?? []
        #expect(received.count < Self.huge.count)
    }

    @Test func `that reads its answer slowly is not closed`() async throws {
        let limit = BusyMachine.seconds(5)
        let (fixture, slow) = try await asked { $0.limits.stall = .seconds(limit) }
        // It takes longer than a stall may, and a quarter is still unread then.
        for _ in 0..<8 {
            usleep(UInt32(limit * 160_000))
            #expect(try slow.receive(exactly: 3_750_000).count == 3_750_000)
        }
        withExtendedLifetime(fixture) {}
    }

    @Test func `that is refused and does not close is cut off`() async throws {
        let fixture = try await Fixture { $0.limits.closing = .milliseconds(50) }
        let connection = try fixture.connect()
        connection.send("nonsense\r\n\r\n")
        #expect(try connection.receiveAnswer().status == 400)
        #expect(try connection.receiveAll() == [])
        try await eventually { !connection.send("more") }
    }

    @Test func `that sends much behind a refused request still gets the refusal`() async throws {
        let fixture = try await Fixture()
        let connection = try fixture.connect()
        connection.send(fixture.request("/app.js", method: "POST", ["Content-Length: 1000000"]))
        for _ in 0..<100 { connection.send([UInt8](repeating: 0x61, count: 10_000)) }
        #expect(try connection.receiveAnswer().status == 405)
    }

    /// A stream of events that a page called `name` holds.
    private func stream(_ fixture: Fixture, _ name: String) throws -> RawConnection {
        let connection = try fixture.connect()
        connection.send(fixture.request("/__clientctl/v1/events?\(name)", ["X-Client-Token: token-1"]))
        #expect(try String(decoding: connection.receive(upTo: "\r\n\r\n"), as: UTF8.self).contains(" 200 "))
        return connection
    }

    @Test func `with a stream of events does not count with those of requests, and the oldest stream ends`()
        async throws
    {
        let fixture = try await Fixture {
            $0.limits.connections = 2
            $0.limits.streams = 3
            $0.limits.heartbeat = .seconds(3600)
        }
        _ = try fixture.ask("/", navigation)
        let streams = try (0..<5).map { try stream(fixture, "\($0)") }
        for ended in streams[..<2] { #expect(try ended.receiveAll() == []) }
        try await eventually { fixture.host.with { $0.endedStreams } == 2 }
        #expect(try fixture.ask("/plain").status == 200)
        // Each page has one stream, so the youngest of a page takes the place of its own.
        let again = try stream(fixture, "4")
        #expect(try streams[4].receiveAll() == [])
        try await eventually { fixture.host.with { $0.endedStreams } == 3 }
        withExtendedLifetime((streams, again)) {}
    }

    @Test func `that does not read its response keeps no other one out, however many there are`() async throws {
        let (fixture, first) = try await asked {
            $0.limits.stall = .seconds(3600)
            $0.limits.connections = 4
            $0.limits.slowBody = .milliseconds(200)
        }
        let stalled = try (0..<3).map { _ in
            let connection = try fixture.connect(receiveBuffer: 4096)
            connection.send(fixture.request("/huge.bin"))
            _ = try connection.receive(upTo: "\r\n\r\n")
            return connection
        }
        for _ in 0..<3 {
            try await eventually { (try? fixture.ask("/missing.bin").status) == 404 }
        }
        withExtendedLifetime((first, stalled)) {}
    }

    @Test(arguments: ["", "GET /plain HTT"]) func `that says nothing keeps nobody out, however many there are`(
        start: String
    ) async throws {
        let fixture = try await Fixture {
            $0.limits.connections = 8
            $0.limits.request = .seconds(3600)
            $0.limits.idle = .seconds(3600)
        }
        let silent = try (0..<60).map { _ in
            let connection = try fixture.connect()
            connection.send(start)
            return connection
        }
        let connection = try fixture.connect()
        connection.send(fixture.request("/plain"))
        #expect(try connection.receiveAnswer().status == 200)
        // The one that came first went first.
        #expect(try silent[0].receiveAll() == [])
    }
}

@Suite(.ownThread) struct `Stopping a server` {
    @Test func `lets an answer under way finish, and refuses everything after it`() async throws {
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
        // Another test's server may have the port by now; it has no such file.
        let late = try? fixture.connect()
        late?.send(fixture.request("/huge.bin"))
        #expect((try? late?.receiveAnswer().status) != 200)
    }

    @Test func `cuts off what lasts longer than the grace`() async throws {
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

    @Test func `ends the streams of events`() async throws {
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

    @Test func `may be done twice`() async throws {
        let fixture = try await Fixture()
        await fixture.server.stop(grace: .seconds(1))
        await fixture.server.stop(grace: .seconds(1))
    }
}

@Suite(.ownThread) struct `Starting a server` {
    private func start(_ fixture: Fixture, _ port: PortChoice) async throws -> PageServer {
        try await PageServer.start(ServerConfiguration(port: port, bridge: Fixture.bridge), host: fixture.host)
    }

    @Test func `leads to one that closes with its last reference, and its connections with it`() async throws {
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

    @Test func `on a fixed port that is taken fails and says so`() async throws {
        let fixture = try await Fixture()
        // None that the system gives to whoever connects: between stop and start it would be another's now and then.
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
    func `on what is no port fails`(port: Int) async throws {
        let fixture = try await Fixture()
        await #expect(throws: ServerFailure.port(port)) { try await start(fixture, .fixed(port)) }
    }

    @Test func `on an application's port that is taken takes another and tells`() async throws {
        let fixture = try await Fixture()
        let first = try await start(fixture, .derived(appId: "abc"))
        let second = try await start(fixture, .derived(appId: "abc"))
        #expect(first.wantedPort == 12368 && second.wantedPort == 12368)
        #expect(PortChoice.range.contains(first.port) && PortChoice.range.contains(second.port))
        #expect(second.port != first.port)
        await first.stop(grace: .seconds(1))
        await second.stop(grace: .seconds(1))
    }

    @Test func `listens on 127.0.0.1 alone`() async throws {
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
    func `with a source that is none fails`(directive: String, source: String, fails: Bool) async throws {
        let fixture = try await Fixture()
        var configuration = ServerConfiguration(port: .fixed(0), bridge: Fixture.bridge)
        configuration.extraSources = [directive: [source]]
        do {
            try await PageServer.start(configuration, host: fixture.host).stop(grace: .zero)
            #expect(!fails)
        } catch is ServerFailure {
            #expect(fails)
        }
    }

    @Test(arguments: ["a\r\nb", "ü"])
    func `with a permissions policy that is none fails`(text: String) async throws {
        let fixture = try await Fixture()
        var configuration = ServerConfiguration(port: .fixed(0), bridge: Fixture.bridge)
        configuration.policies.permissions = ["camera": text]
        await #expect(throws: ServerFailure.permissionsPolicy) {
            try await PageServer.start(configuration, host: fixture.host)
        }
    }
}

@Suite(.ownThread) struct `The content security policy` {
    private static let rest = """
        default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; \
        connect-src 'self'; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'; \
        frame-ancestors 'none'; script-src 'self' 'sha256-bridge='
        """

    @Test(arguments: [
        ("/", " 'sha256-inline='"), ("/settings", " 'sha256-inline='"), ("/index.html", " 'sha256-inline='"),
        ("/clients/v1.0.0/", " 'sha256-inline='"), ("/sub/", ""),
        ("/page.html", " 'sha256-piUNRj01n+hTo+pnthBY6P38CNukLgjZT+mSJ4I5u6U='"),
    ])
    func `is strict, and has no source that could be more than one`(target: String, scripts: String) async throws {
        let fixture = try await Fixture()
        fixture.host.with { $0.versions["v1.0.0"] = $0.current }
        for fields in [navigation, ["Accept: text/html", "If-None-Match: *"]] {
            #expect(try fixture.ask(target, fields)["Content-Security-Policy"] == Self.rest + scripts)
        }
    }

    @Test func `is widened by the operator only where that is said`() async throws {
        let fixture = try await Fixture {
            $0.extraSources = [
                "script-src": ["'unsafe-eval'"], "connect-src": ["https://a.example", "wss://a.example"],
                "object-src": ["blob:"], "media-src": ["blob:"], "frame-ancestors": ["'self'"],
            ]
            $0.policies.permissions["camera"] = "(self)"
            $0.policies.isolation = .isolated
        }
        let answer = try fixture.ask("/", navigation)
        #expect(
            answer["Content-Security-Policy"] == """
                default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; \
                connect-src 'self' https://a.example wss://a.example; worker-src 'self' blob:; object-src blob:; \
                base-uri 'self'; form-action 'self'; frame-ancestors 'self'; media-src 'self' blob:; \
                script-src 'self' 'unsafe-eval' 'sha256-bridge=' 'sha256-inline='
                """)
        #expect(answer["X-Frame-Options"] == nil)
        #expect(answer["Permissions-Policy"] == "camera=(self), geolocation=(), microphone=()")
        for path in ["/", "/app.js"] {
            #expect(try fixture.ask(path)["Cross-Origin-Embedder-Policy"] == "require-corp")
            #expect(try fixture.ask(path)["Cross-Origin-Opener-Policy"] == "same-origin")
        }
    }

    @Test func `is nowhere stricter for what the operator adds`() async throws {
        let fixture = try await Fixture {
            $0.extraSources = [
                "style-src-elem": ["https://a"], "style-src-attr": ["'unsafe-hashes'"], "script-src": ["https://b"],
                "script-src-elem": ["https://c"], "default-src": ["https://d"], "child-src": ["https://e"],
                "frame-src": ["https://f"],
            ]
        }
        let policy = try #require(try fixture.ask("/", navigation)["Content-Security-Policy"])
        for directive in [
            "style-src-elem 'self' 'unsafe-inline' https://a", "style-src-attr 'self' 'unsafe-inline' 'unsafe-hashes'",
            "script-src-elem 'self' https://b https://c 'sha256-bridge=' 'sha256-inline='",
            "child-src 'self' https://d https://e", "frame-src 'self' https://d https://e https://f",
        ] {
            #expect("; \(policy); ".contains("; \(directive); "), "\(policy)")
        }
    }

    @Test func `lets windows that a page opens talk to it where that is said`() async throws {
        let fixture = try await Fixture { $0.policies.isolation = .popups }
        #expect(try fixture.ask("/", navigation)["Cross-Origin-Opener-Policy"] == "same-origin-allow-popups")
        #expect(try fixture.ask("/", navigation)["Cross-Origin-Embedder-Policy"] == nil)
    }

    @Test(arguments: [
        (["script-src": ["'unsafe-inline'"]], ["script-src 'self' 'unsafe-inline'"]),
        (
            ["script-src-attr": ["'unsafe-inline'"]],
            ["script-src-attr 'unsafe-inline'", "script-src 'self' 'sha256-bridge=' 'sha256-inline='"]
        ),
        (
            ["script-src-elem": ["https://a.example"]],
            [
                "script-src-elem 'self' https://a.example 'sha256-bridge=' 'sha256-inline='",
                "script-src 'self' 'sha256-bridge=' 'sha256-inline='",
            ]
        ),
    ])
    func `lets inline scripts run where the operator says so, which hashes would take back`(
        extra: [String: [String]], directives: [String]
    ) async throws {
        let fixture = try await Fixture { $0.extraSources = extra }
        let policy = try fixture.ask("/", navigation)["Content-Security-Policy"] ?? ""
        let found = policy.split(separator: ";").map { String($0.trimmingPrefix { $0 == " " }) }.filter {
            $0.hasPrefix("script-src")
        }
        #expect(found == directives)
    }

    @Test(arguments: [([:], 1), (["frame-ancestors": ["'self'"]], 0)])
    func `says once what is not shown in a frame, unless it is`(extra: [String: [String]], count: Int) async throws {
        let said = Mutex<[String]>([])
        let fixture = try await Fixture {
            $0.extraSources = extra
            $0.say = { line in said.withLock { $0.append(line) } }
        }
        for kind in ["iframe", "embed", "document", "image"] {
            _ = try fixture.ask("/sub/index.html", ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Dest: \(kind)"])
        }
        let line =
            "a page shows /sub/index.html in a frame, which is refused: --csp \"frame-ancestors 'self'\" would allow it"
        #expect(said.withLock(\.self) == Array(repeating: line, count: count))
    }

    @Test func `says once what a frame with a sandbox lacks`() async throws {
        let said = Mutex<[String]>([])
        let fixture = try await Fixture { $0.say = { line in said.withLock { $0.append(line) } } }
        for _ in 0..<2 {
            let fields = [
                "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script",
            ]
            #expect(try fixture.ask("/app.js", fields).status == 403)
        }
        #expect(said.withLock { $0.count } == 1)
        #expect(said.withLock { $0.first?.contains("allow-same-origin") } == true)
    }

    @Test func `says once that a service worker is ended`() async throws {
        let said = Mutex<[String]>([])
        let fixture = try await Fixture { $0.say = { line in said.withLock { $0.append(line) } } }
        for _ in 0..<2 {
            let answer = try fixture.ask("/app.js", ["Sec-Fetch-Dest: serviceworker"])
            #expect(answer.status == 200)
        }
        #expect(
            said.withLock(\.self) == [
                "the browser has the service worker /app.js, or is about to register it: it is ended, because it would answer in "
                    + "place of the clients that follow"
            ])
    }

    @Test func `names no more inline scripts than fit into a head, and says so once`() async throws {
        let said = Mutex<[String]>([])
        let fixture = try await Fixture { $0.say = { line in said.withLock { $0.append(line) } } }
        let page = (0..<6000).map { "<script>a(\($0))</script>" }.joined()
        let folder = try fixture.folder.writeTree(["many.html": Array(page.utf8)], to: "many")
        let site = try Site(root: try .open(folder), index: Fixture.index)
        fixture.host.with { $0.nextPage = Page(id: "p", token: "t", site: site) }
        for _ in 0..<2 {
            let policy = try fixture.ask("/many.html", navigation)["Content-Security-Policy"] ?? ""
            #expect(policy.hasSuffix("script-src 'self' 'unsafe-inline'"))
        }
        #expect(said.withLock { $0.count } == 1)
        #expect(said.withLock { $0.first?.contains("/many.html has 6000 inline scripts") } == true)
    }
}
