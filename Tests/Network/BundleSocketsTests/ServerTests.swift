import BundleTransport
import BundleSockets
import BundleTestTraits
import BundleTesting
import NIOHTTP1
import Testing

@Suite("SocketServer and SocketHub", .ownThread)
struct ServerTests {
    private func status(_ request: String) async throws -> RawResponse {
        let echo = try await EchoServer.start()
        let connection = try RawConnection(port: echo.port)
        connection.send(request)
        let answer = try connection.receiveAnswer()
        if answer.status != 101 { #expect(try connection.receiveAll() == []) }
        await echo.server.stop()
        return answer
    }

    @Test func `answers other requests with a status`() async throws {
        #expect(try await status("GET /other HTTP/1.1\r\nHost: h\r\n\r\n").status == 404)
        #expect(try await status(RawClient.request("/pushed")).status == 404)
        #expect(try await status(RawClient.request("/push?channel=stable")).status == 101)
        let plain = try await status("GET /push HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(plain.status == 426)
        #expect(plain["Sec-WebSocket-Version"] == "13")
    }

    @Test(arguments: [
        ("GET /push", "POST /push", 405), ("Version: 13", "Version: 8", 426), ("Sec-WebSocket-Key", "X-Key", 400),
        ("Sec-WebSocket-Key: dGhl", "Sec-WebSocket-Key: d", 400), ("Upgrade: websocket", "Upgrade: h2c", 426),
        ("Host: 127.0.0.1", "Sec-WebSocket-Version: 13", 426),
    ])
    func `answers an invalid handshake with a status`(_ part: String, _ other: String, _ expected: Int) async throws {
        let request = RawClient.request("/push")
        #expect(request.contains(part))
        #expect(try await status(request.replacing(part, with: other)).status == expected)
    }

    @Test(arguments: ["https://elsewhere.example", "null"]) func `rejects pages of other origins`(origin: String)
        async throws
    {
        #expect(try await status(RawClient.request("/push", ["Origin: \(origin)"])).status == 403)
    }

    @Test func `closes a connection whose handshake does not complete`() async throws {
        var limits = SocketLimits()
        limits.handshake = .seconds(2)
        let echo = try await EchoServer.start(limits: limits)
        // This handshake may take longer on a busy machine.
        var opened: RawClient?
        for _ in 0..<30 where opened == nil { opened = try? RawClient(port: echo.port) }
        let client = try #require(opened)
        let halves = try ["", "GET /push HT", "GET /push HTTP/1.1\r\nHost: h\r\n"].map { start in
            let connection = try RawConnection(port: echo.port)
            connection.send(start)
            return connection
        }
        for connection in halves { #expect(try connection.receiveAll() == []) }
        // The earlier socket stays open.
        client.send(Frames.client(Frames.text, [0x61]))
        #expect(try client.frame() == RawClient.Frame(Frames.text, [0x61]))
        await echo.server.stop()
    }

    @Test func `drops clients that stop reading and limits the send queue`() async throws {
        var limits = SocketLimits()
        limits.handshake = .seconds(60)
        limits.stall = .milliseconds(1500 * BusyMachine.seconds(1))
        let echo = try await EchoServer.start(limits: limits, echoes: false)
        let client = try RawClient(port: echo.port)
        let socket = try #require(await echo.opened.first { _ in true })
        let block = [UInt8](repeating: 0, count: 256 << 10)
        // A few of these sends fill the limit, and the others fail at once.
        let results = await withTaskGroup(of: TransportError?.self) { group in
            for _ in 0..<128 {
                group.addTask {
                    do { try await socket.sendBinary(block) } catch { return error as? TransportError }
                    return nil
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(results.contains(.congested(limit: 1 << 20)))
        #expect(results.contains(.timedOut(.sending)))
        await #expect(throws: TransportError.timedOut(.sending)) { try await socket.sendText("more") }
        await #expect(throws: TransportError.timedOut(.sending)) { try await socket.receive() }
        _ = client
        await echo.server.stop()
    }

    @Test func `pings a silent client and then closes its connection`() async throws {
        // On a busy machine the answer can be late, so the test repeats with more time.
        for heartbeat in [2, 5, 15] {
            var limits = SocketLimits()
            limits.handshake = .seconds(60)
            limits.heartbeat = .seconds(heartbeat)
            let echo = try await EchoServer.start(limits: limits, echoes: false)
            let client = try RawClient(port: echo.port)
            let socket = try #require(await echo.opened.first { _ in true })
            #expect(try client.frame() == RawClient.Frame(Frames.ping))
            client.send(Frames.client(Frames.pong))
            let answer = try? await socket.receive()
            let next = try? client.frame()
            if answer == .pong && next == RawClient.Frame(Frames.ping) {
                #expect(try client.frame() == nil)
                await #expect(throws: TransportError.timedOut(.answering)) { try await socket.receive() }
                return await echo.server.stop()
            }
            await echo.server.stop()
        }
        Issue.record("who answered was given up")
    }

    @Test func `greets sockets of a hub, sends to all, drops their messages and removes closed ones`() async throws {
        let hub = SocketHub()
        let echo = try await EchoServer.start(echoes: false)
        var opened = echo.opened.makeAsyncIterator()
        var clients: [RawClient] = []
        for _ in 0..<5 {
            clients.append(try RawClient(port: echo.port))
            hub.add(try #require(await opened.next()), greeting: ["hello", "17"])
        }
        // More messages than other sockets queue.
        for _ in 0..<100 { clients[0].send(Frames.client(Frames.text, [UInt8](repeating: 0x61, count: 10_000))) }
        clients[1].send(Frames.client(Frames.close, Frames.code(1000)))
        hub.announce("18", topic: "stable")
        for (index, client) in clients.enumerated() {
            #expect(try client.frame() == RawClient.Frame(Frames.text, Array("hello".utf8)))
            #expect(try client.frame() == RawClient.Frame(Frames.text, Array("17".utf8)))
            if index != 1 { #expect(try client.frame() == RawClient.Frame(Frames.text, Array("18".utf8))) }
        }
        _ = try clients[1].frames()
        clients[0].send(Frames.client(Frames.ping, [5]))
        #expect(try clients[0].frame() == RawClient.Frame(Frames.pong, [5]))
        while hub.count > 4 { await Task.yield() }
        #expect(hub.count == 4)
        // This thread waits for the result.
        let closing = Task.detached { await hub.close() }
        for client in clients.dropFirst(2) {
            #expect(try client.frames() == [RawClient.Frame(Frames.close, Frames.code(1000))])
        }
        await closing.value
        #expect(hub.count == 0)
        await echo.server.stop()
    }

    @Test func `sends to sockets of a topic only its announcements`() async throws {
        let hub = SocketHub()
        let echo = try await EchoServer.start(echoes: false)
        var opened = echo.opened.makeAsyncIterator()
        var clients: [RawClient] = []
        for topic in ["beta", nil] as [String?] {
            clients.append(try RawClient(port: echo.port))
            hub.add(try #require(await opened.next()), topic: topic)
        }
        for (text, topic) in [("1", "stable"), ("2", "beta"), ("3", "stable"), ("4", "beta")] {
            hub.announce(text, topic: topic)
        }
        for (client, texts) in zip(clients, [["2", "4"], ["1", "2", "3", "4"]]) {
            for text in texts { #expect(try client.frame() == RawClient.Frame(Frames.text, Array(text.utf8))) }
        }
        await echo.server.stop()
    }

    @Test func `closes sockets of a hub that stop reading`() async throws {
        let hub = SocketHub()
        var limits = SocketLimits()
        limits.unsent = 256 << 10
        let echo = try await EchoServer.start(limits: limits, echoes: false)
        let client = try RawClient(port: echo.port)
        hub.add(try #require(await echo.opened.first { _ in true }))
        let text = String(repeating: "a", count: 64 << 10)
        for _ in 0..<1000 where hub.count > 0 {
            hub.announce(text, topic: "stable")
            await Task.yield()
        }
        // The event loop of the socket may not have run yet.
        let deadline = ContinuousClock.now + .seconds(60)
        while hub.count > 0, ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(5)) }
        #expect(hub.count == 0)
        withExtendedLifetime(client) {}
        await echo.server.stop()
    }
}
