import BundleServe
import BundleTestTraits
import BundleTesting
import Testing

/// Requests byte by byte, each over a new connection, with the expected status and whether the connection stays open.
@Suite(.ownThread) struct RawRequestTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let request: String
        let status: Int
        /// Whether the connection stays open.
        var goesOn = false
        var allow: String?

        init(_ status: Int, _ request: String, goesOn: Bool = false, allow: String? = nil) {
            self.request = request
            self.status = status
            self.goesOn = goesOn
            self.allow = allow
        }

        var testDescription: String { request.debugDescription }
    }

    /// HOST is the server's name and port, PORT the port alone.
    static let rows = [
        // Host.
        Row(200, "GET /app.js HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        Row(200, "GET /app.js HTTP/1.1\r\nhost:HOST\r\n\r\n", goesOn: true),
        Row(200, "GET /app.js HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n", goesOn: true),
        Row(421, "GET /app.js HTTP/1.1\r\n\r\n"),
        Row(421, "GET /app.js HTTP/1.0\r\n\r\n"),
        Row(421, "GET /app.js HTTP/1.1\r\nHost:\r\n\r\n"),
        Row(421, "GET /app.js HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        Row(421, "GET /app.js HTTP/1.1\r\nHost: evil.example:PORT\r\n\r\n"),
        Row(421, "GET /app.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        Row(421, "GET /app.js HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n"),
        Row(421, "GET /app.js HTTP/1.1\r\nHost: 127.0.0.1:PORT0\r\n\r\n"),
        Row(421, "GET /app.js HTTP/1.1\r\nHost: 127.0.0.2:PORT\r\n\r\n"),
        Row(421, "GET /app.js HTTP/1.1\r\nHost: LOCALHOST:PORT\r\n\r\n"),
        Row(421, "GET /app.js HTTP/1.1\r\nHost: localhost.:PORT\r\n\r\n"),
        Row(421, "GET /app.js HTTP/1.1\r\nHost: [::1]:PORT\r\n\r\n"),
        Row(421, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\n\r\n"),
        Row(421, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n"),
        Row(200, "GET http://HOST/app.js HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        Row(421, "GET http://localhost:PORT/app.js HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(421, "GET http://evil.example/app.js HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(421, "GET http://HOST/app.js HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        Row(421, "GET http://a@HOST/app.js HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(400, "GET https://HOST/app.js HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(400, "GET file:///etc/passwd HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        // The index page of a version needs a slash.
        Row(308, "GET /clients/v1.0.0 HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        Row(308, "GET /clients/embedded?a HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        Row(404, "GET /clients/v1.0 HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        // Origin.
        Row(200, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\n\r\n", goesOn: true),
        Row(403, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nOrigin: http://localhost:PORT\r\n\r\n", goesOn: true),
        Row(403, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nOrigin: https://HOST\r\n\r\n", goesOn: true),
        Row(403, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nOrigin: http://evil.example\r\n\r\n", goesOn: true),
        Row(403, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nOrigin: null\r\n\r\n", goesOn: true),
        Row(403, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nOrigin:\r\n\r\n", goesOn: true),
        Row(200, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nSec-Fetch-Site: same-origin\r\n\r\n", goesOn: true),
        Row(200, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nSec-Fetch-Site: none\r\n\r\n", goesOn: true),
        Row(403, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nSec-Fetch-Site: cross-site\r\n\r\n", goesOn: true),
        Row(403, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nSec-Fetch-Site: same-site\r\n\r\n", goesOn: true),
        Row(403, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nSec-Fetch-Site:\r\n\r\n", goesOn: true),
        Row(
            200,
            "GET / HTTP/1.1\r\nHost: HOST\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n\r\n",
            goesOn: true),
        Row(
            200,
            "GET /sub/index.html HTTP/1.1\r\nHost: HOST\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n\r\n",
            goesOn: true),
        Row(
            403,
            "GET / HTTP/1.1\r\nHost: HOST\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n\r\n",
            goesOn: true),
        Row(
            403,
            "GET / HTTP/1.1\r\nHost: HOST\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: document\r\n\r\n",
            goesOn: true),
        Row(
            403,
            "GET /app.js HTTP/1.1\r\nHost: HOST\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n\r\n",
            goesOn: true),
        Row(
            403,
            "HEAD / HTTP/1.1\r\nHost: HOST\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n\r\n",
            goesOn: true),
        Row(
            403,
            "GET /__clientctl/other HTTP/1.1\r\nHost: HOST\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n\r\n",
            goesOn: true),
        Row(
            403, "OPTIONS /app.js HTTP/1.1\r\nHost: HOST\r\nAccess-Control-Request-Private-Network: true\r\n\r\n",
            goesOn: true),
        // Methods.
        Row(405, "POST /app.js HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true, allow: "GET, HEAD"),
        Row(405, "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\n\r\nabc", allow: "GET, HEAD"),
        Row(405, "PUT /app.js HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true, allow: "GET, HEAD"),
        Row(405, "DELETE /missing HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true, allow: "GET, HEAD"),
        Row(405, "get /app.js HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true, allow: "GET, HEAD"),
        Row(405, "OPTIONS / HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true, allow: "GET, HEAD"),
        Row(405, "TRACE / HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true, allow: "GET, HEAD"),
        Row(400, "OPTIONS * HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(400, "GET * HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(400, "CONNECT HOST HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(405, "GET /__clientctl/v1/reload HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true, allow: "POST"),
        Row(405, "POST /__clientctl/v1/events HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true, allow: "GET"),
        Row(405, "HEAD /__clientctl/v1/events HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true, allow: "GET"),
        Row(404, "GET /__clientctl/v1/ HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        Row(404, "POST /__clientctl/v1/a/b HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        Row(404, "POST /__clientctl/v2/reload HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        Row(404, "GET /__clientctl HTTP/1.1\r\nHost: HOST\r\nAccept: text/html\r\n\r\n", goesOn: true),
        Row(404, "GET /%5f_clientctl/other HTTP/1.1\r\nHost: HOST\r\nAccept: text/html\r\n\r\n", goesOn: true),
        // Paths.
        Row(400, "GET /../secret HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(400, "GET /%2e%2e/secret HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(400, "GET /..%2fsecret HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(400, "GET /.%2e/secret HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(400, "GET //etc/passwd HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(400, "GET /app.js%00.html HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(400, "GET /%c0%ae%c0%ae/secret HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(400, "GET /assets\\..\\app.js HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(400, "GET /assets%5c..%5capp.js HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        Row(404, "GET /link.js HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        Row(404, "GET /out/secret HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        Row(404, "GET /assets HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        Row(404, "GET /assets/ HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        Row(404, "GET /app.js/ HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        Row(404, "GET /APP.JS HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        Row(404, "GET /u%CC%88.txt HTTP/1.1\r\nHost: HOST\r\n\r\n", goesOn: true),
        // Syntax.
        Row(400, "GET /app.js HTTP/1.1\nHost: HOST\n\n"),
        Row(400, "GET /app.js HTTP/1.1\r\nHost : HOST\r\n\r\n"),
        Row(400, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nA: b\r\n c\r\n\r\n"),
        Row(400, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nA: b\u{0}\r\n\r\n"),
        Row(400, "\u{16}\u{3}\u{1}\u{2}\u{0}\r\n"),
        Row(505, "GET /app.js HTTP/2.0\r\nHost: HOST\r\n\r\n"),
        Row(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        Row(400, "GET /app.js\r\n\r\n"),
        Row(414, "GET /\(String(repeating: "a", count: 9000))"),
        Row(431, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nA: \(String(repeating: "a", count: 9000))"),
        // The rest of the connection.
        Row(400, "POST /app.js HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        Row(
            400,
            "POST /app.js HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        Row(400, "POST /app.js HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nGET /"),
        Row(400, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\n\r\nGET /"),
        Row(400, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nContent-Length: 18446744073709551615\r\n\r\nGET /"),
        Row(200, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", goesOn: true),
        Row(200, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n", goesOn: true),
        Row(417, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nExpect: 100-continue\r\n\r\n", goesOn: true),
        Row(200, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"),
        Row(200, "GET /app.js HTTP/1.1\r\nHost: HOST\r\nConnection: keep-alive, Close\r\n\r\n"),
        Row(200, "GET /app.js HTTP/1.0\r\nHost: HOST\r\n\r\n"),
        Row(200, "GET /app.js HTTP/1.0\r\nHost: HOST\r\nConnection: keep-alive\r\n\r\n"),
    ]

    @Test func `responds to each raw request with the expected status`() async throws {
        let fixture = try await Fixture()
        for row in Self.rows {
            let connection = try fixture.connect()
            connection.send(
                row.request.replacing("HOST", with: "127.0.0.1:\(fixture.server.port)")
                    .replacing("PORT", with: "\(fixture.server.port)"))
            let answer = try connection.receiveAnswer(toHead: row.request.hasPrefix("HEAD"))
            #expect(answer.status == row.status, "\(row.testDescription)")
            #expect(answer["Allow"] == row.allow, "\(row.testDescription)")
            #expect((answer["Connection"] == nil) == row.goesOn, "\(row.testDescription)")
            expectCommonFields(answer)
            if row.status == 421 { #expect(answer.body == []) }
            if row.status >= 400 { #expect(answer["Content-Type"]?.contains("html") != true) }
            if row.goesOn {
                connection.send(fixture.request("/plain"))
                #expect(try connection.receiveAnswer().text == "no extension", "\(row.testDescription)")
            } else {
                // The bytes behind it are not parsed as a request.
                #expect(try connection.receiveAll() == [], "\(row.testDescription)")
            }
        }
    }
}

/// Checks the fields that every response has, and those that none has.
func expectCommonFields(_ answer: RawResponse) {
    #expect(answer["X-Content-Type-Options"] == "nosniff")
    #expect(answer["Referrer-Policy"] == "no-referrer")
    #expect(answer["Cross-Origin-Opener-Policy"] == "same-origin")
    #expect(answer["Cross-Origin-Resource-Policy"] == "same-origin")
    #expect(answer["Permissions-Policy"] == "camera=(), geolocation=(), microphone=()")
    #expect(answer["X-Frame-Options"] == "DENY")
    #expect(!answer.fields.contains { $0.name.lowercased().hasPrefix("access-control-") })
    #expect(answer["Service-Worker-Allowed"] == nil)
    #expect(answer["Server"] == nil)
    #expect(Set(answer.fields.map { $0.name.lowercased() }).count == answer.fields.count)
}
