import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Synchronization
import Testing

/// `clientctl fleet guard`, which queries a Prometheus engine and edits a channel.
@Suite(.ownThread) struct GuardTests {
    private let site: ChannelSite

    init() throws {
        site = try ChannelSite(withRoot: false)
        try site.publish("1.0.0").succeeded("published")
        try site.publish("1.1.0", ["--rollout", "1%"]).succeeded("published")
    }

    private func guarded(_ server: String, _ more: String..., bake: String = "1s") throws -> Outcome {
        try guarded(server, more, bake: bake)
    }

    private func guarded(_ server: String, _ more: [String], bake: String = "1s") throws -> Outcome {
        try Clientctl.run(
            [
                "fleet", "guard", "--version", "1.1.0", "--feed", site.feed, "--channel", "stable", "--channel-key",
                site.key("channel"), "--prometheus", server, "--bake", bake, "--trust-reports", "--json",
            ] + more)
    }

    private func release() throws -> JSONObject {
        let releases = try #require(try site.list()["releases"]?.arrayValue).compactMap(\.objectValue)
        return try #require(releases.first { $0["version"]?.stringValue == "1.1.0" })
    }

    private func rollout() throws -> String? { try release()["rollout"]?.stringValue }

    private func isPaused() throws -> Bool? { try release()["paused"]?.boolValue }

    private static func vector(_ counts: [String: Int]) -> Route {
        let series = counts.map { #"{"metric":{"fact":"\#($0)"},"value":[1700000000,"\#($1)"]}"# }
        return Route(
            bytes(
                #"{"status":"success","data":{"resultType":"vector","result":[\#(series.joined(separator: ","))]}}"#))
    }

    /// An engine that returns the same counts for every query.
    private static func engine(_ counts: [String: Int]) throws -> LoopbackServer {
        try LoopbackServer { _ in vector(counts) }
    }

    /// Runs the guard until the step is older than the bake time of one second.
    private func baked(_ server: String, _ more: String...) throws -> Outcome {
        while true {
            let outcome = try guarded(server, more)
            if outcome.string("reason")?.contains(" for ") != true { return outcome }
        }
    }

    @Test func `guard advances a release through the steps while few starts fail`() throws {
        let engine = try Self.engine(["started": 500, "confirmed": 499, "failed": 1])
        let server = "http://127.0.0.1:\(engine.port)"
        for step in ["5%", "25%", "100%"] {
            try baked(server).succeeded("advanced")
            #expect(try rollout() == step)
        }
        try baked(server).succeeded("complete")
        let target = try #require(engine.requests.first?.target)
        #expect(target.hasPrefix("/api/v1/query?query=sum%20by%20"))
        #expect(target.contains("channel%3D%22stable%22") && target.contains("version%3D%221.1.0%22"))
    }

    @Test func `guard pauses a release with too many failures until a person resumes it`() throws {
        let engine = try Self.engine(["started": 10, "confirmed": 5, "failed": 5])
        let server = "http://127.0.0.1:\(engine.port)"
        let stopped = try guarded(server, bake: "1d")
        #expect(stopped.status == 60)
        #expect(stopped.string("outcome") == "stopped")
        #expect(stopped["change"]?.objectValue?["outcome"]?.stringValue == "changed")
        #expect(try isPaused() == true)
        let sequence = try site.sequence()
        #expect(try guarded(server).status == 60)
        #expect(try site.sequence() == sequence)
    }

    @Test func `guard recalls a release only with --on-failure recall`() throws {
        let engine = try Self.engine(["started": 10, "confirmed": 5, "failed": 5])
        let outcome = try guarded("http://127.0.0.1:\(engine.port)/", "--on-failure", "recall")
        #expect(outcome.status == 60)
        #expect(try site.list()["recalled"]?.arrayValue?.first?.objectValue?["version"]?.stringValue == "1.1.0")
        let again = try guarded("http://127.0.0.1:\(engine.port)/", "--on-failure", "recall")
        #expect(
            again.status == 60
                && again.string("reason") == "is recalled. Publish a higher version: devices install that one")
    }

    @Test func `guard runs the command of --on-decision after a step, and not while it waits`() throws {
        let news = site.folder.file("news")
        let hook = "sh -c 'echo \"$CLIENTCTL_PASSPHRASE$GUARD_OUTCOME $GUARD_CHANNEL $GUARD_REASON\" >>\(news); exit 3'"
        func guarded(_ counts: [String: Int], bake: String, _ more: [String] = []) throws -> Outcome {
            let engine = try Self.engine(counts)
            return try Clientctl.run(
                [
                    "fleet", "guard", "--version", "1.1.0", "--feed", site.feed, "--channel", "stable", "--channel-key",
                    site.key("channel"), "--prometheus", "http://127.0.0.1:\(engine.port)", "--bake", bake,
                    "--trust-reports", "--json", "--on-decision", hook,
                ] + more, environment: ["CLIENTCTL_PASSPHRASE": "horse"])
        }
        let bad = ["started": 10, "confirmed": 5, "failed": 5]
        #expect(try guarded(["started": 1, "confirmed": 1], bake: "1d").status == 3)
        #expect(try guarded(bad, bake: "1d", ["--dry-run"]).status == 60)
        #expect(access(news, F_OK) != 0)
        let stopped = try guarded(bad, bake: "1d")
        #expect(stopped.status == 60 && stopped.errors.contains("the command of --on-decision ended with status 3"))
        #expect(try guarded(bad, bake: "1d").status == 60)
        let lines = try String(decoding: contents(ofFile: news), as: UTF8.self).split(separator: "\n")
        #expect(lines.count == 1, "\(lines)")
        #expect(lines.first?.hasPrefix("stopped stable 1.1.0 is stopped at 1%") == true, "\(lines)")
    }

    @Test(arguments: ["ntfy", "Slack", "Matrix"])
    func `the script of the guide for a chat service posts the decision of the guard`(service: String) throws {
        let chat = try LoopbackServer { _ in Route(bytes("{}")) }
        let address = "http://127.0.0.1:\(chat.port)"
        let page = String(decoding: try contents(ofFile: "\(Checkout.root)/Guide/guides/guard.md"), as: UTF8.self)
        let tab = try #require(page.split(separator: "=== \"\(service)\"").dropFirst().first)
        let block = try #require(tab.firstMatch(of: /```sh title="notify-people"\n((?:    .*\n)+?)    ```/)?.output.1)
        let script = block.split(separator: "\n").map { $0.dropFirst(4) }.joined(separator: "\n")
            .replacing(/https:\/\/[a-z]+\.example\.com/, with: address)
            .replacing("/etc/kiosk", with: site.folder.path)
        try site.folder.write(bytes("\(address)/services/T0/B0/secret\n"), to: "slack-webhook")
        try site.folder.write(bytes("matrix-secret\n"), to: "matrix-token")
        let hook = try site.folder.write(bytes(script), to: "notify-people")
        chmod(hook, 0o755)
        let engine = try Self.engine(["started": 10, "confirmed": 5, "failed": 5])
        let outcome = try guarded("http://127.0.0.1:\(engine.port)", "--on-decision", hook)
        #expect(outcome.status == 60 && !outcome.errors.contains("on-decision"), "\(outcome.errors)")
        let request = try #require(chat.requests.first)
        #expect(chat.requests.count == 1)
        let reason = "1.1.0 is stopped at 1% of the devices: too many starts fail (5 confirmed starts, 5 failed)"
        let body = String(decoding: request.body, as: UTF8.self)
        func member(_ name: String) throws -> String? {
            #expect(request["Content-Type"] == "application/json")
            return try JSONScanner.parse(request.body, maximumBytes: 4096).objectValue?[name]?.stringValue
        }
        switch service {
        case "ntfy":
            #expect(request.method == "POST" && request.target == "/kiosks" && body == reason)
            #expect(request["Title"] == "stable: stopped")
        case "Slack":
            #expect(request.method == "POST" && request.target == "/services/T0/B0/secret")
            #expect(try member("text") == "stable: \(reason)")
        default:
            #expect(request.method == "PUT" && request["Authorization"] == "Bearer matrix-secret")
            let target = /\/_matrix\/client\/v3\/rooms\/%21[A-Za-z]+:[a-z.]+\/send\/m\.room\.message\/guard-[0-9]+/
            #expect(request.target.wholeMatch(of: target) != nil, "\(request.target)")
            #expect(try member("body") == "stable: \(reason)" && member("msgtype") == "m.text")
        }
    }

    @Test func `guard --dry-run reports what it would stop`() throws {
        let engine = try Self.engine(["started": 10, "confirmed": 5, "failed": 5])
        let outcome = try guarded("http://127.0.0.1:\(engine.port)", "--dry-run")
        #expect(outcome.status == 60)
        #expect(outcome.string("reason")?.hasPrefix("would be stopped at ") == true)
        #expect(try isPaused() == false)
    }

    @Test func `guard counts a start without a verdict as failed`() throws {
        let engine = try Self.engine(["started": 20, "confirmed": 10, "failed": 0])
        let outcome = try guarded("http://127.0.0.1:\(engine.port)")
        #expect(outcome.status == 60)
        #expect(outcome["failed"] == .integer(10))
    }

    @Test(arguments: [(0, 3), (2, 3), (1, 0), (2, 2)])
    func `guard --allow-failures does not advance a pilot of five that did not start the release`(
        confirmed: Int, failed: Int
    ) throws {
        try site.release("rollout", "10%", "--version", "1.1.0").succeeded("changed")
        let engine = try Self.engine(["started": confirmed + failed, "confirmed": confirmed, "failed": failed])
        let server = "http://127.0.0.1:\(engine.port)"
        let outcome = try baked(server, "--devices", "50", "--allow-failures", "3")
        #expect(outcome.status == (failed == 3 ? 60 : 3), "\(outcome.text)")
        #expect(try rollout() == "10%")
    }

    @Test func `guard advances a small fleet after most of its devices started the release`() throws {
        try site.release("rollout", "10%", "--version", "1.1.0").succeeded("changed")
        let none = try LoopbackServer { request in
            Self.vector(request.target.contains("1.1.0") ? [:] : ["started": 50, "confirmed": 50])
        }
        let early = try baked("http://127.0.0.1:\(none.port)", "--devices", "50")
        #expect(early.status == 3 && early.string("outcome") == "waiting", "\(early.text)")
        #expect(early.string("reason")?.contains("no device has reported 1.1.0 yet. About 5 of 50 devices") == true)
        let two = try Self.engine(["started": 2, "confirmed": 2])
        let waiting = try baked("http://127.0.0.1:\(two.port)", "--devices", "50")
        #expect(waiting.status == 3 && waiting["missing"] == .integer(1))
        let reason = try #require(waiting.string("reason"))
        #expect(reason.contains("too few to prove a failure rate (2% takes 74 starts): 3 must start it"), "\(reason)")
        let failing = try Self.engine(["started": 5, "confirmed": 4, "failed": 1])
        let stuck = try baked("http://127.0.0.1:\(failing.port)", "--devices", "50")
        #expect(stuck.status == 3)
        #expect(stuck.string("reason")?.hasSuffix("clientctl release rollout --version 1.1.0") == true)
        let three = try Self.engine(["started": 3, "confirmed": 3])
        try baked("http://127.0.0.1:\(three.port)", "--devices", "50").succeeded("advanced")
        #expect(try rollout() == "25%")
    }

    @Test func `guard waits while a counter that restarted hides the verdicts`() throws {
        let counts = Mutex([["started": 3], ["started": 9, "confirmed": 9]])
        let engine = try LoopbackServer { _ in Self.vector(counts.withLock { $0.isEmpty ? [:] : $0.removeFirst() }) }
        let outcome = try guarded("http://127.0.0.1:\(engine.port)")
        #expect(outcome.status == 61 && outcome.string("reason")?.contains("a counter in Prometheus restarted") == true)
    }

    @Test func `guard changes nothing without data`() throws {
        let engine = try Self.engine([:])
        let server = "http://127.0.0.1:\(engine.port)"
        let sequence = try site.sequence()
        #expect(try guarded(server).status == 61)
        engine.stop()
        try guarded(server).failed(10, "networkUnavailable")
        let wrong = try LoopbackServer(["/": Route(bytes("hello"))])
        try guarded("http://127.0.0.1:\(wrong.port)").failed(11, "httpStatus")
        #expect(try site.sequence() == sequence)
    }

    @Test func `guard reports the counts and times it waits for`() throws {
        let engine = try Self.engine(["started": 70, "confirmed": 70])
        let server = "http://127.0.0.1:\(engine.port)"
        let baking = try guarded(server, bake: "1d")
        #expect(baking.status == 3)
        let waiting = try baked(server)
        #expect(waiting.status == 3)
        #expect(waiting["missing"] == .integer(4))
        #expect(try rollout() == "1%")
    }

    @Test func `guard does not advance on more reports than devices, but may pause`() throws {
        let engine = try Self.engine(["started": 500, "confirmed": 500])
        let forged = try guarded("http://127.0.0.1:\(engine.port)", "--devices", "2000")
        #expect(forged.status == 61)
        #expect(forged.string("reason")?.contains("at most 38 devices") == true)
        #expect(try rollout() == "1%")
        let bad = try Self.engine(["started": 500, "failed": 500])
        #expect(try guarded("http://127.0.0.1:\(bad.port)", "--devices", "2000").status == 60)
    }

    @Test func `guard does not advance on reports alone without --trust-reports`() throws {
        let engine = try Self.engine(["started": 500, "confirmed": 500])
        let base = [
            "fleet", "guard", "--version", "1.1.0", "--feed", site.feed, "--channel", "stable", "--channel-key",
            site.key("channel"), "--prometheus", "http://127.0.0.1:\(engine.port)", "--bake", "1s", "--json",
        ]
        #expect(try Clientctl.run(base).failed(64, "usage").errors.contains("--devices"))
        #expect(engine.requests.isEmpty)
        #expect(try rollout() == "1%")
        #expect(try Clientctl.run(base + ["--devices", "2000"]).status == 61)
    }

    @Test(arguments: [
        ("--devices", "0"), ("--devices", "1000000000001"), ("--group-devices", "-1"),
        ("--group-devices", "1000000000001"), ("--devices", "many"),
    ])
    func `guard rejects an invalid number of devices`(flag: String, number: String) throws {
        let ending = try guarded("http://127.0.0.1:1", "\(flag)=\(number)").failed(64, "usage")
        #expect(ending.errors.contains("\(flag) takes a whole number from "))
    }

    @Test func `guard keeps a release for groups only, and counts groups before the rollout`() throws {
        let engine = try Self.engine(["started": 100, "confirmed": 100])
        let server = "http://127.0.0.1:\(engine.port)"
        try site.release("target", "qa", "--version", "1.1.0").succeeded("changed")
        let unknown = try guarded(server, "--devices", "2000")
        #expect(unknown.status == 61)
        #expect(unknown.string("reason")?.contains("--group-devices") == true)
        let known = try guarded(server, "--devices", "2000", "--group-devices", "100", bake: "1d")
        #expect(known.status == 3)
        #expect(known.string("reason")?.hasPrefix("stays at the group qa first, and 1% of the devices for ") == true)
        try site.release("target", "qa", "--only", "--version", "1.1.0").succeeded("changed")
        let sequence = try site.sequence()
        let alone = try guarded(server)
        #expect(alone.status == 3 && alone.string("outcome") == "waiting")
        #expect(alone.string("reason")?.hasPrefix("stays at the group qa alone: ") == true)
        #expect(try site.sequence() == sequence)
    }

    @Test func `guard rejects a key that devices reject before it queries the engine`() throws {
        let engine = try Self.engine(["started": 70, "confirmed": 70])
        let server = "http://127.0.0.1:\(engine.port)"
        func guarded(_ feed: String, _ flag: String, _ key: String) throws -> Outcome {
            try Clientctl.run([
                "fleet", "guard", "--version", "1.1.0", "--feed", feed, "--channel", "stable", flag, key,
                "--prometheus", server, "--trust-reports", "--json",
            ])
        }
        try guarded(site.feed, "--channel-key", site.key("new")).failed(20, "keyUnknown")
        try guarded(site.feed, "--guard-key", site.key("new")).failed(20, "keyUnknown")
        let rooted = try Self.guardedSite()
        try guarded(rooted.feed, "--guard-key", rooted.key("channel")).failed(20, "keyUnknown")
        try guarded(rooted.feed, "--channel-key", rooted.key("new")).failed(20, "keyUnknown")
        let two = try Self.guardedSite(["new", "channel"])
        let alone = try guarded(two.feed, "--guard-key", two.key("new")).failed(20, "keyUnknown")
        #expect(alone.errors.contains("Sign it with 2 of "), "\(alone.errors)")
        #expect(engine.requests.isEmpty)
    }

    @Test func `guard --dry-run leaves the channel unchanged`() throws {
        let engine = try Self.engine(["started": 10, "confirmed": 5, "failed": 5])
        let sequence = try site.sequence()
        #expect(try guarded("http://127.0.0.1:\(engine.port)", "--dry-run").status == 60)
        #expect(try site.sequence() == sequence)
    }

    @Test(arguments: [
        ["--steps", "5%,1%"], ["--steps", "0%,1%"], ["--steps", ""], ["--max-failures", "0%"],
        ["--max-failures", "46%"], ["--on-failure", "shrug"], ["--allow-failures", "some"],
    ])
    func `guard rejects invalid steps and thresholds`(flags: [String]) throws {
        try Clientctl.run(
            [
                "fleet", "guard", "--version", "1.1.0", "--feed", site.feed, "--channel", "stable", "--channel-key",
                site.key("channel"), "--prometheus", "http://127.0.0.1:1", "--trust-reports", "--json",
            ] + flags
        ).failed(64, "usage")
    }

    // MARK: Guard keys

    /// A feed with a trust root that lists these guard keys, all of which must sign.
    private static func guardedSite(_ guards: [String] = ["new"]) throws -> ChannelSite {
        let site = try ChannelSite()
        for (index, name) in guards.enumerated() {
            try Clientctl.run([
                "trust", "add-key", site.trust, "--role", "guard", "--public-key", site.pub(name), "--threshold",
                "\(index + 1)", "--json",
            ]).succeeded()
        }
        try site.signRoot("root1", "root2")
        try site.publishRoot().succeeded("published")
        try site.publish("1.0.0").succeeded("published")
        try site.install("old").succeeded("installed")
        try site.publish("1.1.0").succeeded("published")
        return site
    }

    private static func hold(_ site: ChannelSite, key: String, _ server: String, _ more: [String] = []) throws
        -> Outcome
    {
        try Clientctl.run(
            [
                "fleet", "guard", "--version", "1.1.0", "--feed", site.feed, "--channel", "stable", "--guard-key",
                site.key(key), "--prometheus", server, "--bake", "1s", "--json",
            ] + more)
    }

    @Test func `a guard key holds a release until a channel key lifts the hold`() throws {
        let site = try Self.guardedSite()
        try site.release("rollout", "50%", "--version", "1.1.0").succeeded("changed")
        let engine = try Self.engine(["started": 10, "confirmed": 5, "failed": 5])
        let server = "http://127.0.0.1:\(engine.port)"
        #expect(try Self.hold(site, key: "new", server, ["--dry-run"]).status == 60)
        #expect(access("\(site.feed)/channels/stable.hold.json", F_OK) != 0)
        let stopped = try Self.hold(site, key: "new", server)
        #expect(stopped.status == 60)
        #expect(stopped["hold"]?.objectValue?["releases"]?.arrayValue == [.string("1.1.0")])
        #expect(stopped["change"] == .null)
        #expect(try Self.hold(site, key: "new", server).string("reason")?.contains("is paused") == true)
        let page = site.folder.file("page.html")
        try Clientctl.run(["fleet", "page", "--out", page, "--feed", site.feed, "--trust", site.trust, "--json"])
            .succeeded("written")
        let shown = String(decoding: try contents(ofFile: page), as: UTF8.self)
        #expect(shown.contains("</b> is for 50% of the devices, and held by the guard"))
        let listed = try Clientctl.run(["channel", "list", "--feed", site.feed]).text
        #expect(listed.contains("  held\n") && !listed.contains("paused"))
        // Devices inside and outside the rollout keep their client.
        for device in ["old", "b", "c", "d", "e"] {
            _ = try site.install(device)
            #expect(try site.runs(device) == "1.0.0")
        }
        // When the channel is signed again for another reason, it records the pause itself.
        let renewed = try site.channel("renew")
        renewed.succeeded("changed")
        #expect(renewed.strings("changes")?.contains { $0.contains("as the guard holds it") } == true)
        #expect(try site.list()["releases"]?.arrayValue?.last?.objectValue?["paused"]?.boolValue != nil)
        _ = try site.install("f")
        #expect(try site.runs("f") == "1.0.0")
        try site.release("resume", "--version", "1.1.0").succeeded("changed")
        try site.release("rollout", "100%", "--version", "1.1.0").succeeded("changed")
        try site.install("old").succeeded("installed")
        #expect(try site.runs("old") == "1.1.0")
    }

    @Test func `a guard key cannot raise a rollout or edit a channel`() throws {
        let site = try Self.guardedSite()
        try site.release("rollout", "1%", "--version", "1.1.0").succeeded("changed")
        let engine = try Self.engine(["started": 500, "confirmed": 500, "failed": 0])
        let sequence = try site.sequence()
        var outcome = try Self.hold(site, key: "new", "http://127.0.0.1:\(engine.port)")
        while outcome.string("reason")?.contains(" for ") == true {
            outcome = try Self.hold(site, key: "new", "http://127.0.0.1:\(engine.port)")
        }
        #expect(outcome.status == 3)
        #expect(outcome.string("outcome") == "waiting")
        #expect(try site.sequence() == sequence)
        // A guard key does not authorize edits of a channel.
        try site.release("pause", "--version", "1.1.0", key: "new").failed(20, "keyUnknown")
    }

    @Test func `a hold runs the hook and waits for the public address like an edit`() throws {
        let site = try Self.guardedSite()
        try site.release("rollout", "50%", "--version", "1.1.0").succeeded("changed")
        let engine = try Self.engine(["started": 10, "confirmed": 5, "failed": 5])
        let server = "http://127.0.0.1:\(engine.port)"
        let seen = site.folder.file("seen")
        let hook = ["--after-publish", "sh -c 'env >\"$0\"' \(seen)"]
        #expect(try Self.hold(site, key: "new", server, hook + ["--dry-run"]).status == 60)
        #expect(access(seen, F_OK) != 0)
        // A cache serves the feed without the hold.
        let feed = site.feed
        let stale = try LoopbackServer { request in
            if request.target.hasSuffix("hold.json") { return Route(status: 404) }
            guard let found = try? contents(ofFile: feed + request.target) else { return Route(status: 404) }
            return .resource(found, entityTag: "\"\(found.count)\"")
        }
        let late = try Self.hold(
            site, key: "new", server,
            hook + ["--public-url", try stale.url("/").description, "--public-within", "\(BusyMachine.seconds(3))s"])
        late.failed(53, "notPublic")
        #expect(late.errors.contains("channels/stable.hold.json"))
        let variables = String(decoding: try contents(ofFile: seen), as: UTF8.self)
        #expect(variables.contains("PUBLISHED_DOCUMENTS=channels/stable.hold.json\n"))
        #expect(variables.contains("PUBLISHED_OUTCOME=changed\n") && variables.contains("PUBLISHED_VERSION=1.1.0\n"))
    }

    @Test func `check reports a release that a guard holds`() throws {
        let site = try Self.guardedSite()
        let engine = try Self.engine(["started": 10, "confirmed": 5, "failed": 5])
        try site.release("rollout", "50%", "--version", "1.1.0").succeeded("changed")
        _ = try Self.hold(site, key: "new", "http://127.0.0.1:\(engine.port)")
        let outcome = try Clientctl.run([
            "check", "--channel", "\(site.feed)/channels/stable.json", "--trust", site.trust, "--store",
            site.folder.file("store-check"), "--shell-version", "1.5.0", "--app-id", ChannelSite.appId,
        ])
        #expect(outcome.text.contains("no    hold: 1.1.0 held since "))
    }

    @Test func `guard rejects a key that is not a guard key and writes no hold`() throws {
        let site = try Self.guardedSite()
        try site.release("rollout", "50%", "--version", "1.1.0").succeeded("changed")
        let engine = try Self.engine(["started": 10, "confirmed": 5, "failed": 5])
        let server = "http://127.0.0.1:\(engine.port)"
        let refused = try Self.hold(site, key: "channel", server)
        refused.failed(20, "keyUnknown")
        let plain = try ChannelSite()
        try plain.publish("1.1.0", ["--rollout", "50%"]).succeeded("published")
        try Self.hold(plain, key: "new", server).failed(20, "keyUnknown")
        #expect(access("\(site.feed)/channels/stable.hold.json", F_OK) != 0)
    }

    @Test func `copies, kits, hosts and verify include the hold of a feed`() throws {
        let site = try Self.guardedSite()
        try site.release("rollout", "50%", "--version", "1.1.0").succeeded("changed")
        let engine = try Self.engine(["started": 10, "confirmed": 5, "failed": 5])
        _ = try Self.hold(site, key: "new", "http://127.0.0.1:\(engine.port)")
        let copy = site.folder.file("copy")
        try Clientctl.run(["feed", "copy", site.feed, copy, "--json"]).succeeded()
        #expect(
            try contents(ofFile: "\(copy)/channels/stable.hold.json")
                == contents(ofFile: "\(site.feed)/channels/stable.hold.json"))
        let path = "\(site.feed)/channels/stable.hold.json"
        let kit = site.folder.file("kit")
        try Clientctl.run(["feed", "export", "--feed", site.feed, "--to", kit, "--json"]).succeeded("exported")
        #expect(try contents(ofFile: "\(kit)/channels/stable.hold.json") == contents(ofFile: path))
        #expect(try Clientctl.run(["inspect", path, "--json"]).string("kind") == "hold")
        try Clientctl.run(["verify", path, "--trust", site.trust, "--json"]).succeeded("verified")
        // The newer root in the feed names the guard.
        try Clientctl.run(["verify", path, "--trust", site.pinned, "--json"]).succeeded("verified")
        let alone = try site.folder.writeTree(["channels/stable.hold.json": contents(ofFile: path)], to: "alone")
        try Clientctl.run(["verify", "\(alone)/channels/stable.hold.json", "--trust", site.pinned, "--json"])
            .failed(20, "keyUnknown")
        let host = try Hosting(site.feed)
        #expect(try host.ask("/channels/stable.hold.json").status == 200)
        #expect(
            try Clientctl.run(["channel", "list", "--feed", site.feed, "--json"])["channels"]?.arrayValue?.count == 1)
    }

    enum MetricsServer: String, CaseIterable {
        case prometheus = "prometheus"
        case victoriaMetrics = "victoria-metrics"

        var path: String { "/usr/bin/\(rawValue)" }

        func arguments(configuration: String, data: String, address: String) -> [String] {
            switch self {
            case .prometheus:
                [
                    path, "--config.file=\(configuration)", "--storage.tsdb.path=\(data)",
                    "--web.listen-address=\(address)", "--log.level=error",
                ]
            case .victoriaMetrics:
                [
                    path, "-promscrape.config=\(configuration)", "-storageDataPath=\(data)",
                    "-httpListenAddr=\(address)", "-loggerLevel=ERROR", "-search.latencyOffset=0s",
                ]
            }
        }
    }

    @Test(arguments: MetricsServer.allCases)
    func `guard pauses a release that fails according to a real metrics server`(kind: MetricsServer) throws {
        if access(kind.path, X_OK) != 0 { try Test.cancel("\(kind.rawValue) is not installed") }
        let failed = Mutex(0)
        let devices = try LoopbackServer { _ in
            let lines = [("started", 40), ("confirmed", 40), ("failed", failed.withLock { $0 })].map { fact, count in
                #"clientctl_reports_total{channel="stable",version="1.1.0",fact="\#(fact)"} \#(count)"#
            }
            return Route(bytes(lines.joined(separator: "\n") + "\n"))
        }
        let configuration = try site.folder.write(
            bytes(
                "scrape_configs: [{job_name: host, scrape_interval: 1s, scrape_timeout: 1s, static_configs: "
                    + "[{targets: ['127.0.0.1:\(devices.port)']}]}]\n"), to: "scrape.yml")
        // The bound socket reserves the port, and the server can still listen on it.
        let reserved = try Socket.closed()
        let address = "127.0.0.1:\(try reserved.port())"
        let program = try Program(
            kind.arguments(configuration: configuration, data: site.folder.file("data"), address: address),
            environment: [:])
        defer { program.send(SIGKILL) }
        let deadline = ContinuousClock.now + .seconds(120)
        var outcome = try guarded("http://\(address)", bake: "1d")
        // Until the first scrape, the guard finds no reports.
        while [3, 10, 11, 61].contains(outcome.status), outcome["good"] != .integer(40), ContinuousClock.now < deadline
        {
            outcome = try guarded("http://\(address)", bake: "1d")
        }
        #expect(outcome.status == 3)
        #expect(outcome["good"] == .integer(40))
        failed.withLock { $0 = 20 }
        // A late scrape on a busy machine can leave a gap in the data.
        while [3, 10, 11, 61].contains(outcome.status), ContinuousClock.now < deadline {
            outcome = try guarded("http://\(address)", bake: "1d")
        }
        #expect(outcome.status == 60)
        #expect(try isPaused() == true)
    }
}
