import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

/// `channel log`, `channel restore` and `feed offer`, run as the built program.
@Suite(.ownThread) struct HistoryCommandTests {
    private func log(_ site: ChannelSite, _ more: String...) throws -> [JSONObject] {
        let outcome = try Clientctl.run(
            ["channel", "log", "--feed", site.feed, "--channel", "stable", "--json"] + more)
        return (outcome.succeeded()["entries"]?.arrayValue ?? []).compactMap(\.objectValue)
    }

    @Test func `channel log shows signers and differences of every sequence`() throws {
        let site = try ChannelSite()
        try site.publish("1.0.0")
        try site.release("rollout", "5%", "--version", "1.0.0").succeeded("changed")
        try site.release("recall", "--version", "1.0.0", "--reason", "white\u{1B}[31m").succeeded("changed")
        let entries = try log(site, "--trust", site.trust)
        #expect(entries.map { $0["sequence"] } == [.integer(3), .integer(2), .integer(1)])
        let key = try site.id("channel")
        #expect(entries.allSatisfy { $0["keyIds"] == .array([.string(key)]) && $0["verified"] == .bool(true) })
        #expect(try log(site, "--trust", site.pub("new")).allSatisfy { $0["verified"] == .bool(false) })
        #expect(try log(site).allSatisfy { $0["verified"] == .null })
        let plain = try Clientctl.run(["channel", "log", "--feed", site.feed, "--channel", "stable"])
        #expect(plain.text.hasPrefix("3  "))
        #expect(plain.text.contains("1.0.0: recalled, "))
        #expect(!plain.text.contains("\u{1B}"))
        try Clientctl.run(["channel", "log", "--feed", site.feed, "--channel", "../x", "--json"]).failed(64, "usage")
        #expect(
            try Clientctl.run(["channel", "log", "--feed", site.feed, "--channel", "none"]).errors.contains(
                "no channel none"))
    }

    @Test(arguments: ["lost", "rolled back", "damaged"])
    func `channel restore recovers a lost, old or damaged channel for devices`(_ accident: String) throws {
        let site = try ChannelSite()
        let document = "\(site.feed)/channels/stable.json"
        try site.publish("1.0.0", ["--rollout", "100%"])
        let first = try contents(ofFile: document)
        try site.install("a").succeeded("installed")
        try site.publish("1.1.0", ["--rollout", "100%"])
        try site.install("a").succeeded("installed")
        switch accident {
        case "lost": try Clientctl.stock(["rm", document])
        case "rolled back": try site.folder.write(first, to: "feed/channels/stable.json")
        default: try site.folder.write(bytes("{"), to: "feed/channels/stable.json")
        }
        #expect(try site.install("a").status != 0)
        #expect(try site.channel("restore", "--dry-run").succeeded("dryRun")["sequence"] == .integer(3))
        let done = try site.channel("restore").succeeded("changed")
        #expect(done["sequence"] == .integer(3))
        try site.install("a").succeeded("upToDate")
        #expect(try site.channel("restore").succeeded().outcome == "unchanged")
        try site.publish("1.2.0", ["--rollout", "100%"])
        try site.install("a").succeeded("installed")
    }

    @Test func `channel restore --copy keeps recalls`() throws {
        let site = try ChannelSite()
        try site.publish("1.0.0", ["--rollout", "100%"])
        try site.publish("1.1.0", ["--rollout", "100%"])
        try site.release("recall", "--version", "1.1.0", "--reason", "bad").succeeded("changed")
        try site.release("rollout", "10%", "--version", "1.0.0").succeeded("changed")
        let done = try site.channel("restore", "--copy", "2").succeeded("changed")
        #expect(done["sequence"] == .integer(5))
        let listed = try site.list()
        #expect((listed["recalled"]?.arrayValue ?? []).compactMap { $0.objectValue?["version"] } == [.string("1.1.0")])
        #expect(
            (listed["releases"]?.arrayValue ?? []).compactMap { $0.objectValue?["rollout"] } == [
                .string("100%"), .string("100%"),
            ])
        try site.channel("restore", "--copy", "9").failed(78, "configInvalid")
        try site.channel("restore", key: "new").failed(20, "keyUnknown")
        try site.channel("restore", channel: "beta").failed(78, "configInvalid")
    }

    @Test func `feed offer changes the release that manifest.json names`() throws {
        let site = try Site()
        func offered() throws -> JSONValue? { try site.object(site.manifest)["version"] }
        func offer(_ version: String, _ more: String...) throws -> Outcome {
            try Clientctl.run(["feed", "offer", version, "--feed", site.feed, "--json"] + more)
        }
        for version in ["1.0.0", "1.1.0", "1.2.0"] { try site.publish(version) }
        let shown = try contents(ofFile: site.manifest)
        #expect(try offer("1.3.0").failed(78, "configInvalid").errors.contains("It has 1.2.0, 1.1.0, 1.0.0"))
        try offer("1.2.0").succeeded("unchanged")
        #expect(try offer("1.1.0", "--dry-run").succeeded("dryRun").string("previous") == "1.2.0")
        #expect(try contents(ofFile: site.manifest) == shown)
        #expect(try offer("1.1.0").succeeded("changed").string("offered") == "1.1.0")
        #expect(try offered() == .string("1.1.0"))
        try site.install().succeeded("installed")
        #expect(try site.installed("1.1.0") == Site.client("1.1.0"))
        #expect(try offer("1.0.0").succeeded("changed").string("previous") == "1.1.0")
        // Devices that run it keep running it.
        try site.install().succeeded("upToDate")
        #expect(try site.installed("1.1.0") == Site.client("1.1.0"))
        #expect(try offer("1.2.0").succeeded("changed").string("offered") == "1.2.0")
        try site.publish("1.3.0")
        #expect(try offered() == .string("1.3.0"))
    }

    @Test func `feed offer rejects releases that a channel decides about`() throws {
        let site = try ChannelSite()
        func offer(_ version: String) throws -> Outcome {
            try Clientctl.run(["feed", "offer", version, "--feed", site.feed, "--json"]).failed(78, "configInvalid")
        }
        try site.publish("1.0.0", ["--rollout", "100%"])
        try site.publish("1.1.0", ["--rollout", "100%"])
        #expect(try offer("1.0.0").errors.contains("release pause"))
        try site.release("withdraw", "--version", "1.1.0").succeeded("changed")
        try site.publish("1.2.0", ["--rollout", "10%"])
        try site.release("pause", "--version", "1.0.0").succeeded("changed")
        #expect(try offer("1.2.0").errors.contains("release rollout"))
    }
}
