import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `channel prune`, `channel delete`, and the records of releases that `feed prune` removed.
@Suite(.ownThread) struct ChannelUpkeepTests {
    private let site: ChannelSite

    init() throws { site = try ChannelSite() }

    private func prune(_ more: String...) throws -> Outcome {
        try Clientctl.run(
            [
                "channel", "prune", "--feed", site.feed, "--channel", "stable", "--channel-key", site.key("channel"),
                "--json",
            ] + more)
    }

    @Test func `channel prune removes unused releases and old copies`() throws {
        for minor in 0..<4 { try site.publish("1.\(minor).0", ["--rollout", "100%"]).succeeded("published") }
        let planned = try prune("--keep", "1", "--copies", "1", "--dry-run").succeeded("dryRun")
        #expect(planned.strings("removed")?.count == 3)
        #expect(try site.list()["releases"]?.arrayValue?.count == 4)
        let done = try prune("--keep", "1", "--copies", "2").succeeded("changed")
        #expect(
            done.strings("removed") == ["channels/stable/1.json", "channels/stable/2.json", "channels/stable/3.json"])
        #expect(try site.list()["releases"]?.arrayValue?.count == 2)
        try prune().failed(64, "usage")
        try site.install("one").succeeded("installed")
    }

    @Test func `channel delete requires --yes and removes the channel`() throws {
        try site.publish("1.0.0").succeeded("published")
        try site.publish("1.0.0", channel: "stabel").succeeded()
        func delete(_ more: String...) throws -> Outcome {
            try Clientctl.run(["channel", "delete", "stabel", "--feed", site.feed, "--json"] + more)
        }
        try delete().failed(64, "usage")
        let planned = try delete("--dry-run").succeeded("dryRun").strings("removed")
        #expect(planned == ["channels/stabel.json", "channels/stabel/1.json"])
        #expect(try delete("--yes").succeeded("removed").strings("removed") == planned)
        #expect(access("\(site.feed)/channels/stabel", F_OK) != 0)
        try delete("--yes").failed(78, "configInvalid")
        try site.install("one").succeeded("installed")
    }

    @Test func `stores notes beside the release and their digest in the channel`() throws {
        let notes = try site.folder.write(bytes("Fixes it.\n"), to: "notes")
        try site.publish("1.0.0", ["--notes", notes]).succeeded("published")
        #expect(try contents(ofFile: "\(site.feed)/releases/v1.0.0/notes.txt") == bytes("Fixes it.\n"))
        func listed() throws -> JSONValue? { try site.list()["releases"]?.arrayValue?.first?.objectValue?["notes"] }
        #expect(try listed() == .string("Fixes it.\n"))
        let channel = try Clientctl.run(["inspect", "\(site.feed)/channels/stable.json"])
        #expect(!channel.text.contains("Fixes"))
        try site.folder.write(bytes("Changed.\n"), to: "feed/releases/v1.0.0/notes.txt")
        #expect(try listed() == .null)
    }

    @Test func `rejects other content for a version after its files were removed`() throws {
        for minor in 0..<3 {
            try site.publish("1.\(minor).0", ["--rollout", "100%", "--no-deltas"]).succeeded("published")
        }
        try prune("--keep", "0", "--copies", "1").succeeded("changed")
        try Clientctl.run([
            "feed", "prune", "--feed", site.feed, "--keep", "1", "--min-age", "0s", "--json",
        ]).succeeded()
        #expect(access("\(site.feed)/releases/v1.0.0", F_OK) != 0)
        #expect(access("\(site.feed)/retired/v1.0.0.json", F_OK) == 0)
        let other = try site.folder.writeTree(Site.client("other"), to: "other")
        let refused = try Clientctl.run([
            "publish", other, "--version", "1.0.0", "--feed", site.feed, "--key", site.key("release"), "--min-shell",
            "1.0.0", "--app-id", ChannelSite.appId, "--level", "1", "--channel", "beta", "--channel-key",
            site.key("channel"), "--create", "--json",
        ]).failed(51, "versionExists")
        #expect(refused.errors.contains("has been removed"))
        try site.publish("1.0.0", channel: "beta").succeeded("published")
        let copy = site.folder.file("copy")
        try Clientctl.run(["feed", "copy", site.feed, copy, "--json"]).succeeded()
        #expect(access("\(copy)/retired/v1.1.0.json", F_OK) == 0)
    }

    @Test func `promote, export and check name releases of a revoked key, and an offline kit omits them`()
        throws
    {
        try site.publish("1.0.0").succeeded("published")
        try Clientctl.run([
            "trust", "rotate", site.trust, "--old", site.pub("release"), "--new", site.pub("new"), "--revoke", "--json",
        ]).succeeded("drafted")
        try site.signRoot("root2", "root3")
        try site.publishRoot().succeeded("published")
        try site.publish("1.1.0", ["--devices-trust-new-key"], key: "new").succeeded("published")
        let advice = "clientctl release withdraw --version 1.0.0 --channel stable"
        let promoted = try site.release("promote", "--version", "1.0.0", "--to", "beta", "--create").failed(
            20, "keyUnknown")
        #expect(promoted.errors.contains(advice), "\(promoted.errors)")
        let checked = try Clientctl.run(["feed", "check", "file://\(site.feed)/", "--trust", site.trust, "--json"])
        #expect(checked.status == 0 && "\(checked.text)\(checked.errors)".contains(advice), "\(checked.errors)")
        let kit = site.folder.file("kit")
        let done = try Clientctl.run([
            "feed", "export", "--feed", site.feed, "--to", kit, "--trust", site.trust, "--json",
        ])
        .succeeded("exported")
        #expect(done.strings("leftOut") == ["1.0.0"] && done.strings("releases") == ["1.1.0"])
        #expect(done.errors.contains(advice))
        let installed = try Clientctl.run([
            "install", "--channel", "file://\(kit)/channels/stable.json", "--trust", site.pinned, "--store",
            site.folder.file("store-kit"), "--shell-version", "1.5.0", "--app-id", ChannelSite.appId, "--json",
        ])
        #expect(installed.succeeded("installed").string("version") == "1.1.0")
    }
}
