import BundleFetch
import BundleTransport
import BundleSockets
import BundleTestTraits
import BundleTesting
import NIOHTTP1
import Testing

@Suite("SocketConnector", .inTurn)
struct ClientTests {
    private func connector(_ change: (inout SocketConnector.Configuration) -> Void = { _ in }) -> SocketConnector {
        var configuration = SocketConnector.Configuration.patient()
        configuration.limits.message = 64 << 10
        change(&configuration)
        return SocketConnector(
            configuration, over: CurlStreamConnector(options: FetchOptions(userAgent: "tests/1")))
    }

    @Test func `closes the connection when a handshake without a response is cancelled`() async throws {
        let server = try await RawServer.start(.silent)
        let (connector, url) = (connector(), try server.url())
        let attempt = Task { try await connector.connect(url) }
        _ = await server.asked.first { _ in true }
        attempt.cancel()
        await #expect(throws: CancellationError.self) { try await attempt.value }
        let request = try #require(await server.received.first { _ in true })
        #expect(String(decoding: request, as: UTF8.self).hasPrefix("GET /push HTTP/1.1\r\n"))
        await server.stop()
    }

    @Test func `opens nothing in a cancelled task`() async throws {
        let server = try await RawServer.start(.silent)
        let (connector, url) = (connector(), try server.url())
        let attempt = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await connector.connect(url)
        }
        await #expect(throws: CancellationError.self) { try await attempt.value }
        await server.stop()
    }

    @Test func `closes the connection when a handshake times out`() async throws {
        // The first connection of the process takes longer, so it is not measured.
        let other = try await RawServer.start(.says("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"))
        await #expect(throws: TransportError.self) { try await connector().connect(try other.url()) }
        await other.stop()
        let server = try await RawServer.start(.silent)
        let hasty = connector { $0.limits.handshake = BusyMachine.limit(3) }
        await #expect(throws: TransportError.timedOut(.connecting)) { try await hasty.connect(try server.url()) }
        #expect(await server.received.first { _ in true } != nil)
        await server.stop()
    }

    @Test func `fails as unreachable if no server listens`() async throws {
        let closed = try Socket.closed()
        let url = try SocketURL(parsing: "ws://127.0.0.1:\(closed.port())/push")
        await #expect(throws: TransportError.unreachable("Connection refused")) { try await connector().connect(url) }
    }

    @Test func `fails as unreachable if the name does not resolve`() async throws {
        let url = try SocketURL(parsing: "ws://nowhere.invalid/push")
        await #expect(throws: TransportError.unreachable("the name nowhere.invalid has no address")) {
            try await connector().connect(url)
        }
    }

    @Test(arguments: [
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", TransportError.refused(status: 403, retryAfter: nil)),
        (
            "HTTP/1.1 503 Busy\r\nRetry-After: 30\r\nContent-Length: 2\r\n\r\nno",
            .refused(status: 503, retryAfter: .seconds(30))
        ),
        ("HTTP/1.1 503 Busy\r\nRetry-After: -1\r\n\r\n", .refused(status: 503, retryAfter: nil)),
        ("HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/\r\n\r\n", .refused(status: 302, retryAfter: nil)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", .refused(status: 200, retryAfter: nil)),
    ])
    func `reports a status instead of a socket`(_ answer: String, _ error: TransportError) async throws {
        let server = try await RawServer.start(.says(answer))
        await #expect(throws: error) { try await connector().connect(try server.url()) }
        #expect(await server.received.first { _ in true } != nil)
        await server.stop()
    }

    private static let opening = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"

    @Test(arguments: [
        "SSH-2.0-OpenSSH\r\n", "\u{15}\u{3}\u{1}", "HTTP/1.1 101 Switching Protocols\r\n\r\n", opening + "\r\n",
        opening + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        opening + "X: " + String(repeating: "a", count: 200_000),
    ])
    func `rejects a response that does not open a socket`(_ answer: String) async throws {
        let server = try await RawServer.start(.says(answer))
        do {
            _ = try await connector().connect(try server.url())
            Issue.record("it was taken")
        } catch TransportError.badHandshake {
        } catch {
            Issue.record("\(error)")
        }
        #expect(await server.received.first { _ in true } != nil)
        await server.stop()
    }

    @Test(arguments: ["Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"])
    func `rejects a server that selects an extension or protocol that was not offered`(_ name: String) async throws {
        let server = try await RawServer.start(.opens([], field: (name, "permessage-deflate")))
        await #expect(throws: TransportError.badHandshake("it selects a \(name) that was not offered")) {
            try await connector().connect(try server.url())
        }
        await server.stop()
    }

    @Test(arguments: ["", "HTTP/1.1 101 Swi"])
    func `rejects a connection that closes instead of a response`(_ answer: String) async throws {
        let server = try await RawServer.start(.says(answer, closes: true))
        await #expect(throws: TransportError.badHandshake("the connection was closed without a response")) {
            try await connector().connect(try server.url())
        }
        await server.stop()
    }

    @Test func `receives messages that directly follow the handshake`() async throws {
        let server = try await RawServer.start(.opens(Frames.server(Frames.text, Array("first".utf8))))
        for _ in 0..<20 {
            let transport = try await connector { $0.limits.closing = .milliseconds(10) }.connect(try server.url())
            #expect(try await transport.receive() == .text("first"))
            await transport.close()
        }
        await server.stop()
    }

    static let violations: [([UInt8], UInt16)] = [
        (Frames.client(Frames.text, [0x61]), 1002), (Frames.server(Frames.text, [0xFF]), 1007),
        (Frames.server(Frames.binary, [UInt8](repeating: 0, count: 64 << 10 + 1)), 1009), (Frames.server(5), 1002),
    ]

    @Test(arguments: violations)
    func `sends the close code of the rule that the server broke`(_ bytes: [UInt8], _ code: UInt16) async throws {
        let server = try await RawServer.start(.opens(bytes))
        let transport = try await connector().connect(try server.url())
        await #expect(throws: TransportError.self) { try await transport.receive() }
        await transport.close()
        let received = try #require(await server.received.first { _ in true })
        // A masked close frame with the code.
        try #require(received.count == 8 && received[0] == 0x88 && received[1] == 0x82)
        #expect([received[6] ^ received[2], received[7] ^ received[3]] == Frames.code(code))
        await server.stop()
    }

    @Test func `masks each frame with a new key`() async throws {
        let server = try await RawServer.start(.opens([]))
        let transport = try await connector().connect(try server.url())
        for _ in 0..<8 { try await transport.sendBinary([0, 0, 0, 0]) }
        await transport.close()
        let received = try #require(await server.received.first { _ in true })
        try #require(received.count >= 80)
        let masks = Set((0..<8).map { Array(received[$0 * 10 + 2..<$0 * 10 + 6]) })
        #expect(masks.count == 8)
        await server.stop()
    }

    @Test func `closes in time if the peer sends no close frame`() async throws {
        let server = try await RawServer.start(.opens([]))
        let transport = try await connector { $0.limits.closing = .milliseconds(200) }.connect(try server.url())
        let took = await ContinuousClock().measure { await transport.close() }
        #expect(took >= .milliseconds(150) && took < .seconds(60))
        await server.stop()
    }

    @Test func `sends the header fields of its configuration`() async throws {
        let (accepted, accepting) = AsyncStream<[String]>.makeStream()
        let server = try await SocketServer.start(
            WebSocketUpgrade(UpgradeRule(path: "/push"), limits: EchoServer.limits) { _, head in
                accepting.yield(
                    head.headers["Authorization"] + head.headers["Host"] + head.headers["User-Agent"]
                        + head.headers["Origin"])
            })
        let connector = connector { $0.fields = [("Authorization", "Bearer abc")] }
        _ = try await connector.connect(try SocketURL(parsing: "ws://127.0.0.1:\(server.port)/push"))
        #expect(await accepted.first { _ in true } == ["Bearer abc", "127.0.0.1:\(server.port)", "tests/1"])
        await server.stop()
    }

    @Test(arguments: [("X", "a\r\nY: b"), ("X:", "a"), ("", "a"), ("X", "ü"), ("X Y", "a")])
    func `rejects a header field that would become two`(_ name: String, _ value: String) async throws {
        let server = try await RawServer.start(.silent)
        let connector = connector { $0.fields = [(name, value)] }
        do {
            _ = try await connector.connect(try server.url())
            Issue.record("it was sent")
        } catch TransportError.badHandshake {
        } catch {
            Issue.record("\(error)")
        }
        await server.stop()
    }

    @Test func `closes a transport without references`() async throws {
        let server = try await RawServer.start(.opens([]))
        _ = try await connector().connect(try server.url())
        #expect(await server.received.first { _ in true } == [])
        await server.stop()
    }

    @Test func `reconnects after its socket and after its server was lost`() async throws {
        // Keeps the port free between the two servers.
        let held = try Socket.closed()
        defer { withExtendedLifetime(held) {} }
        let port = try held.port()
        let first = try await EchoServer.start(echoes: false, port: port)
        let opened = first.opened
        var configuration = SyncClient.Configuration(url: try SocketURL(parsing: "ws://127.0.0.1:\(port)/push"))
        configuration.opening = .seconds(60)
        configuration.heartbeat.idle = .seconds(300)
        configuration.backoff.first = .milliseconds(20)
        configuration.backoff.longest = .milliseconds(50)
        let client = SyncClient(configuration, connector: connector())
        let (events, telling) = AsyncStream<SyncEvent>.makeStream()
        let running = Task { await client.run { telling.yield($0) } }
        var (told, sockets) = (events.makeAsyncIterator(), opened.makeAsyncIterator())
        for number in 0..<3 {
            var socket = await sockets.next()
            #expect(await told.next() == .connected)
            try await socket?.sendText("\(number)")
            #expect(await told.next() == .text("\(number)"))
            // The last reference: the connection ends without a close frame.
            socket = nil
            guard case .lost(.lost, _)? = await told.next() else {
                Issue.record("the cut was not told")
                break
            }
        }
        var last = await sockets.next()
        #expect(await told.next() == .connected)
        await first.server.stop()
        last = nil
        _ = last
        // The end of the last connection and the number of failed attempts depend on timing.
        var isUnreachable = false
        while !isUnreachable, case .lost(let error, _)? = await told.next() {
            if case .unreachable = error { isUnreachable = true }
        }
        #expect(isUnreachable, "the end of the server was not told")
        let second = try await SocketServer.start(
            port: port,
            WebSocketUpgrade(UpgradeRule(path: "/push"), limits: EchoServer.limits) { socket, _ in
                Task {
                    try? await socket.sendText("back")
                    _ = try? await socket.receive()
                }
            })
        while let event = await told.next(), event != .text("back") {}
        running.cancel()
        await running.value
        await second.stop()
    }
}
