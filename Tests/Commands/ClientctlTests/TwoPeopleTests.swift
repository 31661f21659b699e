import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `--propose`, `release proposals` and `release approve`, where the trust root requires two channel keys.
@Suite(.ownThread) struct TwoPeopleTests {
    private let people: TwoPeopleSite
    private var site: ChannelSite { people.site }

    init() throws { people = try TwoPeopleSite() }

    @discardableResult
    private func propose(_ words: [String] = ["release", "pause", "--version", "1.1.0"]) throws -> String {
        let outcome = try people.edit(words, as: "channel", ["--propose", "--expect-sequence", "2"])
            .succeeded("proposed")
        return try #require(outcome["proposal"]?.objectValue?["id"]?.stringValue)
    }

    private func approve(_ id: String, as name: String = "new", _ more: [String] = []) throws -> Outcome {
        try people.edit(
            ["release", "approve", id], as: name, ["--expect-sequence", "\(try site.sequence() ?? 0)"] + more)
    }

    @Test func `Bob publishes what Alice proposed, and devices get it`() throws {
        let id = try propose()
        #expect(try site.sequence() == 2)
        let waiting = try #require(try people.proposals().first)
        #expect(waiting["id"]?.stringValue == id && waiting["missing"] == .integer(1))
        #expect(waiting["signers"] == .array([.string("Alice, token 2")]) && waiting["code"] == .null)
        #expect(waiting["changes"] == .array([.string("1.1.0: paused")]))
        let short = String(id.prefix(10))
        let unknown = try people.edit(["release", "approve", id], as: "new").failed(78, "configInvalid")
        #expect(unknown.errors.contains("--expect-sequence"), "\(unknown.errors)")
        try approve(short).failed(64, "usage")
        let read = try Clientctl.run([
            "release", "approve", short, "--dry-run", "--feed", site.feed, "--channel", "stable", "--channel-key",
            site.key("new"), "--trust", site.pinned, "--expect-sequence", "2",
        ])
        #expect(read.text.contains("would be published by: clientctl release approve \(id) --channel stable"))
        let approved = try approve(id).succeeded("changed")
        let difference = approved["difference"]?.arrayValue?.compactMap(\.stringValue) ?? []
        #expect(difference.contains { $0.hasPrefix("+") && $0.contains("paused") }, "\(difference)")
        #expect(try site.sequence() == 3)
        #expect(try people.proposals().isEmpty)
        try site.install("anne").succeeded("installed")
        #expect(try site.runs("anne") == "1.0.0")
        let log = try Clientctl.run([
            "channel", "log", "--feed", site.feed, "--channel", "stable", "--trust", site.pinned,
        ])
        #expect(log.text.contains("3  ") && log.text.contains("by Alice, token 2, Bob <b>'s & token"), "\(log.text)")
    }

    @Test func `no device accepts the file of a proposal`() throws {
        try site.install("anne").succeeded("installed")
        let id = try propose()
        try Clientctl.stock(["cp", "\(site.feed)/proposals/stable/\(id).json", "\(site.feed)/channels/stable.json"])
        try site.install("anne").failed(20, "signatureInvalid")
        try site.install("new").failed(20, "signatureInvalid")
    }

    @Test func `one person cannot publish, and the error names --propose`() throws {
        let alone = try people.edit(
            ["release", "pause", "--version", "1.1.0"], as: "channel", ["--expect-sequence", "2"]
        ).failed(20, "signatureInvalid")
        #expect(alone.errors.contains("With --propose"), "\(alone.errors)")
        let id = try propose()
        let twice = try approve(id, as: "channel").failed(78, "configInvalid")
        #expect(twice.errors.contains("Another person must approve it"))
        try approve(id, as: "release").failed(20, "keyUnknown")
        #expect(try site.sequence() == 2)
    }

    @Test func `an old, a replayed, a foreign and a damaged proposal are refused by name`() throws {
        let id = try propose()
        let path = "\(site.feed)/proposals/stable/\(id).json"
        try Clientctl.stock(["cp", path, "\(path).kept"])
        try approve(id, as: "new").succeeded("changed")
        let replayed = try approve(id, as: "new").failed(55, "proposalOutdated")
        #expect(replayed.errors.contains("was published as sequence 3"), "\(replayed.errors)")
        try Clientctl.stock(["cp", "\(path).kept", path])
        try approve(id, as: "new").failed(55, "proposalOutdated")
        #expect(try people.proposals().map { $0["code"]?.stringValue } == ["proposalOutdated"])
        // Another feed with the same keys.
        let other = try TwoPeopleSite()
        try Clientctl.stock(["rm", "-r", other.site.feed])
        try Clientctl.stock(["mkdir", "-p", "\(other.site.feed)/channels"])
        try Clientctl.stock(["cp", "\(site.feed)/trust.json", other.site.feed])
        try Clientctl.stock(["cp", "-r", "\(site.feed)/trust", other.site.feed])
        let created = try Clientctl.run(
            [
                "release", "approve", id, "--feed", other.site.feed, "--channel", "stable", "--channel-key",
                site.key("new"), "--trust", site.pinned, "--expect-sequence", "0", "--json",
            ])
        created.failed(64, "usage")
        try Clientctl.stock(["mkdir", "-p", "\(other.site.feed)/proposals/stable"])
        try Clientctl.stock(["cp", path, "\(other.site.feed)/proposals/stable/"])
        let foreign = try Clientctl.run(
            [
                "release", "approve", id, "--feed", other.site.feed, "--channel", "stable", "--channel-key",
                site.key("new"), "--trust", site.pinned, "--expect-sequence", "0", "--json",
            ]
        ).failed(55, "proposalForeign")
        #expect(foreign.errors.contains("was made for another feed"), "\(foreign.errors)")
        try site.folder.write(bytes("damaged"), to: "feed/proposals/stable/\(id).json")
        try approve(id, as: "new").failed(25, "manifestMalformed")
    }

    @Test func `a release is published and offered by two people`() throws {
        let source = try site.folder.writeTree(Site.client("1.2.0"), to: "web-1.2.0")
        let proposed = try Clientctl.run([
            "publish", source, "--version", "1.2.0", "--feed", site.feed, "--key", site.key("release"), "--min-shell",
            "1.0.0", "--app-id", ChannelSite.appId, "--level", "1", "--channel", "stable", "--channel-key",
            site.key("channel"), "--trust", site.pinned, "--propose", "--json",
        ]).succeeded("published")
        let channel = try #require(proposed["channel"]?.objectValue)
        #expect(channel["outcome"]?.stringValue == "proposed")
        let id = try #require(channel["proposal"]?.objectValue?["id"]?.stringValue)
        #expect(try !site.list().text.contains("1.2.0"))
        try approve(id, as: "new").succeeded("changed")
        try site.install("anne").succeeded("installed")
        #expect(try site.runs("anne") == "1.2.0")
    }

    @Test func `the lines of a proposal say who signed and what to do`() throws {
        let words = [
            "--feed", site.feed, "--channel", "stable", "--channel-key", site.key("channel"), "--trust", site.pinned,
        ]
        let proposed = try Clientctl.run(
            ["release", "pause", "--version", "1.1.0", "--propose", "--expect-sequence", "2"] + words)
        #expect(proposed.status == 0, "\(proposed.errors)")
        #expect(proposed.text.contains("channel stable: proposed, and no device has it yet"))
        #expect(proposed.text.contains("signed by Alice, token 2"))
        #expect(proposed.text.contains("waits for 1 more channel key: clientctl release approve 3-"))
        let list = try Clientctl.run(["release", "proposals", "--feed", site.feed, "--trust", site.pinned])
        #expect(list.text.contains("channel stable, signed by Alice, token 2"), "\(list.text)")
        // Without a trust root of the reader, the names in the feed are not proven.
        let unproven = try Clientctl.run(["release", "proposals", "--feed", site.feed])
        #expect(!unproven.text.contains("Alice"), "\(unproven.text)")
    }

    // MARK: Labels

    @Test func `trust show lists the labels, and a wrong label is refused`() throws {
        let show = try Clientctl.run(["trust", "show", site.trust, "--json"]).succeeded()
        let keys = show["keys"]?.arrayValue?.compactMap(\.objectValue) ?? []
        #expect(Set(keys.compactMap { $0["label"]?.stringValue }) == Set(TwoPeopleSite.labels.values))
        for label in ["Alice, token 2", " Alice", "a\u{7}", "a\nb", "\u{202E}ecila", String(repeating: "x", count: 65)]
        {
            try Clientctl.run([
                "trust", "label", site.trust, "--public-key", site.pub("release"), "--label", label, "--out",
                site.folder.file("draft"), "--json",
            ]).failed(78, "configInvalid", "\(label)")
        }
        try Clientctl.run([
            "trust", "label", site.trust, "--public-key", site.pub("new"), "--label", "", "--json",
        ]).succeeded("drafted")
        #expect(try Clientctl.run(["trust", "show", site.trust]).text.contains("Alice, token 2"))
        #expect(try !Clientctl.run(["trust", "show", site.trust]).text.contains("Bob"))
    }

    @Test func `add-key and rotate set the label of the new key`() throws {
        let draft = site.folder.file("draft.json")
        try Clientctl.run([
            "trust", "add-key", site.trust, "--role", "channel", "--public-key", site.pub("root3"), "--label", "Carol",
            "--out", draft, "--json",
        ]).succeeded("drafted")
        #expect(try Clientctl.run(["trust", "show", draft]).text.contains("Carol"))
        try Clientctl.run([
            "trust", "rotate", draft, "--old", site.pub("new"), "--new", site.pub("release"), "--label", "Bob, token 3",
            "--json",
        ]).succeeded("drafted")
        let text = try Clientctl.run(["trust", "show", draft]).text
        #expect(text.contains("Bob, token 3") && !text.contains("Bob <b>"), "\(text)")
    }

    // MARK: Console

    private func open(as name: String) throws -> RunningConsole {
        try RunningConsole([
            "--feed", site.feed, "--channel", "stable", "--trust", site.pinned, "--channel-key", site.key(name),
        ])
    }

    @Test func `the buttons of one person make proposals, which another person approves on the overview`() throws {
        let alice = try open(as: "channel")
        #expect(try alice.get("/").text.contains("Each button makes a proposal"))
        let fields = ["action": "rollout", "channel": "stable", "version": "1.1.0", "percent": "10%"]
        let question = try alice.post("/ask", fields)
        #expect(question.status == 200, "\(question.text)")
        #expect(question.text.contains("--propose") && question.text.contains("Signed by Alice, token 2."))
        #expect(question.text.contains("No device gets the change until 1 more person approves it."))
        #expect(try people.proposals().isEmpty)
        let answer = try alice.post("/do", fields.merging(["sequence": "2"]) { $1 })
        #expect(answer.status == 200 && answer.text.contains("proposed, and no device has it yet"), "\(answer.text)")
        #expect(try site.sequence() == 2)
        let id = try #require(try people.proposals().first?["id"]?.stringValue)
        let own = try alice.get("/").text
        #expect(own.contains("Waits for another person") && own.contains("so another person must approve it"))
        #expect(!own.contains("value=\"approve\""))
        let approval = ["action": "approve", "channel": "stable", "id": id]
        #expect(try alice.post("/do", approval.merging(["sequence": "2"]) { $1 }).status == 409)

        let bob = try open(as: "new")
        let overview = try bob.get("/").text
        #expect(overview.contains("Signed by Alice, token 2") && overview.contains("value=\"approve\""), "\(overview)")
        let asked = try bob.post("/ask", approval)
        #expect(asked.status == 200 && asked.text.contains("for every device → 10%"), "\(asked.text)")
        #expect(asked.text.contains("Signed by Alice, token 2 and Bob &lt;b&gt;"), "\(asked.text)")
        #expect(asked.text.contains("This is the last signature"))
        #expect(try site.sequence() == 2)
        let done = try bob.post("/do", approval.merging(["sequence": "2"]) { $1 })
        #expect(done.status == 200 && done.text.contains("sequence 3"), "\(done.text)")
        #expect(try site.sequence() == 3 && people.proposals().isEmpty)
        let history = try bob.get("/history/stable").text
        #expect(history.contains("Alice, token 2") && !history.contains("Bob <b>"))
        #expect(try alice.stop().output.contains("channel stable: proposed"))
    }

    @Test func `one person publishes by no button`() throws {
        let console = try open(as: "channel")
        let before = try contents(ofFile: "\(site.feed)/channels/stable.json")
        for fields in [
            ["action": "rollout", "percent": "5%"], ["action": "ramp", "ramp": "1%,100%"],
            ["action": "target", "groups": "qa"], ["action": "pause"], ["action": "urgent"], ["action": "retry"],
            ["action": "recall", "reason": "bad"], ["action": "withdraw"], ["action": "renew"],
            ["action": "restore", "copy": "1"],
        ] {
            let fields = fields.merging(["channel": "stable", "version": "1.1.0", "sequence": "2"]) { own, _ in own }
            let answer = try console.post("/do", fields)
            #expect(answer.status == 200 && answer.text.contains("proposed"), "\(fields): \(answer.text)")
        }
        #expect(try contents(ofFile: "\(site.feed)/channels/stable.json") == before)
        // To withdraw 1.1.0 and to restore copy 1 within one second is the same content.
        #expect(try (9...10).contains(people.proposals().count))
    }

    @Test func `a proposal that can no longer be approved has no button`() throws {
        let id = try propose()
        try people.edit(
            ["release", "pause", "--version", "1.0.0"], as: "channel",
            ["--channel-key", site.key("new"), "--expect-sequence", "2"]
        ).succeeded("changed")
        let console = try open(as: "new")
        let overview = try console.get("/").text
        #expect(overview.contains("builds on an older file") && !overview.contains("value=\"approve\""), "\(overview)")
        let refused = try console.post("/ask", ["action": "approve", "channel": "stable", "id": id])
        #expect(refused.status == 409 && refused.text.contains("proposalOutdated"), "\(refused.text)")
    }
}
