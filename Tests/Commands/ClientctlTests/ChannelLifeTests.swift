import BundleCore
import BundleValues
import BundlePublish
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// A channel from its first file to its last key, with the built program as publisher and device.
@Suite(.ownThread) struct ChannelLifeTests {
    private let site: ChannelSite

    init() throws { site = try ChannelSite() }

    /// Returns two devices on either side of `permille` of version 1.1.0, by the formula of the wire format and not by
    /// our code.
    private func devices(around permille: Int) throws -> (inside: String, outside: String) {
        let script = """
            import hashlib, sys
            inside = outside = None
            for number in range(100000):
                name = f"device-{number}"
                place = int.from_bytes(hashlib.sha256(b"1.1.0" + name.encode()).digest()[:8], "big") % 1000
                if place < int(sys.argv[1]): inside = inside or name
                else: outside = outside or name
            print(inside, outside)
            """
        let names = try Clientctl.stock(["python3", "-c", script, "\(permille)"]).split { $0 == " " || $0 == "\n" }
        return (String(try #require(names.first)), String(try #require(names.last)))
    }

    @Test func `rolls out, pauses, recalls and promotes a release`() throws {
        let (inside, outside) = try devices(around: 100)
        let first = try site.publish("1.0.0").succeeded("published")
        #expect(first["channel"]?.objectValue?["sequence"] == .integer(1))
        for device in [inside, outside] { try site.install(device).succeeded("installed") }

        try site.publish("1.1.0", ["--rollout", "0%"]).succeeded("published")
        for device in [inside, outside] { try site.install(device).succeeded("notInRollout") }

        try site.release("rollout", "--version", "1.1.0", "10%").succeeded("changed")
        try site.install(outside).succeeded("notInRollout")
        #expect(try site.install(inside).succeeded("installed").string("version") == "1.1.0")
        #expect(try site.runs(inside) == "1.1.0")
        #expect(try site.runs(outside) == "1.0.0")

        try site.release("rollout", "--version", "1.1.0", "100%").succeeded("changed")
        try site.release("pause", "--version", "1.1.0").succeeded("changed")
        try site.install(outside).succeeded("notInRollout")
        try site.release("resume", "--version", "1.1.0").succeeded("changed")
        try site.install(outside).succeeded("installed")
        #expect(try site.runs(outside) == "1.1.0")

        try site.release("recall", "--version", "1.1.0", "--reason", "white screen").succeeded("changed")
        for device in [inside, outside] {
            try site.install(device).succeeded()
            #expect(try site.runs(device) == "1.0.0", "\(device)")
        }
        let blocked = try site.release("promote", "--version", "1.1.0", "--to", "later").failed(41, "versionBlocked")
        #expect(blocked.subject == "1.1.0")
        try site.release("recall", "--version", "1.1.0", "--undo").succeeded("changed")
        #expect(try site.sequence() == 8)

        let promoted = try site.release("promote", "--version", "1.1.0", "--to", "later", "--create").succeeded(
            "changed")
        #expect(promoted.string("channel") == "later")
        #expect(try site.sequence("later") == 1)
        try site.install("later-1", channel: "later").succeeded("installed")
        #expect(try site.runs("later-1") == "1.1.0")
    }

    /// Runs `install` with output for people.
    private func plainInstall(_ device: String, _ more: [String] = []) throws -> Outcome {
        try Clientctl.run(
            [
                "install", "--channel", "\(site.feed)/channels/stable.json", "--trust", site.pinned, "--store",
                site.folder.file("store-\(device)"), "--shell-version", "1.5.0", "--app-id", ChannelSite.appId,
                "--device-id", device,
            ] + more)
    }

    @Test func `install names the release that a rollout withholds and the client the device keeps`() throws {
        try site.publish("1.1.0", ["--rollout", "0%"]).succeeded("published")
        let empty = try site.install("new")
        #expect(empty.status == 3 && empty.outcome == "notInRollout", "\(empty.errors)\(empty.text)")
        #expect(empty.string("version") == "1.1.0" && empty["path"] == .null)
        let people = try plainInstall("new")
        #expect(people.status == 3)
        #expect(
            people.text.hasPrefix(
                "1.1.0 is not for this device yet: its rollout of 0% excludes it. Nothing was installed; this device has no client."
            ), "\(people.text)")
        let seed = try site.folder.writeTree(Site.client("0.9.0"), to: "seed")
        let seeded = try plainInstall("new", ["--seed", seed])
        #expect(seeded.status == 0 && seeded.text.contains("keeps the seed"), "\(seeded.errors)\(seeded.text)")

        try site.publish("1.0.0", ["--rollout", "100%"]).succeeded("published")
        try site.install("old").succeeded("installed")
        let kept = try site.install("old").succeeded("notInRollout")
        #expect(kept.string("version") == "1.1.0" && kept.string("current") == "v1.0.0")
        #expect(try plainInstall("old").text.contains("This device keeps 1.0.0.") == false)
        #expect(try plainInstall("old").text.contains("this device keeps 1.0.0."))
    }

    @Test func `install reports a recall of an installed release and an empty channel`() throws {
        try site.publish("1.0.0").succeeded("published")
        try site.install("one").succeeded("installed")
        try site.publish("1.1.0").succeeded("published")
        try site.install("one").succeeded("installed")
        try site.release("recall", "--version", "1.1.0", "--reason", "white screen").succeeded("changed")
        let recalled = try plainInstall("one")
        #expect(
            recalled.text
                == "up to date: 1.0.0 is installed\n1.1.0 is recalled by its channel: white screen. This device goes back to 1.0.0\n"
        )
        for version in ["1.0.0", "1.1.0"] {
            try site.release("withdraw", "--version", version).succeeded("changed")
        }
        let empty = try plainInstall("new")
        #expect(empty.status == 3)
        #expect(
            empty.text == "The channel offers no release. Nothing was installed; this device has no client.\n",
            "\(empty.text)")
        let seed = try site.folder.writeTree(Site.client("0.9.0"), to: "seed")
        let seeded = try plainInstall("new", ["--seed", seed])
        #expect(seeded.status == 0 && seeded.text.contains("keeps the seed"), "\(seeded.errors)\(seeded.text)")
    }

    private func moment(_ seconds: Int) -> String {
        "\(Timestamp(clamping: Timestamp.now.secondsSinceEpoch + seconds))"
    }

    @Test func `a ramp raises the rollout over time, and can be paused and replaced`() throws {
        try site.publish("1.0.0").succeeded("published")
        try site.install("one").succeeded("installed")
        try site.publish("1.1.0", ["--rollout", "0%"]).succeeded("published")
        // The only step is in the future.
        try site.release("rollout", "--version", "1.1.0", "--ramp", "100%", "--start", moment(3600)).succeeded(
            "changed")
        try site.install("one").succeeded("notInRollout")
        try site.release(
            "rollout", "--version", "1.1.0", "--ramp", "0.1%,50%,100%", "--every", "1h", "--start", moment(-5400)
        ).succeeded("changed")
        let listed = try Clientctl.run(["channel", "list", "--feed", site.feed, "--channel", "stable", "--json"])
            .succeeded()
        let release = listed["releases"]?.arrayValue?.first?.objectValue
        #expect(release?["rollout"] == .string("50%"))
        #expect(release?["ramp"]?.objectValue?["steps"]?.arrayValue?.count == 3)
        #expect(release?["ramp"]?.objectValue?["heldAt"] == .null)
        let text = try Clientctl.run(["channel", "list", "--feed", site.feed, "--channel", "stable"]).text
        #expect(text.contains("to come: 100% from "))
        try site.release("pause", "--version", "1.1.0").succeeded("changed")
        let held = try Clientctl.run(["inspect", "\(site.feed)/channels/stable.json"]).text
        #expect(held.contains("paused since "))
        try site.install("one").succeeded("notInRollout")
        try site.release("resume", "--version", "1.1.0").succeeded("changed")
        try site.release(
            "rollout", "--version", "1.1.0", "--ramp", "0.1%,100%", "--every", "1h", "--start", moment(-5400)
        ).succeeded("changed")
        #expect(try site.install("one").succeeded("installed").string("version") == "1.1.0")
        try site.release("rollout", "--version", "1.1.0", "0%").succeeded("changed")
        try site.install("one").succeeded()
        #expect(try site.runs("one") == "1.0.0")
        let log = try Clientctl.run(["channel", "log", "--feed", site.feed, "--channel", "stable"]).text
        #expect(log.contains("a ramp (0.1% from "))
    }

    @Test func `offers a release to groups first, to groups only, or to one device`() throws {
        try site.publish("1.0.0").succeeded("published")
        for (device, groups) in [("one", "eu,qa"), ("two", "none")] {
            try site.install(device, ["--group", groups]).succeeded("installed")
        }
        try site.publish("1.1.0", ["--rollout", "0%"]).succeeded("published")
        try site.release("target", "qa", "--version", "1.1.0").succeeded("changed")
        try site.install("two").succeeded("notInRollout")
        try site.install("one").succeeded("installed")
        let two = try Clientctl.run(["status", "--store", site.folder.file("store-two"), "--json"]).succeeded()
        let feed = two["feed"]?.objectValue
        #expect(feed?["groups"]?.arrayValue == [])
        let single = try #require(feed?["deviceGroup"]?.stringValue)
        let text = try Clientctl.run(["status", "--store", site.folder.file("store-one")]).text
        #expect(text.contains("this device is device:"))
        #expect(text.contains(", in eu, qa"))
        try site.release("target", "\(single)", "--only", "--version", "1.1.0").succeeded("changed")
        let listed = try site.list()["releases"]?.arrayValue?.first?.objectValue
        #expect(listed?["groups"] == .array([.string(single)]))
        #expect(listed?["only"] == .bool(true))
        try site.install("two").succeeded("installed")
        try site.install("one").succeeded()
        #expect(try site.runs("one") == "1.0.0")
        #expect(try site.runs("two") == "1.1.0")
        try site.install("two", ["--group", "QA"]).failed(64, "usage")
    }

    /// Returns the version that manifest.json offers.
    private func newest() throws -> String? {
        try JSONScanner.parse(try contents(ofFile: site.feed + "/manifest.json"), maximumBytes: 1 << 16)
            .objectValue?["version"]?.stringValue
    }

    @Test func `release retry lets devices try a blocked release once more`() throws {
        let site = try ChannelSite()
        try site.publish("1.0.0").succeeded()
        try site.install("one").succeeded("installed")
        let store = ["--store", site.folder.file("store-one"), "--json"]
        func launch(_ verdict: String) throws -> String {
            let launched = try Clientctl.run(["launch", "--shell-version", "1.5.0"] + store).succeeded()
            let (version, token) = (launched.string("version") ?? "", launched.string("token") ?? "")
            try Clientctl.run([verdict, "--version", version, "--token", token] + store).succeeded()
            return version
        }
        #expect(try launch("confirm") == "1.0.0")
        try site.publish("1.1.0").succeeded()
        try site.install("one").succeeded("installed")
        #expect(try [launch("fail"), launch("confirm"), launch("fail")] == ["1.1.0", "1.0.0", "1.1.0"])
        #expect(try launch("confirm") == "1.0.0")
        try site.install("one").failed(41, "versionBlocked")
        let retried = try site.release("retry", "--version", "1.1.0").succeeded("changed")
        #expect(retried.strings("changes") == ["1.1.0: retry 1, devices that blocked it try it once more"])
        try site.install("one").succeeded("upToDate")
        #expect(try [launch("fail"), launch("confirm"), launch("confirm")] == ["1.1.0", "1.0.0", "1.0.0"])
        try site.install("one").failed(41, "versionBlocked")
        for _ in 2...8 { try site.release("retry", "--version", "1.1.0").succeeded("changed") }
        try site.release("retry", "--version", "1.1.0").failed(78, "configInvalid")
        try site.install("one").succeeded("upToDate")
        #expect(try launch("confirm") == "1.1.0")
    }

    @Test func `manifest.json follows the release that all devices of the default channel get`() throws {
        #expect(try site.publish("1.0.0").succeeded("published")["newest"] == .bool(true))
        #expect(try newest() == "1.0.0")
        #expect(try site.publish("1.1.0", ["--rollout", "50%"]).succeeded("published")["newest"] == .bool(false))
        #expect(try site.publish("1.2.0", channel: "beta").succeeded("published")["newest"] == .bool(false))
        #expect(try newest() == "1.0.0")
        try site.release("rollout", "--version", "1.1.0", "100%").succeeded("changed")
        #expect(try newest() == "1.1.0")
        // The manifest in the root of the feed names the archive by a path that exists.
        try Clientctl.run(["verify", site.feed + "/manifest.json", "--trust", site.pinned, "--json"]).succeeded(
            "verified")
        try site.release("recall", "--version", "1.1.0", "--reason", "white screen").succeeded("changed")
        #expect(try newest() == "1.0.0")
        try site.release("recall", "--version", "1.1.0", "--undo").succeeded("changed")
        #expect(try newest() == "1.1.0")
    }

    @Test func `release recall --below recalls all versions below the minimum`() throws {
        try site.publish("1.0.0")
        try site.install("d").succeeded("installed")
        try site.release("recall", "--below", "2.0.0").failed(78, "configInvalid")
        try site.publish("2.0.0")
        try site.release("recall", "--below", "2.0.0").succeeded("changed")
        try site.install("d").succeeded("installed")
        try site.release("recall", "--below", "1.0.0").failed(22, "rollbackAttempt")
        let list = try site.list().succeeded()
        #expect(list.string("minimumVersion") == "2.0.0")
        let states = list["releases"]?.arrayValue?.map { $0.objectValue?["recalled"]?.boolValue }
        #expect(states == [false, true])
    }

    @Test func `replaces a release key, and devices follow`() throws {
        try site.publish("1.0.0")
        try site.install("d").succeeded("installed")
        try Clientctl.run([
            "trust", "rotate", site.trust, "--old", site.pub("release"), "--new", site.pub("new"), "--revoke", "--json",
        ]).succeeded("drafted")
        try site.publishRoot().failed(20, "signatureInvalid")
        try site.signRoot("root2", "root3")
        let published = try site.publishRoot().succeeded("published")
        #expect(published["version"] == .integer(2))
        let void = published["refused"]?.arrayValue?.compactMap { $0.objectValue?["document"]?.stringValue }
        #expect(void == ["manifest.json", "stable"])
        #expect(published.errors.contains("has signed 1.0.0, which manifest.json and channel stable offer, so"))
        #expect(try published.errors.contains(site.id("new")))
        let late = try site.install("late").failed(20, "keyUnknown")
        #expect(late.errors.contains("which trust root 2 has revoked"))

        // The publisher with the revoked key is rejected before it writes anything.
        let refused = try site.publish("1.0.1").failed(20, "keyUnknown")
        #expect(refused.errors.contains("trust root (version 2)"))
        #expect(try refused.errors.contains(site.id("new")))
        #expect(try site.sequence() == 1)

        try site.publish("1.1.0", ["--devices-trust-new-key"], key: "new").succeeded("published")
        #expect(try site.install("d").succeeded("installed").string("version") == "1.1.0")
        #expect(try site.runs("d") == "1.1.0")
        // A device that has only the first root follows to the second one.
        #expect(try site.install("fresh").succeeded("installed").string("version") == "1.1.0")

        // Shell builders pin the newest root.
        let updated = try Clientctl.run(["trust", "update", site.pinned, "--feed", site.feed, "--json"])
        #expect(updated.succeeded("updated")["version"] == .integer(2))
        #expect(try contents(ofFile: site.pinned) == contents(ofFile: "\(site.feed)/trust.json"))
        try Clientctl.run(["trust", "update", site.pinned, "--feed", site.feed, "--json"]).succeeded("unchanged")
    }

    @Test func `device rejects a release of a revoked key although the channel key is valid`() throws {
        // Without a trust root in the feed, `publish` cannot detect the revoked key.
        try Clientctl.stock(["rm", "-r", "\(site.feed)/trust", "\(site.feed)/trust.json"])
        try site.publish("1.0.0")
        try site.install("d").succeeded("installed")
        try Clientctl.run([
            "trust", "rotate", site.trust, "--old", site.pub("release"), "--new", site.pub("new"), "--revoke", "--json",
        ]).succeeded("drafted")
        try site.signRoot("root1", "root2")
        try site.publish("1.1.0").succeeded("published")
        try site.install("d", trust: site.trust).failed(20, "keyUnknown")
    }

    @Test func `refuses to restart a lost channel, and devices keep their recalls`() throws {
        for version in ["1.0.0", "1.1.0"] { try site.publish(version, ["--rollout", "100%"]).succeeded() }
        try site.release("recall", "--version", "1.0.0", "--reason", "bad").succeeded("changed")
        try site.install("a").succeeded("installed")
        try Clientctl.stock(["rm", "\(site.feed)/channels/stable.json"])
        let before = try TreeSnapshot(of: site.feed)
        for (state, status, code) in [("none", 78, "configInvalid"), (nil, 22, "rollbackAttempt")]
            as [(String?, Int32, String)]
        {
            let environment = state.map { ["CLIENTCTL_PUBLISHER_STATE": $0] } ?? [:]
            let stated = state == nil ? [] : ["--expect-sequence", "0"]
            let refused = try site.publish("1.2.0", stated, environment: environment).failed(status, code)
            #expect(refused.errors.contains("channel restore"), "\(refused.errors)")
        }
        #expect(try TreeSnapshot(of: site.feed).changes(since: before) == [])
        try site.channel("restore").succeeded()
        try site.install("a").succeeded("upToDate")
        try site.install("b").succeeded("installed")
        #expect(access("\(site.folder.file("store-b"))/clients/v1.1.0", F_OK) == 0)
    }

    @Test func `publish rejects a key or application that the trust root does not list`() throws {
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        let before = try TreeSnapshot(of: site.feed)
        func publish(_ key: String, _ appId: String, _ more: [String] = []) throws -> Outcome {
            try Clientctl.run(
                [
                    "publish", source, "--version", "1.0.0", "--feed", site.feed, "--key", site.key(key), "--min-shell",
                    "1.0.0", "--app-id", appId, "--json",
                ] + more)
        }
        for more in [[], ["--channel", "stable", "--create", "--channel-key", site.key("channel")], ["--dry-run"]] {
            try publish("new", ChannelSite.appId, more).failed(20, "keyUnknown")
            #expect(
                try publish("release", "com.example.other", more).failed(43, "appMismatch").subject
                    == "com.example.other")
        }
        try publish("release", ChannelSite.appId, ["--channel", "stable", "--create"]).failed(20, "keyUnknown")
        #expect(try TreeSnapshot(of: site.feed).files == before.files)
        try publish("release", ChannelSite.appId).succeeded("published")
    }

    @Test func `publish refuses to leave out a key of the current release until no device depends on it`() throws {
        try Clientctl.stock(["rm", "-r", "\(site.feed)/trust", "\(site.feed)/trust.json"])
        try site.publish("1.0.0").succeeded("published")
        let both = ["--key", site.key("new")]
        try site.publish("1.1.0", both).succeeded("published")
        let refused = try site.publish("1.2.0", key: "new").failed(20, "keyUnknown")
        #expect(try refused.errors.contains(site.id("release")), "\(refused.errors)")
        try site.publish("1.2.0", ["--devices-trust-new-key"], key: "new").succeeded("published")
        // From then on, an earlier release shows that devices need only the new key.
        try site.publish("1.3.0", both).succeeded("published")
        try site.publish("1.4.0", key: "new").succeeded("published")
    }

    @Test func `replaces a channel key by signing the channel file again`() throws {
        try site.publish("1.0.0")
        try Clientctl.run([
            "trust", "rotate", site.trust, "--old", site.pub("channel"), "--new", site.pub("new"), "--json",
        ]).succeeded("drafted")
        try site.signRoot("root1", "root3")
        let published = try site.publishRoot().succeeded("published")
        #expect(published.strings("channelsToSign") == ["stable"])
        #expect(published.errors.contains("channel renew --channel stable"))
        try site.install("d").failed(20, "keyUnknown")
        try site.channel("renew", key: "new").failed(20, "keyUnknown")
        try site.channel("renew", "--trust", site.pub("channel"), key: "new").failed(20, "keyUnknown")
        try site.channel("renew", "--trust", site.pub("channel"), "--devices-trust-new-key", key: "new").succeeded(
            "changed")
        try site.install("d").succeeded("installed")
    }

    @Test func `a new channel key recovers devices whose time a wrong publisher clock moved a year ahead`() throws {
        let site = try ChannelSite()
        try site.publish("1.0.0").succeeded("published")
        try site.install("d").succeeded("installed")
        try site.publish("1.1.0").succeeded("published")
        var ahead = ChannelTerms(
            signers: [try KeyFile.signer(at: site.key("channel")) { [] }],
            clock: try Timestamp(secondsSinceEpoch: time(nil) + 400 * 86_400))
        ahead.isClockAccepted = true
        // By the wrong clock, the trust root of the feed has expired as well, so this publisher's copy has none.
        let copy = site.folder.file("copy")
        try Clientctl.stock(["cp", "-a", site.feed, copy])
        try Clientctl.stock(["rm", "-r", "\(copy)/trust.json", "\(copy)/trust"])
        _ = try ChannelEditor(feed: FeedFolder(copy), ahead).apply(.renew, to: "stable")
        try Clientctl.stock(["cp", "-r", "\(copy)/channels", site.feed])
        try site.install("d").succeeded("installed")
        // A correct clock does not help: by their stored time, the devices have an expired trust root.
        let warned = try site.publish("1.2.0").succeeded("published")
        #expect(warned.errors.contains("this machine's clock says"))
        try site.install("d").failed(21, "expired")
        try Clientctl.run([
            "trust", "rotate", site.trust, "--old", site.pub("channel"), "--new", site.pub("new"), "--json",
        ]).succeeded("drafted")
        try site.signRoot("root1", "root2")
        try site.publishRoot().succeeded("published")
        try site.channel("renew", "--trust", site.pub("channel"), "--devices-trust-new-key", key: "new").succeeded(
            "changed")
        let back = try site.install("d").succeeded("installed")
        #expect(back.string("version") == "1.2.0")
        #expect(try site.publish("1.3.0", channelKey: "new").succeeded("published").errors.contains("clock") == false)
    }

    @Test func `lists all channels of a feed and verifies one channel file`() throws {
        let site = try ChannelSite()
        try site.publish("1.0.0").succeeded("published")
        try site.publish("1.1.0", channel: "beta").succeeded("published")
        let list = try Clientctl.run(["channel", "list", "--feed", site.feed, "--json"]).succeeded()
        let channels = list["channels"]?.arrayValue?.compactMap(\.objectValue) ?? []
        #expect(channels.map { $0["channel"] } == [.string("beta"), .string("stable")])
        #expect(list.strings("releases") == ["1.1.0", "1.0.0"] && list.string("offered") == "1.0.0")
        let empty = try site.folder.makeFolder("empty")
        try Clientctl.run(["channel", "list", "--feed", empty, "--json"]).failed(78, "configInvalid")
        let release = try site.list()["releases"]?.arrayValue?.first?.objectValue
        #expect(release?["size"]?.integerValue ?? 0 > 0)
        #expect(release?["keyId"] == .string(try site.id("release")))
        let verify = ["verify", "\(site.feed)/channels/beta.json", "--json", "--trust"]
        let verified = try Clientctl.run(verify + [site.pinned]).succeeded("verified")
        #expect(verified.strings("keyIds") == [try site.id("channel")])
        try Clientctl.run(verify + [site.pub("channel")]).failed(20, "keyUnknown")
        try Clientctl.run(verify + [site.pub("release")]).failed(20, "keyUnknown")
        try site.publish("1.0.0", channel: "late").succeeded()
        try Clientctl.stock(["sh", "-c", "echo '{' > '\(site.feed)/channels/late.json'"])
        let damaged = try site.channel("renew", channel: "late").failed(25, "manifestMalformed")
        #expect(damaged.subject == "\(site.feed)/channels/late.json")
        #expect(damaged.errors.contains("Restore it from a copy"))
    }

    @Test func `publishing the same release again writes nothing after its rollout changed`() throws {
        try site.publish("1.0.0", ["--rollout", "1%"])
        try site.release("rollout", "--version", "1.0.0", "50%").succeeded("changed")
        let before = try TreeSnapshot(of: site.feed)
        let again = try site.publish("1.0.0", ["--rollout", "1%"]).succeeded("unchanged")
        #expect(again["channel"]?.objectValue?["outcome"] == .string("unchanged"))
        #expect(again["channel"]?.objectValue?["sequence"] == .integer(2))
        #expect(try TreeSnapshot(of: site.feed).changes(since: before) == [])
    }

    @Test func `adds an already published release to a channel`() throws {
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web-1.0.0")
        try Clientctl.run([
            "publish", source, "--version", "1.0.0", "--feed", site.feed, "--key", site.key("release"), "--min-shell",
            "1.0.0", "--app-id", ChannelSite.appId, "--json",
        ]).succeeded("published")
        let joined = try site.publish("1.0.0").succeeded("completed")
        #expect(joined["channel"]?.objectValue?["outcome"] == .string("changed"))
        try site.install("d").succeeded("installed")
    }

    @Test(arguments: [-400, 400])
    func `SOURCE_DATE_EPOCH sets the time of releases but not of channel files, ramps and trust roots`(days: Int) throws
    {
        let now = time(nil)
        let epoch = ["SOURCE_DATE_EPOCH": "\(now + days * 86_400)"]
        func isNow(_ value: JSONValue?) throws -> Bool {
            let stated = try Timestamp(parsing: try #require(value?.stringValue)).secondsSinceEpoch
            return (now...time(nil)).contains(stated)
        }
        let made = try site.publish("1.0.0", environment: epoch).succeeded("published")
        #expect(try isNow(made["channel"]?.objectValue?["issuedAt"]))
        let created = try site.list()["releases"]?.arrayValue?.first?.objectValue?["createdAt"]
        #expect(created == .string("\(try Timestamp(secondsSinceEpoch: now + days * 86_400))"))
        func run(_ arguments: String...) throws -> Outcome {
            try Clientctl.run(
                arguments
                    + ["--feed", site.feed, "--channel", "stable", "--channel-key", site.key("channel"), "--json"],
                environment: epoch)
        }
        #expect(try isNow(run("channel", "renew").succeeded("changed")["issuedAt"]))
        try run("release", "rollout", "--ramp", "1%,10%,100%", "--every", "1d", "--version", "1.0.0").succeeded(
            "changed")
        let ramped = try site.list()["releases"]?.arrayValue?.first?.objectValue
        #expect(ramped?["rollout"] == .string("1%"))
        let unrooted = try ChannelSite(withRoot: false)
        try unrooted.initRoot(environment: epoch).succeeded("created")
        func issued() throws -> JSONValue? {
            try Clientctl.run(["trust", "show", unrooted.trust, "--json"]).succeeded()["issuedAt"]
        }
        #expect(try isNow(issued()))
        try Clientctl.run(
            ["trust", "renew", unrooted.trust, "--json"], environment: epoch
        ).succeeded("drafted")
        #expect(try isNow(issued()))
    }

    @Test func `inspect shows a channel and a trust root without verifying them`() throws {
        try site.publish("1.0.0", ["--rollout", "1%"])
        let channel = try Clientctl.run(["inspect", "\(site.feed)/channels/stable.json", "--json"]).succeeded()
        #expect(channel.string("kind") == "channel")
        #expect(channel["verified"] == .bool(false))
        let release = channel["channel"]?.objectValue?["releases"]?.arrayValue?.first?.objectValue
        #expect(release?["rollout"] == .string("1%"))
        let root = try Clientctl.run(["inspect", "\(site.feed)/trust/1.json", "--json"]).succeeded()
        #expect(root.string("kind") == "trustRoot")
        #expect(root["trustRoot"]?.objectValue?["complete"] == .bool(true))
        for file in ["channels/stable.json", "trust.json"] {
            let plain = try Clientctl.run(["inspect", "\(site.feed)/\(file)"])
            #expect(plain.status == 0)
            #expect(plain.text.hasPrefix("Nothing was verified.\n"))
        }
    }
}

/// Edits that a channel rejects before it writes anything.
@Suite(.ownThread) struct ChannelRefusalTests {
    private let site: ChannelSite

    init() throws {
        site = try ChannelSite(withRoot: false)
        try site.publish("1.0.0").succeeded("published")
    }

    private func refused(
        _ status: Int32, _ code: String, _ outcome: () throws -> Outcome,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> Outcome {
        let before = try TreeSnapshot(of: site.feed)
        let outcome = try outcome().failed(status, code, sourceLocation: sourceLocation)
        #expect(try TreeSnapshot(of: site.feed).changes(since: before) == [], sourceLocation: sourceLocation)
        return outcome
    }

    @Test func `release pause rejects another channel key and a damaged channel file`() throws {
        let other = try refused(20, "keyUnknown") { try site.release("pause", "--version", "1.0.0", key: "new") }
        #expect(other.subject == "channel stable")
        let signer = try site.id("channel").prefix(12)
        #expect(
            other.errors.contains(
                "Channel stable is signed by another key, \(signer)…. Sign with that key. If it was replaced, give its public key"
            )
        )
        _ = try refused(20, "keyUnknown") { try site.publish("1.1.0", channelKey: "new") }
        let change = "s/\"sig\": \"A/\"sig\": \"B/;t;s/\"sig\": \"./\"sig\": \"A/"
        try Clientctl.stock(["sed", "-i", change, "\(site.feed)/channels/stable.json"])
        _ = try refused(20, "signatureInvalid") { try site.release("pause", "--version", "1.0.0") }
    }

    @Test func `channel edits reject a missing version, channel or feed`() throws {
        #expect(try refused(78, "configInvalid") { try site.release("pause", "--version", "9.0.0") }.subject == "9.0.0")
        let channel = try refused(78, "configInvalid") {
            try site.release("pause", "--version", "1.0.0", channel: "nightly")
        }
        #expect(channel.subject == "channel nightly")
        #expect(try refused(78, "configInvalid") { try site.list("nightly") }.subject == "channel nightly")
        try Clientctl.run(["channel", "list", "--feed", site.folder.file("missing"), "--channel", "stable", "--json"])
            .failed(78, "configInvalid")
    }

    @Test func `channel edits reject an unexpected sequence`() throws {
        let refused = try refused(22, "rollbackAttempt") {
            try site.release("pause", "--version", "1.0.0", "--expect-sequence", "7")
        }
        #expect(refused.subject == "channel stable")
        #expect(refused.errors.contains("has sequence 1, not 7"))
        try site.publish("1.1.0", ["--expect-sequence", "0"]).failed(22, "rollbackAttempt")
        try site.publish("1.1.0", ["--expect-sequence", "1"]).succeeded("published")
    }

    @Test func `channel edits reject another application and forbidden values`() throws {
        let other = try refused(43, "appMismatch") { try site.publish("1.1.0", ["--app-id", "com.example.other"]) }
        #expect(other.subject == "com.example.other")
        try site.publish("1.2.0").succeeded("published")
        try site.release("recall", "--version", "1.0.0", "--reason", "bad").succeeded("changed")
        try site.release("recall", "--below", "1.2.0").succeeded("changed")
        #expect(try refused(41, "versionBlocked") { try site.publish("1.1.0") }.subject == "1.1.0")
    }

    @Test func `channel set --poll sets how often devices check`() throws {
        #expect(try site.list()["poll"] == .null)
        try site.channel("set", "--poll", "5m", "--jitter", "30s").succeeded("changed")
        #expect(try site.list()["poll"] == .object(["interval": .integer(300), "jitter": .integer(30)]))
        try site.channel("set", "--poll", "5m", "--jitter", "30s").succeeded("unchanged")
        try site.channel("set", "--poll", "default").succeeded("changed")
        #expect(try site.list()["poll"] == .null)
    }

    @Test func `dry runs of channel edits list their changes and write nothing`() throws {
        let before = try TreeSnapshot(of: site.feed)
        for arguments in [
            ["release", "rollout", "--version", "1.0.0", "5%"], ["release", "pause", "--version", "1.0.0"],
            ["release", "recall", "--version", "1.0.0", "--reason", "x"], ["channel", "renew"],
            ["release", "promote", "--version", "1.0.0", "--to", "beta", "--create"],
            ["release", "withdraw", "--version", "1.0.0"],
            ["channel", "set", "--poll", "5m"],
        ] {
            let outcome = try Clientctl.run(
                arguments
                    + [
                        "--feed", site.feed, "--channel", "stable", "--channel-key", site.key("channel"), "--dry-run",
                        "--json",
                    ]
            ).succeeded("dryRun")
            #expect(outcome.strings("changes")?.isEmpty == false)
        }
        try site.publish("1.1.0", ["--dry-run"]).succeeded("dryRun")
        #expect(try TreeSnapshot(of: site.feed).changes(since: before) == [])
    }

    @Test(arguments: [
        ["release", "rollout", "--version", "1.0.0", "100.1%"],
        ["release", "rollout", "--version", "1.0.0", "--", "-1%"],
        ["release", "rollout", "--version", "1.0.0", "250"], ["release", "rollout", "--version", "1.0.0", "2.55%"],
        ["release", "rollout", "--version", "1.0.0", "%"],
        ["release", "rollout", "--version", "1.0.0", "1e1%"], ["release", "rollout", "--version", "1.0.0"],
        ["release", "pause"],
        ["release", "pause", "--version", "one"],
        ["release", "recall", "--version", "1.0.0"], ["release", "recall"],
        ["release", "recall", "--version", "1.0.0", "--below", "1.0.0"],
        ["release", "promote", "--version", "1.0.0"],
        ["release", "promote", "--version", "1.0.0", "--to", "stable"],
        ["release", "promote", "--version", "1.0.0", "--to", "x", "--sequence", "2"],
        ["release", "promote", "--version", "1.0.0", "--to", "a/b"], ["channel", "renew", "--expires-in", "30"],
        ["channel", "renew", "--expires-in", "1ms"], ["channel", "set"], ["channel", "set", "--busy", "61m"],
        ["channel", "set", "--poll", "9s"], ["channel", "set", "--poll", "8d"],
        ["channel", "set", "--poll", "1500ms"], ["channel", "set", "--poll", "1m", "--jitter", "2m"],
        ["channel", "set", "--jitter", "1s"],
        ["channel", "set", "--poll", "default", "--jitter", "1s"],
        ["channel", "renew", "--if-expires-within", "soon"],
        ["channel", "renew", "--expect-sequence", "x"],
        ["channel", "renew", "--sign-command", "true"],
    ])
    func `channel edits reject invalid or contradictory flags`(arguments: [String]) throws {
        _ = try refused(64, "usage") {
            // After "--", the command line has no flags.
            try Clientctl.run(
                Array(arguments.prefix(2))
                    + ["--feed", site.feed, "--channel", "stable", "--channel-key", site.key("channel"), "--json"]
                    + arguments.dropFirst(2))
        }
    }

    @Test func `rejects channel flags without --channel`() throws {
        let publish = [
            "publish", site.folder.file("web-1.0.0"), "--version", "2.0.0", "--feed", site.feed, "--min-shell", "1.0.0",
        ]
        for more in [
            ["--rollout", "5%"], ["--channel-key", site.key("channel")], ["--expires-in", "1d"],
            ["--create"], ["--sequence", "2"], ["--channel-sign-public-key", site.pub("channel")],
        ] {
            _ = try refused(64, "usage") {
                try Clientctl.run(publish + ["--key", site.key("release"), "--json"] + more)
            }
        }
        _ = try refused(64, "usage") { try Clientctl.run(publish + ["--json"]) }
        _ = try refused(64, "usage") {
            try Clientctl.run(publish + ["--key", site.key("release"), "--key", site.key("release"), "--json"])
        }
    }

    @Test func `a trust root with two release keys requires both signatures`() throws {
        let source = try site.folder.writeTree(Site.client("2.0.0"), to: "web-2.0.0")
        let publish = [
            "publish", source, "--version", "2.0.0", "--feed", site.feed, "--key", site.key("release"), "--min-shell",
            "1.0.0", "--app-id", ChannelSite.appId, "--channel", "stable", "--channel-key", site.key("channel"),
            "--json",
        ]
        try Clientctl.run(publish + ["--key", site.key("new")]).succeeded("published")
        let manifest = try JSONScanner.parse(
            try contents(ofFile: "\(site.feed)/releases/v2.0.0/manifest.json"), maximumBytes: 1 << 16)
        #expect(manifest.objectValue?["keyId"] == .string(try site.id("release")))
        let others = manifest.objectValue?["signatures"]?.arrayValue
        #expect(others?.count == 1)
        #expect(others?.first?.objectValue?["keyid"] == .string(try site.id("new")))

        try Clientctl.run([
            "trust", "init", "--out", site.trust, "--root-key", site.pub("root1"), "--release-key", site.pub("release"),
            "--release-key", site.pub("new"), "--release-threshold", "2", "--sign-key", site.key("root1"), "--json",
        ]).succeeded("created")
        func install(_ manifest: String) throws -> Outcome {
            try Clientctl.run([
                "install", "--manifest", "\(site.feed)/\(manifest)", "--trust", site.trust, "--store",
                site.folder.file("store"), "--shell-version", "1.0.0", "--json",
            ])
        }
        try install("releases/v1.0.0/manifest.json").failed(20, "signatureInvalid")
        try install("manifest.json").succeeded("installed")
        try Clientctl.run(publish + ["--key", site.key("new")]).succeeded("unchanged")
        try Clientctl.run(publish + ["--key", site.key("root1")]).failed(51, "versionExists")
    }
}

/// Several processes that edit one channel at the same time.
@Suite(.ownThread) struct ParallelReleaseTests {
    @Test func `keeps every change of parallel edits`() throws {
        let site = try ChannelSite(withRoot: false)
        let count = 16
        for number in 1...count { try site.publish("1.0.\(number)").succeeded("published") }
        let processes = try (1...count).map { number in
            try Clientctl.start([
                "release", "rollout", "--version", "1.0.\(number)", "\(number)%", "--feed", site.feed, "--channel",
                "stable",
                "--channel-key", site.key("channel"), "--json",
            ])
        }
        let sequences = try processes.map { try Outcome($0.wait()).succeeded("changed")["sequence"]?.integerValue ?? 0 }
        #expect(sequences.sorted() == Array(count + 1...2 * count))
        let list = try site.list().succeeded()
        #expect(list["sequence"] == .integer(2 * count))
        let rollouts = list["releases"]?.arrayValue?.compactMap { $0.objectValue?["rollout"]?.stringValue }
        #expect(rollouts == (1...count).reversed().map { "\($0)%" })
    }
}
