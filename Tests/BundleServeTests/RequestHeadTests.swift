import NIOCore
import NIOEmbedded
import NIOHTTP1
import Testing

@testable import BundleServe

/// A parser in a pipeline, where it stands behind the handler that it works for.
private final class ParserBench {
    private final class Front: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        var context: ChannelHandlerContext?
        func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    }

    private let front = Front()
    private let channel: EmbeddedChannel

    init() throws {
        channel = EmbeddedChannel()
        try channel.pipeline.syncOperations.addHandler(front)
    }

    /// Lets a new parser read bytes that come one `step` after the other; gives what is left, too.
    func read(_ bytes: [UInt8], inStepsOf step: Int) throws -> (RequestParser.Step, rest: [UInt8]) {
        let parser = RequestParser()
        try channel.pipeline.syncOperations.addHandler(parser)
        defer { channel.pipeline.syncOperations.removeHandler(parser, promise: nil) }
        let context = try #require(front.context)
        var input = ByteBuffer()
        for start in stride(from: 0, to: max(bytes.count, 1), by: step) {
            input.writeBytes(bytes[start..<min(start + step, bytes.count)])
            let result = parser.read(&input, context)
            if case .incomplete = result { continue }
            return (result, Array(input.readableBytesView) + bytes.dropFirst(start + step))
        }
        return (.incomplete, bytes)
    }
}

/// What the parser makes of bytes, all at once and one by one.
@Suite struct `A request head` {
    enum Outcome: Equatable { case incomplete, refused(Status), complete(length: Int) }

    private let bench: ParserBench

    init() throws { bench = try ParserBench() }

    private func outcome(_ bytes: [UInt8], inStepsOf step: Int) throws -> Outcome {
        let (result, rest) = try bench.read(bytes, inStepsOf: step)
        return switch result {
        case .incomplete: .incomplete
        case .refused(let status): .refused(status)
        case .complete: .complete(length: bytes.count - rest.count)
        }
    }

    private func head(_ text: String) throws -> RequestHead {
        guard case .complete(let head) = try bench.read(Array(text.utf8), inStepsOf: text.utf8.count).0 else {
            throw Incomplete()
        }
        return head
    }

    private struct Incomplete: Error {}

    private func outcome(_ text: String) throws -> Outcome {
        let bytes = text.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
        let whole = try outcome(bytes, inStepsOf: max(bytes.count, 1))
        #expect(try outcome(bytes, inStepsOf: 1) == whole)
        #expect(try outcome(bytes, inStepsOf: 7) == whole)
        return whole
    }

    @Test(arguments: [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET /a?b=%00&c=\\| HTTP/1.1\r\n\r\n",
        "M-X!#$%&'*+.^_`|~09 / HTTP/1.1\r\n\r\n", "get / HTTP/1.1\r\n\r\n", "GETS / HTTP/1.1\r\n\r\n",
        "GE / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nA:\r\n\r\n",
        "GET / HTTP/1.1\r\nA: \t b\u{FF} c \t\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nCookie: a\r\nCookie: b\r\nIf-None-Match: a\r\nIf-None-Match: b\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n",
    ])
    func `is taken`(text: String) throws {
        #expect(try outcome(text) == .complete(length: text.unicodeScalars.count))
    }

    @Test(arguments: [
        "\r\nGET / HTTP/1.1\r\n\r\n", " GET / HTTP/1.1\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "GET /  HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1 \r\n\r\n", "GET /\r\n\r\n", "GET HTTP/1.1\r\n\r\n", "GET\r\n\r\n", "\n", "\r\n",
        "G\u{0}T / HTTP/1.1\r\n\r\n",
        "G(T / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 18446744073709551616\r\n\r\n", "GET\t/ HTTP/1.1\r\n\r\n",
        "GET /\u{0} HTTP/1.1\r\n\r\n",
        "GET /\u{E4} HTTP/1.1\r\n\r\n",
        "GET /\u{7F} HTTP/1.1\r\n\r\n", "GET /#a HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\n\n", "GET / HTTP/1.1\n\r\n",
        "GET / HTTP/1.1\r\r\n\r\n", "GET / http/1.1\r\n\r\n", "GET / HTTP/11\r\n\r\n", "GET / HTTP/1.\r\n\r\n",
        "GET / HTTP/1,1\r\n\r\n", "GET / HTTQ/1.1\r\n\r\n", "GET / HTTP/1.10\r\n\r\n",
        "GET / HTTP/1.1\r\nA\r\n\r\n", "GET / HTTP/1.1\r\nA : b\r\n\r\n", "GET / HTTP/1.1\r\n A: b\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", "GET / HTTP/1.1\r\nA: b\r\n\tc\r\n\r\n",
        "GET / HTTP/1.1\r\n: b\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\n\r\n", "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", "GET / HTTP/1.1\r\nA: \u{0}\r\n\r\n",
        "GET / HTTP/1.1\r\nA: \u{1F}\r\n\r\n", "GET / HTTP/1.1\r\nA: \u{7F}\r\n\r\n",
        "GET / HTTP/1.1\r\n\u{E4}: b\r\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "GET / HTTP/1.1\r\ntransfer-ENCODING: identity\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 0x1\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length:\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1 1\r\n\r\n", "GET / HTTP/1.1\r\nOrigin: a\r\nOrigin: a\r\n\r\n",
        "GET / HTTP/1.1\r\nX-Client-Token: a\r\nX-Client-Token: a\r\n\r\n",
        "GET / HTTP/1.1\r\nRange: a\r\nRange: a\r\n\r\n",
        "GET / HTTP/1.1\r\nSec-Fetch-Site: none\r\nSec-Fetch-Site: none\r\n\r\n",
    ])
    func `that two readers could take in two ways is refused`(text: String) throws {
        #expect(try outcome(text) == .refused(.badRequest))
    }

    @Test(arguments: ["HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "HTTP/3.0"])
    func `of another version is refused as such`(version: String) throws {
        #expect(try outcome("GET / \(version)\r\n\r\n") == .refused(.versionNotSupported))
    }

    @Test(arguments: ["get", "BREW"])
    func `of a method that is not registered is read all the same`(method: String) throws {
        let head = try head("\(method) /a HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(head.method.rawValue == method)
        #expect(head.target == "/a")
        for rest in ["/a#b HTTP/1.1\r\n", "/a HTTP/1.1\r\nA : b\r\n", " /a HTTP/1.1\r\n", "/a HTTP/1.1\r\nA: b\n"] {
            #expect(try outcome("\(method) \(rest)\r\n") == .refused(.badRequest), "\(rest)")
        }
        #expect(try outcome("\(method) / HTTP/2.0\r\n\r\n") == .refused(.versionNotSupported))
    }

    @Test(arguments: [
        "", "G", "GET / HTTP/1.1", "GET / HTTP/1.1\r", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nA: b\r\n\r",
    ])
    func `that is not all there is waited for`(text: String) throws {
        #expect(try outcome(text) == .incomplete)
    }

    @Test func `may have lines of 8 KiB and no more`() throws {
        func target(_ count: Int) -> String { "GET /\(String(repeating: "a", count: count - 14)) HTTP/1.1" }
        #expect(try outcome(target(8192) + "\r\n\r\n") == .complete(length: 8196))
        #expect(try outcome(target(8193) + "\r\n\r\n") == .refused(.uriTooLong))
        #expect(try outcome(String(repeating: "a", count: 8194)) == .refused(.uriTooLong))
        func field(_ count: Int) -> String { "GET / HTTP/1.1\r\nA:\(String(repeating: "a", count: count - 2))" }
        #expect(try outcome(field(8192) + "\r\n\r\n") == .complete(length: 16 + 8196))
        #expect(try outcome(field(8193) + "\r\n\r\n") == .refused(.headTooLarge))
        #expect(try outcome(field(8194)) == .refused(.headTooLarge))
    }

    @Test func `may have 16 KiB and no more`() throws {
        let field = ":\(String(repeating: "a", count: 5000))\r\n"
        let first = "GET / HTTP/1.1\r\nA\(field)C\(field)"
        func rest(_ total: Int) -> String {
            first + "B:\(String(repeating: "b", count: total - first.utf8.count - 6))\r\n\r\n"
        }
        #expect(try outcome(rest(16384)) == .complete(length: 16384))
        #expect(try outcome(rest(16385)) == .refused(.headTooLarge))
    }

    @Test func `may have 100 fields and no more`() throws {
        let field = "A: b\r\n"
        let line = "GET / HTTP/1.1\r\n"
        #expect(try outcome(line + String(repeating: field, count: 100) + "\r\n") == .complete(length: 618))
        #expect(try outcome(line + String(repeating: field, count: 101) + "\r\n") == .refused(.headTooLarge))
    }

    @Test func `tells where its values are`() throws {
        let text = """
            POST /a?b HTTP/1.0\r\nHOST:  h \r\nif-none-match: "a"\r\nIf-None-Match: "b"\r\nConnection: a,\tClose\r
            Content-Length: 12\r\nAccept: a/b, Text/HTML;q=0.9\r\n\r\n
            """
        guard case (.complete(let head), let rest) = try bench.read(Array(text.utf8), inStepsOf: 1) else {
            throw Incomplete()
        }
        func value(_ field: RequestHead.Field) -> String? {
            head.with(field) { String(decoding: $0, as: UTF8.self) }
        }
        #expect(head.method == .POST)
        #expect(head.target == "/a?b")
        #expect(head.isOldVersion && !head.keepsOpen && head.acceptsHTML && !head.repeatsHost)
        #expect(value(.host) == "h")
        #expect(value(.ifNoneMatch) == "\"a\"")
        #expect(head.bodyLength == 12)
        #expect(RequestHead.Field.allCases.filter(head.has) == [.host, .accept, .ifNoneMatch, .contentLength])
        #expect(rest.isEmpty)
    }

    @Test(arguments: [
        ("0", 0), ("5 ", 5), ("007", 7), ("9223372036854775807", .max), ("9223372036854775808", .max),
        ("18446744073709551615", .max),
    ])
    func `has a body however long it says`(length: String, bodyLength: Int) throws {
        #expect(try head("POST / HTTP/1.1\r\nContent-Length: \(length)\r\n\r\n").bodyLength == bodyLength)
    }

    @Test func `ends where the next one starts, whatever it wishes for`() throws {
        for field in ["", "Upgrade: h2c\r\nConnection: Upgrade\r\n", "Content-Length: 3\r\n"] {
            let request = "GET /a HTTP/1.1\r\n\(field)\r\n"
            let (_, rest) = try bench.read(Array((request + request).utf8), inStepsOf: 1000)
            #expect(rest == Array(request.utf8), "\(field)")
        }
    }

    @Test(arguments: [
        ("HTTP/1.1", "", true), ("HTTP/1.1", "Connection: keep-alive\r\n", true),
        ("HTTP/1.1", "Connection: close\r\n", false), ("HTTP/1.1", "Connection: a, Close\r\n", false),
        ("HTTP/1.1", "Connection: a\r\nConnection: close\r\n", false), ("HTTP/1.0", "", false),
        ("HTTP/1.0", "Connection: keep-alive\r\n", false), ("HTTP/1.1", "Connection: closed\r\n", true),
    ])
    func `says whether another may follow`(version: String, fields: String, keepsOpen: Bool) throws {
        #expect(try head("GET / \(version)\r\n\(fields)\r\n").keepsOpen == keepsOpen)
    }

    @Test(arguments: RequestHead.Field.allCases)
    func `knows every field that it looks for`(field: RequestHead.Field) throws {
        let name =
            switch field {
            case .host: "Host"
            case .origin: "Origin"
            case .cookie: "Cookie"
            case .range: "Range"
            case .ifRange: "If-Range"
            case .ifNoneMatch: "If-None-Match"
            case .contentType: "Content-Type"
            case .contentLength: "Content-Length"
            case .expect: "Expect"
            case .token: "X-Client-Token"
            case .fetchSite: "Sec-Fetch-Site"
            case .fetchMode: "Sec-Fetch-Mode"
            case .fetchDestination: "Sec-Fetch-Dest"
            case .fetchPurpose: "Sec-Purpose"
            case .privateNetwork: "Access-Control-Request-Private-Network"
            case .authorization: "Authorization"
            case .accept: "Accept"
            }
        for spelling in [name, name.lowercased(), name.uppercased()] {
            let line = "\(spelling): 1\r\n"
            #expect(try head("GET / HTTP/1.1\r\n\(line)\r\n").with(field) { Array($0) } == Array("1".utf8))
            let twice = try outcome("GET / HTTP/1.1\r\n\(line)\(line)\r\n")
            #expect((twice == .refused(.badRequest)) == field.comesOnce)
        }
    }

    /// A byte that is changed, left out or doubled never makes it trap, and whatever is taken in one piece is taken bit by bit.
    @Test func `with one byte wrong is still read or refused`() throws {
        let text = "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
        let bytes = Array(text.utf8)
        for index in bytes.indices {
            for byte in UInt8.min...UInt8.max {
                var changed = bytes
                changed[index] = byte
                #expect(try outcome(changed, inStepsOf: changed.count) == outcome(changed, inStepsOf: 1))
            }
            var shorter = bytes
            shorter.remove(at: index)
            #expect(try outcome(shorter, inStepsOf: shorter.count) == outcome(shorter, inStepsOf: 1))
        }
    }
}
