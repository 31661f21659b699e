import BundleTransport
import BundleTestTraits
import BundleTesting
import MeteorTesting
import Testing

@testable import MeteorSource

/// Tests the faults of servers in METEOR section 7 with real sockets and the test's clock.
@Suite("VersionWatcher over real sockets", .inTurn) struct SocketFaultTests {
    private func bench(_ answers: [Route] = []) throws -> WatchBench<LoopbackDDP> {
        try WatchBench(of: try LoopbackDDP(answers))
    }

    /// Expects that the watch still checks for another version.
    private func expectContinues(_ bench: WatchBench<LoopbackDDP>, _ socket: LoopbackSocket) async {
        socket.send(DDPTexts.added("two"), DDPTexts.ready)
        #expect(await bench.check() == "two")
        #expect(bench.reports.last == .connected)
    }

    // MARK: Open sockets

    @Test func `checks once for a version however often it is reported, and for a later one`() async throws {
        try await bench().watch { bench in
            let socket = try await bench.subscribe()
            socket.send(DDPTexts.ready)
            await bench.drain(socket)
            socket.send(DDPTexts.added("two"), DDPTexts.changed(to: "two"), DDPTexts.changed(#"{"assets":[]}"#))
            #expect(await bench.check() == "two")
            await bench.drain(socket)
            socket.send(DDPTexts.changed(to: "two"), DDPTexts.changed(to: "three"))
            await bench.pass(.seconds(5))
            #expect(await bench.check() == "three")
        }
    }

    @Test func `ignores garbage`() async throws {
        try await bench().watch { bench in
            let socket = try await bench.subscribe()
            socket.send("", "{", "[[[", #"{"msg":"ping"#, "\u{0}", #"{"msg":7}"#, #"{"nothing":{}}"#)
            socket.peer.send(2, [0, 1, 2])
            await expectContinues(bench, socket)
        }
    }

    @Test func `assembles a message of several frames with a ping between them`() async throws {
        try await bench().watch { bench in
            let socket = try await bench.subscribe()
            let text = Array(DDPTexts.added("two").utf8)
            socket.peer.raw(SocketPeer.head(1, 10, isLast: false) + text[..<10])
            socket.peer.send(9, [1, 2])
            socket.peer.raw(SocketPeer.head(0, text.count - 10) + text[10...])
            socket.send(DDPTexts.ready)
            #expect(await bench.check() == "two")
        }
    }

    @Test func `retries a refused subscription over the same socket`() async throws {
        try await bench().watch { bench in
            let socket = try await bench.subscribe()
            socket.send(#"{"msg":"nosub","id":"1","error":{"error":500,"reason":"not now"}}"#)
            await bench.drain(socket)
            await bench.pass(.seconds(10))
            for milliseconds in [7500, 15_000, 2500] {
                await bench.pass(.milliseconds(milliseconds))
                if milliseconds != 15_000 {
                    #expect(await socket.nextText() == DDPTexts.ping)
                    socket.send(DDPTexts.pong)
                    await bench.drain(socket)
                }
            }
            await bench.pass(.milliseconds(14_500))
            #expect(await socket.nextText() == DDPTexts.sub(id: "2"))
            socket.send(DDPTexts.added("two"), #"{"msg":"ready","subs":["2"]}"#)
            #expect(await bench.check() == "two")
            #expect(bench.sentences.first == "the server ended the subscription: not now")
        }
    }

    // MARK: Opened again

    /// The way in which a server ends an open socket, and the start of the report.
    struct Break: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let reason: String
        let act: @Sendable (SocketPeer) -> Void

        init(_ name: String, _ reason: String, _ act: @escaping @Sendable (SocketPeer) -> Void) {
            (testDescription, self.reason, self.act) = (name, reason, act)
        }
    }

    static let breaks: [Break] = [
        Break("closes", "the socket is closed") { $0.close() },
        Break("closes with a reason", "the peer closed the connection with code 1011: sorry") {
            $0.send(8, [0x03, 0xF3] + Array("sorry".utf8))
        },
        Break("is cut", "the connection was lost") { $0.cut() },
        Break("is cut in a frame's head", "the connection was lost") {
            $0.raw([0x81])
            $0.cut()
        },
        Break("is cut inside a frame", "the connection was lost") {
            $0.raw(SocketPeer.head(1, 100) + Array(#"{"msg":"added""#.utf8))
            $0.cut()
        },
        Break("is cut between the frames of a message", "the connection was lost") {
            $0.raw(SocketPeer.head(1, 5, isLast: false) + Array(#"{"msg"#.utf8.prefix(5)))
            $0.cut()
        },
        Break("sends a message that is too large", "a message has more than 1048576 bytes") {
            $0.raw(SocketPeer.head(1, 1 << 21) + [UInt8](repeating: 0x20, count: 100))
        },
        Break("sends frames that are too large together", "a message has more than 1048576 bytes") {
            for opcode: UInt8 in [1, 0] {
                $0.raw(SocketPeer.head(opcode, 600 << 10, isLast: false) + [UInt8](repeating: 0x20, count: 600 << 10))
            }
        },
        Break("breaks the protocol", "the peer violated the protocol") { $0.raw([0x83, 0]) },
        Break("sends invalid UTF-8", "the peer violated the protocol") { $0.send(1, [0xC3, 0x28]) },
    ]

    @Test(arguments: breaks)
    func `reconnects after the end of a socket and compares versions again`(broken: Break) async throws {
        try await bench().watch { bench in
            let socket = try await bench.subscribe()
            socket.send(DDPTexts.added("one"), DDPTexts.ready)
            await bench.drain(socket)
            broken.act(socket.peer)
            #expect(await socket.nextText() == nil)
            await bench.pass(.milliseconds(10))
            guard case .lost(let reason)? = bench.reports.last, reason.hasPrefix(broken.reason) else {
                Issue.record("\(bench.reports)")
                return
            }
            await expectContinues(bench, try await bench.subscribe())
            #expect(bench.reports.count == 3)
        }
    }

    @Test func `disconnects from a server that sends only garbage`() async throws {
        try await bench().watch { bench in
            let socket = try await bench.subscribe()
            for _ in 0..<16 { socket.send("<html>") }
            #expect(await socket.nextText() == nil)
            await bench.pass(.milliseconds(10))
            await expectContinues(bench, try await bench.subscribe())
        }
    }

    @Test func `pings a silent server and then disconnects`() async throws {
        try await bench().watch { bench in
            let socket = try await bench.subscribe()
            socket.send(DDPTexts.ready)
            await bench.drain(socket)
            await bench.pass(.seconds(10))
            await bench.pass(.milliseconds(7500))
            #expect(await socket.nextText() == DDPTexts.ping)
            await bench.pass(.seconds(15))
            #expect(await socket.nextText() == nil)
            await bench.pass(.milliseconds(10))
            #expect(bench.reports == [.connected, .lost("the server did not answer a ping")])
            await expectContinues(bench, try await bench.subscribe())
        }
    }

    @Test func `disconnects from a server that opens a socket and sends nothing`() async throws {
        try await bench().watch { bench in
            let socket = try await bench.server.accept()
            #expect(await socket.nextText() == DDPTexts.connect)
            await bench.pass(.seconds(10))
            #expect(await socket.nextText() == nil)
            await bench.pass(.milliseconds(10))
            #expect(bench.reports == [.lost("no DDP response within 10s")])
            await expectContinues(bench, try await bench.subscribe())
        }
    }

    @Test func `uses an older version of DDP if the server requires it`() async throws {
        try await bench().watch { bench in
            let socket = try await bench.server.accept()
            #expect(await socket.nextText() == DDPTexts.connect)
            socket.send(#"{"msg":"failed","version":"pre2"}"#)
            #expect(await socket.nextText() == nil)
            await bench.pass(.milliseconds(10))
            let other = try await bench.server.accept()
            #expect(await other.nextText() == DDPTexts.connect.replacing(#""version":"1""#, with: #""version":"pre2""#))
            other.send(DDPTexts.connected)
            #expect(await other.nextText() == DDPTexts.sub)
            await expectContinues(bench, other)
        }
    }

    // MARK: No socket

    /// A response that does not open a socket, and the report about it.
    static let refusals: [(Route, String)] = [
        (Route(Array("<html>".utf8)), "the server responded with status 200"),
        (Route(status: 404), "the server responded with status 404"),
        (Route(status: 403), "the server responded with status 403"),
        (Route.redirect(to: "http://127.0.0.1:1/websocket"), "the server responded with status 302"),
        (
            Route(status: 503).with { $0.headers = [("Retry-After", "1")] }, "the server responded with status 503"
        ),
        (
            Route(status: 101).with {
                $0.framing = .none
                $0.headers = [
                    ("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", "AAAA"),
                ]
            }, "the server's response does not open a socket"
        ),
        (Route().with { $0.raw = Array("SSH-2.0-x\r\n".utf8) }, "the server's response does not open a socket"),
        (Route().with { $0.raw = [] }, ""),
    ]

    @Test(arguments: refusals.indices)
    func `retries a server that does not open a socket after growing waits and reports it once`(
        index: Int
    ) async throws {
        let (route, reason) = Self.refusals[index]
        try await bench([route, route, route]).watch { bench in
            for milliseconds in [10, 10, 3630] { await bench.pass(.milliseconds(milliseconds)) }
            let socket = try await bench.subscribe()
            guard case .lost(let failure)? = bench.reports.first, failure.hasPrefix(reason), bench.reports.count == 1
            else {
                Issue.record("\(bench.reports)")
                return
            }
            await expectContinues(bench, socket)
        }
    }

    @Test func `ends an attempt without a response after 10 s`() async throws {
        let held = Route().with { $0.gate = try? Gate() }
        try await bench([held]).watch { bench in
            try await bench.server.waitForRequest()
            await bench.pass(.seconds(10))
            await bench.pass(.milliseconds(10))
            #expect(bench.reports == [.lost("opening the socket took too long")])
            await expectContinues(bench, try await bench.subscribe())
        }
    }

    // MARK: Other protocols

    @Test func `ends for a server of another protocol`() async throws {
        let end = try await bench().watch { bench in
            let socket = try await bench.server.accept()
            #expect(await socket.nextText() == DDPTexts.connect)
            socket.send(#"{"msg":"failed","version":"9"}"#)
            #expect(await socket.nextText() == nil)
        }
        #expect(end == .refused("the server requires version 9 of DDP, which is not supported"))
    }

    // MARK: The mock server

    @Test func `receives the version and its changes from MockMeteor, and again after a lost connection`() async throws
    {
        let folder = try TemporaryFolder()
        let server = try MeteorServer([], talksDDP: true)
        for version in ["one", "two"] {
            try MeteorBundleBuilder(.stated(version)).build().writeServerLayout(to: folder.file(version))
            server.add(version, folder: folder.file(version))
        }
        try server.serve(version: "one")
        let bench = try WatchBench(of: LoopbackDDP(at: server.port))
        try await bench.watch { bench in
            while bench.reports.last != .connected { try await Task.sleep(for: .milliseconds(2)) }
            try server.serve(version: "two")
            #expect(await bench.check() == "two")
            #expect(server.subscriberCount == 1)
            server.cutSockets()
            await bench.pass(.milliseconds(10))
            // The old version still runs, so the new subscription triggers another check.
            await bench.pass(.milliseconds(4990))
            #expect(await bench.check() == "two")
        }
        #expect(server.allRequests.isEmpty)
    }
}
