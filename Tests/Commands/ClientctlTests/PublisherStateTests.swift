import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// A publisher whose feed an attacker can write to without a key.
@Suite(.ownThread) struct PublisherStateTests {
    private let site: ChannelSite

    init() throws { site = try ChannelSite() }

    private var document: String { "\(site.feed)/channels/stable.json" }

    private func renew(_ more: String..., environment: [String: String] = [:]) throws -> Outcome {
        try Clientctl.run(
            [
                "channel", "renew", "--feed", site.feed, "--channel", "stable", "--channel-key", site.key("channel"),
                "--json",
            ] + more, environment: environment)
    }

    @Test func `an older channel file in the feed does not undo a recall for devices or the publisher`() throws {
        let state = ["CLIENTCTL_PUBLISHER_STATE": site.folder.file("state")]
        try site.publish("1.1.0", environment: state).succeeded("published")
        try site.publish("1.2.0", environment: state).succeeded("published")
        let old = try contents(ofFile: document)
        #expect(try site.install("one").succeeded("installed").string("version") == "1.2.0")
        try Clientctl.run(
            [
                "release", "recall", "--version", "1.2.0", "--reason", "security hole", "--feed", site.feed,
                "--channel",
                "stable", "--channel-key", site.key("channel"), "--json",
            ], environment: state
        ).succeeded("changed")
        try renew(environment: state).succeeded("changed")
        try site.install("one").succeeded()
        #expect(try site.runs("one") == "1.1.0")

        try site.folder.write(old, to: "feed/channels/stable.json")
        try Clientctl.stock(["rm", "\(site.feed)/channels/stable/3.json", "\(site.feed)/channels/stable/4.json"])
        let refused = try renew(environment: state).failed(22, "rollbackAttempt")
        #expect(refused.errors.contains("an older file was restored"))
        try renew("--expect-sequence", "4").failed(22, "rollbackAttempt")
        try site.publish("1.3.0", environment: state).failed(22, "rollbackAttempt")

        // A publisher that trusts the older file edits it, but the device keeps the recall.
        for sequence in 2..<5 { try renew("--expect-sequence", "\(sequence)").succeeded("changed") }
        try site.install("one").succeeded()
        #expect(try site.runs("one") == "1.1.0")
        try site.release("recall", "--version", "1.2.0", "--undo").succeeded("changed")
        try site.install("one").succeeded()
        #expect(try site.runs("one") == "1.2.0")
    }

    /// Edits of the channel stable as in the guide's page on CI, without the sequence of the last run.
    private var ordinaryLines: [[String]] {
        let place = ["--feed", site.feed, "--channel", "stable", "--channel-key", site.key("channel"), "--json"]
        let web = site.folder.file("web-1.2.0")
        return [
            ["channel", "renew"], ["channel", "set", "--poll", "5m"], ["channel", "prune", "--keep", "5"],
            ["channel", "restore"], ["release", "rollout", "100%", "--version", "1.2.0"],
            ["release", "pause", "--version", "1.1.0"],
            [
                "publish", web, "--version", "1.2.0", "--key", site.key("release"), "--app-id", ChannelSite.appId,
                "--min-shell", "1.0.0", "--level", "1", "--create",
            ],
        ].map { $0 + place }
    }

    @Test(arguments: ["none", "empty"])
    func `a publisher without memory does not sign an older file again, so no new device gets a recalled release`(
        state: String
    ) throws {
        try site.publish("1.1.0").succeeded("published")
        try site.publish("1.2.0", ["--expires-in", "3s"]).succeeded("published")
        let old = try contents(ofFile: document)
        try site.release("recall", "--version", "1.2.0", "--reason", "security hole").succeeded("changed")
        try renew().succeeded("changed")

        try site.folder.write(old, to: "feed/channels/stable.json")
        try Clientctl.stock(["rm", "\(site.feed)/channels/stable/3.json", "\(site.feed)/channels/stable/4.json"])
        for (number, line) in ordinaryLines.enumerated() {
            let folder = state == "none" ? "none" : site.folder.file("state-\(number)")
            let refused = try Clientctl.run(line, environment: ["CLIENTCTL_PUBLISHER_STATE": folder])
            refused.failed(78, "configInvalid", "\(line)")
            #expect(refused.errors.contains("--expect-sequence 2"), "\(refused.errors)")
            let known = try Clientctl.run(
                line + ["--expect-sequence", "4"], environment: ["CLIENTCTL_PUBLISHER_STATE": folder])
            known.failed(22, "rollbackAttempt", "\(line)")
        }
        #expect(try contents(ofFile: document) == old)
        while try site.list()["expired"] != .bool(true) { poll(nil, 0, 50) }
        try site.install("new").failed(21, "expired")
    }

    @Test func `a new machine states the sequence once and then compares`() throws {
        try site.publish("1.1.0").succeeded("published")
        let laptop = ["CLIENTCTL_PUBLISHER_STATE": site.folder.file("laptop")]
        try renew(environment: laptop).failed(78, "configInvalid")
        try renew("--if-expires-within", "1s", "--expect-sequence", "1", environment: laptop).succeeded("unchanged")
        try renew(environment: laptop).succeeded("changed")
        try renew("--publisher-state", "none", environment: laptop).failed(78, "configInvalid")
    }

    @Test func `without state, only a stated sequence of 0 creates a channel`() throws {
        let none = ["CLIENTCTL_PUBLISHER_STATE": "none"]
        let refused = try site.publish("1.1.0", environment: none).failed(78, "configInvalid")
        #expect(refused.errors.contains("--expect-sequence 0"), "\(refused.errors)")
        try site.publish("1.1.0", ["--expect-sequence", "0"], environment: none).succeeded("published")
        try site.publish("1.2.0", ["--create", "--expect-sequence", "0"], environment: none)
            .failed(22, "rollbackAttempt")
        let again = try site.publish("1.2.0", ["--create", "--expect-sequence", "1"], environment: none)
        #expect(again.succeeded("published").errors.contains("--create had no effect"), "\(again.errors)")
        try Clientctl.stock(["rm", "-r", "\(site.feed)/channels"])
        try site.publish("1.3.0", ["--create", "--expect-sequence", "2"], environment: none)
            .failed(22, "rollbackAttempt")
    }

    @Test func `publish rejects an unexpected sequence before it packs or signs`() throws {
        try site.publish("1.0.0").succeeded("published")
        let source = try site.folder.writeTree(Site.client("1.1.0"), to: "web")
        let signed = site.folder.file("signed")
        try Clientctl.run([
            "publish", source, "--version", "1.1.0", "--feed", site.feed, "--sign-command", "touch '\(signed)'; false",
            "--sign-public-key", site.pub("release"), "--min-shell", "1.0.0", "--app-id", ChannelSite.appId,
            "--channel",
            "stable",
            "--channel-key", site.key("channel"), "--expect-sequence", "7", "--json",
        ]).failed(22, "rollbackAttempt")
        #expect(access(signed, F_OK) != 0)
    }

    @Test func `publish accepts a restored feed only with the operator's flag and names the loss`() throws {
        let state = ["CLIENTCTL_PUBLISHER_STATE": site.folder.file("state")]
        try site.publish("1.1.0", environment: state).succeeded("published")
        let old = try contents(ofFile: document)
        try renew(environment: state).succeeded("changed")
        try site.folder.write(old, to: "feed/channels/stable.json")
        try Clientctl.stock(["rm", "\(site.feed)/channels/stable/2.json"])
        let done = try renew("--feed-was-restored", environment: state).succeeded("changed")
        #expect(done["sequence"] == .integer(3))
        #expect(done.strings("changes")?.first?.contains("are lost") == true)
    }

    @Test func `stores publisher state in XDG_STATE_HOME or the home folder and warns when it cannot`()
        throws
    {
        try site.publish("1.1.0").succeeded("published")
        func renew(_ sequence: Int, _ environment: [String: String]) throws -> Outcome {
            try Outcome(
                Program.run(
                    [
                        Clientctl.path, "channel", "renew", "--feed", site.feed, "--channel", "stable",
                        "--channel-key",
                        site.key("channel"), "--json", "--expect-sequence", "\(sequence)",
                    ],
                    environment: Clientctl.environment().filter { $0.key != "CLIENTCTL_PUBLISHER_STATE" }
                        .merging(environment) { $1 }
                )
            ).succeeded("changed")
        }
        let home = site.folder.file("home")
        _ = try renew(1, ["HOME": home])
        #expect(try TreeSnapshot(of: "\(home)/.local/state/clientctl").files.count == 1)
        _ = try renew(2, ["HOME": home, "XDG_STATE_HOME": site.folder.file("xdg")])
        #expect(try TreeSnapshot(of: site.folder.file("xdg/clientctl")).files.count == 1)
        let unwritable = try renew(3, ["HOME": "/dev/null"])
        #expect(unwritable.errors.contains("signed channel files are not stored"))
        try self.renew("--publisher-state", "/dev/null/state").failed(78, "configInvalid")
    }

    @Test func `publish requires --channel in a feed that has the channel stable`() throws {
        try site.publish("1.0.0").succeeded("published")
        try site.publish("1.1.0", ["--rollout", "10%"]).succeeded("published")
        try site.release("recall", "--version", "1.1.0", "--reason", "white").succeeded("changed")
        let before = try contents(ofFile: "\(site.feed)/manifest.json")
        for version in ["1.1.0", "1.2.0"] {
            let source = try site.folder.writeTree(Site.client(version), to: "web-\(version)")
            let refused = try Clientctl.run([
                "publish", source, "--version", version, "--feed", site.feed, "--key", site.key("release"),
                "--min-shell",
                "1.0.0", "--app-id", ChannelSite.appId, "--level", "1", "--json",
            ]).failed(78, "configInvalid")
            #expect(refused.errors.contains("--channel stable"))
        }
        #expect(try contents(ofFile: "\(site.feed)/manifest.json") == before)
        // Another channel does not offer a release that this one recalled.
        try site.publish("1.1.0", channel: "beta").failed(41, "versionBlocked")
    }
}
