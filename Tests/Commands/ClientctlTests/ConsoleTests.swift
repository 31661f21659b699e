import BundleSigning
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `clientctl console`, by the requests that a browser sends.
@Suite(.ownThread) struct ConsoleTests {
    private let site: ChannelSite

    init() throws {
        site = try ChannelSite()
        try site.publish("1.0.0").succeeded("published")
        try site.publish("1.1.0", ["--rollout", "1%"]).succeeded("published")
    }

    private func open(_ more: [String] = [], key: String? = "channel") throws -> RunningConsole {
        try RunningConsole(
            ["--feed", site.feed, "--channel", "stable", "--trust", site.pinned]
                + (key.map { ["--channel-key", site.key($0)] } ?? []) + more)
    }

    // MARK: Buttons

    /// Each button, its fields, and the command with the same words.
    private static let buttons: [(fields: [String: String], command: [String])] = [
        (
            ["action": "rollout", "version": "1.1.0", "percent": "10%"],
            ["release", "rollout", "10%", "--version", "1.1.0"]
        ),
        (
            ["action": "ramp", "version": "1.1.0", "ramp": "20%,50%,100%", "every": "2d"],
            ["release", "rollout", "--ramp", "20%,50%,100%", "--every", "2d", "--version", "1.1.0"]
        ),
        (
            ["action": "target", "version": "1.1.0", "groups": "qa,eu", "only": "yes"],
            ["release", "target", "qa,eu", "--only", "--version", "1.1.0"]
        ),
        (["action": "untarget", "version": "1.1.0"], ["release", "target", "--undo", "--version", "1.1.0"]),
        (["action": "pause", "version": "1.1.0"], ["release", "pause", "--version", "1.1.0"]),
        (["action": "resume", "version": "1.1.0"], ["release", "resume", "--version", "1.1.0"]),
        (["action": "urgent", "version": "1.1.0"], ["release", "set", "--urgent", "--version", "1.1.0"]),
        (["action": "retry", "version": "1.1.0"], ["release", "retry", "--version", "1.1.0"]),
        (
            ["action": "recall", "version": "1.1.0", "reason": "--undo <b>\"white\" & 'screen'</b>"],
            ["release", "recall", "--reason=--undo <b>\"white\" & 'screen'</b>", "--version", "1.1.0"]
        ),
        (["action": "undo", "version": "1.1.0"], ["release", "recall", "--undo", "--version", "1.1.0"]),
        (["action": "renew"], ["channel", "renew"]),
        (["action": "restore", "copy": "2"], ["channel", "restore", "--copy", "2"]),
        (["action": "withdraw", "version": "1.1.0"], ["release", "withdraw", "--version", "1.1.0"]),
    ]

    @Test func `each button writes what its command writes, after a question that writes nothing`() throws {
        // The commands work on a copy of the feed.
        let copy = site.folder.file("copy")
        try Clientctl.stock(["cp", "-r", site.feed, copy])
        let console = try open()
        for (fields, command) in Self.buttons {
            let before = try #require(try site.sequence())
            let fields = fields.merging(["channel": "stable"]) { $1 }
            let question = try console.post("/ask", fields)
            #expect(question.status == 200, "\(fields): \(question.text)")
            #expect(try site.sequence() == before)
            #expect(question.text.contains("--expect-sequence \(before)"))
            let answer = try console.post("/do", fields.merging(["sequence": "\(before)"]) { $1 })
            #expect(answer.status == 200 && answer.text.contains("sequence \(before + 1)"), "\(fields): \(answer.text)")
            try Clientctl.run(
                command + [
                    "--feed", copy, "--channel", "stable", "--channel-key", site.key("channel"), "--trust", site.pinned,
                    "--expect-sequence", "\(before)", "--json",
                ]
            ).succeeded()
            #expect(try content(of: site.feed) == content(of: copy), "\(command)")
        }
        // The terminal shows each change.
        let ending = try console.stop()
        #expect(ending.output.components(of: "channel stable: changed") == Self.buttons.count)
    }

    /// Returns the channel file without what depends on the time.
    private func content(of feed: String) throws -> String {
        let file = try contents(ofFile: "\(feed)/channels/stable.json")
        let envelope = try #require(try JSONScanner.parse(file, maximumBytes: 1 << 20).objectValue)
        let payload = try Base64.decode(try #require(envelope["payload"]?.stringValue))
        var document = try #require(try JSONScanner.parse(payload, maximumBytes: 1 << 20).objectValue)
        for name in ["issuedAt", "expires", "previous"] { document[name] = nil }
        return String(decoding: JSONWriter.bytes(of: .object(document)), as: UTF8.self)
            .replacing(/\d{4}-\d{2}-\d{2}T[0-9:]+Z/, with: "TIME")
    }

    @Test func `the wall shows the pictures of a roster page by page, those first that need attention`() throws {
        let (database, operators) = (
            site.folder.file("roster.db"), try site.folder.write(bytes("token\n"), to: "operators")
        )
        chmod(operators, 0o600)
        let host = try Hosting(
            site.feed, ["--roster", database, "--roster-token-file", operators, "--roster-pictures"])
        for name in ["anne", "bob <b>"] {
            try Clientctl.run([
                "install", "--channel", "\(site.feed)/channels/stable.json", "--trust", site.pinned, "--store",
                site.folder.file("store-\(name.prefix(3))"), "--shell-version", "1.5.0", "--app-id", ChannelSite.appId,
                "--device-id", name, "--roster", host.url + "roster", "--name", name,
            ]).succeeded()
        }
        try host.stop()
        let console = try open(["--roster", database])
        #expect(try console.get("/wall").text.contains("The roster has no pictures."))
        // Twenty-six copies of a device, two of which need attention.
        let copies = """
            UPDATE devices SET state = 'failed', runs = '0.9.0' WHERE name LIKE 'bob%';
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25)
              INSERT INTO devices SELECT printf('%016x', i), 'copy ' || i, appId, runs, state, next, waiting, screen, shell,
              channel, sequence, checked, code, blocked, findings, program, interval, seen, first, since, key, conflict,
              conflicts, refused, older, began, groups, tags, failure FROM devices, n WHERE name = 'anne';
            INSERT INTO pictures SELECT device, 'last', 1, seen, X'FFD8FFE000FFD9' FROM devices WHERE name <> 'anne';
            INSERT INTO pictures SELECT device, 'failed', 1, seen + 9, X'3C7363726970743E' FROM devices WHERE name LIKE 'bob%';
            """
        try Clientctl.stock(["sqlite3", database, copies])
        let first = try console.get("/wall")
        let pictures = first.text.matches(of: #/<img src="([^"]+)"/#).map { String($0.output.1) }
        #expect(pictures.count == 24 && pictures[0].hasSuffix("/failed-picture"))
        #expect(first.text.contains("26 pictures.") && first.text.contains("1 device without one."))
        #expect(first.text.contains("bob &lt;b&gt;") && first.text.contains("<a href=\"/wall/2\">"))
        #expect(try console.get("/wall/2").text.matches(of: #/<img /#).count == 2)
        for path in ["/wall/3", "/wall/0", "/wall/x", "/roster/0000000000000001/other"] {
            #expect(try console.get(path).status == 404, "\(path)")
        }
        let policies = first.fields.filter { $0.name == "Content-Security-Policy" }.map(\.value)
        #expect(policies.count == 1 && policies[0].contains("img-src 'self'") && !policies[0].contains("script-src"))
        let picture = try console.get("/roster/0000000000000001/picture")
        #expect(picture.status == 200 && picture.body == [0xFF, 0xD8, 0xFF, 0xE0, 0, 0xFF, 0xD9])
        #expect(picture["content-type"] == "image/jpeg" && picture["x-content-type-options"] == "nosniff")
        #expect(picture["content-security-policy"] == "default-src 'none'; sandbox")
        // The bytes in the database are a page.
        #expect(try console.get(pictures[0]).status == 404)
        #expect(
            try console.get("/roster/0000000000000001").text.contains("<img src=\"/roster/0000000000000001/picture\""))
        #expect(try console.ask("GET", "/roster/0000000000000001/picture").status == 403)
    }

    @Test func `promote copies a release to another channel, and forget needs a roster`() throws {
        try site.publish("0.9.0", ["--create"], channel: "beta").succeeded("published")
        let console = try open()
        let fields = ["action": "promote", "channel": "stable", "version": "1.1.0", "to": "beta", "rollout": "5%"]
        let question = try console.post("/ask", fields)
        #expect(question.text.contains("1.1.0 added, for 5%"), "\(question.text)")
        let answer = try console.post("/do", fields.merging(["sequence": "1"]) { $1 })
        #expect(answer.status == 200, "\(answer.text)")
        #expect(try site.list("beta").text.contains("1.1.0"))
        let refused = try console.post("/ask", ["action": "forget", "device": "device:3f9a0b1c2d3e4f50"])
        #expect(refused.status == 409 && refused.text.contains("without --roster"))
    }

    @Test func `a wrong value is refused with the words of its command, and changes nothing`() throws {
        let console = try open()
        let before = try site.sequence()
        for (fields, words) in [
            (["action": "rollout", "version": "1.1.0", "percent": "--dry-run"], "takes a percentage"),
            (["action": "rollout", "version": "1.1.0", "percent": ""], "Missing percentage"),
            (["action": "recall", "version": "1.1.0", "reason": ""], "Missing --reason"),
            (["action": "pause", "version": "9.9.9"], "9.9.9"), (["action": "pause", "version": "x"], "version"),
            (["action": "target", "version": "1.1.0", "groups": "a b"], "is not a list of groups"),
        ] as [([String: String], String)] {
            let question = try console.post("/ask", fields.merging(["channel": "stable"]) { $1 })
            #expect(question.status == 409 && question.text.contains(words), "\(fields): \(question.text)")
        }
        #expect(try console.post("/ask", ["action": "nonsense"]).status == 404)
        #expect(try console.post("/ask", ["action": "pause", "version": "1.1.0", "channel": "../x"]).status == 409)
        #expect(try site.sequence() == before)
    }

    @Test func `a change of another person is shown before the same button can change something`() throws {
        let console = try open()
        let seen = try #require(try site.sequence())
        let fields = ["action": "rollout", "channel": "stable", "version": "1.1.0", "percent": "10%"]
        _ = try console.post("/ask", fields)
        try site.release("pause", "--version", "1.1.0").succeeded("changed")
        let answer = try console.post("/do", fields.merging(["sequence": "\(seen)"]) { $1 })
        #expect(answer.status == 200 && answer.text.contains("Another person was faster"), "\(answer.text)")
        #expect(answer.text.contains("\(seen + 1): 1.1.0: paused"))
        #expect(try site.sequence() == seen + 1)
        let again = try console.post("/do", fields.merging(["sequence": "\(seen + 1)"]) { $1 })
        #expect(again.text.contains("sequence \(seen + 2)"), "\(again.text)")
    }

    @Test func `two consoles at once lose no change and explain each refusal`() throws {
        let consoles = [try open(), try open()]
        var written = 0
        let start = try #require(try site.sequence())
        for round in 1...10 {
            let seen = try #require(try site.sequence())
            let sent = try consoles.enumerated().map { index, console in
                let percent = "\(10 + 2 * round + index)%"
                return try console.begin(
                    "/do",
                    [
                        "action": "rollout", "channel": "stable", "version": "1.1.0", "percent": percent,
                        "sequence": "\(seen)",
                    ])
            }
            let answers = try sent.map { try $0.receiveAnswer().text }
            let good = answers.count { $0.contains("sequence \(seen + 1)") && !$0.contains("faster") }
            #expect(good == 1 && answers.count { $0.contains("Another person was faster") } == 1, "\(answers)")
            written += good
        }
        #expect(try site.sequence() == start + written)
    }

    // MARK: Roles

    @Test func `without a key, and with --read-only, a console shows pages without forms`() throws {
        for (more, key) in [([], nil), (["--read-only"], "channel")] as [([String], String?)] {
            let console = try open(more, key: key)
            let page = try console.get("/release/stable/1.1.0")
            #expect(page.status == 200 && !page.text.contains("<form") && page.text.contains("Read only"))
            // No page has a form, so there is no token for one either.
            let status = try console.post("/ask", ["action": "pause", "channel": "stable", "version": "1.1.0"]).status
            #expect(status == 403 || status == 404, "\(status)")
        }
    }

    @Test func `a key that devices do not accept is refused at the start`() throws {
        let ending = try Clientctl.run([
            "console", "--no-open", "--feed", site.feed, "--channel", "stable", "--trust", site.pinned, "--channel-key",
            site.key("release"),
        ])
        #expect([20, 78].contains(ending.status) && !ending.errors.isEmpty, "\(ending.errors)")
        let missing = try Clientctl.run([
            "console", "--no-open", "--feed", site.feed, "--channel", "stabel", "--channel-key", site.key("channel"),
        ])
        #expect(missing.status == 78 && missing.errors.contains("Did you mean stable?"), "\(missing.errors)")
    }

    // MARK: Safety

    @Test func `the address of the terminal admits one browser`() throws {
        let console = try open()
        #expect(try console.ask("GET", "/?code=\(console.code)").status == 403)
        #expect(try console.ask("GET", "/").status == 403)
        let other = try open()
        #expect(try other.ask("GET", "/", ["Cookie: \(console.cookie)"]).status == 403)
        let renamed = console.cookie.replacing("console-\(console.port)", with: "console-\(other.port)")
        #expect(try other.ask("GET", "/", ["Cookie: \(renamed)"]).status == 403)
        #expect(try console.get("/").status == 200)
    }

    @Test func `a program of another user is refused, also with the cookie`() throws {
        if geteuid() != 0 { try Test.cancel("only root can start a program as another user") }
        let console = try open()
        let own = [
            "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Cookie: \(console.cookie)",
            console.root + "/",
        ]
        let paths = ["PATH": "/usr/bin:/bin"]
        #expect(try Program.run(own, environment: paths).text == "200")
        let other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] + own
        #expect(try Program.run(other, environment: paths).text == "403")
    }

    @Test func `requests of other sites, hosts and programs are refused`() throws {
        let console = try open()
        let form = ["action": "pause", "channel": "stable", "version": "1.1.0", "token": try console.token()]
        let before = try site.sequence()
        func post(_ fields: [String], host: String? = nil, form: [String: String]? = nil) throws -> Int {
            try console.ask(
                "POST", "/do", fields + console.session, host: host, body: RunningConsole.encoded(form ?? [:])
            ).status
        }
        let own = "Origin: \(console.root)"
        let type = "Content-Type: application/x-www-form-urlencoded"
        #expect(try post([type, "Origin: https://evil.example"], form: form) == 403)
        #expect(try post([type, "Origin: null"], form: form) == 403)
        #expect(try post([type], form: form) == 403)
        #expect(try post([type, own, "Sec-Fetch-Site: cross-site"], form: form) == 403)
        #expect(try post([type, own], host: "evil.example:\(console.port)", form: form) == 421)
        #expect(try post(["Content-Type: text/plain", own], form: form) == 415)
        #expect(try post([type, own], form: form.merging(["token": "wrong"]) { $1 }) == 403)
        #expect(try post([type, own], form: form.filter { $0.key != "token" }) == 403)
        #expect(
            try console.ask("GET", "/", ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"] + console.session)
                .status == 403)
        #expect(try site.sequence() == before)
        let page = try console.get("/")
        let policy = page.fields.first { $0.name == "Content-Security-Policy" }?.value ?? ""
        #expect(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"))
        #expect(!page.text.contains("<script"))
        #expect(page.fields.contains { $0.name == "X-Frame-Options" && $0.value == "DENY" })
    }

    @Test func `names, notes and reasons cannot add elements`() throws {
        let hostile = "\"><script>alert(1)</script><img src=x onerror=alert(1)>' onfocus=x {{7*7}} ‮"
        let notes = try site.folder.write(bytes(hostile), to: "notes.txt")
        try site.publish("1.2.0", ["--notes", notes]).succeeded("published")
        try site.release("recall", "--version", "1.0.0", "--reason", hostile.replacing("‮", with: "")).succeeded(
            "changed")
        let console = try open()
        for path in ["/", "/release/stable/1.2.0", "/history/stable"] {
            let page = try console.get(path)
            #expect(page.status == 200 && !page.text.contains("<script") && !page.text.contains("<img"), "\(path)")
            #expect(page.text.contains("&lt;script&gt;") && !page.text.contains("\u{202E}"), "\(path)")
        }
        let question = try console.post(
            "/ask", ["action": "recall", "channel": "stable", "version": "1.2.0", "reason": hostile])
        #expect(question.status == 200 && !question.text.contains("<script") && !question.text.contains("<img"))
        for path in ["/release/stable/9.9.9", "/release/%3Cscript%3E/1.0.0", "/history/x", "/roster/../x", "/nonsense"]
        {
            #expect([404, 400].contains(try console.get(path).status), "\(path)")
        }
    }

    // MARK: Parts that fail

    @Test func `a roster and a Prometheus that do not answer are named, and the rest works`() throws {
        let console = try open([
            "--roster", "http://127.0.0.1:1/roster", "--roster-token-file", try token(), "--prometheus",
            "http://127.0.0.1:1",
        ])
        let page = try console.get("/")
        #expect(page.status == 200 && page.text.contains("The roster cannot be read."), "\(page.text)")
        #expect(page.text.contains("The reports of devices cannot be read.") && page.text.contains("1.0.0"))
        let devices = try console.get("/roster")
        #expect(devices.status == 409 && devices.text.contains("networkUnavailable"))
    }

    private func token() throws -> String {
        let path = try site.folder.write(bytes("t\n"), to: "token")
        chmod(path, 0o600)
        return path
    }

    @Test func `the devices of a roster are listed, aimed at and forgotten`() throws {
        let roster = site.folder.file("roster.db")
        let host = try Hosting(site.feed, ["--roster", roster, "--roster-token-file", try token()])
        try site.install("anne", ["--roster", host.url + "roster", "--name", "Lobby <3>"]).succeeded("installed")
        try host.stop()
        let console = try open(["--roster", roster])
        #expect(try console.get("/").text.contains("of 1"))
        let list = try console.get("/roster")
        #expect(list.text.contains("Lobby &lt;3&gt;"), "\(list.text)")
        let link = try #require(list.text.firstMatch(of: /\/roster\/([0-9a-f]{16})/)?.output.1)
        let device = try console.get("/roster/\(link)")
        #expect(device.status == 200 && device.text.contains("device:\(link)"))
        let aim = try console.post(
            "/ask", ["action": "target", "channel": "stable", "version": "1.1.0", "groups": "device:\(link)"])
        #expect(aim.status == 200 && aim.text.contains("device:\(link)"), "\(aim.text)")
        let percent = try console.post(
            "/ask", ["action": "rollout", "channel": "stable", "version": "1.1.0", "percent": "100%"])
        #expect(percent.text.contains("about 1 of the 1 device"), "\(percent.text)")
        let forget = ["action": "forget", "device": "device:\(link)"]
        #expect(try console.post("/ask", forget).text.contains("removed from the roster"))
        #expect(try console.post("/do", forget).status == 200)
        #expect(try !console.get("/roster").text.contains("Lobby"))
    }

    @Test func `a second console on the same port says so`() throws {
        let console = try open()
        let ending = try Clientctl.run([
            "console", "--no-open", "--read-only", "--port", "\(console.port)", "--feed", site.feed, "--channel",
            "stable",
        ])
        #expect(ending.status == 78 && ending.errors.contains("is in use"))
    }
}

extension String {
    fileprivate func components(of text: String) -> Int { ranges(of: text).count }
}
