import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import Testing

/// `clientctl trust`, for cases that the channel tests do not cover.
@Suite(.ownThread) struct TrustCommandTests {
    private let site: ChannelSite

    init() throws { site = try ChannelSite(withRoot: false) }

    private func trust(_ arguments: String...) throws -> Outcome {
        try Clientctl.run(["trust"] + arguments + ["--json"])
    }

    @Test func `trust init creates version 1 and never overwrites`() throws {
        let made = try site.initRoot().succeeded("created")
        #expect(made["version"] == .integer(1))
        #expect(made["complete"] == .bool(true))
        #expect(!made.errors.contains("one root key alone"))
        let before = try contents(ofFile: site.trust)
        #expect(try site.initRoot().failed(78, "configInvalid").subject == site.trust)
        #expect(try contents(ofFile: site.trust) == before)
    }

    @Test func `trust init warns of a single root key and rejects an unreachable threshold`() throws {
        let roots = ["--out", site.trust, "--root-key", site.pub("root1"), "--release-key", site.pub("release")]
        let refused = try Clientctl.run(["trust", "init", "--json", "--root-threshold", "2"] + roots)
        #expect(refused.failed(78, "configInvalid").subject == "root")
        let made = try Clientctl.run(["trust", "init", "--json"] + roots).succeeded("created")
        #expect(made.errors.contains("one root key alone"))
        #expect(made["complete"] == .bool(false))
        try trust("init", "--out", site.folder.file("x"), "--root-key", site.pub("root1")).failed(64, "usage")
        try trust(
            "init", "--out", site.folder.file("x"), "--root-key", site.key("root1"), "--release-key",
            site.pub("release")
        )
        .failed(78, "configInvalid")
    }

    @Test func `trust show prints roles, keys, signers and whether the root is complete`() throws {
        try site.initRoot().succeeded()
        let shown = try trust("show", site.trust).succeeded()
        #expect(shown["version"] == .integer(1))
        #expect(shown.string("appId") == ChannelSite.appId)
        #expect(shown["complete"] == .bool(true))
        let roles = shown["roles"]?.objectValue
        #expect(roles?["root"]?.objectValue?["threshold"] == .integer(2))
        #expect(roles?["root"]?.objectValue?["keyIds"]?.arrayValue?.count == 3)
        #expect(roles?["channel"]?.objectValue?["keyIds"] == .array([.string(try site.id("channel"))]))
        #expect(shown["signatures"]?.arrayValue?.count == 2)
        let plain = try Clientctl.run(["trust", "show", site.trust])
        #expect(plain.text.contains("root: 2 of 3 must sign"))
        #expect(plain.text.contains("complete"))
    }

    @Test func `trust edits write a draft beside the root or over it`() throws {
        try site.initRoot().succeeded()
        let before = try contents(ofFile: site.trust)
        let next = site.folder.file("next.json")
        let drafted = try trust(
            "add-key", site.trust, "--role", "release", "--public-key", site.pub("new"), "--not-after",
            "2035-01-01T00:00:00Z",
            "--out", next
        ).succeeded("drafted")
        #expect(drafted["version"] == .integer(2))
        #expect(drafted["complete"] == .bool(false))
        #expect(try contents(ofFile: site.trust) == before)
        let key = try trust("show", next)["keys"]?.arrayValue?.last?.objectValue
        #expect(key?["notAfter"] == .string("2035-01-01T00:00:00Z"))

        try trust("remove-key", next, "--role", "release", "--public-key", site.pub("release"), "--threshold", "1")
            .succeeded("drafted")
        try trust("remove-key", next, "--role", "all", "--revoke", "--key-id", try site.id("root3")).succeeded(
            "drafted")
        let shown = try trust("show", next)
        #expect(shown["version"] == .integer(2))
        #expect(shown["revoked"] == .array([.string(try site.id("root3"))]))
        #expect(try trust("add-key", next, "--role", "release", "--public-key", site.pub("new")).outcome == "unchanged")
        try trust("renew", site.trust, "--expires-in", "30d").succeeded("drafted")
        #expect(try trust("show", site.trust)["version"] == .integer(2))
    }

    @Test func `trust rejects impossible edits and keeps the file`() throws {
        try site.initRoot().succeeded()
        let before = try contents(ofFile: site.trust)
        try trust("remove-key", site.trust, "--role", "release", "--public-key", site.pub("release"))
            .failed(78, "configInvalid")
        try trust("remove-key", site.trust, "--role", "all", "--public-key", site.pub("new")).failed(
            78, "configInvalid")
        try trust("rotate", site.trust, "--old", site.pub("new"), "--new", site.pub("root1")).failed(
            78, "configInvalid")
        try trust("add-key", site.trust, "--role", "owner", "--public-key", site.pub("new")).failed(64, "usage")
        try trust("add-key", site.trust, "--role", "root", "--public-key", site.pub("new"), "--threshold", "0")
            .failed(64, "usage")
        try trust("remove-key", site.trust, "--role", "root", "--revoke", "--public-key", site.pub("root1"))
            .failed(64, "usage")
        try trust("remove-key", site.trust, "--role", "root").failed(64, "usage")
        try trust("show", site.pub("root1")).failed(25, "manifestMalformed")
        #expect(try contents(ofFile: site.trust) == before)
    }

    @Test func `trust init warns of a root key that also signs releases`() throws {
        let roots = [
            "--root-key", site.pub("root1"), "--root-key", site.pub("release"), "--release-key", site.pub("release"),
        ]
        let made = try Clientctl.run(["trust", "init", "--json", "--out", site.trust, "--root-threshold", "2"] + roots)
        #expect(made.succeeded("created").errors.contains("also has the role release"), "\(made.errors)")
    }

    @Test func `trust publish requires root signatures of both versions`() throws {
        try site.initRoot().succeeded()
        try site.publishRoot().succeeded("published")
        try trust("rotate", site.trust, "--old", site.pub("root1"), "--new", site.pub("new")).succeeded("drafted")
        try site.signRoot("root2", "new")
        let refused = try site.publishRoot().failed(20, "signatureInvalid")
        #expect(refused.errors.contains("1 of the 2 root keys of version 1"), "\(refused.errors)")
    }

    @Test func `trust sign counts the root keys of both versions`() throws {
        try site.initRoot().succeeded()
        let before = site.folder.file("before.json")
        try Clientctl.stock(["cp", site.trust, before])
        try trust("rotate", site.trust, "--old", site.pub("root1"), "--new", site.pub("new")).succeeded("drafted")
        let first = try trust("sign", site.trust, "--key", site.key("new"), "--previous", before).succeeded("signed")
        #expect(first["signatures"] == .integer(1) && first["previousSignatures"] == .integer(0))
        let second = try trust("sign", site.trust, "--key", site.key("root2"), "--previous", before).succeeded()
        #expect(second["complete"] == .bool(true) && second["previousSignatures"] == .integer(1))
        #expect(second["previousThreshold"] == .integer(2))
        let plain = try Clientctl.run(["trust", "sign", site.trust, "--key", site.key("root1"), "--previous", before])
        #expect(
            plain.text.contains("by 2 root keys of version 2 (2 needed), 2 of version 1 (2 needed)"), "\(plain.text)")
        #expect(plain.errors == "")
        let without = try Clientctl.run(["trust", "sign", site.trust, "--key", site.key("root1")])
        #expect(without.text.contains("root keys of version 1 must also sign"), "\(without.text)")
        try trust("sign", site.trust, "--key", site.key("root1"), "--previous", site.trust).failed(78, "configInvalid")
    }

    @Test(arguments: ["add-key", "remove-key"]) func `trust lists guard among the roles`(command: String) throws {
        #expect(try Clientctl.run(["trust", command, "--help"]).text.contains("guard"))
        try site.initRoot().succeeded()
        let refused = try trust(command, site.trust, "--role", "owner", "--public-key", site.pub("new"))
        #expect(refused.failed(64, "usage").errors.contains("guard"), "\(refused.errors)")
    }

    @Test func `trust sign adds each key once and reports a key that is not a root key`() throws {
        try site.initRoot().succeeded()
        try trust("sign", site.trust, "--key", site.key("root1")).succeeded("unchanged")
        try trust("sign", site.trust, "--key", site.key("root3")).succeeded("signed")
        #expect(
            try trust("sign", site.trust, "--key", site.key("new")).failed(20, "keyUnknown").errors.contains(
                "would never be valid"))
        #expect(try trust("show", site.trust)["signatures"]?.arrayValue?.count == 3)
        try trust("renew", site.trust).succeeded("drafted")
        #expect(
            try trust("sign", site.trust, "--key", site.key("new")).succeeded("signed").errors.contains(
                "not a root key"))
        try trust("sign", site.trust).failed(64, "usage")
    }

    @Test func `trust publish rejects gaps, missing signatures and other content`() throws {
        try site.initRoot().succeeded()
        try site.publishRoot().succeeded("published")
        try site.publishRoot().succeeded("unchanged")
        let other = site.folder.file("other.json")
        try trust(
            "init", "--out", other, "--app-id", ChannelSite.appId, "--root-key", site.pub("root1"), "--release-key",
            site.pub("new"), "--sign-key", site.key("root1")
        ).succeeded()
        #expect(try trust("publish", other, "--feed", site.feed).failed(51, "versionExists").subject == "trust root 1")
        try trust("renew", site.trust).succeeded()
        let draft = try trust("publish", site.trust, "--feed", site.feed).failed(20, "signatureInvalid")
        #expect(draft.errors.contains("0 of 2 root keys have signed"), "\(draft.errors)")
        try site.signRoot("root1", "root2")
        try trust("renew", site.trust).succeeded()
        try site.signRoot("root1", "root2")
        try trust("publish", site.trust, "--feed", site.feed).failed(25, "manifestMalformed")
    }

    @Test func `trust publish names the files that the new root invalidates`() throws {
        let source = try site.folder.writeTree(Site.client("1.2.0"), to: "web")
        try Clientctl.run([
            "publish", source, "--version", "1.2.0", "--feed", site.feed, "--key", site.key("release"), "--min-shell",
            "1.0.0", "--json",
        ]).succeeded("published")
        try site.initRoot().succeeded()
        let published = try site.publishRoot().succeeded("published")
        #expect(
            published.errors.contains(
                "manifest.json offers 1.2.0, which names no application: devices with this trust root refuse it. "
                    + "Publish again with --app-id \(ChannelSite.appId)."), "\(published.errors)")
        let refused = published["refused"]?.arrayValue?.first?.objectValue
        #expect(refused?["document"] == .string("manifest.json") && refused?["code"] == .string("appMismatch"))
        let device = try Clientctl.run([
            "install", "--manifest", "\(site.feed)/manifest.json", "--trust", site.trust, "--store",
            site.folder.file("store"), "--shell-version", "1.5.0", "--json",
        ]).failed(43, "appMismatch")
        #expect(device.errors.contains("published without --app-id"), "\(device.errors)")
    }

    @Test func `trust update rejects a broken chain of roots`() throws {
        try site.initRoot().succeeded()
        try site.publishRoot().succeeded()
        let pinned = site.folder.file("mine.json")
        try Clientctl.stock(["cp", site.trust, pinned])
        let before = try contents(ofFile: pinned)
        try trust("renew", site.trust).succeeded()
        try site.signRoot("root1")
        try Clientctl.stock(["cp", site.trust, "\(site.feed)/trust/2.json"])
        try trust("update", pinned, "--feed", site.feed).failed(20, "signatureInvalid")
        #expect(try contents(ofFile: pinned) == before)
        try trust("update", pinned, "--feed", site.folder.file("missing")).failed(78, "configInvalid")
        try trust("update", site.pub("root1"), "--feed", site.feed).failed(78, "configInvalid")
    }

    // MARK: Devices with one key

    /// Returns the script of the guide's page on keys under `title`.
    private static func script(_ title: String) throws -> String {
        let page = String(decoding: try contents(ofFile: "\(Checkout.root)/Guide/guides/keys.md"), as: UTF8.self)
        let rest = try #require(page.split(separator: "```sh title=\"\(title)\"\n").dropFirst().first)
        return String(try #require(rest.split(separator: "```").first))
    }

    private func run(_ title: String) throws -> Outcome {
        let script = try Self.script(title).replacing("release.key.pem", with: site.key("release"))
            .replacing("channel.key.pem", with: site.key("channel")).replacing(
                "release.pub.pem", with: site.pub("release")
            )
            .replacing("--feed feed", with: "--feed \(site.feed)")
        let words = script.replacing("\\\n", with: " ").split(whereSeparator: \.isWhitespace).map(String.init)
        #expect(words.first == "clientctl")
        return try Clientctl.run(words.dropFirst() + ["--json"])
    }

    @Test func `devices of each age follow a channel through the move from one key to a trust root`() throws {
        try site.publish("1.0.0", channelKey: "release").succeeded("published")
        func install(_ device: String, _ trust: String) throws -> Outcome { try site.install(device, trust: trust) }
        try install("old", site.pub("release")).succeeded("installed")
        try site.initRoot().succeeded("created")
        let rooted = try site.publishRoot().succeeded("published")
        #expect(rooted.errors.contains("sign it with both"), "\(rooted.errors)")

        let before = try TreeSnapshot(of: site.feed).files
        let alone = ["--trust", site.pub("release")]
        for line in [
            ["channel", "renew"], ["release", "pause", "--version", "1.0.0"],
            ["release", "recall", "--below", "1.0.0"],
        ] {
            let refused = try Clientctl.run(
                line + ["--feed", site.feed, "--channel", "stable", "--channel-key", site.key("channel"), "--json"]
                    + alone
            ).failed(20, "keyUnknown")
            #expect(refused.errors.contains("recalls included"), "\(refused.errors)")
        }
        try site.publish("1.1.0", alone).failed(20, "keyUnknown")
        #expect(try TreeSnapshot(of: site.feed).files == before)

        try run("with both keys").succeeded("changed")
        let both = ["--channel-key", site.key("release")]
        try site.publish("1.1.0", both).succeeded("published")
        try site.publish("1.1.1").failed(20, "keyUnknown")
        for (device, trust) in [
            ("old", site.pub("release")), ("root", site.trust), ("fresh", site.pub("release")), ("rooted", site.trust),
        ] {
            try install(device, trust).succeeded("installed")
            #expect(try site.runs(device) == "1.1.0", "\(device)")
        }
        try run("when every device has trust.json").succeeded("changed")
        try site.publish("1.2.0").succeeded("published")
        try install("old", site.pub("release")).failed(20, "keyUnknown")
        for device in ["old", "root", "rooted"] {
            let installed = try install(device, site.trust).succeeded("installed")
            #expect(installed.string("version") == "1.2.0", "\(device)")
        }
        // The command brings a device back that was cut off.
        let again = try Self.script("with both keys")
        #expect(again.contains("--trust release.pub.pem"))
        try Clientctl.run([
            "channel", "renew", "--feed", site.feed, "--channel", "stable", "--trust", site.pub("channel"),
            "--channel-key", site.key("channel"), "--channel-key", site.key("release"), "--json",
        ]).succeeded("changed")
        try install("fresh", site.pub("release")).succeeded("installed")
    }

    @Test func `operators with a key each sign in turn after devices trust both keys`() throws {
        let both = try site.folder.makeFolder("both")
        try Clientctl.stock(["cp", site.pub("channel"), site.pub("new"), site.pub("release"), both])
        func renew(_ key: String, _ more: String...) throws -> Outcome {
            try Clientctl.run(
                [
                    "channel", "renew", "--feed", site.feed, "--channel", "stable", "--trust", both, "--channel-key",
                    site.key(key), "--json",
                ] + more)
        }
        try site.publish("1.0.0").succeeded("published")
        try renew("new").failed(20, "keyUnknown")
        try renew("new", "--devices-trust-new-key").succeeded("changed")
        try renew("channel").succeeded("changed")
        try renew("new").succeeded("changed")
        try site.install("a", trust: both).succeeded("installed")
    }

    @Test func `publish refuses a release that devices with the key of the current one would refuse`() throws {
        func publish(_ version: String, _ keys: String..., more: [String] = []) throws -> Outcome {
            let source = try site.folder.writeTree(Site.client(version), to: "web-\(version)")
            return try Clientctl.run(
                ["publish", source, "--version", version, "--feed", site.feed, "--app-id", ChannelSite.appId, "--json"]
                    + keys.flatMap { ["--key", site.key($0)] } + more)
        }
        func install(_ device: String, _ trust: String) throws -> Outcome {
            try Clientctl.run([
                "install", "--manifest", "\(site.feed)/manifest.json", "--trust", trust, "--store",
                site.folder.file("store-\(device)"), "--json",
            ])
        }
        try publish("1.0.0", "release").succeeded("published")
        try Clientctl.run([
            "trust", "init", "--out", site.trust, "--root-key", site.pub("root1"), "--release-key", site.pub("new"),
            "--sign-key", site.key("root1"), "--json",
        ]).succeeded("created")
        try site.publishRoot().succeeded("published")
        let refused = try publish("1.1.0", "new").failed(20, "keyUnknown")
        #expect(refused.errors.contains("--devices-trust-new-key"), "\(refused.errors)")
        try publish("1.1.0", "new", "release").succeeded("published")
        try install("old", site.pub("release")).succeeded("installed")
        try install("root", site.trust).succeeded("installed")
        try publish("1.2.0", "new").failed(20, "keyUnknown")
        try publish("1.2.0", "new", more: ["--devices-trust-new-key"]).succeeded("published")
    }
}
