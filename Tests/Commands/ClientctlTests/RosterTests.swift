import BundleSigning
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// The roster of a host, with the built programs.
@Suite(.ownThread) struct RosterTests {
    private let site: ChannelSite
    private let operators: String

    init() throws {
        site = try ChannelSite()
        try site.publish("1.0.0").succeeded("published")
        operators = try site.folder.write(bytes("operator-token\n"), to: "operators")
        chmod(operators, 0o600)
    }

    private var database: String { site.folder.file("roster.db") }

    private func host(_ more: [String] = []) throws -> Hosting {
        try Hosting(site.feed, ["--roster", database, "--roster-token-file", operators] + more)
    }

    private func store(_ device: String) -> String { site.folder.file("store-\(device)") }

    private func install(_ device: String, _ more: [String], store: String? = nil) throws -> Outcome {
        try Clientctl.run(
            [
                "install", "--channel", "\(site.feed)/channels/stable.json", "--trust", site.pinned, "--store",
                store ?? self.store(device), "--shell-version", "1.5.0", "--app-id", ChannelSite.appId, "--device-id",
                device, "--json",
            ] + more)
    }

    private func fleet(_ words: [String], at url: String? = nil) throws -> Outcome {
        try Clientctl.run(
            ["fleet"] + words + ["--roster", url ?? database, "--json"]
                + (url == nil ? [] : ["--roster-token-file", operators]))
    }

    private func devices(_ more: [String] = [], at url: String? = nil) throws -> [JSONObject] {
        try fleet(["list"] + more, at: url).json["devices"]?.arrayValue?.compactMap(\.objectValue) ?? []
    }

    private let authorized = ["Authorization: Bearer operator-token"]

    // MARK: Devices

    @Test func `install names its device in the roster, and fleet list shows it from the host and from the file`()
        throws
    {
        let host = try host()
        try install("anne", ["--roster", host.url + "roster", "--name", "Lobby 3"]).succeeded("installed")
        for url in [host.url + "roster", nil] {
            let device = try #require(try devices(at: url).first)
            #expect(device["name"]?.stringValue == "Lobby 3")
            #expect(device["next"]?.stringValue == "1.0.0" && device["state"]?.stringValue == "none")
            #expect(device["channel"]?.stringValue == "stable" && device["code"] == .null)
            let status = try Clientctl.run(["status", "--store", store("anne"), "--json"]).succeeded()
            let feed = status.json["feed"]?.objectValue
            #expect(device["target"] == feed?["deviceGroup"])
        }
        #expect(try devices(["--name", "lobby"]).count == 1)
        #expect(try devices(["--version", "1.0.0"]).isEmpty)
        try host.stop()
    }

    @Test func `install reports the failure of its check to the roster`() throws {
        let host = try host()
        let other = site.pub("new")
        let outcome = try Clientctl.run([
            "install", "--channel", "\(site.feed)/channels/stable.json", "--trust", other, "--store", store("b"),
            "--shell-version", "1.5.0", "--device-id", "b", "--roster", host.url + "roster", "--name", "Wrong key",
            "--json",
        ])
        #expect(outcome.status == 20)
        let device = try #require(try devices().first)
        #expect(["keyUnknown", "signatureInvalid"].contains(device["code"]?.stringValue))
        let shown = try Clientctl.run(["fleet", "show", "Wrong key", "--roster", database])
        #expect(shown.text.contains("failed with"))
        // The store has only the key so far.
        try install("b", ["--roster", host.url + "roster"]).succeeded("installed")
        #expect(shown.text.contains("clientctl release target \(device["target"]?.stringValue ?? "?") --only"))
    }

    @Test func `install sends its groups and tags, and a host of 0.9.0 gets its state without them`() throws {
        let host = try host()
        let words = ["--group", "qa", "--tag", "site=Lisbon", "--tag", "door=2", "--name", "Lobby"]
        try install("anne", ["--roster", host.url + "roster"] + words).succeeded("installed")
        try install("bob", ["--roster", host.url + "roster"]).succeeded("installed")
        let device = try #require(try devices(["--group", "qa"]).first)
        #expect(device["groups"] == .array([.string("qa")]))
        #expect(device["tags"] == .array([.string("site=Lisbon"), .string("door=2")]))
        #expect(try devices(["--group", "qa", "--behind"]).count == 1 && devices(["--group", "eu"]).isEmpty)
        let wrong = try install("anne", ["--roster", host.url + "roster", "--tag", "Lisbon"]).failed(64, "usage")
        #expect(wrong.errors.contains("such as site=Lisbon"))
        let old = try LoopbackServer { request in
            let isKnown = !String(decoding: request.body, as: UTF8.self).contains("\"tags\"")
            var route = Route(bytes("{}"))
            if !isKnown { route.status = 400 }
            return route
        }
        let outcome = try install("carl", ["--roster", "http://127.0.0.1:\(old.port)/roster"] + words)
        #expect(!outcome.errors.contains("roster") && old.requests.count == 2)
        #expect(try RosterPost(parsing: old.requests[1].body).name == "Lobby")
    }

    @Test func `devices without --roster make no key and connect to no other host`() throws {
        let receiver = try LoopbackServer { _ in Route(bytes("{}")) }
        try install("anne", []).succeeded("installed")
        #expect(receiver.requests.isEmpty)
        #expect(!access("roster.key.pem"))
        try install("anne", ["--roster", "http://127.0.0.1:\(receiver.port)/roster"]).succeeded()
        let request = try #require(receiver.requests.first)
        #expect(request.method == "POST" && request.body.count <= RosterPost.maximumBytes)
        #expect(
            request.headers.map(\.name) == [
                "Host", "User-Agent", "Accept", "Content-Type", "X-Device-Key", "Content-Length",
            ])
        let post = try RosterPost(parsing: request.body)
        #expect(post.name.isEmpty)
        let members = try JSONScanner.parse(request.body, maximumBytes: 4096).objectValue?.members.map(\.name)
        #expect(members == Array(RosterPost.members.dropLast(3)))
        let signature = try #require(
            request.headers.first { $0.name == "X-Device-Key" }.flatMap { DeviceSignature(parsing: $0.value) })
        #expect(try signature.isValid(over: request.body))
        var status = stat()
        #expect(stat(store("anne") + "/roster.key.pem", &status) == 0 && status.st_mode & 0o777 == 0o600)
    }

    private func access(_ name: String) -> Bool { Glibc.access(store("anne") + "/" + name, F_OK) == 0 }

    @Test func `the guide names exactly the members of a message`() throws {
        let page = String(decoding: try contents(ofFile: "\(Checkout.root)/Guide/guides/roster.md"), as: UTF8.self)
        let members = page.split(separator: "## What leaves the device").last ?? ""
        let rows = members.matches(of: /(?m)^\| `([A-Za-z]+)` \|/).map { String($0.output.1) }
        #expect(rows == RosterPost.members)
    }

    @Test func `a device with a new store is refused until an operator forgets it`() throws {
        let host = try host()
        let roster = ["--roster", host.url + "roster", "--name", "Lobby 3"]
        try install("anne", roster).succeeded("installed")
        let refused = try install("anne", roster, store: site.folder.file("new-store")).succeeded("installed")
        #expect(refused.errors.contains("pinned another key"))
        #expect(try devices().first?["conflicts"] == .integer(1))
        #expect(try fleet(["forget", "Lobby 3"], at: host.url + "roster").succeeded("forgotten").status == 0)
        let accepted = try install("anne", roster, store: site.folder.file("new-store")).succeeded()
        #expect(!accepted.errors.contains("roster"))
        #expect(try devices().first?["conflicts"] == .integer(0))
    }

    // MARK: Host

    @Test func `operators need their own token, which devices do not have`() throws {
        let tokens = try site.folder.write(bytes("device-token\n"), to: "tokens")
        chmod(tokens, 0o600)
        let host = try host(["--token-file", tokens])
        for path in ["/roster", "/roster.json"] {
            #expect(try host.ask(path).status == 401)
            #expect(try host.ask(path, ["Authorization: Bearer device-token"]).status == 401)
            #expect(try host.ask(path, authorized).status == 200)
            // A browser sends the token as a password: any:operator-token.
            #expect(try host.ask(path, ["Authorization: Basic YW55Om9wZXJhdG9yLXRva2Vu"]).status == 200)
            #expect(try host.ask(path, ["Authorization: Basic YW55OmRldmljZS10b2tlbg=="]).status == 401)
        }
        #expect(try host.ask("/channels/stable.json", authorized).status == 401)
        let page = try host.ask("/roster", authorized)
        let policies = page.fields.filter { $0.name == "Content-Security-Policy" }.map(\.value)
        #expect(policies.count == 1 && policies[0].hasPrefix("default-src 'none'; style-src 'sha256-"))
        #expect(try host.ask("/roster?sql=1", authorized).status == 400)
        #expect(
            try host.ask("/metrics", ["Authorization: Bearer device-token"]).text.contains("clientctl_roster_silent"))
    }

    @Test func `a row leads to the page of its device, for operators only`() throws {
        let host = try host()
        try install("anne", ["--roster", host.url + "roster"]).succeeded("installed")
        let device = "/roster/" + (try #require(try devices().first?["device"]?.stringValue))
        #expect(try host.ask(device).status == 401)
        #expect(try host.ask(device, ["Authorization: Bearer device-token"]).status == 401)
        let own = try host.ask(device, authorized)
        #expect(own.status == 200 && own.text.contains("pinned key"))
        #expect(
            own.fields.contains {
                $0.name == "Content-Security-Policy" && $0.value.hasPrefix("default-src 'none'; style-src 'sha256-")
            })
        #expect(try host.ask(device, method: "POST", authorized).status == 405)
        for path in ["/roster/0000000000000000", "/roster/", "/roster/a/b"] {
            #expect(try host.ask(path, authorized).status == 404, "\(path)")
        }
        #expect(try host.ask("/roster", authorized).text.contains("<a href=\"\(device)\">"))
    }

    @Test func `a host without --roster has no roster`() throws {
        let host = try Hosting(site.feed)
        for path in ["/roster", "/roster.json", "/metrics"] { #expect(try host.ask(path, authorized).status == 404) }
        #expect(try host.ask("/roster", method: "POST").status == 405)
        try Clientctl.run(["feed", "serve", site.feed, "--roster", database, "--json"]).failed(64, "usage")
    }

    @Test func `a relay passes messages to the roster of its upstream`() throws {
        let host = try host()
        let relay = try Hosting(relaying: host.url, ["--roster", host.url + "roster"])
        try install("anne", ["--roster", relay.url + "roster", "--name", "Behind a relay"]).succeeded("installed")
        #expect(try devices().first?["name"]?.stringValue == "Behind a relay")
        let refused = try install("anne", ["--roster", relay.url + "roster"], store: site.folder.file("other"))
        #expect(refused.errors.contains("pinned another key"))
        #expect(try relay.ask("/roster", authorized).status == 405)
    }

    @Test func `keeps every acknowledged message when the host is killed`() throws {
        var host = try host()
        for round in 0..<3 {
            for device in 0..<4 {
                let name = "\(round)-\(device)"
                let outcome = try install(name, ["--roster", host.url + "roster", "--name", name])
                #expect(!outcome.errors.contains("roster"))
            }
            host.program.send(SIGKILL)
            _ = try host.program.wait(within: .seconds(60))
            host = try self.host()
        }
        #expect(try devices(at: host.url + "roster").count == 12)
    }

    // MARK: Commands

    /// Installs on devices with these names and changes their rows in the database, as their messages would.
    private func fleet(of names: [String], at host: Hosting, _ changes: [String] = []) throws {
        for name in names {
            try install(name, ["--roster", host.url + "roster", "--name", name]).succeeded("installed")
        }
        for change in changes { try Clientctl.stock(["sqlite3", database, "UPDATE devices SET \(change)"]) }
    }

    @Test
    func `fleet list begins with the inventory and the broken devices, and names expected ones that were never seen`()
        throws
    {
        let host = try host()
        try fleet(
            of: ["a1", "a2", "b3", "z4"], at: host,
            [
                "runs = '1.0.0', state = 'good', next = NULL, waiting = 'rollout' WHERE name LIKE 'a%'",
                "state = 'failed', runs = '0.9.0', next = NULL, waiting = NULL WHERE name = 'z4'",
            ])
        let expected = try site.folder.write(bytes("a1\r\nz4\r\nm5\r\n"), to: "expected")
        for place in [["--roster", database], ["--roster", host.url + "roster", "--roster-token-file", operators]] {
            let text = try Clientctl.run(["fleet", "list", "--expect", expected] + place).text
            let lines = text.split(separator: "\n").map(String.init)
            #expect(lines[0].hasPrefix("2 of 5 have 1.0.0; 2 behind since 20"), "\(text)")
            #expect(lines[0].hasSuffix("(1 failed, 1 wait for a page reload); 1 never seen"), "\(text)")
            #expect(lines.dropFirst(2).map { $0.prefix(2) } == ["z4", "m5", "a1", "a2", "b3", "5 "], "\(text)")
            func names(_ more: [String]) throws -> [String] {
                let json = try Clientctl.run(["fleet", "list", "--json"] + place + more).succeeded().json
                return (json["devices"]?.arrayValue?.compactMap { $0.objectValue?["name"]?.stringValue } ?? [])
                    + (json["neverSeen"]?.arrayValue?.compactMap(\.stringValue) ?? [])
            }
            #expect(try names(["--attention"]) == ["z4"])
            #expect(try names(["--attention", "--expect", expected]) == ["z4", "m5"])
            #expect(try names(["--waits"]) == ["a1", "a2", "b3"])
            #expect(try names(["--behind"]) == ["z4", "b3"] && names(["--behind", "--waits"]) == ["b3"])
            #expect(try names(["--never-seen", "--expect", expected]) == ["m5"])
            try Clientctl.run(["fleet", "list", "--never-seen", "--json"] + place).failed(64, "usage")
        }
        let shown = try Clientctl.run(["fleet", "show", "z4", "--roster", database]).text
        #expect(shown.contains("needs attention: failed") && shown.contains(FailureCode.healthFailed.remedy))
    }

    @Test func `a host with --expect names the devices that were never seen, and reads the names again on SIGHUP`()
        throws
    {
        let expected = try site.folder.write(bytes("Lobby\nCanteen\n"), to: "expected")
        let host = try host(["--expect", expected])
        try fleet(of: ["Lobby"], at: host)
        #expect(try host.ask("/roster", authorized).text.contains("1 never seen."))
        let list = try fleet(["list", "--never-seen"], at: host.url + "roster").succeeded().json
        #expect(list["neverSeen"] == .array([.string("Canteen")]) && list["devices"] == .array([]))
        try site.folder.write(bytes("Lobby\n"), to: "expected")
        host.program.send(SIGHUP)
        let deadline = ContinuousClock.now + .seconds(60)
        while try host.ask("/roster", authorized).text.contains("1 never seen.") {
            try #require(ContinuousClock.now < deadline)
            poll(nil, 0, 50)
        }
        try host.stop()
        try Clientctl.run(["feed", "serve", site.feed, "--expect", expected, "--json"]).failed(64, "usage")
    }

    @Test func `fleet forget removes several devices, or the silent ones, and with --dry-run only prints them`() throws
    {
        let host = try host()
        try fleet(
            of: ["a", "b", "c", "d"], at: host, ["seen = seen - 40 * 86400 WHERE name IN ('c', 'd')"])
        let url = host.url + "roster"
        func names() throws -> [String] { try devices(at: url).compactMap { $0["name"]?.stringValue }.sorted() }
        try fleet(["forget", "a", "nobody"], at: url).failed(64, "usage")
        try fleet(["forget"], at: url).failed(64, "usage")
        try fleet(["forget", "a", "--silent", "30d"], at: url).failed(64, "usage")
        try fleet(["forget", "a", "b", "--pin-key", String(repeating: "0", count: 64)], at: url).failed(64, "usage")
        #expect(try names() == ["a", "b", "c", "d"])
        let dry = try fleet(["forget", "--silent", "30d", "--dry-run"], at: url).succeeded("dryRun")
        #expect(dry.json["devices"]?.arrayValue?.count == 2)
        #expect(try names() == ["a", "b", "c", "d"])
        let text = try Clientctl.run(["fleet", "forget", "--silent", "30d", "--roster", database]).text
        #expect(text.split(separator: "\n").count == 2 && text.hasPrefix("forgot device:"))
        try fleet(["forget", "--silent", "30d"], at: url).succeeded("unchanged")
        #expect(try names() == ["a", "b"])
        try fleet(["forget", "a", "b", "a"], at: url).succeeded("forgotten")
        #expect(try names().isEmpty)
    }

    @Test func `fleet list ends with 63 if a device is silent`() throws {
        let host = try host()
        try install("anne", ["--roster", host.url + "roster", "--name", "Lobby 3"]).succeeded("installed")
        #expect(try fleet(["list", "--silent", "1h"]).status == 0)
        try host.stop()
        let deadline = ContinuousClock.now + .seconds(60)
        while try fleet(["list", "--silent", "1s"]).status != 63 {
            try #require(ContinuousClock.now < deadline)
            poll(nil, 0, 100)
        }
    }

    @Test func `fleet show refuses an unknown name and a name that two devices have`() throws {
        let host = try host()
        for device in ["a", "b"] {
            try install(device, ["--roster", host.url + "roster", "--name", "Lobby 3"]).succeeded("installed")
        }
        let unknown = try fleet(["show", "Lobby"]).failed(64, "usage")
        #expect(unknown.error["message"]?.stringValue?.contains("Similar names: Lobby 3") == true)
        try fleet(["show", "Lobby 3"]).failed(64, "usage")
        let id = try #require(try devices().first?["device"]?.stringValue)
        #expect(try fleet(["show", id]).succeeded().string("device") == id)
    }

    @Test func `fleet list shows hostile names on one line without controls`() throws {
        let host = try host()
        for (index, name) in ["\u{1B}[2J\u{1B}[31mred", "a\nb  1.0.0", "\u{202E}gpj.exe", "<b>"].enumerated() {
            try install("d\(index)", ["--roster", host.url + "roster", "--name", name]).succeeded("installed")
        }
        let text = try Clientctl.run(["fleet", "list", "--roster", database]).text
        // The inventory, the names of the columns, four devices and their number.
        #expect(text.split(separator: "\n").count == 7)
        #expect(!text.contains("\u{1B}") && !text.contains("\u{202E}"))
    }

    @Test func `an argument in the form of an ID is never the name of another device`() throws {
        let host = try host()
        try install("victim", ["--roster", host.url + "roster", "--name", "Lobby"]).succeeded("installed")
        let id = try #require(try devices().first?["device"]?.stringValue)
        for name in [id, "device:\(id)"] {
            try install("rogue", ["--roster", host.url + "roster", "--name", name]).failed(64, "usage")
        }
        // A roster of an earlier version may have such names.
        try install("rogue", ["--roster", host.url + "roster", "--name", "Rogue"]).succeeded("installed")
        try host.stop()
        for name in [id, "device:\(id)"] {
            try Clientctl.stock(["sqlite3", database, "UPDATE devices SET name = '\(name)' WHERE name <> 'Lobby'"])
            for word in [id, "device:\(id)"] {
                #expect(try fleet(["show", word]).succeeded().string("name") == "Lobby")
            }
        }
        let forgotten = try fleet(["forget", "device:\(id)"]).succeeded("forgotten").json["devices"]?.arrayValue
        #expect(forgotten?.compactMap { $0.objectValue?["name"]?.stringValue } == ["Lobby"])
    }

    @Test func `release target refuses a word that is a group and the name of a device`() throws {
        let host = try host()
        try install("rogue", ["--roster", host.url + "roster", "--name", "qa"]).succeeded("installed")
        let target = try #require(try devices().first?["target"]?.stringValue)
        func aim(_ word: String, _ more: [String]) throws -> Outcome {
            try Clientctl.run(
                [
                    "release", "target", word, "--only", "--version", "1.0.0", "--feed", site.feed, "--channel",
                    "stable",
                    "--channel-key", site.key("channel"), "--json",
                ] + more)
        }
        let roster = ["--roster", host.url + "roster", "--roster-token-file", operators]
        let refused = try aim("qa", roster).failed(64, "usage")
        #expect(refused.error["message"]?.stringValue?.contains(target) == true)
        try aim("0123456789abcdef", roster).failed(64, "usage")
        try aim(target, roster).succeeded("changed")
        try aim("qa", []).succeeded("changed")
    }

    @Test func `fleet forget --pin-key keeps the device for the key of its new store, and not for who posts first`()
        throws
    {
        let host = try host()
        let (roster, new) = (["--roster", host.url + "roster", "--name", "Lobby 3"], site.folder.file("new-store"))
        try install("anne", roster).succeeded("installed")
        _ = try install("anne", roster, store: new).succeeded("installed")
        let key = try #require(
            try Clientctl.run(["keys", "show", new + "/roster.key.pem", "--json"]).succeeded().string("keyId"))
        let row = try #require(try devices().first)
        #expect(row["refusedKey"]?.stringValue == key && row["key"]?.stringValue != key)
        let shown = try Clientctl.run(["fleet", "show", "Lobby 3", "--roster", database]).text
        #expect(shown.contains(key) && shown.contains("pinned key: "))
        try fleet(["forget", "Lobby 3", "--pin-key", "abc"], at: host.url + "roster").failed(64, "usage")
        try fleet(["forget", "Lobby 3", "--pin-key", key], at: host.url + "roster").succeeded("pinned")
        let stranger = try install("anne", roster, store: site.folder.file("stranger"))
        #expect(stranger.errors.contains("pinned another key"))
        #expect(try !install("anne", roster, store: new).succeeded().errors.contains("roster"))
        #expect(try devices().first?["key"]?.stringValue == key)
    }

    @Test func `a device sends the status of the server and shows what it waits for apart from what needs attention`()
        throws
    {
        let host = try host()
        let gone = try LoopbackServer(["/": Route(status: 404)])
        _ = try Clientctl.run([
            "install", "--channel", "\(try gone.url("/channels/stable.json"))", "--trust", site.pinned, "--store",
            store("gone"), "--shell-version", "1.5.0", "--device-id", "gone", "--roster", host.url + "roster", "--name",
            "Gone", "--json",
        ])
        try install("anne", ["--roster", host.url + "roster", "--name", "Lobby"]).succeeded("installed")
        let rows = try devices()
        let first = try #require(rows.first { $0["name"]?.stringValue == "Gone" })
        #expect(first["code"]?.stringValue == "httpStatus:404")
        #expect(first["reasons"]?.arrayValue?.contains(.string("the server answers 404")) == true, "\(first)")
        let second = try #require(rows.first { $0["name"]?.stringValue == "Lobby" })
        #expect(second["reasons"]?.arrayValue == [] && second["waitsFor"]?.stringValue == "a page reload")
        let text = try Clientctl.run(["fleet", "list", "--roster", database]).text
        #expect(text.contains("NEEDS ATTENTION") && text.contains("WAITS FOR"))
    }

    @Test func `a relay that admits everybody does not lend its token to a stranger`() throws {
        let tokens = try site.folder.write(bytes("device-token\n"), to: "tokens")
        chmod(tokens, 0o600)
        let host = try host(["--token-file", tokens])
        let open = ["--roster", host.url + "roster", "--upstream-token-file", tokens]
        let relay = try Hosting(relaying: host.url, open + ["--bind", "0.0.0.0"])
        let post = RosterPost(
            device: "00000000000000ff", name: "Rogue", state: .good, program: "0.9.0", interval: 900)
        let signature = try DeviceSignature(signing: post.bytes, with: DeviceKey()).field
        func send(_ relay: Hosting, _ more: [String] = [], times: Int = 1) throws -> String {
            let url = relay.url.replacing("0.0.0.0", with: "127.0.0.1") + "roster"
            return try Program.run(
                [
                    "curl", "-s", "-w", "%{http_code}", "-H", "Content-Type: application/json", "-H",
                    "X-Device-Key: \(signature)", "--data-binary", String(decoding: post.bytes, as: UTF8.self),
                ] + more.flatMap { ["-H", $0] } + (0..<times).flatMap { _ in ["-o", "/dev/null", url] },
                environment: ["PATH": "/usr/bin:/bin"]
            ).text
        }
        #expect(try send(relay) == "401")
        #expect(try send(relay, ["Authorization: Bearer wrong"]) == "401")
        #expect(try devices().isEmpty)
        #expect(try send(relay, ["Authorization: Bearer device-token"]) == "200")
        let closed = try Hosting(relaying: host.url, open + ["--bind", "0.0.0.0", "--token-file", tokens])
        #expect(try send(closed) == "401")
        #expect(try send(closed, ["Authorization: Bearer device-token"]) == "200")
        let local = try Hosting(relaying: host.url, open)
        #expect(try send(local) == "200")
        // One sender cannot use up the messages of the others.
        #expect(try send(local, times: 40).contains("429"))
        #expect(try send(relay, ["Authorization: Bearer device-token"]) == "200")
    }

    @Test func `release target accepts the names of devices`() throws {
        let host = try host()
        try install("anne", ["--roster", host.url + "roster", "--name", "Lobby 3"]).succeeded("installed")
        let target = try #require(try devices().first?["target"]?.stringValue)
        try Clientctl.run(
            [
                "release", "target", "Lobby 3,qa", "--only", "--version", "1.0.0", "--feed", site.feed, "--channel",
                "stable", "--channel-key", site.key("channel"), "--roster", host.url + "roster",
                "--roster-token-file", operators, "--json",
            ]
        ).succeeded()
        let list = try Clientctl.run(["channel", "list", "--feed", site.feed, "--channel", "stable", "--json"])
        #expect(list.text.contains(target) && list.text.contains("\"qa\""))
        try Clientctl.run(
            [
                "release", "target", "Lobby 4", "--version", "1.0.0", "--feed", site.feed, "--channel", "stable",
                "--channel-key", site.key("channel"), "--roster", database, "--json",
            ]
        ).failed(64, "usage")
    }
}
