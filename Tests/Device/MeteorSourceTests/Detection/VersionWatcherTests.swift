import BundleTestTraits
import BundleValues
import BundleTransport
import BundleTesting
import Synchronization
import Testing

@testable import MeteorSource

@Suite("VersionWatcher", .inTurn) struct VersionWatcherTests {
    @Test func `N-21: checks when the server has another version and when it gets one`() async throws {
        let end = try await WatchBench().watch { bench in
            let socket = try await bench.subscribe()
            socket.send(DDPTexts.added("two"), DDPTexts.ready)
            #expect(await bench.check() == "two")
            socket.send(DDPTexts.changed(#"{"assets":[{"url":"/a.css"}]}"#), DDPTexts.changed(to: "three"))
            await bench.pass(.seconds(5))
            #expect(await bench.check() == "three")
        }
        #expect(end == .cancelled)
    }

    @Test func `N-21: does not check for the running version or before the server has sent all documents`() async throws
    {
        try await WatchBench().watch { bench in
            let socket = try await bench.subscribe()
            socket.send(DDPTexts.added("zero"), DDPTexts.changed(to: "one"), DDPTexts.ready)
            await bench.drain(socket)
            socket.send(DDPTexts.removed)
            await bench.drain(socket)
            socket.send(DDPTexts.added("two"))
            #expect(await bench.check() == "two")
        }
    }

    @Test func `N-21: accepts a late document and ignores tombstones and other applications`() async throws {
        try await WatchBench().watch { bench in
            let socket = try await bench.subscribe()
            for id in ["version", "version-refreshable", "version-cordova"] {
                socket.send(DDPTexts.added("outdated", id: id))
            }
            socket.send(DDPTexts.ready)
            await bench.drain(socket)
            #expect(bench.sentences.count == 1)
            #expect(bench.sentences.first?.contains("appId") == true)
            socket.send(DDPTexts.added("two"))
            #expect(await bench.check() == "two")
        }
    }

    @Test func `N-21: continues after garbage and incomplete frames`() async throws {
        try await WatchBench().watch { bench in
            let socket = try await bench.subscribe()
            socket.send(
                "", "{", "[[[", #"{"msg":"ping"#, #"{"msg":7.5}"#, DDPTexts.added("two"), "\u{0}", DDPTexts.ready)
            #expect(await bench.check() == "two")
        }
    }

    @Test(arguments: [true, false])
    func `N-21: reconnects after a lost connection and compares versions again`(isOrderly: Bool) async throws {
        try await WatchBench().watch { bench in
            var socket = try await bench.subscribe()
            socket.send(DDPTexts.added("one"), DDPTexts.ready)
            await bench.drain(socket)
            if isOrderly { socket.hangUp() } else { socket.tear() }
            #expect(await socket.nextText() == nil)
            await bench.pass(.milliseconds(10))
            socket = try await bench.subscribe()
            socket.send(DDPTexts.added("two"))
            await bench.drain(socket)
            socket.send(DDPTexts.ready)
            #expect(await bench.check() == "two")
        }
    }

    @Test func `N-21: retries a server that refuses connections after growing waits`() async throws {
        try await WatchBench([.refuse, .refuse, .refuse]).watch { bench in
            for milliseconds in [10, 10, 3630] { await bench.pass(.milliseconds(milliseconds)) }
            _ = try await bench.subscribe()
            #expect(bench.reports == [.lost("no connection: refused")])
        }
    }

    @Test(arguments: [ScriptedServer.Answer.hang, .acceptLate])
    func `N-21: ends a connection attempt after 10 s`(answer: ScriptedServer.Answer) async throws {
        try await WatchBench([answer]).watch { bench in
            await bench.pass(.seconds(10))
            if answer == .acceptLate { #expect(try await bench.server.accept().nextText() == nil) }
            await bench.pass(.milliseconds(10))
            _ = try await bench.subscribe()
        }
    }

    @Test func `reports each change of the connection once`() async throws {
        try await WatchBench([.refuse, .refuse]).watch { bench in
            await bench.pass(.milliseconds(10))
            await bench.pass(.milliseconds(10))
            var socket = try await bench.subscribe()
            #expect(bench.reports == [.lost("no connection: refused")])
            socket.send(DDPTexts.added("one"), DDPTexts.ready)
            await bench.drain(socket)
            socket.send(DDPTexts.changed(to: "one"))
            await bench.drain(socket)
            await bench.pass(.seconds(10))
            socket.hangUp()
            #expect(await socket.nextText() == nil)
            await bench.pass(.milliseconds(10))
            socket = try await bench.subscribe()
            socket.send(DDPTexts.ready)
            await bench.drain(socket)
            #expect(
                bench.reports == [
                    .lost("no connection: refused"), .connected, .lost("the socket is closed"), .connected,
                ])
        }
    }

    @Test func `ignores binary frames and pongs`() async throws {
        try await WatchBench().watch { bench in
            let socket = try await bench.subscribe()
            socket.send(DDPTexts.ready)
            await bench.drain(socket)
            socket.send(.binary([1, 2, 3]))
            socket.send(.pong)
            socket.send(DDPTexts.added("two"))
            #expect(await bench.check() == "two")
            #expect(bench.sentences.last == "a frame was ignored: it is binary")
            for _ in 2...16 { socket.send(.binary([])) }
            #expect(await socket.nextText() == nil)
            await bench.pass(.milliseconds(10))
            _ = try await bench.subscribe()
        }
    }

    @Test func `N-21: pings a silent server and then disconnects`() async throws {
        try await WatchBench().watch { bench in
            let socket = try await bench.subscribe()
            socket.send(DDPTexts.ready)
            await bench.drain(socket)
            await bench.pass(.seconds(10))
            await bench.pass(.milliseconds(7500))
            #expect(await socket.nextText() == DDPTexts.ping)
            await bench.pass(.seconds(15))
            #expect(await socket.nextText() == nil)
            await bench.pass(.milliseconds(10))
            _ = try await bench.subscribe()
        }
    }

    @Test func `N-21: disconnects from a server that stops reading`() async throws {
        try await WatchBench().watch { bench in
            let socket = try await bench.subscribe()
            socket.stall()
            for _ in 0..<200 { socket.send(DDPTexts.ping) }
            #expect(await socket.nextText() == nil)
            await bench.pass(.milliseconds(10))
            _ = try await bench.subscribe()
        }
    }

    @Test func `N-21: retries a refused subscription on the same connection`() async throws {
        try await WatchBench().watch { bench in
            let socket = try await bench.subscribe()
            socket.send(#"{"msg":"nosub","id":"1","error":{"error":500,"reason":"not now"}}"#)
            await bench.drain(socket)
            await bench.pass(.seconds(10))
            // After 17.5 s of silence and an answer, until 49.5 s.
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
        }
    }

    @Test func `P31: checks twice for a version that is not installed, and logs it once`() async throws {
        try await WatchBench().watch { bench in
            for number in 0..<5 {
                let socket = try await bench.subscribe()
                socket.send(DDPTexts.added("never"), DDPTexts.ready)
                if number < 2 { #expect(await bench.check() == "never") }
                // A separate task decides, and the next version must not precede its decision.
                if number == 2 { try await bench.waitForLog(containing: "no more checks") }
                await bench.drain(socket)
                if number == 4 {
                    socket.send(DDPTexts.changed(to: "two"))
                    #expect(await bench.check() == "two")
                    break
                }
                await bench.pass(.seconds(10))
                socket.hangUp()
                #expect(await socket.nextText() == nil)
                await bench.pass(.milliseconds(10))
            }
            #expect(bench.sentences.filter { $0.contains("no more checks") }.count == 1)
        }
    }

    @Test func `answers pings during a check and runs one check at a time`() async throws {
        let (done, finish) = AsyncStream<Void>.makeStream()
        let running = Mutex(0)
        let bench = try WatchBench { _ in
            let count = running.withLock { count in
                count += 1
                return count
            }
            #expect(count == 1)
            for await _ in done { break }
            running.withLock { $0 -= 1 }
        }
        try await bench.watch { bench in
            let socket = try await bench.subscribe()
            socket.send(DDPTexts.added("two"), DDPTexts.ready)
            #expect(await bench.check() == "two")
            socket.send(DDPTexts.changed(to: "three"), DDPTexts.changed(to: "four"))
            await bench.drain(socket)
            finish.yield()
            await bench.pass(.seconds(5))
            #expect(await bench.check() == "four")
            finish.yield()
        }
    }

    @Test func `closes the socket and ends a check when it is cancelled`() async throws {
        let ended = Mutex(false)
        let closing = Mutex<ScriptedSocket?>(nil)
        let bench = try WatchBench { _ in
            await untilCancelled()
            ended.withLock { $0 = true }
        }
        let end = try await bench.watch { bench in
            let socket = try await bench.subscribe()
            socket.send(DDPTexts.added("two"), DDPTexts.ready)
            #expect(await bench.check() == "two")
            closing.withLock { $0 = socket }
        }
        #expect(end == .cancelled)
        #expect(ended.withLock { $0 })
        let socket = try #require(closing.withLock { $0 })
        #expect(await socket.nextText() == nil)
        #expect(bench.sentences == [])
        #expect(bench.reports == [.connected])
    }

    @Test(arguments: [ScriptedServer.Answer.hang, .refuse])
    func `ends without a connection when it is cancelled`(answer: ScriptedServer.Answer) async throws {
        let end = try await WatchBench([answer]).watch { bench in
            await bench.clock.sleeper(until: answer == .hang ? .seconds(10) : .milliseconds(10))
        }
        #expect(end == .cancelled)
    }

    @Test func `ends with a reason for a server of another protocol`() async throws {
        let end = try await WatchBench().watch { bench in
            let socket = try await bench.server.accept()
            _ = await socket.nextText()
            socket.send(#"{"msg":"failed","version":"9"}"#)
            #expect(await socket.nextText() == nil)
        }
        guard case .refused(let reason) = end else {
            Issue.record("\(end)")
            return
        }
        #expect(reason.contains("9"))
    }

    /// The device's server, the page's DDP_DEFAULT_CONNECTION_URL, and the resulting socket.
    static let sockets: [(String, String?, String)] = [
        ("https://h/app/", "https://ddp.h/", "wss://ddp.h/websocket"),
        ("https://h/app/", nil, "wss://h/app/websocket"),
        ("https://h/app/", "", "wss://h/app/websocket"),
        ("https://h/app/", "/live", "wss://h/live/websocket"),
        ("https://h/", "http://ddp.h/", "wss://h/websocket"),
        ("https://h/", "ftp://ddp.h/", "wss://h/websocket"),
        ("http://h:3000/", "http://localhost:3000/", "ws://h:3000/websocket"),
        ("http://h/", "http://127.0.0.1:3000/", "ws://h/websocket"),
        ("http://h/", "http://[::1]:3000/", "ws://h/websocket"),
        ("http://h/", "http://127.example.com/", "ws://127.example.com/websocket"),
        ("http://127.0.0.1:1/", "http://localhost:2/", "ws://localhost:2/websocket"),
    ]

    @Test(arguments: sockets)
    func `uses the socket that the page states, or otherwise the server's`(
        server: String, stated: String?, socket: String
    ) throws {
        let page = RuntimeConfig(rootURL: "https://elsewhere/", appId: "a1", ddpURL: stated)
        let configuration = try VersionWatcher.Configuration(server: try FetchURL(parsing: server), page: page)
        #expect(configuration.url.description == socket)
        #expect((configuration.appId, configuration.architecture) == ("a1", "web.cordova"))
    }

    @Test func `watches the server and any application without a page`() throws {
        let configuration = try VersionWatcher.Configuration(server: try FetchURL(parsing: "http://h/"), page: nil)
        #expect(configuration.url.description == "ws://h/websocket")
        #expect(configuration.appId == nil)
        #expect(throws: FetchError.self) {
            try VersionWatcher.Configuration(server: try FetchURL(parsing: "file:///x/"), page: nil)
        }
    }
}
