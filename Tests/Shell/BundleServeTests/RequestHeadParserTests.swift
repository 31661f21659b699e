import Testing

@testable import BundleServe

/// Parses each head at once and byte by byte.
@Suite struct RequestHeadParserTests {
    enum Outcome: Equatable { case incomplete, refused(Status), complete(length: Int) }

    private func outcome(_ bytes: [UInt8], inStepsOf step: Int) -> Outcome {
        var parser = RequestHeadParser()
        for end in stride(from: step, to: bytes.count, by: step) + [bytes.count] {
            switch bytes[..<end].withUnsafeBytes({ parser.read($0) }) {
            case .incomplete: continue
            case .refused(let status): return .refused(status)
            case .complete(let head): return .complete(length: head.length)
            }
        }
        return .incomplete
    }

    private func outcome(_ text: String) -> Outcome {
        let bytes = text.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
        let whole = outcome(bytes, inStepsOf: max(bytes.count, 1))
        #expect(outcome(bytes, inStepsOf: 1) == whole)
        #expect(outcome(bytes, inStepsOf: 7) == whole)
        return whole
    }

    @Test(arguments: [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET /a?b=%00&c=\\| HTTP/1.1\r\n\r\n",
        "M-X!#$%&'*+.^_`|~09 / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nA:\r\n\r\n",
        "GET / HTTP/1.1\r\nA: \t b\u{FF} c \t\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nCookie: a\r\nCookie: b\r\nIf-None-Match: a\r\nIf-None-Match: b\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 18446744073709551616\r\n\r\n",
    ])
    func `accepts a valid head`(text: String) {
        #expect(outcome(text) == .complete(length: text.unicodeScalars.count))
    }

    @Test(arguments: [
        "\r\nGET / HTTP/1.1\r\n\r\n", " GET / HTTP/1.1\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "GET /  HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1 \r\n\r\n", "GET /\r\n\r\n", "GET HTTP/1.1\r\n\r\n", "GET\r\n\r\n", "\n", "\r\n",
        "G\u{0}T / HTTP/1.1\r\n\r\n",
        "G(T / HTTP/1.1\r\n\r\n", "GET\t/ HTTP/1.1\r\n\r\n", "GET /\u{0} HTTP/1.1\r\n\r\n",
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
    func `rejects a head that two parsers could read in two ways`(text: String) {
        #expect(outcome(text) == .refused(.badRequest))
    }

    @Test(arguments: ["HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "HTTP/3.0"])
    func `rejects another HTTP version with its own status`(version: String) {
        #expect(outcome("GET / \(version)\r\n\r\n") == .refused(.versionNotSupported))
    }

    @Test(arguments: [
        "", "G", "GET / HTTP/1.1", "GET / HTTP/1.1\r", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nA: b\r\n\r",
    ])
    func `waits for the rest of an incomplete head`(text: String) {
        #expect(outcome(text) == .incomplete)
    }

    @Test func `limits lines to 8 KiB`() {
        func target(_ count: Int) -> String { "GET /\(String(repeating: "a", count: count - 14)) HTTP/1.1" }
        #expect(outcome(target(8192) + "\r\n\r\n") == .complete(length: 8196))
        #expect(outcome(target(8193) + "\r\n\r\n") == .refused(.uriTooLong))
        #expect(outcome(String(repeating: "a", count: 8194)) == .refused(.uriTooLong))
        func field(_ count: Int) -> String { "GET / HTTP/1.1\r\nA:\(String(repeating: "a", count: count - 2))" }
        #expect(outcome(field(8192) + "\r\n\r\n") == .complete(length: 16 + 8196))
        #expect(outcome(field(8193) + "\r\n\r\n") == .refused(.headTooLarge))
        #expect(outcome(field(8194)) == .refused(.headTooLarge))
    }

    @Test func `limits heads to 16 KiB`() {
        let field = ":\(String(repeating: "a", count: 5000))\r\n"
        let first = "GET / HTTP/1.1\r\nA\(field)C\(field)"
        func rest(_ total: Int) -> String {
            first + "B:\(String(repeating: "b", count: total - first.utf8.count - 6))\r\n\r\n"
        }
        #expect(outcome(rest(16384)) == .complete(length: 16384))
        #expect(outcome(rest(16385)) == .refused(.headTooLarge))
    }

    @Test func `limits heads to 100 fields`() {
        let field = "A: b\r\n"
        let line = "GET / HTTP/1.1\r\n"
        #expect(outcome(line + String(repeating: field, count: 100) + "\r\n") == .complete(length: 618))
        #expect(outcome(line + String(repeating: field, count: 101) + "\r\n") == .refused(.headTooLarge))
    }

    @Test func `records the ranges of values`() throws {
        let text = """
            POST /a?b HTTP/1.0\r\nHOST:  h \r\nif-none-match: "a"\r\nIf-None-Match: "b"\r\nConnection: a,\tClose\r
            Content-Length: 12\r\nAccept: a/b, Text/HTML;q=0.9\r\n\r\nrest
            """
        let bytes = Array(text.utf8)
        var parser = RequestHeadParser()
        guard case .complete(let head) = bytes.withUnsafeBytes({ parser.read($0) }) else {
            Issue.record("not complete")
            return
        }
        func value(_ field: RequestHead.Field) -> String? {
            head[field].map { String(decoding: bytes[$0], as: UTF8.self) }
        }
        #expect(head.method == .post)
        #expect(String(decoding: bytes[head.target], as: UTF8.self) == "/a?b")
        #expect(head.isOldVersion && head.wantsClose && head.acceptsHTML && !head.repeatsHost)
        #expect(value(.host) == "h")
        #expect(value(.ifNoneMatch) == "\"a\"")
        #expect(head.bodyLength == 12)
        #expect(RequestHead.Field.allCases.filter { head[$0] != nil } == [.host, .ifNoneMatch, .contentLength])
        #expect(bytes[head.length...].elementsEqual("rest".utf8))
    }

    @Test(arguments: RequestHead.Field.allCases)
    func `recognizes every field of a head`(field: RequestHead.Field) {
        let name =
            switch field {
            case .host: "Host"
            case .origin: "Origin"
            case .cookie: "Cookie"
            case .range: "Range"
            case .ifRange: "If-Range"
            case .ifMatch: "If-Match"
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
            case .serviceWorker: "Service-Worker"
            case .acceptLanguage: "Accept-Language"
            case .acceptEncoding: "Accept-Encoding"
            }
        for spelling in [name, name.lowercased(), name.uppercased()] {
            var parser = RequestHeadParser()
            let bytes = Array("GET / HTTP/1.1\r\n\(spelling): 1\r\n\r\n".utf8)
            guard case .complete(let head) = bytes.withUnsafeBytes({ parser.read($0) }) else {
                Issue.record("not complete")
                return
            }
            #expect(head[field].map { Array(bytes[$0]) } == Array("1".utf8))
        }
    }

    /// A modified, missing or repeated byte never causes a trap, and each head that is accepted at once is accepted
    /// byte by byte.
    @Test func `accepts or rejects heads with one wrong byte`() {
        let text = "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
        let bytes = Array(text.utf8)
        for index in bytes.indices {
            for byte in UInt8.min...UInt8.max {
                var changed = bytes
                changed[index] = byte
                #expect(outcome(changed, inStepsOf: changed.count) == outcome(changed, inStepsOf: 1))
            }
            var shorter = bytes
            shorter.remove(at: index)
            #expect(outcome(shorter, inStepsOf: shorter.count) == outcome(shorter, inStepsOf: 1))
        }
    }
}
