import ArchiveSource
import BundleCore
import BundleTransport
import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// `clientctl feed serve` as a web server: the built program, tested byte for byte.
@Suite(.ownThread) struct HostTests {
    private static let token = "s3cret-Token.of~the=fleet"
    private static let stopLine = "clientctl: SIGTERM: the program stops\n"

    private let site: Site
    private var archive: String { "/releases/v1.0.0/client-v1.0.0.tar.zst" }

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
    }

    private func tokenFile(_ text: String = token + "\n", mode: mode_t = 0o600) throws -> String {
        let path = try site.folder.write(bytes(text), to: "tokens")
        chmod(path, mode)
        return path
    }

    private func refused(_ arguments: [String], _ status: Int32, _ code: String) throws -> String {
        let outcome = try Clientctl.run(["feed", "serve"] + arguments + ["--json"]).failed(status, code)
        return outcome.error["message"]?.stringValue ?? ""
    }

    // MARK: Start and end

    @Test(.enabled(if: geteuid() == 0, "only root can run as another user"))
    func `host serves as a user without privileges`() throws {
        try Clientctl.stock(["chmod", "-R", "a+rX", site.folder.path])
        try Clientctl.stock(["chmod", "a+rx", "\(site.folder.path)/.."])
        let host = try Hosting(site.feed, wrapper: ["setpriv", "--reuid", "4321", "--clear-groups"])
        #expect(try host.ask("/healthz").text == "ok\n")
        try host.stop()
    }

    @Test(arguments: [SIGTERM, SIGINT])
    func `host prints its address as one object and ends with 0 on a signal`(signal: Int32) throws {
        let host = try Hosting(site.feed)
        #expect(host.url == "http://127.0.0.1:\(host.port)/")
        #expect(try host.ask("/healthz").text == "ok\n")
        let ending = try host.stop(signal)
        let object = try JSONScanner.parse(ending.output, maximumBytes: 4096).objectValue
        #expect(object?.members.map(\.name) == ["url", "port"])
        #expect(ending.errors.contains("clientctl: \(signal == SIGTERM ? "SIGTERM" : "SIGINT"): the program stops\n"))
    }

    @Test func `host reports why it cannot start`() throws {
        let missing = site.folder.file("missing")
        #expect(try refused([missing], 78, "configInvalid").contains(missing))
        #expect(try refused([], 64, "usage").contains("feed"))
        #expect(try refused([site.feed, "--bind", "somewhere"], 78, "configInvalid").contains("somewhere"))
        #expect(try refused([site.feed, "--bind", "192.0.2.1"], 78, "configInvalid").contains("192.0.2.1"))
        #expect(try refused([site.feed, "--port", "65536"], 64, "usage").contains("65535"))
        let host = try Hosting(site.feed)
        #expect(try refused([site.feed, "--port", "\(host.port)"], 78, "configInvalid").contains("in use"))
    }

    @Test func `host warns when its folder is not a feed`() throws {
        let empty = try site.folder.writeTree(["index.html": []], to: "dist")
        let host = try Hosting(empty)
        try host.wait(until: "\(empty) has no manifest.json and no channels")
        for path in ["manifest.json", "channels/stable.json"] {
            let feed = try site.folder.writeTree([path: []], to: "feed-\(path.utf8.count)")
            #expect(try !Hosting(feed).stop().errors.contains("has no manifest.json"))
        }
    }

    @Test func `SIGHUP reloads tokens and reopens the access log of host, and keeps valid tokens`() throws {
        let log = site.folder.file("access.log")
        let host = try Hosting(site.feed, ["--token-file", try tokenFile(), "--access-log", log])
        func status(_ token: String) throws -> Int {
            try host.ask("/manifest.json", ["Authorization: Bearer \(token)"]).status
        }
        func hangUp(until word: String) throws {
            let before = try host.program.printed().errors.utf8.count
            host.program.send(SIGHUP)
            let deadline = ContinuousClock.now + .seconds(60)
            while true {
                let log = String(decoding: try host.program.printed().errors.utf8.dropFirst(before), as: UTF8.self)
                if log.contains(word) { return }
                try #require(ContinuousClock.now < deadline, "\(log)")
                poll(nil, 0, 10)
            }
        }
        #expect(try status(Self.token) == 200)
        _ = try tokenFile("another-token\n")
        #expect(try status("another-token") == 401)
        // A response may arrive before its log line is written.
        let deadline = ContinuousClock.now + .seconds(60)
        while try contents(ofFile: log).split(separator: 10).count < 2, ContinuousClock.now < deadline {
            poll(nil, 0, 10)
        }
        try Clientctl.stock(["mv", log, log + ".1"])
        try hangUp(until: "the tokens were read again, the access log was reopened")
        #expect(try status("another-token") == 200)
        #expect(try status(Self.token) == 401)
        for text in ["", "two words\n"] {
            _ = try tokenFile(text)
            try hangUp(until: "present tokens")
            #expect(try status("another-token") == 200)
        }
        _ = try tokenFile("another-token\n", mode: 0o644)
        try hangUp(until: "present tokens")
        #expect(try status("another-token") == 200)
        try host.stop()
        #expect(try contents(ofFile: log + ".1").split(separator: 10).count == 2)
        #expect(try contents(ofFile: log).split(separator: 10).count == 5)
    }

    @Test func `SIGHUP log of host names only files that the host has`() throws {
        let host = try Hosting(site.feed)
        host.program.send(SIGHUP)
        try host.wait(until: "there is nothing to read again")
        #expect(try !host.stop().errors.contains("were read again"))
    }

    @Test(arguments: [true, false])
    func `host serves and announces a replaced feed folder at once`(isLink: Bool) async throws {
        let site = try ChannelSite()
        try site.publish("1.0.0").succeeded()
        let (one, two, place) = (site.folder.file("one"), site.folder.file("two"), site.folder.file("place"))
        try Clientctl.stock(["cp", "-a", site.feed, one])
        try site.publish("1.1.0").succeeded()
        try Clientctl.stock(["cp", "-a", site.feed, two])
        try Clientctl.stock(isLink ? ["ln", "-s", one, place] : ["cp", "-a", one, place])
        let host = try Hosting(place)
        let device = try await host.listen()
        func sequence() async throws -> Int {
            while let message = try await device.receive() {
                if case .text(let text) = message, case .release(_, let sequence, _) = try SyncMessage(parsing: text) {
                    return sequence
                }
            }
            throw CancellationError()
        }
        let before = try await sequence()
        if isLink {
            try Clientctl.stock(["ln", "-sfn", two, place])
        } else {
            try Clientctl.stock(["sh", "-c", "mv \"$1\" \"$1.old\" && mv \"$2\" \"$1\"", "sh", place, two])
        }
        #expect(try await sequence() > before)
        #expect(try host.ask("/releases/v1.1.0/manifest.json").status == 200)
        await device.close()
        try host.stop()
    }

    @Test func `channel list reads a channel over HTTP and verifies it with --trust`() throws {
        let site = try ChannelSite()
        try site.publish("1.0.0").succeeded()
        let host = try Hosting(site.feed, ["--token-file", try tokenFile()])
        let token = try site.folder.write(bytes(Self.token), to: "token")
        func list(_ more: String...) throws -> Outcome {
            try Clientctl.run(["channel", "list", "--feed", host.url, "--token-file", token, "--json"] + more)
        }
        let there = try list("--channel", "stable", "--trust", site.trust).succeeded()
        let here = try site.list()
        #expect(there["sequence"] == here["sequence"] && there["expires"] == here["expires"])
        #expect(there["releases"]?.arrayValue?.count == 1)
        #expect(there["verified"] == .bool(true))
        #expect(try list("--channel", "stable").succeeded()["verified"] == .bool(false))
        try list("--channel", "stable", "--trust", site.pub("release")).failed(20, "keyUnknown")
        try list("--channel", "beta").failed(11, "httpStatus")
        try list("--channel", "../trust/1").failed(64, "usage")
        #expect(try list().failed(64, "usage").error["message"]?.stringValue?.contains("--channel") == true)
        try host.stop()
    }

    @Test func `host sends the current date with every response`() throws {
        let host = try Hosting(site.feed)
        for path in ["/manifest.json", "/missing", "/healthz"] {
            let date = try #require(try host.ask(path)["Date"], "\(path)")
            #expect(
                date.wholeMatch(of: /[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT/) != nil, "\(date)")
            // Another program parses the date.
            let seconds = try Program.run(["date", "-u", "-d", date, "+%s"], environment: Clientctl.environment()).text
            let read = try #require(Int(seconds.split(separator: "\n").first ?? ""))
            #expect(abs(read - Timestamp.now.secondsSinceEpoch) <= 3600)
        }
    }

    @Test func `host accepts flags from a configuration file`() throws {
        let log = site.folder.file("access.log")
        let text = """
            {"feed": "\(site.feed)", "bind": "127.0.0.2", "token-file": "\(try tokenFile())", "access-log": "\(log)"}
            """
        let config = try site.folder.write(bytes(text), to: "host.json")
        let program = try Clientctl.start(["feed", "serve", "--config", config, "--json"])
        let deadline = ContinuousClock.now + .seconds(60)
        while try program.printed().output.isEmpty, ContinuousClock.now < deadline { poll(nil, 0, 10) }
        let object = try JSONScanner.parse(bytes(try program.printed().output), maximumBytes: 4096).objectValue
        let port = try #require(object?["port"]?.integerValue)
        #expect(object?["url"] == .string("http://127.0.0.2:\(port)/"))
        let connection = try RawConnection(host: "127.0.0.2", port: port)
        connection.send("GET /manifest.json HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        #expect(try connection.receiveAnswer().status == 401)
        program.send(SIGTERM)
        #expect(try program.wait().status == 0)
        #expect(String(decoding: try contents(ofFile: log), as: UTF8.self).contains(" GET /manifest.json 401 "))
    }

    // MARK: Files

    @Test func `host serves files of a feed with their cache headers`() throws {
        let host = try Hosting(site.feed)
        for (path, caching) in [
            ("/manifest.json", "no-cache"),
            ("/releases/v1.0.0/manifest.json", "public, max-age=31536000, immutable"),
            (archive, "public, max-age=31536000, immutable"),
        ] {
            let content = try contents(ofFile: site.feed + path)
            let answer = try host.ask(path)
            #expect(answer.status == 200)
            #expect(answer.body == content)
            #expect(answer["Cache-Control"] == caching, "\(path)")
            #expect(answer["Accept-Ranges"] == "bytes")
            #expect(answer["X-Content-Type-Options"] == "nosniff")
            let tag = try #require(answer["ETag"])
            #expect(tag.hasPrefix("\"") && tag.count > 8)

            let head = try host.ask(path, method: "HEAD")
            #expect(head.status == 200)
            #expect(head["Content-Length"] == "\(content.count)")
            #expect(head["ETag"] == tag)

            let same = try host.ask(path, ["If-None-Match: \(tag)"])
            #expect(same.status == 304)
            #expect(same["Cache-Control"] == caching)
            #expect(same["ETag"] == tag)
            #expect(try host.ask(path, ["If-None-Match: \"other\""]).status == 200)
        }
        #expect(try host.ask("/manifest.json")["Content-Type"] == "application/json; charset=utf-8")
    }

    @Test func `host serves ranges of an unchanged archive`() throws {
        let host = try Hosting(site.feed)
        let content = try contents(ofFile: site.feed + archive)
        let tag = try #require(try host.ask(archive)["ETag"])
        let part = try host.ask(archive, ["Range: bytes=10-19"])
        #expect(part.status == 206)
        #expect(part.body == Array(content[10...19]))
        #expect(part["Content-Range"] == "bytes 10-19/\(content.count)")
        #expect(try host.ask(archive, ["Range: bytes=-5"]).body == Array(content.suffix(5)))
        let rest = try host.ask(archive, ["Range: bytes=20-", "If-Range: \(tag)"])
        #expect(rest.status == 206)
        #expect(rest.body == Array(content[20...]))
        let other = try host.ask(archive, ["Range: bytes=20-", "If-Range: \"other\""])
        #expect(other.status == 200)
        #expect(other.body == content)
        let beyond = try host.ask(archive, ["Range: bytes=\(content.count)-"])
        #expect(beyond.status == 416)
        #expect(beyond["Content-Range"] == "bytes */\(content.count)")
    }

    @Test func `host serves large archives whole and in ranges`() throws {
        try site.publish("2.0.0", ["index.html": bytes("<!doctype html>"), "noise.bin": noise(400_000)])
        let host = try Hosting(site.feed)
        let path = "/releases/v2.0.0/client-v2.0.0.tar.zst"
        let content = try contents(ofFile: site.feed + path)
        try #require(content.count > 300_000)
        #expect(try host.ask(path).body == content)
        #expect(try host.ask(path, ["Range: bytes=200000-299999"]).body == Array(content[200_000..<300_000]))
    }

    @Test func `host serves a new manifest as soon as it is published`() throws {
        let host = try Hosting(site.feed)
        let before = try host.ask("/manifest.json")
        try site.publish("1.0.1")
        let after = try host.ask("/manifest.json", ["If-None-Match: \(before["ETag"] ?? "")"])
        #expect(after.status == 200)
        #expect(after.body == (try contents(ofFile: site.manifest)))
        #expect(after["ETag"] != before["ETag"])
    }

    @Test func `host serves only files of the feed`() throws {
        try site.folder.write(bytes("SECRET"), to: "secret.json")
        for hidden in [
            ".hidden.json", "manifest.json.new", "other.json", "channels/.x.json", "channels/stable.json.new",
            "releases/.publish-x/manifest.json", "releases/v1.0.0/.part", "releases/v1.0.0/x.new",
        ] {
            if let slash = hidden.lastIndex(of: "/") { try site.folder.makeFolder("feed/\(hidden[..<slash])") }
            try site.folder.write(bytes("SECRET"), to: "feed/\(hidden)")
        }
        try site.folder.makeFolder("feed/trust")
        symlink("../../secret.json", site.feed + "/trust/1.json")
        symlink("../secret.json", site.feed + "/trust.json")
        symlink(site.folder.path, site.feed + "/releases/out")
        symlink("v1.0.0", site.feed + "/releases/v9.9.9")
        mkfifo(site.feed + "/channels/pipe.json", 0o600)
        let host = try Hosting(site.feed)
        for target in [
            "/", "/.hidden.json", "/manifest.json.new", "/other.json", "/channels/.x.json", "/channels/stable.json.new",
            "/channels/", "/channels", "/releases", "/releases/.publish-x/manifest.json", "/releases/v1.0.0/",
            "/releases/v1.0.0/.part", "/releases/v1.0.0/x.new", "/trust/1.json", "/trust.json",
            "/releases/out/secret.json", "/releases/v9.9.9/manifest.json", "/channels/pipe.json", "/manifest.json/",
        ] {
            let answer = try host.ask(target)
            #expect(answer.status == 404, "\(target)")
            #expect(!answer.text.contains("SECRET"), "\(target)")
        }
        for target in [
            "/../secret.json", "/%2e%2e/secret.json", "/channels/..%2f..%2fsecret.json", "/channels/../../secret.json",
            "//manifest.json", "/channels/%00.json", "/channels/a%5c..%5cb.json", "/channels/%c0%ae.json", "*",
        ] {
            let answer = try host.ask(target)
            #expect(answer.status == 400, "\(target)")
            #expect(!answer.text.contains("SECRET"), "\(target)")
        }
    }

    @Test func `host rejects requests that do not ask for a file`() throws {
        let host = try Hosting(site.feed)
        let put = try host.ask("/manifest.json", method: "PUT", ["Content-Length: 0"])
        #expect(put.status == 405)
        #expect(put["Allow"] == "GET, HEAD")
        #expect(try host.ask("/manifest.json", ["Content-Length: 1"]).status == 400)
        #expect(try host.ask("/manifest.json", ["Host: other"]).status == 400)
        #expect(try host.ask("/manifest.json", ["Expect: 100-continue"]).status == 417)
        let connection = try RawConnection(port: host.port)
        connection.send("GET /manifest.json HTTP/1.1\r\n\r\n")
        #expect(try connection.receiveAnswer().status == 400)
    }

    @Test func `host answers pipelined requests in order`() throws {
        let host = try Hosting(site.feed)
        let connection = try RawConnection(port: host.port)
        let request = { (target: String) in "GET \(target) HTTP/1.1\r\nHost: h\r\n\r\n" }
        connection.send(request("/healthz") + request("/manifest.json") + request("/none") + request(archive))
        #expect(try connection.receiveAnswer().text == "ok\n")
        #expect(try connection.receiveAnswer().body == (try contents(ofFile: site.manifest)))
        #expect(try connection.receiveAnswer().status == 404)
        #expect(try connection.receiveAnswer().body == (try contents(ofFile: site.feed + archive)))
    }

    // MARK: Tokens

    @Test func `host requires a token and names the scheme`() throws {
        let host = try Hosting(site.feed, ["--token-file", try tokenFile("other\n\(Self.token)\n")])
        for target in ["/manifest.json", archive, "/none", "/push"] {
            let answer = try host.ask(target)
            #expect(answer.status == 401, "\(target)")
            #expect(answer["WWW-Authenticate"] == "Bearer realm=\"feed\"")
        }
        for field in [
            "Bearer wrong", "Bearer \(Self.token)x", "Bearer \(Self.token.dropLast())", "Basic \(Self.token)",
        ] {
            let answer = try host.ask("/manifest.json", ["Authorization: \(field)"])
            #expect(answer.status == 401, "\(field)")
            #expect(answer["WWW-Authenticate"] == "Bearer realm=\"feed\", error=\"invalid_token\"")
        }
        for token in [Self.token, "other"] {
            #expect(try host.ask("/manifest.json", ["Authorization: Bearer \(token)"]).status == 200)
        }
        #expect(try host.ask("/healthz").status == 200)
        // Responses that require a token are not stored in shared caches.
        let authorization = ["Authorization: Bearer \(Self.token)"]
        #expect(try host.ask("/manifest.json", authorization)["Cache-Control"] == "private, no-cache")
        #expect(try host.ask(archive, authorization)["Cache-Control"] == "private, max-age=31536000, immutable")
    }

    @Test func `host rejects token files that others can read and malformed tokens`() throws {
        for mode in [0o644, 0o640, 0o604] as [mode_t] {
            let message = try refused([site.feed, "--token-file", try tokenFile(mode: mode)], 31, "permissionDenied")
            #expect(message.contains("chmod 600"))
        }
        #expect(
            try refused([site.feed, "--token-file", try tokenFile("\n")], 78, "configInvalid").contains("no token"))
        let message = try refused([site.feed, "--token-file", try tokenFile("two words\n")], 78, "configInvalid")
        #expect(message.contains("Line 1") && !message.contains("words"))
    }

    // MARK: The log

    @Test(arguments: [true, false])
    func `host writes one access log line per response without secrets`(toFile: Bool) throws {
        let path = site.folder.file("access.log")
        let host = try Hosting(
            site.feed, ["--token-file", try tokenFile()] + (toFile ? ["--access-log", path] : []))
        let authorization = ["Authorization: Bearer \(Self.token)"]
        _ = try host.ask("/manifest.json?password=hunter2", authorization)
        _ = try host.ask("/manifest.json", method: "HEAD", authorization)
        _ = try host.ask(archive, ["Range: bytes=0-9"] + authorization)
        _ = try host.ask("/a%0Ab\\c?x", authorization)
        _ = try host.ask("/manifest.json", ["Authorization: Bearer wr0ng"])
        _ = try host.ask("/manifest.json", method: "BREW", authorization)
        let connection = try RawConnection(port: host.port)
        connection.send("nonsense \(Self.token)\r\n\r\n")
        _ = try connection.receiveAll()
        let ending = try host.stop()
        if toFile { #expect(ending.errors == Self.stopLine) }
        let log =
            toFile
            ? String(decoding: try contents(ofFile: path), as: UTF8.self)
            : ending.errors.replacing(Self.stopLine, with: "")
        let size = try contents(ofFile: site.manifest).count
        let lines = log.split(separator: "\n").map { line in
            line.split(separator: " ").dropFirst().dropLast().joined(separator: " ")
        }
        #expect(
            lines == [
                "127.0.0.1 GET /manifest.json 200 \(size)", "127.0.0.1 HEAD /manifest.json 200 0",
                "127.0.0.1 GET \(archive) 206 10", "127.0.0.1 GET /a%0Ab\\\\c 400 12",
                "127.0.0.1 GET /manifest.json 401 13", "127.0.0.1 BREW /manifest.json 405 19", "127.0.0.1 - - 400 12",
            ], "\(log)")
        for secret in [Self.token, "hunter2", "wr0ng", "password"] { #expect(!log.contains(secret)) }
        for line in log.split(separator: "\n") {
            #expect(line.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ .* \d+ms/) != nil, "\(line)")
        }
    }

    @Test func `host appends to an existing access log, and writes none by default`() throws {
        let path = try site.folder.write(bytes("before\n"), to: "access.log")
        for log in [path, "/dev/null"] {
            let host = try Hosting(site.feed, ["--access-log", log])
            _ = try host.ask("/healthz")
            #expect(try host.stop().errors == Self.stopLine)
        }
        let text = String(decoding: try contents(ofFile: path), as: UTF8.self)
        #expect(text.split(separator: "\n").first == "before")
        #expect(text.split(separator: "\n").count == 2)
        #expect(try refused([site.feed, "--access-log", site.folder.path], 78, "configInvalid").contains("open"))
    }

    // MARK: Devices

    @Test(arguments: [false, true])
    func `a device installs from host`(withToken: Bool) throws {
        let channel = try ChannelSite()
        try channel.publish("1.0.0")
        let tokens = withToken ? ["--token-file", try tokenFile()] : []
        let host = try Hosting(channel.feed, tokens)
        let install = [
            "install", "--channel", "\(host.url)channels/stable.json", "--trust", channel.pinned, "--store",
            channel.folder.file("store"), "--shell-version", "1.5.0", "--app-id", ChannelSite.appId, "--json",
        ]
        if withToken {
            let refused = try Clientctl.run(install).failed(11, "httpStatus")
            #expect(refused.errors.contains("It requires a valid token: give one with --token-file"))
        }
        try Clientctl.run(install + tokens).succeeded("installed")
        #expect(try TreeSnapshot(of: channel.folder.file("store/clients/v1.0.0")).files == Site.client("1.0.0"))
        try Clientctl.run(install + tokens).succeeded("upToDate")
    }
}
