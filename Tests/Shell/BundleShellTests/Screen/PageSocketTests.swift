import BundleServe
import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

@testable import BundleShell
@testable import ClientServer

/// The WebSockets of pages, with a real server. The test writes the frames of the page.
@Suite("PageSockets", .ownThread) struct PageSocketTests {
    private let fixture: LoopbackFixture
    private let server: PageServer
    private let token: String

    init() async throws {
        fixture = try await LoopbackFixture(installed: "1.0.0")
        token = try await fixture.page()
        var configuration = ServerConfiguration(port: .fixed(0), bridge: try .page())
        configuration.opensSockets = true
        configuration.limits.sockets = 3
        configuration.limits.connections = 4
        server = try await PageServer.start(configuration, host: fixture.host)
    }

    private struct PageSocket {
        let connection: RawConnection

        func send(_ text: String) {
            let bytes = Array(text.utf8)
            let length: [UInt8] =
                switch bytes.count {
                case 0..<126: [0x80 | UInt8(bytes.count)]
                case 126..<65536: [0x80 | 126, UInt8(bytes.count >> 8), UInt8(bytes.count & 0xFF)]
                default: [0x80 | 127, 0, 0, 0, 0] + (0..<4).reversed().map { UInt8(bytes.count >> (8 * $0) & 0xFF) }
                }
            connection.send([0x81] + length + [0, 0, 0, 0] + bytes)
        }

        func call(_ id: Int, _ method: String, _ body: JSONObject = [:]) {
            let message: JSONObject = ["id": .integer(id), "method": .string(method), "body": .object(body)]
            send(String(decoding: JSONWriter.bytes(of: .object(message)), as: UTF8.self))
        }

        /// Returns the next message; nil at the end or after a close frame.
        func receive() throws -> JSONObject? {
            let head = try connection.receive(exactly: 2)
            guard head.count == 2, head[0] == 0x81 else { return nil }
            let long = head[1] == 126 ? try connection.receive(exactly: 2) : []
            let count = long.isEmpty ? Int(head[1]) : long.reduce(0) { $0 << 8 | Int($1) }
            return try JSONScanner.parse(try connection.receive(exactly: count), maximumBytes: count).objectValue
        }
    }

    private func handshake(_ fields: [String], host: String? = nil, method: String = "GET") throws -> RawConnection {
        let connection = try RawConnection(port: server.port)
        let lines =
            [
                "\(method) /__clientctl/v1/socket HTTP/1.1", "Host: \(host ?? "127.0.0.1:\(server.port)")",
                "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                "Sec-WebSocket-Version: 13",
            ] + fields
        connection.send(lines.joined(separator: "\r\n") + "\r\n\r\n")
        return connection
    }

    private var origin: String { "Origin: http://127.0.0.1:\(server.port)" }

    private func open(_ name: String, token: String? = nil) throws -> PageSocket {
        let connection = try handshake([origin, "Sec-WebSocket-Protocol: clientctl, \(token ?? self.token), \(name)"])
        let answer = try connection.receiveAnswer()
        try #require(answer.status == 101)
        #expect(answer["Sec-WebSocket-Protocol"] == "clientctl")
        return PageSocket(connection: connection)
    }

    @Test func `refuses a handshake of another origin, host or method, and one without a page`() throws {
        let words = "Sec-WebSocket-Protocol: clientctl, \(token), a"
        let rows: [([String], String?, String, Int)] = [
            ([words], nil, "GET", 403), (["Origin: https://elsewhere.example", words], nil, "GET", 403),
            (["Origin: null", words], nil, "GET", 403),
            ([origin, words, "Sec-Fetch-Site: cross-site"], nil, "GET", 403),
            ([origin, words], "elsewhere.example", "GET", 421), ([origin, words], nil, "POST", 405),
            ([origin], nil, "GET", 400), ([origin, "Sec-WebSocket-Protocol: clientctl, \(token)"], nil, "GET", 400),
            ([origin, "Sec-WebSocket-Protocol: chat, \(token), a"], nil, "GET", 400),
        ]
        for (fields, host, method, status) in rows {
            #expect(try handshake(fields, host: host, method: method).receiveAnswer().status == status, "\(fields)")
        }
    }

    @Test func `refuses a page whose launch has ended, and ends its socket`() throws {
        let socket = try open("a", token: "other")
        let refusal = try socket.receive()
        #expect(refusal?["status"]?.integerValue == 403)
        #expect(refusal?["error"]?.objectValue?["code"]?.stringValue == "staleLaunch")
        #expect(try socket.receive() == nil)
    }

    @Test func `carries out calls in their order, and answers each`() throws {
        let socket = try open("a")
        socket.call(1, "visibility", ["page": .string("a"), "number": .integer(1), "hidden": .bool(false)])
        socket.call(2, "startupDidComplete")
        socket.call(3, "noSuchMethod")
        socket.call(4, "getCurrentVersion")
        let answers = try (0..<4).map { _ in try socket.receive() }
        #expect(answers.map { $0?["id"]?.integerValue } == [1, 2, 3, 4])
        #expect(answers[2]?["error"]?.objectValue?["code"]?.stringValue == "unknownMethod")
        #expect(answers[3]?["result"]?.objectValue?["version"]?.stringValue == "1.0.0")
    }

    @Test func `sends events while a page listens`() async throws {
        let socket = try open("a")
        socket.call(1, "listen")
        #expect(try socket.receive()?["id"]?.integerValue == 1)
        fixture.fail("one")
        let error = try socket.receive()
        #expect(error?["event"]?.stringValue == "error" && error?["number"]?.integerValue == 1)
        socket.call(2, "heard", ["id": .integer(1)])
        #expect(try socket.receive()?["id"]?.integerValue == 2)
        socket.call(3, "unlisten")
        #expect(try socket.receive()?["id"]?.integerValue == 3)
        socket.call(4, "listen")
        #expect(try socket.receive()?["id"]?.integerValue == 4)
        fixture.bridge.reload()
        #expect(try socket.receive()?["event"]?.stringValue == "reload")
    }

    @Test func `ends the former socket of a page, and the oldest of too many`() throws {
        let former = try open("a")
        let other = try open("b")
        let socket = try open("a")
        #expect(try former.receive() == nil)
        let last = try open("c")
        let newest = try open("d")
        #expect(try other.receive() == nil)
        for socket in [socket, last, newest] {
            socket.call(1, "getCurrentVersion")
            #expect(try socket.receive()?["id"]?.integerValue == 1)
        }
    }

    @Test func `keeps the socket of a page that occupies every connection`() throws {
        let socket = try open("a")
        let connections = try (0..<4).map { _ in
            let connection = try RawConnection(port: server.port)
            connection.send("GET / HTTP/1.1\r\n")
            return connection
        }
        socket.call(1, "getCurrentVersion")
        #expect(try socket.receive()?["id"]?.integerValue == 1)
        #expect(connections.count == 4)
    }

    @Test func `ends a socket with a message that is too large or not a call`() throws {
        for text in [String(repeating: "a", count: 200_000), "hello", "{}", "{\"id\":1}"] {
            let socket = try open("a")
            socket.send(text)
            #expect(try socket.receive() == nil)
        }
    }
}
