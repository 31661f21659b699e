import BundleServe
import BundleTestTraits
import BundleTesting
import Testing

@Suite(.ownThread) struct MetricsRequestTests {
    private static let path = "/__clientctl/v1/metrics"
    private static let text = "# TYPE m gauge\nm{a=\"ü\"} 1\n"

    private func fixture() async throws -> Fixture { try await Fixture { $0.metrics = { Self.text } } }

    @Test func `sends metrics as text of version 0.0.4 that caches do not store`() async throws {
        let fixture = try await fixture()
        let answer = try fixture.ask(Self.path)
        #expect(answer.status == 200)
        #expect(answer.text == Self.text)
        #expect(answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8")
        #expect(answer["Cache-Control"] == "no-store")
        expectCommonFields(answer)
        let head = try fixture.ask(Self.path, method: "HEAD")
        #expect(head.status == 200)
        #expect(head["Content-Length"] == "\(Self.text.utf8.count)")
    }

    @Test func `sends metrics to programs of this machine only`() async throws {
        let fixture = try await fixture()
        let connection = try fixture.connect()
        connection.send("GET \(Self.path) HTTP/1.1\r\nHost: kiosk.example:\(fixture.server.port)\r\n\r\n")
        #expect(try connection.receiveAnswer().status == 421)
        for fields in [["Origin: http://evil.example"], ["Sec-Fetch-Site: cross-site"], ["Origin: null"]] {
            let answer = try fixture.ask(Self.path, fields)
            #expect(answer.status == 403, "\(fields)")
            #expect(!answer.text.contains("gauge"))
        }
        let post = try fixture.ask(Self.path, method: "POST", ["Content-Length: 0"])
        #expect(post.status == 405)
        #expect(post["Allow"] == "GET, HEAD")
        #expect(try fixture.ask(Self.path, ["Content-Length: 1"]).status == 400)
        #expect(try fixture.ask(Self.path + "/x").status == 404)
    }

    @Test func `responds with 404 without metrics`() async throws {
        #expect(try await Fixture().ask(Self.path).status == 404)
    }

    @Test func `sends metrics after the earlier responses on a connection`() async throws {
        let fixture = try await fixture()
        let connection = try fixture.connect()
        connection.send(fixture.request("/app.js") + fixture.request(Self.path) + fixture.request("/empty.txt"))
        #expect(try connection.receiveAnswer().text == "let a = 1;\n")
        #expect(try connection.receiveAnswer().text == Self.text)
        #expect(try connection.receiveAnswer().body == [])
    }
}
