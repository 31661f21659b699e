import BundleTestTraits
import BundleTesting
import MeteorTesting
import Testing

/// Tests the faults that a test can set on the server.
@Suite("MockMeteorServer faults", .ownThread) struct MockServerFaultTests {
    let folder: TemporaryFolder
    let server: MeteorServer
    let tag: String

    init() throws {
        folder = try TemporaryFolder()
        let fixtures = try CordovaFixtures(in: folder.path)
        server = try MeteorServer([fixtures.versions])
        try server.serve(version: "version2")
        tag = fixtures.hash(of: "app/some-file", in: .version2)
    }

    /// Returns the head and the following bytes until the server ends the connection or sends nothing for half a second.
    private func ask(_ path: String = "/some-file") throws -> RawResponse {
        let connection = try send(path)
        return try connection.receiveAnswer()
    }

    private func send(_ path: String = "/some-file", patience: Int = 60_000) throws -> RawConnection {
        let connection = try RawConnection(port: server.port, patience: patience)
        connection.send("GET /__cordova\(path) HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection
    }

    @Test(arguments: [404, 408, 425, 429, 500, 503]) func `returns a status for the given number of requests`(
        status: Int
    )
        throws
    {
        server.fault("/some-file", .status(status, retryAfter: "7"), times: 2)
        for _ in 0..<2 {
            let answer = try ask()
            #expect(answer.status == status)
            #expect(answer["Retry-After"] == "7")
        }
        #expect(try ask().status == 200)
    }

    @Test func `applies faults in turn, and those of * to other paths`() throws {
        server.fault("/some-file", .none, times: 1)
        server.fault("/some-file", .status(500))
        server.fault("*", .status(503), times: 1)
        #expect(try ask().status == 200)
        #expect(try ask().status == 500)
        #expect(try ask("/some-text.txt").status == 503)
        #expect(try ask("/some-text.txt").status == 200)
        server.heal()
        #expect(try ask().status == 200)
    }

    @Test func `returns invalid entity tags of every kind`() throws {
        let forms: [(Fault, String?)] = [
            (.entityTag(nil), nil), (.entityTag("x"), "x"), (.weakTag, "W/\"\(tag)\""), (.gzipTag, "\"\(tag)-gzip\""),
            (.upperCaseTag, "\"\(tag.uppercased())\""),
        ]
        for (fault, expected) in forms {
            server.fault("/some-file", fault, times: 1)
            let answer = try ask()
            #expect(answer["ETag"] == expected)
            #expect(answer.text == "some-file (changed)\n")
        }
        server.fault("/some-file", Fault.lowerCaseNames, times: 1)
        #expect(try ask().fields.map(\.name).contains("etag"))
    }

    @Test func `returns corrupt, replaced, short or missing bodies`() throws {
        server.fault("/some-file", .corrupt(at: 1), times: 1)
        #expect(try ask().text == "snme-file (changed)\n")
        server.fault("/some-file", .captivePortal, times: 1)
        let portal = try ask()
        #expect(portal.status == 200)
        #expect(portal["Content-Type"]?.hasPrefix("text/html") == true)
        #expect(portal["ETag"] == nil)
        server.fault("/some-file", .cut(after: 4), times: 1)
        let cut = try ask()
        #expect(cut["Content-Length"] == "20")
        #expect(cut.text == "some")
        server.fault("/some-file", .contentLength("10"), times: 1)
        #expect(try ask().text == "some-file ")
        server.fault("/some-file", .hangUp, times: 1)
        #expect(try send().receiveAll().isEmpty)
        server.fault("/some-file", .stall(after: 4), times: 1)
        #expect(throws: SystemCallError.self) { try send(patience: 300).receiveAnswer() }
        for (fault, body) in [(Fault.empty, ""), (.garbage, "{\"version\": \"version2\", \"manif")] {
            server.fault("/manifest.json", fault, times: 1)
            #expect(try ask("/manifest.json").text == body)
        }
    }

    @Test func `returns a chunked body without a length`() throws {
        server.fault("/some-file", .chunked)
        let text = String(decoding: try send().receive(upTo: "\r\n0\r\n\r\n"), as: UTF8.self)
        #expect(!text.contains("Content-Length"))
        #expect(text.hasSuffix("\r\n\r\n14\r\nsome-file (changed)\n\r\n0\r\n\r\n"))
    }

    @Test func `redirects a request`() throws {
        server.fault("/some-file", .redirect(to: "https://elsewhere.test/"), times: 1)
        let answer = try ask()
        #expect(answer.status == 302)
        #expect(answer["Location"] == "https://elsewhere.test/")
    }

    @Test func `holds a response for its gate and delays another`() throws {
        let gate = try Gate()
        server.fault("/some-file", .hold(gate), times: 2)
        let timedOut = try send(patience: 300)
        #expect(throws: SystemCallError.self) { try timedOut.receive() }
        #expect(server.wait(for: "/some-file"))
        server.clearRequests()
        let waiting = try send()
        #expect(server.wait(for: "/some-file"))
        gate.open()
        #expect(try waiting.receiveAnswer().status == 200)
        server.fault("/some-file", .delay(milliseconds: 200), times: 1)
        let start = ContinuousClock.now
        #expect(try ask().status == 200)
        #expect(ContinuousClock.now - start >= .milliseconds(200))
    }
}
