import BundleTransport
import BundleSockets
import BundleTestTraits
import BundleTesting
import Testing

/// Tests a server with the bytes of RFC 6455.
@Suite("SocketHandler", .ownThread)
struct FrameTests {
    @Test func `assembles a message of several frames and answers a ping between them at once`() async throws {
        let echo = try await EchoServer.start()
        let client = try RawClient(port: echo.port)
        // Splits a character.
        client.send(Frames.client(Frames.text, [0x61, 0xC3], fin: false))
        client.send(Frames.client(Frames.ping, [1, 2, 3]))
        client.send(Frames.client(Frames.continuation, [0xBC], fin: false))
        client.send(Frames.client(Frames.continuation, [0x62]))
        #expect(try client.frame() == RawClient.Frame(Frames.pong, [1, 2, 3]))
        #expect(try client.frame() == RawClient.Frame(Frames.text, Array("aüb".utf8)))
        await echo.server.stop()
    }

    @Test func `reads frames byte by byte`() async throws {
        let echo = try await EchoServer.start()
        let client = try RawClient(port: echo.port)
        let bytes = [UInt8](repeating: 7, count: 300)
        for byte in Frames.client(Frames.binary, bytes) { client.send([byte]) }
        #expect(try client.frame() == RawClient.Frame(Frames.binary, bytes))
        await echo.server.stop()
    }

    @Test func `returns a pong`() async throws {
        let echo = try await EchoServer.start()
        let client = try RawClient(port: echo.port)
        client.send(Frames.client(Frames.pong, [9]))
        #expect(try client.frame() == RawClient.Frame(Frames.text, Array("pong".utf8)))
        await echo.server.stop()
    }

    /// The violation, its bytes, and the expected close code.
    static let violations: [(String, [UInt8], UInt16)] = [
        ("a frame without a mask", Frames.client(Frames.text, [0x61], isMasked: false), 1002),
        ("a reserved bit", Frames.client(Frames.text, [0x61], reserved: 4), 1002),
        ("another reserved bit", Frames.client(Frames.ping, [], reserved: 1), 1002),
        ("an unknown opcode", Frames.client(3, [0x61]), 1002),
        ("an unknown control opcode", Frames.client(11, [0x61]), 1002),
        ("a piece of nothing", Frames.client(Frames.continuation, [0x61]), 1002),
        (
            "a message inside another",
            Frames.client(Frames.text, [0x61], fin: false) + Frames.client(Frames.text, [0x61]), 1002
        ),
        ("a ping in pieces", Frames.client(Frames.ping, [0x61], fin: false), 1002),
        ("a ping of 126 bytes", Frames.client(Frames.ping, [UInt8](repeating: 0, count: 126)), 1002),
        ("half a character", Frames.client(Frames.text, [0x61, 0xC3]), 1007),
        ("a surrogate", Frames.client(Frames.text, [0xED, 0xA0, 0x80]), 1007),
        (
            "half a character in pieces",
            Frames.client(Frames.text, [0xC3], fin: false) + Frames.client(Frames.continuation, [0x61]), 1007
        ),
        ("a frame beyond the limit", Frames.client(Frames.binary, [UInt8](repeating: 0, count: 64 << 10 + 1)), 1009),
        ("a length beyond all limits", Frames.head(Frames.binary, Int.max, isMasked: true) + [0, 0, 0, 0], 1009),
        ("a negative length", [0x82, 0xFF] + [UInt8](repeating: 0xFF, count: 8) + [0, 0, 0, 0], 1009),
        (
            "a message beyond the limit in pieces",
            Frames.client(Frames.binary, [UInt8](repeating: 0, count: 64 << 10), fin: false)
                + Frames.client(Frames.continuation, [0]), 1009
        ),
        ("a close of one byte", Frames.client(Frames.close, [3]), 1002),
        ("a close with a code for nobody", Frames.client(Frames.close, Frames.code(1005)), 1002),
        ("a close with a code that does not exist", Frames.client(Frames.close, Frames.code(999)), 1002),
        ("a close with a reason that is no text", Frames.client(Frames.close, Frames.code(1000) + [0xFF]), 1002),
    ]

    @Test(arguments: violations.indices)
    func `answers a violation with its close code and ends the connection`(_ index: Int) async throws {
        let (name, bytes, code) = Self.violations[index]
        let echo = try await EchoServer.start()
        let client = try RawClient(port: echo.port)
        client.send(bytes)
        client.send(Frames.client(Frames.text, Array("behind it".utf8)))
        #expect(try client.frames() == [RawClient.Frame(Frames.close, Frames.code(code))], "\(name)")
        let end = await echo.end() ?? nil
        switch code {
        case 1009: #expect(end == .messageTooLarge(limit: 64 << 10), "\(name)")
        default: if case .protocolViolation? = end {} else { Issue.record("\(name): \(String(describing: end))") }
        }
        await echo.server.stop()
    }

    @Test(arguments: [
        ([], nil as TransportError?), (Frames.code(1000), nil), (Frames.code(1001, "moving"), nil),
        (Frames.code(4000, "bye"), .closed(code: 4000, reason: "bye")),
        (Frames.code(1011), .closed(code: 1011, reason: "")),
    ])
    func `returns a close frame`(_ content: [UInt8], _ end: TransportError?) async throws {
        let echo = try await EchoServer.start()
        let client = try RawClient(port: echo.port)
        client.send(Frames.client(Frames.text, [0x61]) + Frames.client(Frames.close, content))
        // The earlier message may or may not be echoed.
        let frames = try client.frames().filter { $0.opcode == Frames.close }
        #expect(frames == [RawClient.Frame(Frames.close, Array(content.prefix(2)))])
        await echo.server.stop()
    }

    @Test func `ignores a message whose last frame is missing`() async throws {
        let echo = try await EchoServer.start()
        let client = try RawClient(port: echo.port)
        client.send(Array(Frames.client(Frames.text, Array("half of it".utf8)).dropLast(3)))
        client.connection.finishSending()
        #expect(try client.frames() == [])
        #expect(await echo.end() == .some(.some(.lost("the peer closed it without a close frame"))))
        await echo.server.stop()
    }

    @Test func `ends only the connection that sends random bytes`() async throws {
        let echo = try await EchoServer.start()
        let bystander = try RawClient(port: echo.port)
        var generator = SeededGenerator(seed: 6455)
        for _ in 0..<100 {
            let client = try RawClient(port: echo.port)
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 1...6, using: &generator) {
                var frame = Frames.client(
                    UInt8.random(in: 0...15, using: &generator),
                    (0..<Int.random(in: 0...200, using: &generator)).map { _ in
                        UInt8.random(in: 0...255, using: &generator)
                    },
                    fin: Bool.random(using: &generator), isMasked: Int.random(in: 0...9, using: &generator) > 0)
                if Int.random(in: 0...3, using: &generator) == 0 {
                    frame[Int.random(in: 0..<frame.count, using: &generator)] = UInt8.random(
                        in: 0...255, using: &generator)
                }
                bytes += frame
            }
            client.send(bytes)
            client.connection.finishSending()
            _ = try? client.frames()
        }
        bystander.send(Frames.client(Frames.text, Array("still here".utf8)))
        #expect(try bystander.frame() == RawClient.Frame(Frames.text, Array("still here".utf8)))
        await echo.server.stop()
    }

    @Test func `answers only the latest ping of a peer that does not read`() async throws {
        var limits = EchoServer.limits
        // The answers are not read until all pings are sent.
        limits.stall = .seconds(300)
        let server = try await EchoServer.start(limits: limits, echoes: false)
        // The kernel's buffers grow, so the answers must exceed them.
        let receiveBuffer: Int32 = 65_536
        let client = try RawClient(port: server.port, receiveBuffer: receiveBuffer)
        let socket = try #require(await server.opened.first { _ in true })
        let size = 120
        let sizes = try String(decoding: contents(ofFile: "/proc/sys/net/ipv4/tcp_wmem"), as: UTF8.self)
        let sendBuffer = try #require(sizes.split(whereSeparator: \.isWhitespace).last.flatMap { Int($0) })
        let count = (sendBuffer + 2 * Int(receiveBuffer)) * 5 / 4 / size
        let padding = [UInt8](repeating: 0x20, count: size)
        for start in stride(from: 0, to: count, by: 500) {
            client.send(
                (start..<min(start + 500, count)).flatMap { number in
                    Frames.unchanged(Frames.ping, Array((Array("\(number) ".utf8) + padding).prefix(size)))
                })
        }
        client.send(Frames.client(Frames.text, [0x61]))
        // The server reads in order, so it has read every ping by now.
        #expect(try await socket.receive() == .text("a"))
        let newest = Array("\(count - 1) ".utf8)
        var answers = 0
        while let frame = try client.frame() {
            answers += 1
            if frame.content.starts(with: newest) { break }
        }
        #expect(answers < count)
        try await socket.sendText("b")
        #expect(try client.frame() == RawClient.Frame(Frames.text, [0x62]))
        await server.server.stop()
    }
}
