import Synchronization
import BundleDisk
import BundleServe
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@Suite(.ownThread) struct ConnectionLimitTests {
    @Test(arguments: ["G", "GET /app.js HTTP/1.1\r\nHost: a\r\n"])
    func `closes a connection whose head arrives too slowly`(start: String) async throws {
        let fixture = try await Fixture { $0.limits.request = .milliseconds(50) }
        let connection = try fixture.connect()
        connection.send(start)
        #expect(try connection.receiveAll() == [])
    }

    @Test func `closes a connection that sends its head byte by byte`() async throws {
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
            // No response within 5 ms is an error; the end of the connection is not.
            guard let answer = try? connection.receive() else { continue }
            try #require(answer.isEmpty, "an answer to half a head")
            isOpen = false
        }
        #expect(!isOpen)
    }

    @Test func `closes a connection whose body does not arrive`() async throws {
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

    @Test func `closes an idle connection`() async throws {
        let fixture = try await Fixture { $0.limits.idle = BusyMachine.limit(2) }
        let used = try fixture.connect()
        used.send(fixture.request("/plain"))
        let fresh = try fixture.connect()
        #expect(try used.receiveAnswer().status == 200)
        #expect(try used.receiveAll() == [])
        #expect(try fresh.receiveAll() == [])
    }

    /// More than the kernel buffers between a server and a client that does not read.
    private static let huge = [UInt8](repeating: 1, count: 30_000_000)

    /// Returns a server with the file `huge` only, and a connection that has read the head of its response.
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

    @Test func `closes a connection that does not read its response`() async throws {
        let (fixture, stalled) = try await asked {
            $0.limits.stall = .milliseconds(200)
            $0.limits.connections = 1
        }
        // Less than the default of 30 s.
        let next = try fixture.connect(patience: 28_000)
        next.send(fixture.request("/missing.bin"))
        // The next connection is accepted once the other one is closed.
        #expect(try next.receiveAnswer().status == 404)
        let received = (try? stalled.receiveAll()) ?? []
        #expect(received.count < Self.huge.count)
    }

    @Test func `keeps a connection that reads its response slowly`() async throws {
        let limit = BusyMachine.seconds(5)
        let (fixture, slow) = try await asked { $0.limits.stall = .seconds(limit) }
        // The response takes longer than a stall may, and a quarter of it is unread by then.
        for _ in 0..<8 {
            usleep(UInt32(limit * 160_000))
            #expect(try slow.receive(exactly: 3_750_000).count == 3_750_000)
        }
        withExtendedLifetime(fixture) {}
    }

    @Test func `closes a connection that ignores the end of the response`() async throws {
        let fixture = try await Fixture { $0.limits.closing = .milliseconds(50) }
        let connection = try fixture.connect()
        connection.send("nonsense\r\n\r\n")
        #expect(try connection.receiveAnswer().status == 400)
        #expect(try connection.receiveAll() == [])
        try await eventually { !connection.send("more") }
    }

    @Test func `sends a refusal to a client that continues to send`() async throws {
        let fixture = try await Fixture()
        let connection = try fixture.connect()
        connection.send(fixture.request("/app.js", method: "POST", ["Content-Length: 1000000"]))
        for _ in 0..<100 { connection.send([UInt8](repeating: 0x61, count: 10_000)) }
        #expect(try connection.receiveAnswer().status == 405)
    }

    /// Opens an event stream for a page called `name`.
    private func stream(_ fixture: Fixture, _ name: String) throws -> RawConnection {
        let connection = try fixture.connect()
        connection.send(fixture.request("/__clientctl/v1/events?\(name)", ["X-Client-Token: token-1"]))
        #expect(try String(decoding: connection.receive(upTo: "\r\n\r\n"), as: UTF8.self).contains(" 200 "))
        return connection
    }

    @Test func `limits event streams apart from connections, and closes the oldest one`()
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
        // A page has one stream, so a new stream replaces its former one.
        let again = try stream(fixture, "4")
        #expect(try streams[4].receiveAll() == [])
        try await eventually { fixture.host.with { $0.endedStreams } == 3 }
        withExtendedLifetime((streams, again)) {}
    }

    @Test func `closes connections with unread responses in favor of new ones`() async throws {
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

    @Test(arguments: ["", "GET /plain HTT"]) func `closes silent connections in favor of new ones`(
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
        // The oldest connection was closed first.
        #expect(try silent[0].receiveAll() == [])
    }
}
