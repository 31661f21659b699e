import BundleCore
import BundleValues
import BundleServe
import BundleTestTraits
import BundleTesting
import Testing

@Suite(.ownThread) struct PageCallTests {
    /// Returns a fixture whose page has loaded, and the token of the page.
    private func loaded() async throws -> (Fixture, String) {
        let fixture = try await Fixture()
        _ = try fixture.ask("/", navigation)
        return (fixture, "token-1")
    }

    @Test func `passes a call of a page to the host and returns its result`() async throws {
        let (fixture, token) = try await loaded()
        let answer = try fixture.call("reload", token: token, body: "{\"a\":[1]}")
        #expect(answer.status == 200)
        #expect(answer.text == "{\"method\":\"reload\",\"body\":{\"a\":[1]}}")
        #expect(answer["Content-Type"] == "application/json; charset=utf-8")
        #expect(answer["Cache-Control"] == "no-store")
        expectCommonFields(answer)
        let calls = fixture.host.with { $0.calls.map { [$0.method, $0.token] } }
        #expect(calls == [["reload", token]])
    }

    /// Each row has one invalid field.
    @Test(
        arguments: [
            ("Origin: ", nil, 403, "forbidden"), ("Origin: ", "Origin: null", 403, nil),
            ("Origin: ", "Origin: http://evil.example", 403, nil),
            ("X-Client-Token: ", nil, 403, "forbidden"), ("X-Client-Token: ", "X-Client-Token:", 403, "forbidden"),
            ("X-Client-Token: ", "X-Client-Token: other", 403, "staleLaunch"),
            ("Content-Type: ", nil, 415, "notJSON"), ("Content-Type: ", "Content-Type: text/plain", 415, "notJSON"),
            ("Content-Type: ", "Content-Type: application/jsonx", 415, "notJSON"),
            ("Content-Type: ", "Content-Type: application/x-www-form-urlencoded; application/json", 415, "notJSON"),
            ("Content-Length: ", nil, 411, "lengthRequired"),
            ("Content-Length: ", "Content-Length: 65537", 413, "tooLarge"),
            ("Content-Length: ", "Content-Length: 9223372036854775807", 413, "tooLarge"),
            ("Content-Length: ", "Content-Length: 99999999999999999999", 413, "tooLarge"),
            ("Content-Length: ", "Transfer-Encoding: chunked", 400, nil),
            ("Content-Length: ", "Content-Length: 0", 400, "badRequest"),
            ("Content-Length: ", "Content-Length: 1", 400, "badRequest"),
            ("Origin: ", "Origin: ORIGIN\r\nSec-Fetch-Site: cross-site", 403, nil),
            ("Origin: ", "Origin: ORIGIN\r\nExpect: something", 417, "expectationFailed"),
        ] as [(String, String?, Int, String?)])
    func `N-22: rejects a call with a missing or wrong field`(
        field: String, instead: String?, status: Int, code: String?
    ) async throws {
        let (fixture, token) = try await loaded()
        let answer = try fixture.call("reload", token: token, body: "{}") { fields in
            fields = fields.compactMap { line in
                guard line.hasPrefix(field) else { return line }
                return instead?.replacing("ORIGIN", with: "http://127.0.0.1:\(fixture.server.port)")
            }
        }
        #expect(answer.status == status)
        if let code { #expect(answer.text.hasPrefix("{\"error\":{\"code\":\"\(code)\",\"message\":\"")) }
        expectCommonFields(answer)
        #expect(fixture.host.with { $0.calls.count } == (code == "staleLaunch" ? 1 : 0))
    }

    @Test(arguments: [
        ("Content-Type: application/json", 200), ("content-type: Application/JSON ; charset=utf-8", 200),
    ])
    func `accepts other spellings of the JSON media type`(field: String, status: Int) async throws {
        let (fixture, token) = try await loaded()
        let answer = try fixture.call("reload", token: token, body: "{}") { fields in
            fields = fields.map { $0.hasPrefix("Content-Type") ? field : $0 }
        }
        #expect(answer.status == status)
    }

    @Test(arguments: ["", "[]", "1", "{", "{}x", "{\"a\":1,\"a\":2}", "{\"a\":\"\u{1}\"}", "{\"a\":1.5}"])
    func `rejects a call whose body is not one object`(body: String) async throws {
        let (fixture, token) = try await loaded()
        #expect(try fixture.call("reload", token: token, body: body).status == 400)
        #expect(fixture.host.with { $0.calls.isEmpty })
    }

    @Test func `accepts a body of 64 KiB and rejects a longer one`() async throws {
        let (fixture, token) = try await loaded()
        func body(_ count: Int) -> String { "{\"a\":\"\(String(repeating: "b", count: count - 8))\"}" }
        #expect(try fixture.call("reload", token: token, body: body(65536)).status == 200)
        #expect(try fixture.call("reload", token: token, body: body(65537)).status == 413)
    }

    @Test func `reports no details of a failed call`() async throws {
        let (fixture, token) = try await loaded()
        let answer = try fixture.call("fail", token: token, body: "{}")
        #expect(answer.status == 500)
        #expect(answer.text == "{\"error\":{\"code\":\"failed\",\"message\":\"Internal Server Error\"}}")
    }

    @Test func `accepts several calls on one connection, split at any byte`() async throws {
        let (fixture, token) = try await loaded()
        let connection = try fixture.connect()
        let head = fixture.request(
            "/__clientctl/v1/reload", method: "POST",
            [
                "Origin: http://127.0.0.1:\(fixture.server.port)", "Content-Type: application/json",
                "X-Client-Token: \(token)", "Content-Length: 7",
            ])
        let calls = head + "{\"a\":1}" + head + "{\"a\":2}"
        for byte in Array(calls.utf8) { connection.send([byte]) }
        connection.send(fixture.request("/plain"))
        #expect(try connection.receiveAnswer().text.contains("{\"a\":1}"))
        #expect(try connection.receiveAnswer().text.contains("{\"a\":2}"))
        #expect(try connection.receiveAnswer().text == "no extension")
    }

    @Test func `sends 100 Continue before a body, or rejects the call without it`() async throws {
        let (fixture, token) = try await loaded()
        let fields = [
            "Origin: http://127.0.0.1:\(fixture.server.port)", "Content-Type: application/json",
            "Content-Length: 2", "Expect: 100-Continue",
        ]
        let connection = try fixture.connect()
        connection.send(
            fixture.request("/__clientctl/v1/reload", method: "POST", fields + ["X-Client-Token: \(token)"]))
        #expect(try connection.receive(upTo: "\r\n\r\n") == Array("HTTP/1.1 100 Continue\r\n\r\n".utf8))
        connection.send("{}")
        #expect(try connection.receiveAnswer().status == 200)
        let refused = try fixture.connect()
        refused.send(fixture.request("/__clientctl/v1/reload", method: "POST", fields))
        #expect(try refused.receiveAnswer().status == 403)
        #expect(try refused.receiveAll() == [])
    }
}

@Suite(.ownThread) struct EventStreamTests {
    private func open(_ fixture: Fixture) throws -> RawConnection {
        _ = try fixture.ask("/", navigation)
        let connection = try fixture.connect()
        connection.send(fixture.request("/__clientctl/v1/events", ["X-Client-Token: token-1"]))
        let answer = try connection.receiveAnswer()
        #expect(answer.status == 200)
        #expect(answer["Content-Type"] == "text/event-stream")
        #expect(answer["Cache-Control"] == "no-store")
        #expect(answer["Connection"] == "close")
        expectCommonFields(answer)
        return connection
    }

    @Test func `sends the events of the host and ends with them`() async throws {
        let fixture = try await Fixture { $0.limits.heartbeat = .seconds(3600) }
        let connection = try open(fixture)
        let events = try #require(fixture.host.with { $0.streams["token-1"] })
        events.yield(PageEvent(name: "updateAvailable", data: ["version": .string("v2\n"), "size": .integer(1)]))
        #expect(
            try connection.receive(upTo: "\n\n")
                == Array("event: updateAvailable\ndata: {\"version\":\"v2\\n\",\"size\":1}\n\n".utf8))
        events.yield(PageEvent(name: "error\ndata: x", data: [:]))
        #expect(try connection.receive(upTo: "\n\n") == Array("event: error\ndata: {}\n\n".utf8))
        events.yield(PageEvent(name: "error", data: [:], id: 7))
        #expect(try connection.receive(upTo: "\n\n") == Array("id: 7\nevent: error\ndata: {}\n\n".utf8))
        events.finish()
        #expect(try connection.receiveAll() == [])
    }

    @Test(arguments: [
        [], ["X-Client-Token:"], ["X-Client-Token: other"], ["X-Client-Token: token-1", "Origin: http://evil.example"],
    ])
    func `rejects an event stream for other origins and without a token`(fields: [String]) async throws {
        let fixture = try await Fixture()
        _ = try fixture.ask("/", navigation)
        #expect(try fixture.ask("/__clientctl/v1/events", fields).status == 403)
        #expect(fixture.host.with { $0.streams.isEmpty })
    }

    @Test func `sends heartbeats in an idle event stream`() async throws {
        let fixture = try await Fixture { $0.limits.heartbeat = .milliseconds(20) }
        let connection = try open(fixture)
        for _ in 0..<3 { #expect(try connection.receive(upTo: "\n\n") == Array(":\n\n".utf8)) }
    }

    @Test(arguments: [false, true])
    func `ends the host's stream when the page closes its connection`(onlyFinishesSending: Bool) async throws {
        let fixture = try await Fixture()
        var connection: RawConnection? = try open(fixture)
        if onlyFinishesSending { connection?.finishSending() } else { connection = nil }
        try await eventually { fixture.host.with { $0.endedStreams } == 1 }
        connection = nil
    }

    @Test func `closes an event stream whose page does not read`() async throws {
        let fixture = try await Fixture { $0.limits.stall = .milliseconds(100) }
        let connection = try open(fixture)
        let events = try #require(fixture.host.with { $0.streams["token-1"] })
        let big = PageEvent(name: "big", data: ["a": .string(String(repeating: "a", count: 1 << 20))])
        for _ in 0..<16 { events.yield(big) }
        try await eventually { fixture.host.with { $0.endedStreams } == 1 }
        _ = connection
    }
}
