import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// Locks of a feed: a command holds the lock only while it renames files, and a waiting command names the holder.
@Suite(.ownThread) struct FeedLockTests {
    private let site: ChannelSite

    init() throws {
        site = try ChannelSite(withRoot: false)
        try site.publish("1.0.0").succeeded("published")
    }

    /// Returns a signing command that reports its start, and signs when the file `gate` exists.
    private func slow(_ key: String) -> String {
        """
        echo x >>'\(site.folder.file("runs"))'; while ! test -e '\(site.folder.file("gate"))'; do sleep 0.02; done; \
        openssl pkeyutl -sign -rawin -inkey '\(site.key(key))' -in /dev/stdin
        """
    }

    private func openGate() throws { try site.folder.write([], to: "gate") }

    private var runs: Int { (try? contents(ofFile: site.folder.file("runs")).count { $0 == 10 }) ?? 0 }

    private func awaitRun(_ count: Int = 1) throws {
        for _ in 0..<6000 where runs < count { poll(nil, 0, 10) }
        try #require(runs >= count)
    }

    private func start(_ version: String, _ more: [String], of tree: String? = nil) throws -> Program {
        let source = try tree ?? site.folder.writeTree(Site.client(version), to: "web-\(version)")
        return try Clientctl.start(
            [
                "publish", source, "--version", version, "--feed", site.feed, "--min-shell", "1.0.0", "--app-id",
                ChannelSite.appId, "--level", "1", "--channel", "stable", "--json",
            ] + more)
    }

    private var drafts: [String] {
        get throws {
            try TreeSnapshot(of: "\(site.feed)/releases").paths.filter { $0.hasPrefix(".") && !$0.contains("/") }
        }
    }

    @Test func `a recall does not wait for a publisher that waits for its hardware token`() throws {
        let publisher = try start(
            "1.1.0",
            [
                "--sign-command", slow("release"), "--sign-public-key", site.pub("release"), "--channel-key",
                site.key("channel"),
            ])
        try awaitRun()
        try site.release("recall", "--version", "1.0.0", "--reason", "bad", "--wait", "0s").succeeded("changed")
        // Another publisher does not wait either, and both keep their drafts.
        try site.publish("1.2.0", ["--wait", "0s"]).succeeded("published")
        #expect(try drafts.count == 1)
        #expect(try publisher.wait(within: .zero) == nil)
        try openGate()
        Outcome(try publisher.wait()).succeeded("published")
        let list = try site.list()
        #expect(list["sequence"] == .integer(4))
        #expect(list["recalled"]?.arrayValue?.count == 1)
        #expect(list["releases"]?.arrayValue?.count == 3)
        #expect(try drafts == [])
    }

    @Test func `signs a channel again when it changed during signing, and loses no change`() throws {
        let signing = ["--channel-sign-command", slow("channel"), "--channel-sign-public-key", site.pub("channel")]
        let publisher = try start("1.1.0", ["--key", site.key("release")] + signing)
        try awaitRun()
        let editor = try Clientctl.start(
            ["release", "pause", "--version", "1.0.0", "--feed", site.feed, "--channel", "stable", "--json"]
                + ["--sign-command", slow("channel"), "--sign-public-key", site.pub("channel")])
        try awaitRun(2)
        try site.release("rollout", "50%", "--version", "1.0.0", "--wait", "0s").succeeded("changed")
        try openGate()
        Outcome(try publisher.wait()).succeeded("published")
        Outcome(try editor.wait()).succeeded("changed")
        #expect(runs >= 4)
        let list = try site.list()
        #expect(list["sequence"] == .integer(4))
        let releases = list["releases"]?.arrayValue?.compactMap(\.objectValue) ?? []
        #expect(releases.map { $0["rollout"] } == [.string("100%"), .string("50%")])
        #expect(releases.map { $0["paused"] } == [.bool(false), .bool(true)])
    }

    @Test func `rejects --expect-sequence when the channel changed during signing`() throws {
        let before = try TreeSnapshot(of: "\(site.feed)/releases")
        let signing = ["--channel-sign-command", slow("channel"), "--channel-sign-public-key", site.pub("channel")]
        let publisher = try start("1.1.0", ["--key", site.key("release"), "--expect-sequence", "1"] + signing)
        try awaitRun()
        try site.release("pause", "--version", "1.0.0").succeeded("changed")
        try openGate()
        Outcome(try publisher.wait()).failed(22, "rollbackAttempt")
        #expect(try TreeSnapshot(of: "\(site.feed)/releases").changes(since: before) == [])
    }

    @Test func `publishes a version once when several publishers run at the same time`() throws {
        let signing = ["--sign-command", slow("release"), "--sign-public-key", site.pub("release")]
        let both = try site.folder.writeTree(Site.client("1.1.0"), to: "web-1.1.0")
        let first = try start("1.1.0", signing + ["--channel-key", site.key("channel")], of: both)
        let second = try start("1.1.0", signing + ["--channel-key", site.key("channel")], of: both)
        let other = try site.folder.writeTree(Site.client("other"), to: "other")
        let third = try Clientctl.start(
            [
                "publish", other, "--version", "1.1.0", "--feed", site.feed, "--min-shell", "1.0.0", "--json",
                "--app-id", ChannelSite.appId, "--channel", "stable", "--channel-key", site.key("channel"),
            ] + signing)
        try awaitRun(3)
        try openGate()
        let outcomes = try [first, second, third].map { Outcome(try $0.wait()) }
        let one = outcomes.filter { $0.outcome == "published" }
        #expect(one.count == 1)
        // Either the two publishers with equal content fail, or the third one does.
        if outcomes[2].outcome == "published" {
            for outcome in outcomes[..<2] { outcome.failed(51, "versionExists") }
        } else {
            #expect(outcomes[..<2].contains { $0.outcome == "unchanged" })
            outcomes[2].failed(51, "versionExists")
        }
        #expect(try drafts == [])
    }

    @Test func `publish removes the draft of a killed publisher`() throws {
        let publisher = try start(
            "1.1.0",
            [
                "--sign-command", slow("release"), "--sign-public-key", site.pub("release"), "--channel-key",
                site.key("channel"),
            ])
        try awaitRun()
        publisher.send(SIGKILL)
        _ = try publisher.wait()
        #expect(try drafts.count == 1)
        try openGate()
        try site.publish("1.1.0").succeeded("published")
        #expect(try drafts == [])
    }

    @Test func `names the process that holds the feed's lock, and waits for --wait`() throws {
        try Clientctl.run([
            "trust", "init", "--out", site.trust, "--root-key", site.pub("root1"), "--release-key",
            site.pub("release"), "--channel-key", site.pub("channel"), "--sign-key", site.key("root1"), "--json",
        ]).succeeded("created")
        let held = site.folder.file("held")
        let holder = try Program(
            [
                "flock", "-F", site.feed, "sh", "-c",
                "echo $$ >'\(held)'; while ! test -e '\(site.folder.file("gate"))'; do sleep 0.02; done",
            ], environment: Clientctl.environment())
        for _ in 0..<6000 where (try? contents(ofFile: held).last) != 10 { poll(nil, 0, 10) }
        let pid = String(decoding: try contents(ofFile: held).dropLast(), as: UTF8.self)
        let source = try site.folder.writeTree(Site.client("1.1.0"), to: "web")
        let publish = [
            "publish", source, "--version", "1.1.0", "--feed", site.feed, "--min-shell", "1.0.0", "--key",
            site.key("release"), "--app-id", ChannelSite.appId, "--channel", "stable", "--channel-key",
            site.key("channel"), "--json",
        ]
        let pause = [
            "release", "pause", "--version", "1.0.0", "--feed", site.feed, "--channel", "stable", "--channel-key",
            site.key("channel"), "--json",
        ]
        let root = ["trust", "publish", site.trust, "--feed", site.feed, "--json"]
        for command in [publish, pause, root] {
            let refused = try Clientctl.run(command + ["--wait", "0s"]).failed(32, "storeLocked")
            #expect(refused.errors.contains("another clientctl (pid \(pid))"), "\(refused.errors)")
            #expect(!refused.errors.contains("waiting"))
        }
        let waiting = try [publish, pause, root].map { try Clientctl.start($0 + ["--wait", "10m"]) }
        for program in waiting {
            for _ in 0..<6000 where try !program.printed().errors.contains("waiting") { poll(nil, 0, 10) }
            #expect(try program.printed().errors.contains("waiting for another clientctl (pid \(pid))"))
        }
        try openGate()
        _ = try holder.wait()
        for program in waiting { Outcome(try program.wait()).succeeded() }
    }
}
