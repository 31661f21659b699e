import ArchiveSource
import BundleValues
import BundleTransport
import BundleSockets
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// Messages that `clientctl feed serve` sends to devices when a publisher changes the feed.
@Suite(.ownThread) struct HostPushTests {
    private let site: ChannelSite

    init() throws { site = try ChannelSite() }

    private func hello(_ socket: any SyncTransport, _ releases: [String: Int]) async throws {
        #expect(try await socket.next() == .hello(version: 1))
        for (channel, sequence) in releases.sorted(by: { $0.key < $1.key }) {
            #expect(try await socket.next() == .release(channel: channel, sequence: sequence))
        }
    }

    @Test func `host announces every channel to a new socket, then each change`() async throws {
        try site.publish("1.0.0").succeeded()
        try site.publish("1.0.0", channel: "beta").succeeded()
        let host = try Hosting(site.feed)
        let first = try await host.listen()
        try await hello(first, ["beta": 1, "stable": 1])

        try site.publish("1.0.1").succeeded()
        #expect(try await first.next() == .release(channel: "stable", sequence: 2))
        let second = try await host.listen()
        try await hello(second, ["beta": 1, "stable": 2])

        // Of two changes in quick succession, the host may announce only the second.
        try site.release("rollout", "--version", "1.0.1", "1%").succeeded()
        for socket in [first, second] {
            #expect(try await socket.next() == .release(channel: "stable", sequence: 3))
        }
        try site.release("recall", "--version", "1.0.1", "--reason", "white screen").succeeded()
        for socket in [first, second] {
            #expect(try await socket.next() == .release(channel: "stable", sequence: 4))
        }
        try site.publish("1.0.2", channel: "beta").succeeded()
        #expect(try await first.next() == .release(channel: "beta", sequence: 2))
        await first.close()
        await second.close()
    }

    @Test func `host announces only the requested channel to a socket`() async throws {
        try site.publish("1.0.0").succeeded()
        try site.publish("1.0.0", channel: "beta").succeeded()
        let host = try Hosting(site.feed)
        let beta = try await host.listen(for: "beta")
        let nightly = try await host.listen(for: "nightly")
        try await hello(beta, ["beta": 1])
        try await hello(nightly, [:])
        try site.publish("1.0.1").succeeded()
        try site.publish("1.0.1", channel: "beta").succeeded()
        try site.publish("1.0.1", channel: "nightly").succeeded()
        #expect(try await beta.next() == .release(channel: "beta", sequence: 2))
        #expect(try await nightly.next() == .release(channel: "nightly", sequence: 1))
        for name in ["Stable", "", "a&channel=b"] {
            await #expect(throws: TransportError.refused(status: 400, retryAfter: nil)) {
                try await host.listen(for: name)
            }
        }
    }

    @Test func `host announces the first channel of an empty feed`() async throws {
        let empty = try site.folder.makeFolder("empty")
        let host = try Hosting(empty)
        let socket = try await host.listen()
        try await hello(socket, [:])
        try Clientctl.stock(["cp", "-r", try published() + "/channels", empty])
        #expect(try await socket.next() == .release(channel: "stable", sequence: 1))
    }

    private func published() throws -> String {
        try site.publish("1.0.0").succeeded()
        return site.feed
    }

    @Test func `host logs an unreadable channel file and announces nothing`() async throws {
        try site.publish("1.0.0").succeeded()
        let host = try Hosting(site.feed)
        let socket = try await host.listen()
        try await hello(socket, ["stable": 1])
        let document = try contents(ofFile: site.feed + "/channels/stable.json")
        try site.folder.write(bytes("{"), to: "feed/channels/stable.json")
        try site.folder.write(bytes("{}"), to: "feed/channels/nothing.json")
        // The file belongs to another channel than its name states.
        try site.folder.write(document, to: "feed/channels/other.json")
        let deadline = ContinuousClock.now + .seconds(60)
        while try !host.program.printed().errors.contains("channels/stable.json cannot be read"),
            ContinuousClock.now < deadline
        {
            poll(nil, 0, 10)
        }
        #expect(try host.program.printed().errors.contains("channels/stable.json cannot be read"))
        try site.folder.write(document, to: "feed/channels/stable.json")
        try site.release("pause", "--version", "1.0.0").succeeded()
        #expect(try await socket.next() == .release(channel: "stable", sequence: 2))
    }

    @Test func `host accepts sockets only with a token and from its own origin`() async throws {
        let tokens = try site.folder.write(bytes("fleet\n"), to: "tokens")
        let host = try Hosting(site.feed, ["--token-file", tokens])
        for token in [nil, "other"] as [String?] {
            await #expect(throws: TransportError.refused(status: 401, retryAfter: nil)) {
                try await host.listen(token: token)
            }
        }
        try await hello(try await host.listen(token: "fleet"), [:])
        let authorization = "Authorization: Bearer fleet"
        let upgrade = [
            "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            authorization,
        ]
        func status(_ fields: [String], method: String = "GET", connection: String = "Upgrade") throws -> RawResponse {
            let socket = try RawConnection(port: host.port)
            socket.send(
                "\(method) /push HTTP/1.1\r\nHost: h\r\nConnection: \(connection)\r\n"
                    + fields.map { $0 + "\r\n" }.joined() + "\r\n")
            return try socket.receiveAnswer()
        }
        let open = try status(upgrade)
        #expect(open.status == 101)
        #expect(open["Sec-WebSocket-Accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        #expect(try status(upgrade + ["Origin: https://evil.example"]).status == 403)
        #expect(try status(upgrade, connection: "keep-alive").status == 400)
        let plain = try status([authorization])
        #expect(plain.status == 426)
        #expect(plain["Sec-WebSocket-Version"] == "13")
        #expect(try status(upgrade, method: "POST").status == 405)
    }

    @Test func `host upgrades a connection after other requests and reads data sent with the upgrade`() throws {
        let host = try Hosting(site.feed)
        let socket = try RawConnection(port: host.port)
        socket.send("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try socket.receiveAnswer().status == 200)
        // A ping with a mask of zeros, in one piece with the request.
        let ping: [UInt8] = [0x89, 0x82, 0, 0, 0, 0, 0x68, 0x69]
        socket.send(
            bytes(
                "GET /push HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                    + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n") + ping)
        #expect(try socket.receiveAnswer().status == 101)
        let hello = SyncMessage.hello(version: 1).text
        let expected = [[0x81, UInt8(hello.utf8.count)] + bytes(hello), [0x8A, 2, 0x68, 0x69]]
        let got = try socket.receive(exactly: expected.joined().count)
        #expect(got == Array(expected.joined()) || got == Array(expected.reversed().joined()))
    }

    @Test func `host closes its sockets when it ends`() async throws {
        let host = try Hosting(site.feed)
        let socket = try await host.listen()
        try await hello(socket, [:])
        host.program.send(SIGTERM)
        #expect(try await socket.receive() == nil)
        let ending = try #require(try host.program.wait(within: .seconds(60)), "it does not end")
        #expect(ending.status == 0)
    }

    @Test func `devices reconnect to a restarted host and receive missed changes`() async throws {
        try site.publish("1.0.0").succeeded()
        var host: Hosting? = try Hosting(site.feed)
        let port = try #require(host?.port)
        var configuration = SyncClient.Configuration(
            url: try SocketURL(parsing: "ws://127.0.0.1:\(port)/push"))
        configuration.backoff.first = .milliseconds(50)
        configuration.backoff.longest = .milliseconds(200)
        let client = SyncClient(configuration, connector: Hosting.connector())
        let (events, continuation) = AsyncStream<SyncEvent>.makeStream()
        let running = Task { await client.run { continuation.yield($0) } }
        defer { running.cancel() }
        var iterator = events.makeAsyncIterator()
        func receives(_ message: SyncMessage) async -> Bool {
            while let event = await iterator.next() {
                if event == .text(message.text) { return true }
            }
            return false
        }
        #expect(await receives(.release(channel: "stable", sequence: 1)))
        host?.program.send(SIGKILL)
        _ = try host?.program.wait()
        host = nil
        let place = try Socket.closed(port: port)
        try site.publish("1.0.1").succeeded()
        host = try Hosting(site.feed, port: port)
        #expect(await receives(.release(channel: "stable", sequence: 2)))
        try site.release("pause", "--version", "1.0.1").succeeded()
        #expect(await receives(.release(channel: "stable", sequence: 3)))
        withExtendedLifetime((host, place)) {}
    }

    @Test(.enabled(if: access("/usr/bin/stdbuf", X_OK) == 0, "no stdbuf"))
    func `a shell that embeds the library receives announcements of host`() throws {
        try site.publish("1.0.0").succeeded()
        let host = try Hosting(site.feed)
        let store = site.folder.file("tiny")
        let seed = try site.folder.writeTree(Site.client("0.1.0"), to: "seed")
        // Without `stdbuf`, the output would be buffered until the program ends. It ends when its input ends, and this
        // input does not end.
        let tiny = try Program(
            [
                "sh", "-c", "mkfifo \"$0\" && exec stdbuf -oL \"$@\" <>\"$0\"", site.folder.file("input"),
                Built.tinyShell, store, "1.5.0", seed,
                "\(host.url)manifest.json", site.pinned, "\(host.url)push".replacing("http:", with: "ws:"),
            ], environment: Clientctl.environment())
        func wait(for text: String) throws {
            let deadline = ContinuousClock.now + .seconds(60)
            while try !tiny.printed().output.contains(text) {
                let output = try tiny.printed()
                try #require(ContinuousClock.now < deadline, "no \(text): \(output)")
                poll(nil, 0, 10)
            }
        }
        try wait(for: "listening to ws://127.0.0.1:\(host.port)/push")
        try site.publish("1.0.1").succeeded()
        try wait(for: "announces sequence 2")
    }
}
