import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `clientctl doctor`, run as the built program.
@Suite(.ownThread) struct DoctorTests {
    private let site: ChannelSite
    private var store: String { site.folder.file("store-kiosk") }

    init() throws {
        site = try ChannelSite()
        try site.publish("1.0.0", ["--rollout", "100%"])
        try site.install("kiosk").succeeded("installed")
    }

    /// Runs `doctor` for a device of the site with the feed at `channel`.
    private func doctor(
        _ channel: String? = nil, _ more: [String] = [], environment: [String: String] = [:]
    ) throws -> Outcome {
        let feed = channel ?? "\(site.feed)/channels/stable.json"
        let port = more.contains("--port") ? [] : ["--port", "0"]
        return try Clientctl.run(
            ["doctor", "--store", store, "--trust", site.pinned, "--channel", feed, "--json"] + port + more,
            environment: environment)
    }

    private func severities(_ outcome: Outcome) -> [String: String] {
        let findings = (outcome["findings"]?.arrayValue ?? []).compactMap(\.objectValue)
        return Dictionary(
            findings.map { ($0["code"]?.stringValue ?? "", $0["severity"]?.stringValue ?? "") }, uniquingKeysWith: max)
    }

    /// Returns the codes of the failed checks. Expects the status of a run with failures.
    private func failures(_ outcome: Outcome, sourceLocation: SourceLocation = #_sourceLocation) -> Set<String> {
        #expect(
            outcome.status == 62 && outcome.outcome == "failed", "\(outcome.errors)\(outcome.text)",
            sourceLocation: sourceLocation)
        return Set(severities(outcome).filter { $0.value == "failure" }.keys)
    }

    private func message(_ code: String, _ outcome: Outcome) -> String {
        let finding = (outcome["findings"]?.arrayValue ?? []).compactMap(\.objectValue).first {
            $0["code"]?.stringValue == code
        }
        return finding?["message"]?.stringValue ?? ""
    }

    private func server(ahead seconds: Int = 0, status: Int? = nil) throws -> LoopbackServer {
        let feed = site.feed
        var (time, parts, text) = (time_t(time(nil) + seconds), tm(), [CChar](repeating: 0, count: 64))
        gmtime_r(&time, &parts)
        strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
        let date = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return try LoopbackServer { request in
            var route = (try? contents(ofFile: feed + request.target)).map { Route($0) } ?? Route(status: 404)
            if let status { route = Route(status: status) }
            route.headers = [("Date", date)]
            return route
        }
    }

    private func channel(of server: LoopbackServer) throws -> String {
        try server.url("/channels/stable.json").description
    }

    // MARK: A healthy device

    @Test func `doctor ends with 0 on a healthy device and changes nothing`() throws {
        let server = try server()
        let before = try TreeSnapshot(of: store)
        let outcome = try doctor(channel(of: server))
        #expect(outcome.status == 0, "\(outcome.errors)\(outcome.text)")
        // On test machines, other users may own parent folders, and the kernel may lack Landlock.
        let severities = severities(outcome).filter {
            !["storeParents", "landlock", "diskSpace", "inodes"].contains($0.key)
        }
        #expect(Set(severities.values) == ["ok"], "\(outcome.text)")
        #expect(
            Set(severities.keys).isSuperset(of: [
                "clock", "storeFolder", "links", "rename", "ledger", "leftovers", "trust", "document", "tcp", "http",
            ]))
        #expect(severities["port"] == nil && severities["proxy"] == nil && severities["tls"] == nil)
        #expect(try TreeSnapshot(of: store).changes(since: before) == [])
        #expect(message("document", outcome).contains("sequence 1"))
        let plain = try Clientctl.run(["doctor", "--store", store, "--port", "0"])
        #expect(plain.status == 0 && plain.text.contains("warning  source: No feed is named"), "\(plain.text)")
        #expect(plain.text.contains("or name a feed with --channel, --manifest or --meteor."), "\(plain.text)")
        #expect(plain.text.contains("\nok       ledger: "), "\(plain.text)")
    }

    @Test func `doctor warns of a path without a store and creates none`() throws {
        let none = site.folder.file("none/below")
        let outcome = try Clientctl.run(["doctor", "--store", none, "--port", "0", "--json"])
        #expect(outcome.status == 0 && severities(outcome)["storeFolder"] == "warning", "\(outcome.text)")
        #expect(message("storeFolder", outcome).contains("There is no store"), "\(outcome.text)")
        #expect(access(site.folder.file("none"), F_OK) != 0)
    }

    @Test func `doctor leaves the locks of the store free`() throws {
        let programs = try (0..<3).map { _ in
            try Clientctl.start(["doctor", "--store", store, "--port", "0", "--json"])
        }
        for _ in 0..<3 { try site.install("kiosk").succeeded("upToDate") }
        for program in programs { #expect(try program.wait().status == 0) }
    }

    @Test func `doctor works while other processes hold all locks of the store`() throws {
        let locks = [store, "\(store)/lock", "\(store)/serving"].flatMap { ["flock", $0] }
        let ending = try Program.run(
            locks + [Clientctl.path, "doctor", "--store", store, "--port", "0", "--json"],
            environment: Clientctl.environment())
        let outcome = Outcome(ending)
        #expect(outcome.status == 0 && severities(outcome)["ledger"] == "ok", "\(outcome.errors)\(outcome.text)")
    }

    // MARK: The screen and the next client

    @Test func `doctor warns of a client that failed once and is tried again`() throws {
        try site.publish("1.1.0", ["--rollout", "100%"]).succeeded("published")
        try site.install("kiosk").succeeded("installed")
        let place = ["--store", store, "--json"]
        let launched = try Clientctl.run(["launch", "--shell-version", "1.5.0"] + place).succeeded()
        try Clientctl.run(
            [
                "fail", "--version", "1.1.0", "--token", try #require(launched.string("token")), "--reason",
                "white screen",
            ] + place
        ).succeeded("failed")
        let outcome = try doctor()
        #expect(outcome.status == 0 && severities(outcome)["clients"] == "warning", "\(outcome.text)")
        #expect(outcome.text.contains("v1.1.0 failed once"), "\(outcome.text)")
        #expect(outcome.text.contains("white screen"), "\(outcome.text)")
    }

    @Test func `doctor reports a release that a rollout withholds and a device with nothing to show`() throws {
        try site.publish("1.1.0", ["--rollout", "0%"]).succeeded("published")
        let left = try doctor(nil, ["--device-id", "kiosk", "--shell-version", "1.5.0"])
        #expect(left.status == 0 && severities(left)["offer"] == "ok", "\(left.errors)\(left.text)")
        #expect(message("offer", left).contains("1.1.0 is not for this device yet"))
        let empty = try site.folder.makeFolder("store-empty")
        let outcome = try Clientctl.run(["doctor", "--store", empty, "--port", "0", "--json"])
        #expect(failures(outcome) == ["clients"], "\(outcome.errors)\(outcome.text)")
        let seed = try site.folder.writeTree(Site.client("0.9.0"), to: "seed")
        let seeded = try Clientctl.run(["doctor", "--store", empty, "--port", "0", "--seed", seed, "--json"])
        #expect(severities(seeded)["clients"] == "ok", "\(seeded.errors)\(seeded.text)")
    }

    @Test func `doctor reports an offered release that needs a newer shell or is blocked`() throws {
        let source = try site.folder.writeTree(Site.client("1.1.0"), to: "web-1.1.0")
        try Clientctl.run([
            "publish", source, "--version", "1.1.0", "--feed", site.feed, "--key", site.key("release"), "--min-shell",
            "9.0.0", "--app-id", ChannelSite.appId, "--channel", "stable", "--channel-key", site.key("channel"),
            "--rollout", "100%", "--json",
        ]).succeeded("published")
        let old = try doctor(nil, ["--shell-version", "1.5.0"])
        #expect(severities(old)["offer"] == "warning" && message("offer", old).contains("9.0.0"), "\(old.text)")
        try site.publish("1.2.0", ["--rollout", "100%"]).succeeded("published")
        try site.install("kiosk").succeeded("installed")
        try Clientctl.run(["rollback", "--store", store, "--version", "1.0.0", "--json"]).succeeded("rolledBack")
        let blocked = try doctor(nil, ["--shell-version", "1.5.0"])
        #expect(severities(blocked)["offer"] == "warning", "\(blocked.text)")
        #expect(message("offer", blocked).contains("1.2.0 is blocked"), "\(blocked.text)")
        let plain = try Clientctl.run([
            "doctor", "--store", store, "--trust", site.pinned, "--channel", "\(site.feed)/channels/stable.json",
            "--app-id", ChannelSite.appId, "--shell-version", "1.5.0", "--port", "0",
        ]).text
        // A copy of the printed command works.
        let command = try #require(plain.firstMatch(of: /`clientctl (unblock --version [^`]+)`/), "\(plain)").output.1
        #expect(try Clientctl.run(command.split(separator: " ").map(String.init)).text == "1.2.0 may run again\n")
    }

    @Test func `doctor reports a locked device and an ended session`() throws {
        let token = try site.folder.write(bytes("secret\n"), to: "token")
        func on(_ command: String, _ more: [String] = []) throws {
            try Clientctl.run(command.split(separator: " ").map(String.init) + ["--store", store, "--json"] + more)
                .succeeded()
        }
        try on("screen lock")
        let locked = try doctor()
        #expect(severities(locked)["session"] == "warning" && message("session", locked).contains("locked"))
        try on("screen unlock")
        try on("session login", ["--token-file", token])
        #expect(try severities(doctor())["session"] == "ok")
        try on("session logout")
        let out = try doctor()
        #expect(severities(out)["session"] == "warning" && message("session", out).contains("no seed"), "\(out.text)")
    }

    @Test func `status and doctor report a release that does not arrive, until it does`() throws {
        try site.publish("1.1.0", ["--rollout", "100%"]).succeeded("published")
        let server = try LoopbackServer(folder: site.feed)
        let archive = "/releases/v1.1.0/client-v1.1.0.tar.zst"
        server.set(archive, Route(status: 503))
        let channel = try channel(of: server)
        func install() throws -> Outcome {
            try Clientctl.run([
                "install", "--channel", channel, "--trust", site.pinned, "--store", store, "--shell-version", "1.5.0",
                "--app-id", ChannelSite.appId, "--device-id", "kiosk", "--json",
            ])
        }
        func wanted() throws -> JSONObject? {
            try Clientctl.run(["status", "--store", store, "--json"]).succeeded()["wanted"]?.arrayValue?.first?
                .objectValue
        }
        #expect(try wanted() == nil)
        for _ in 0..<3 { try install().failed(11, "httpStatus") }
        let found = try #require(try wanted())
        #expect(found["version"]?.stringValue == "1.1.0" && found["attempts"]?.integerValue == 3)
        #expect(found["code"]?.stringValue == "httpStatus" && found["reason"]?.stringValue?.contains("503") == true)
        let plain = try Clientctl.run(["status", "--store", store]).text
        #expect(plain.contains("\n! v1.1.0 was offered but not installed since "), "\(plain)")
        let outcome = try doctor(channel)
        #expect(outcome.status == 0 && severities(outcome)["wanted"] == "warning", "\(outcome.errors)\(outcome.text)")
        server.set(archive, Route(try contents(ofFile: site.feed + archive)))
        try install().succeeded("installed")
        #expect(try wanted() == nil)
        #expect(try severities(doctor(channel))["wanted"] == "ok")
    }

    // MARK: The clock

    @Test(arguments: [365 * 86_400, -365 * 86_400]) func `doctor reports a clock that is a year off`(seconds: Int)
        throws
    {
        let server = try server(ahead: seconds)
        let outcome = try doctor(channel(of: server))
        if seconds > 0 {
            #expect(failures(outcome) == ["clock"])
            #expect(message("clock", outcome).contains("behind"))
        } else {
            // The feed was signed today, so the clock of the server is wrong.
            #expect(severities(outcome)["clock"] == "warning", "\(outcome.text)")
        }
    }

    // MARK: The feed

    @Test func `doctor reports a channel file that has expired or expires soon`() throws {
        try site.publish("1.1.0", ["--expires-in", "1d"])
        #expect(try severities(doctor())["document"] == "warning")
        // `publish` rejects a channel file that expires while it is created, and a busy machine needs more than a
        // second.
        for time in ["1s", "10s", "60s"] {
            let published = try site.publish("1.2.0", ["--expires-in", time])
            if published.status == 0 { break }
            published.failed(21, "expired")
        }
        let deadline = ContinuousClock.now + .seconds(120)
        var outcome = try doctor()
        while outcome.status != 62, ContinuousClock.now < deadline { outcome = try doctor() }
        #expect(failures(outcome) == ["document"])
        #expect(message("document", outcome).contains("expired at"))
    }

    @Test func `doctor reports a feed of another publisher and an invalid key`() throws {
        let key = try site.folder.write(bytes("no key\n"), to: "text.pem")
        func run(_ trust: String) throws -> Outcome {
            try Clientctl.run([
                "doctor", "--store", store, "--trust", trust, "--channel", "\(site.feed)/channels/stable.json",
                "--json",
                "--port", "0",
            ])
        }
        #expect(try failures(run(site.pub("new"))) == ["document"])
        #expect(try failures(run(key)) == ["trust"])
        #expect(try failures(doctor(nil, ["--app-id", "com.example.other"])) == ["document"])
    }

    @Test func `doctor names the step at which a feed cannot be reached`() throws {
        let server = try server()
        let address = try channel(of: server)
        server.stop()
        #expect(try failures(doctor(address)) == ["tcp"])
        #expect(try failures(doctor("http://feed.invalid/channels/stable.json")) == ["dns"])
        let secure = try TLSServer(serving: site.feed)
        let url = try secure.url("/channels/stable.json").description
        #expect(try failures(doctor(url)) == ["tls"])
        let trusted = try doctor(url, ["--ca-file", secure.caFile])
        #expect(trusted.status == 0 && severities(trusted)["tls"] == "ok", "\(trusted.text)")
        let broken = try self.server(status: 503)
        #expect(try failures(doctor(channel(of: broken))) == ["http"])
        try Clientctl.stock(["rm", "\(site.feed)/channels/stable.json"])
        #expect(try failures(doctor()) == ["document"])
    }

    @Test func `doctor reports a failing proxy`() throws {
        let refusing = try ConnectProxy(to: 9, status: 403)
        let url = "https://updates.example.com/channels/stable.json"
        let environment = ["https_proxy": "http://user:secret@127.0.0.1:\(refusing.port)"]
        let refused = try doctor(url, environment: environment)
        #expect(failures(refused) == ["proxy"])
        #expect(message("proxy", refused).contains("403") && message("proxy", refused).contains("https_proxy"))
        #expect(!refused.text.contains("secret"))
        #expect(try failures(doctor(url, ["--proxy", "http://127.0.0.1:1"])) == ["proxy"])
        let secure = try TLSServer(serving: site.feed)
        let carrying = try ConnectProxy(to: try secure.url("/").origin.port)
        // The certificate is valid only for a loopback address, so TLS fails through the proxy.
        let through = try doctor(url, ["--proxy", "http://127.0.0.1:\(carrying.port)", "--ca-file", secure.caFile])
        #expect(failures(through) == ["tls"])
        #expect(severities(through)["proxy"] == "ok" && severities(through)["dns"] == nil)
    }

    @Test func `doctor keeps a session that the feed rejects`() throws {
        let token = try site.folder.write(bytes("secret\n"), to: "token")
        try Clientctl.run(["session", "login", "--store", store, "--token-file", token, "--json"]).succeeded()
        let before = try TreeSnapshot(of: store)
        let server = try server(status: 401)
        #expect(try failures(doctor(channel(of: server))) == ["http"])
        #expect(try TreeSnapshot(of: store).changes(since: before) == [])
    }

    // MARK: The port

    @Test func `doctor names the program that listens on the port, and the store of a serve`() throws {
        let server = try server()
        let taken = try doctor(nil, ["--port", "\(server.port)"])
        #expect(failures(taken) == ["port"])
        #expect(message("port", taken).contains("(process \(getpid())) listens on port"), "\(taken.text)")
        let serve = try Clientctl.start([
            "serve", "--store", store, "--shell-version", "1.5.0", "--port", "0", "--json",
        ])
        var port: Int?
        let deadline = ContinuousClock.now + .seconds(120)
        while port == nil, ContinuousClock.now < deadline {
            let answer = try? JSONScanner.parse(bytes(try serve.printed().output), maximumBytes: 4096)
            if let object = answer?.objectValue { AnswerSchema.expect(object, to: ["serve"]) }
            port = answer?.objectValue?["port"]?.integerValue
            if try serve.wait(within: .milliseconds(10)) != nil { break }
        }
        // `doctor` waits five seconds for the metrics that identify the process on the port.
        let question = ["--port", "\(try #require(port))"]
        var outcome = try doctor(nil, question)
        while severities(outcome)["port"] != "ok", ContinuousClock.now < deadline {
            outcome = try doctor(nil, question)
        }
        #expect(outcome.status == 0 && severities(outcome)["port"] == "ok", "\(outcome.text)")
        #expect(message("port", outcome).contains("The clientctl serve of this store"))
        let other = try Clientctl.run(
            ["doctor", "--store", try site.folder.makeFolder("store-other"), "--json"] + question)
        #expect(message("port", other).contains("The clientctl serve of \(store) listens"), "\(other.text)")
        serve.send(SIGTERM)
        _ = try serve.wait()
    }

    // MARK: The store

    @Test func `doctor reports a damaged store and leftovers of a run`() throws {
        try site.folder.write(bytes("{"), to: "store-kiosk/ledger.json")
        #expect(try severities(doctor())["ledger"] == "warning", "the previous ledger is used")
        try site.folder.write(bytes("{"), to: "store-kiosk/ledger.before.json")
        #expect(try failures(doctor()).contains("ledger"))
        try site.install("kiosk").succeeded()
        #expect(try doctor().status == 0)
        try site.folder.makeFolder("store-kiosk/staging/attempt-1")
        let left = try doctor()
        #expect(left.status == 0 && left.outcome == "warning" && severities(left)["leftovers"] == "warning")
        try Clientctl.stock(["rm", "\(store)/receipts/v1.0.0.json"])
        #expect(try failures(doctor()) == ["ledger"])
    }

    @Test func `doctor rejects a folder that other users may write to or that is not a store`() throws {
        chmod("\(store)/clients", 0o777)
        #expect(try failures(doctor()) == ["storeFolder"])
        chmod("\(store)/clients", 0o755)
        let other = try site.folder.makeFolder("other")
        try site.folder.write(bytes("mine"), to: "other/notes.txt")
        let outcome = try Clientctl.run(["doctor", "--store", other, "--port", "0", "--json"])
        #expect(failures(outcome) == ["storeFolder"])
        chmod(other, 0o777)
    }

    @Test(.enabled(if: Clientctl.isRoot, "only root can change the owner of files"))
    func `doctor reports a store of another user`() throws {
        try Clientctl.stock(["chown", "-R", "65534", store])
        let before = try TreeSnapshot(of: store)
        let outcome = try doctor()
        #expect(failures(outcome) == ["storeFolder"])
        #expect(message("storeFolder", outcome).contains("65534"))
        #expect(severities(outcome)["links"] == nil, "doctor writes nothing into another user's store")
        #expect(try TreeSnapshot(of: store).changes(since: before) == [])
    }

    private static let small = """
        mount=$1 program=$2; shift 2
        mount -t tmpfs -o size=2m,nr_inodes=400,mode=700 tmpfs "$mount" || exit 90
        "$program" install --store "$mount/store" "$@" --shell-version 1.5.0 >/dev/null 2>&1 || exit 91
        doctor() { "$program" doctor --store "$mount/store" --port 0 --json; }
        doctor >"$mount.first" || exit 92
        dd if=/dev/zero of="$mount/fill" bs=4k >/dev/null 2>&1
        doctor >"$mount.full"; [ $? = 62 ] || exit 93
        rm "$mount/fill"
        i=0; while [ $i -lt 340 ]; do : >"$mount/$i" 2>/dev/null; i=$((i + 1)); done
        doctor >"$mount.files"; [ $? = 62 ] || exit 94
        mount -o remount,bind,ro "$mount" || exit 95
        doctor >"$mount.readonly"; [ $? = 62 ] || exit 96
        """

    @Test(.enabled(if: PrivateMounts.command != nil, "no private mounts"))
    func `doctor reports a disk that is small, full, read-only or out of inodes`() throws {
        let mount = try site.folder.makeFolder("mount")
        let ending = try Program.run(
            try #require(PrivateMounts.command)
                + [
                    "sh", "-c", Self.small, "sh", mount, Clientctl.path, "--manifest", "\(site.feed)/manifest.json",
                    "--trust", site.pinned, "--app-id", ChannelSite.appId,
                ], environment: Clientctl.environment())
        #expect(ending.status == 0, "\(ending.errors)\(ending.text)")
        func failed(_ name: String) throws -> Set<String> {
            let text = try contents(ofFile: "\(mount).\(name)")
            let findings = try JSONScanner.parse(text, maximumBytes: 1 << 20).objectValue?["findings"]?.arrayValue ?? []
            return Set(
                findings.compactMap(\.objectValue).filter { $0["severity"]?.stringValue == "failure" }
                    .compactMap { $0["code"]?.stringValue })
        }
        #expect(try failed("first") == [])
        #expect(try failed("full") == ["diskSpace"])
        #expect(try failed("files") == ["inodes"])
        #expect(try failed("readonly").contains("storeFolder"))
    }

    private static let apart = """
        mount=$1 store=$2 program=$3
        mount -t tmpfs -o size=2m,mode=755 tmpfs "$store/$4" || exit 90
        "$program" doctor --store "$store" --port 0 --json
        """

    @Test(
        .enabled(if: PrivateMounts.command != nil, "no private mounts"),
        arguments: [
            ("serving", ["links"], 0), ("downloads", ["rename"], 62), ("meteor", ["links", "rename"], 62),
        ] as [(String, [String], Int32)])
    func `doctor reports folders of a store on different disks`(name: String, codes: [String], status: Int32) throws {
        let ending = try Program.run(
            try #require(PrivateMounts.command)
                + ["sh", "-c", Self.apart, "sh", "", store, Clientctl.path, name],
            environment: Clientctl.environment())
        let outcome = Outcome(ending)
        #expect(outcome.status == status, "\(ending.errors)\(ending.text)")
        let severities = severities(outcome)
        #expect(["links", "rename"].filter { severities[$0] != "ok" } == codes, "\(outcome.text)")
    }
}
