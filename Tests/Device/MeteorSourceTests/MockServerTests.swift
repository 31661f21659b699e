import BundleTestTraits
import BundleTesting
import MeteorTesting
import Testing

/// Compares the test server with a real one (METEOR sections 1.9 and 8.1).
@Suite("MockMeteorServer", .ownThread) struct MockServerTests {
    let folder: TemporaryFolder
    let fixtures: CordovaFixtures
    let flag = "?meteor_dont_serve_index=true"
    let template = "/app/template.mobileapp.js"

    init() throws {
        folder = try TemporaryFolder()
        fixtures = try CordovaFixtures(in: folder.path)
    }

    private func start(
        _ version: CordovaVersion = .version2, tags: MeteorServer.EntityTags = .manifestHash, rootPath: String = ""
    ) throws -> MeteorServer {
        let server = try MeteorServer([fixtures.versions], tags: tags, rootPath: rootPath)
        try server.serve(version: version.rawValue)
        return server
    }

    private func ask(
        _ server: MeteorServer, _ target: String, _ headers: String = "", method: String = "GET"
    ) throws -> RawResponse {
        let connection = try RawConnection(port: server.port)
        connection.send("\(method) \(target) HTTP/1.1\r\nHost: localhost\r\n\(headers)\r\n")
        return try connection.receiveAnswer(toHead: method == "HEAD")
    }

    @Test func `returns the manifest with 200 and the version as its label`() throws {
        let server = try start()
        let answer = try ask(server, "/__cordova/manifest.json", "If-None-Match: \"version2\"\r\n")
        #expect(answer.status == 200)
        #expect(answer["ETag"] == "\"version2\"")
        #expect(answer["Content-Type"] == "application/json; charset=UTF-8")
        #expect(answer["Cache-Control"] == nil)
        #expect(try answer.body == fixtures.bundle(.version2).manifest)
    }

    @Test func `returns an asset with the headers of a real server`() throws {
        let server = try start()
        let answer = try ask(server, "/__cordova\(template)\(flag)")
        #expect(try answer.body == fixtures.content(of: "app/template.mobileapp.js", in: .version2))
        #expect(answer["ETag"] == "\"\(fixtures.hash(of: "app/template.mobileapp.js", in: .version2))\"")
        #expect(answer["Cache-Control"] == "public, max-age=31536000")
        #expect(answer["Vary"] == "User-Agent")
        #expect(answer["X-SourceMap"] == fixtures.sourceMapURL(of: "app/template.mobileapp.js", in: .version2))
        #expect(answer["Content-Type"] == "application/javascript; charset=UTF-8")
        #expect(try ask(server, "/__cordova/some-text.txt")["Cache-Control"] == "public, max-age=0")
        #expect(try ask(server, "/__cordova/merged-stylesheets.css")["Content-Type"] == "text/css; charset=UTF-8")
        let map = try ask(server, "/__cordova\(fixtures.sourceMapURL(of: "app/mobileapp.js", in: .version2))")
        #expect(map["ETag"]?.hasPrefix("W/\"") == true)
        #expect(map["Cache-Control"] == "public, max-age=31536000")
    }

    @Test func `labels assets of the Cordova suite with the digest of their bytes`() throws {
        let server = try start(.invalidAsset, tags: .contentDigest)
        let answer = try ask(server, "/__cordova\(template)")
        #expect(answer["ETag"] == "\"\(fixtures.hash(of: "app/template.mobileapp.js", in: .version3))\"")
        #expect(answer["Cache-Control"] == nil)
    }

    @Test func `returns the page for an unknown path, or 404 with the flag`() throws {
        let server = try start(.missingAsset)
        let missing = try ask(server, "/__cordova\(template)\(flag)")
        #expect(missing.status == 404)
        #expect(missing.text == "404 Not Found")
        #expect(missing["Cache-Control"] == "no-cache")
        for path in ["/__cordova/", "/__cordova", "/__cordova/\(flag)", "/__cordova\(template)"] {
            let page = try ask(server, path)
            #expect(page.status == 200)
            #expect(page["ETag"] == nil)
            #expect(page["Content-Type"] == "text/html; charset=utf-8")
            #expect(try page.body == fixtures.bundle(.version2).page)
        }
        #expect(try ask(server, "/__cordova/../version1/manifest.json\(flag)").status == 404)
        #expect(try ask(server, "/__cordova/%2e%2e/version1/manifest.json\(flag)").status == 404)
        #expect(try ask(server, "/").status == 404)
    }

    @Test func `rejects other methods`() throws {
        let server = try start()
        let refused = try ask(server, "/__cordova/", method: "DELETE")
        #expect(refused.status == 405)
        #expect(refused["Allow"] == "OPTIONS, GET, HEAD")
        let head = try ask(server, "/__cordova/some-file", method: "HEAD")
        #expect(head.status == 200)
        #expect(head["Content-Length"] == "20")
        #expect(try ask(server, "/__cordova/", method: "OPTIONS").status == 200)
    }

    @Test func `supports ranges and conditional requests`() throws {
        let server = try start()
        let tag = "\"\(fixtures.hash(of: "app/some-file", in: .version2))\""
        let rest = try ask(server, "/__cordova/some-file", "Range: bytes=5-\r\nIf-Range: \(tag)\r\n")
        #expect(rest.status == 206)
        #expect(rest["Content-Range"] == "bytes 5-19/20")
        #expect(rest.text == "file (changed)\n")
        #expect(try ask(server, "/__cordova/some-file", "Range: bytes=0-3\r\n").text == "some")
        #expect(try ask(server, "/__cordova/some-file", "Range: bytes=-2\r\n").text == ")\n")
        #expect(try ask(server, "/__cordova/some-file", "Range: bytes=5-\r\nIf-Range: \"x\"\r\n").status == 200)
        let beyond = try ask(server, "/__cordova/some-file", "Range: bytes=20-\r\n")
        #expect(beyond.status == 416)
        #expect(beyond["Content-Range"] == "bytes */20")
        #expect(try ask(server, "/__cordova/some-file", "If-None-Match: \(tag)\r\n").status == 304)
    }

    @Test func `serves a prefixed manifest under one and two prefixes, and an old one under one`() throws {
        let old = try start()
        #expect(try ask(old, "/__cordova/__cordova/some-file\(flag)").status == 404)
        let entry = BundleEntry("app/images/x y.png", url: "/images/x y.png", .text("picture"))
        let builder = MeteorBundleBuilder(.computed, [entry]).with { $0.hasPrefixedURLs = true }
        try builder.build().writeServerLayout(to: folder.file("modern"))
        let server = try MeteorServer([folder.file("modern")], rootPath: "/sub")
        try server.serve(version: "modern")
        for path in ["/sub/__cordova/images/x%20y.png", "/sub/__cordova/__cordova/images/x%20y.png"] {
            let answer = try ask(server, path + flag)
            #expect(answer.text == "picture")
            #expect(answer["ETag"] == "\"\(try builder.build().entries[0].hash ?? "")\"")
        }
        #expect(try ask(server, "/sub/__cordova/__cordova/__cordova/images/x%20y.png\(flag)").status == 404)
        #expect(try ask(server, "/__cordova/images/x%20y.png").status == 404)
        #expect(server.rootURL == "http://127.0.0.1:\(server.port)/sub/")
    }

    @Test func `uses another prefix for another architecture`() throws {
        let entry = BundleEntry("app/app.js", url: "/app/app.js", type: "js", .text("1"), sourceMap: .init(.text("{}")))
        let builder = MeteorBundleBuilder(.computed, [entry]).with { builder in
            builder.hasPrefixedURLs = true
            builder.prefix = "/__capacitor"
        }
        try builder.build().writeServerLayout(to: folder.file("modern"))
        let server = try MeteorServer([folder.file("modern")], prefix: "/__capacitor")
        try server.serve(version: "modern")
        #expect(try ask(server, "/__capacitor/__capacitor/app/app.js\(flag)").text == "1")
        let map = try #require(try builder.build().entries[0].sourceMapURL)
        #expect(map.hasPrefix("/__capacitor/app/"))
        #expect(try ask(server, map).text == "{}")
        #expect(try ask(server, "/__cordova/app/app.js").status == 404)
    }

    @Test func `counts requests and resets the log with a new version`() throws {
        let server = try start()
        _ = try ask(server, "/__cordova/manifest.json")
        try server.serve(version: "version3")
        for _ in 0..<2 { _ = try ask(server, "/__cordova/some-file\(flag)", "X-Test: yes\r\n") }
        #expect(server.requests.multiset == ["/__cordova/some-file\(flag)": 2])
        #expect(server.requests.pathMultiset == ["/__cordova/some-file": 2])
        #expect(server.requests.first?["x-test"] == "yes")
        #expect(server.allRequests.count == 3)
        #expect(server.servedVersion == "version3")
        #expect(throws: BundleFolderError.self) { try server.serve(version: "version4") }
        #expect(server.servedVersion == "version3")
    }

    @Test func `deploys a version between two requests`() throws {
        let server = try start()
        try server.serve(version: "version3", fromRequest: 2)
        #expect(try ask(server, "/__cordova/manifest.json")["ETag"] == "\"version2\"")
        #expect(try ask(server, "/__cordova/manifest.json")["ETag"] == "\"version3\"")
        #expect(server.requests.map(\.version) == ["version2", "version3"])
        #expect(server.requestsSinceLastSwitch.count == 1)
    }

    @Test func `serves many requests on one connection`() throws {
        let server = try start()
        let connection = try RawConnection(port: server.port)
        for _ in 0..<500 {
            connection.send("GET /__cordova/some-file HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(try connection.receiveAnswer().body.count == 20)
        }
        #expect(server.connectionCount == 1)
        #expect(server.requests.count == 500)
    }
}
