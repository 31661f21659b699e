import BundleDisk
import BundleServe
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@Suite(.ownThread) struct ResponseTests {
    @Test(arguments: [
        "/app.js", "/empty.txt", "/large.bin", "/sub/", "/missing.js", "/plain", "/clients/", "/clients/v1.0.0/",
    ])
    func `responds to HEAD with the fields of GET and without a body`(target: String) async throws {
        let fixture = try await Fixture()
        fixture.host.with { $0.versions["v1.0.0"] = $0.current }
        let get = try fixture.ask(target)
        let connection = try fixture.connect()
        connection.send(fixture.request(target, method: "HEAD"))
        let head = try connection.receiveAnswer(toHead: true)
        #expect(head.status == get.status)
        #expect(head.fields.map { "\($0.name): \($0.value)" } == get.fields.map { "\($0.name): \($0.value)" })
        connection.send(fixture.request("/plain"))
        #expect(try connection.receiveAnswer().text == "no extension")
    }

    @Test(arguments: ["/digits.txt", "/large.bin"])
    func `responds with 304 for an unchanged file`(target: String) async throws {
        let fixture = try await Fixture()
        let whole = try fixture.ask(target)
        let tag = try #require(whole["ETag"])
        for (condition, status) in [
            (tag, 304), ("W/" + tag, 304), ("\"x\", " + tag, 304), ("*", 304), ("\"x\"", 200),
            (String(tag.dropFirst().dropLast()), 200),
        ] {
            let connection = try fixture.connect()
            connection.send(fixture.request(target, ["If-None-Match: \(condition)", "Range: bytes=0-1000000"]))
            let answer = try connection.receiveAnswer()
            #expect(answer.status == (status == 304 ? 304 : 206), "\(condition)")
            #expect(answer["ETag"] == tag)
            #expect(answer["Cache-Control"] == "no-cache")
            if status == 304 {
                #expect(answer["Content-Length"] == nil)
                expectCommonFields(answer)
            }
            connection.send(fixture.request("/plain"))
            #expect(try connection.receiveAnswer().text == "no extension")
        }
        // A date is not a validator of a file without one.
        #expect(try fixture.ask(target, ["If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"]).status == 200)
    }

    @Test func `sends a different entity tag for each content`() async throws {
        let fixture = try await Fixture()
        let other = try fixture.anotherSite("other")
        let before = try fixture.ask("/app.js")["ETag"]
        #expect(try fixture.ask("/app.js")["ETag"] == before)
        fixture.host.with { $0.current = other }
        #expect(try fixture.ask("/app.js")["ETag"] != before)
        #expect(try fixture.ask("/app.js")["ETag"] != fixture.ask("/large.bin")["ETag"])
    }

    @Test(arguments: [
        ("bytes=2-5", 206, "bytes 2-5/10", "2345"), ("bytes=2-", 206, "bytes 2-9/10", "23456789"),
        ("bytes=-3", 206, "bytes 7-9/10", "789"), ("bytes=0-99", 206, "bytes 0-9/10", "0123456789"),
        ("bytes=10-", 416, "bytes */10", "Range Not Satisfiable\n"),
        ("bytes=-0", 416, "bytes */10", "Range Not Satisfiable\n"),
        ("bytes=0-1,3-4", 200, nil, "0123456789"), ("bytes=5-2", 200, nil, "0123456789"),
        ("nonsense", 200, nil, "0123456789"),
    ])
    func `sends a part of a file for a Range request`(range: String, status: Int, contentRange: String?, body: String)
        async throws
    {
        let fixture = try await Fixture()
        let answer = try fixture.ask("/digits.txt", ["Range: \(range)"])
        #expect(answer.status == status)
        #expect(answer["Content-Range"] == contentRange)
        #expect(answer.text == body)
        expectCommonFields(answer)
        // A HEAD ignores ranges (RFC 9110, section 14.2).
        #expect(try fixture.ask("/digits.txt", method: "HEAD", ["Range: \(range)"]).status == 200)
    }

    @Test func `sends a part of a large file`() async throws {
        let fixture = try await Fixture()
        let large = try #require(Fixture.files["large.bin"])
        #expect(try fixture.ask("/large.bin").body == large)
        let middle = try fixture.ask("/large.bin", ["Range: bytes=70000-170000"])
        #expect(middle["Content-Range"] == "bytes 70000-170000/200000")
        #expect(middle.body == Array(large[70000...170000]))
        #expect(try fixture.ask("/large.bin", ["Range: bytes=-5"]).body == large.suffix(5))
    }

    @Test func `sends a part only if If-Range matches the file`() async throws {
        let fixture = try await Fixture()
        let tag = try #require(try fixture.ask("/digits.txt")["ETag"])
        for (condition, status) in [
            (tag, 206), ("W/" + tag, 200), ("\"x\"", 200), ("Fri, 01 Jan 2100 00:00:00 GMT", 200),
        ] {
            #expect(try fixture.ask("/digits.txt", ["Range: bytes=0-1", "If-Range: \(condition)"]).status == status)
        }
    }

    @Test func `responds to pipelined requests in order, however their bytes are split`() async throws {
        let fixture = try await Fixture { $0.limits.request = .seconds(3600) }
        let large = try #require(Fixture.files["large.bin"])
        let requests =
            fixture.request("/digits.txt") + fixture.request("/large.bin") + fixture.request("/", navigation)
            + fixture.request("/missing.js") + fixture.request("/clients/") + fixture.request("/app.js")
        for size in [1, 50, 100_000] {
            let connection = try fixture.connect()
            let bytes = Array(requests.utf8)
            for start in stride(from: 0, to: bytes.count, by: size) {
                connection.send(Array(bytes[start..<min(start + size, bytes.count)]))
            }
            #expect(try connection.receiveAnswer().text == "0123456789")
            #expect(try connection.receiveAnswer().body == large)
            #expect(try connection.receiveAnswer().text.contains("bridge()"))
            #expect(try connection.receiveAnswer().status == 404)
            #expect(try connection.receiveAnswer().text == "{\"versions\":[]}")
            #expect(try connection.receiveAnswer().text == "let a = 1;\n")
        }
    }

    @Test func `sends the whole response to a client that has closed its sending side`() async throws {
        let fixture = try await Fixture()
        let connection = try fixture.connect()
        connection.send(fixture.request("/large.bin") + fixture.request("/", navigation))
        connection.finishSending()
        #expect(try connection.receiveAnswer().body == Fixture.files["large.bin"])
        #expect(try connection.receiveAnswer().text.hasSuffix("</html>"))
        #expect(try connection.receiveAll() == [])
    }

    @Test func `limits buffered responses for a client that pipelines without reading`() async throws {
        let fixture = try await Fixture()
        let connection = try fixture.connect()
        let request = Array(fixture.request("/large.bin").utf8)
        for _ in 0..<100 { connection.send(request) }
        for _ in 0..<100 { #expect(try connection.receiveAnswer().body.count == 200_000) }
    }

    @Test func `sends a removed file from the cache, and 404 for a removed file that was never read`() async throws {
        let fixture = try await Fixture()
        for name in ["app.js", "large.bin"] { #expect(try fixture.ask("/" + name).status == 200) }
        for name in ["app.js", "large.bin", "digits.txt"] { unlink(fixture.folder.file("www/" + name)) }
        #expect(try fixture.ask("/app.js").text == "let a = 1;\n")
        #expect(try fixture.ask("/large.bin").body == Fixture.files["large.bin"])
        #expect(try fixture.ask("/digits.txt").status == 404)
    }

    @Test func `responds with 404 for a path that is no longer a file`() async throws {
        let fixture = try await Fixture()
        unlink(fixture.folder.file("www/app.js"))
        symlink("digits.txt", fixture.folder.file("www/app.js"))
        unlink(fixture.folder.file("www/plain"))
        mkfifo(fixture.folder.file("www/plain"), 0o600)
        #expect(try fixture.ask("/app.js").status == 404)
        #expect(try fixture.ask("/plain").status == 404)
        try fixture.folder.write([1], to: "www/late.js")
        #expect(try fixture.ask("/late.js").status == 404)
    }

    @Test func `sends correct files beyond the capacity of the cache`() async throws {
        let fixture = try await Fixture()
        let files = Dictionary(
            uniqueKeysWithValues: (0..<80).map { number in
                ("\(number).bin", [UInt8](repeating: UInt8(number), count: number % 2 == 0 ? 65_536 : 65_537))
            })
        let root = try Directory.open(try fixture.folder.writeTree(files, to: "many"))
        let site = try Site(root: root, index: Fixture.index)
        fixture.host.with { $0.current = site }
        let connection = try fixture.connect()
        for _ in 0..<2 {
            for (name, bytes) in files {
                connection.send(fixture.request("/" + name))
                #expect(try connection.receiveAnswer().body == bytes)
            }
        }
    }
}
