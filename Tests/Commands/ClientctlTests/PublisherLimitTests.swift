import BundleCore
import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// Releases that devices would reject, which `publish` rejects or reports.
@Suite(.ownThread) struct PublisherLimitTests {
    private let site: Site

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
    }

    private func leavingFeedAlone(
        sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> Void
    ) throws {
        let before = try TreeSnapshot(of: site.feed)
        try body()
        #expect(try TreeSnapshot(of: site.feed).changes(since: before) == [], sourceLocation: sourceLocation)
    }

    @Test func `publish rejects an archive over --max-archive-size`() throws {
        let source = try site.folder.writeTree(["index.html": bytes("<p>"), "big": noise(20_000)], to: "web")
        try leavingFeedAlone {
            let refused = try site.publish(source, as: "2.0.0", ["--max-archive-size", "10kB"])
                .failed(24, "archiveRejected")
            #expect(refused.errors.contains("--max-archive-size"))
        }
        #expect(
            try site.publish(source, as: "2.0.0", ["--max-archive-size", "30kB"]).succeeded()["raisedLimits"]
                == .array([]))
    }

    @Test func `publish accepts a raised file size limit and names the flags that devices need`() throws {
        let source = try site.folder.writeTree(["index.html": bytes("<p>"), "big": noise(300_000)], to: "web")
        try leavingFeedAlone {
            try site.publish(source, as: "2.0.0", ["--max-file-size", "200kB"]).failed(24, "archiveRejected")
        }
        try Clientctl.stock(["truncate", "-s", "260M", "\(source)/big"])
        let raised = ["--max-file-size", "280MB", "--max-archive-size", "280MB"]
        try leavingFeedAlone {
            try site.publish(source, as: "2.0.0", ["--format", "tar"]).failed(24, "archiveRejected")
        }
        let published = try site.publish(source, as: "2.0.0", ["--format", "tar", "--no-deltas"] + raised).succeeded(
            "published")
        #expect(published.strings("raisedLimits") == ["--max-archive-size", "--max-file-size"])
        #expect(published.errors.contains("give every device --max-archive-size and --max-file-size"))
        try site.install().failed(24, "archiveRejected")
        try site.install(nil, raised).succeeded("installed")
    }

    @Test func `publish rejects a key that the devices of the feed do not trust`() throws {
        try Clientctl.run(["keys", "generate", "--out", site.folder.file("other"), "--json"]).succeeded()
        let key = ["--key", site.folder.file("other.key.pem")]
        let other = site.folder.file("other.pub.pem")
        let source = try site.folder.writeTree(Site.client("2.0.0"), to: "web")
        try leavingFeedAlone {
            for more in [[], ["--dry-run"], ["--trust", site.trust]] {
                try site.publish(source, as: "2.0.0", key + more).failed(20, "keyUnknown")
            }
            try site.publish(source, as: "2.0.0", ["--trust", other]).failed(20, "keyUnknown")
            try site.publish(site.folder.file("web-1.0.0"), as: "1.0.0", ["--trust", other]).failed(20, "keyUnknown")
            try site.publish(source, as: "2.0.0", key + ["--trust", other]).failed(20, "keyUnknown")
        }
        try site.publish(source, as: "2.0.0", key + ["--trust", other, "--devices-trust-new-key"])
            .succeeded("published")
        try site.publish(source, as: "2.0.1", key).succeeded("published")
    }

    @Test func `publish rejects a release of another application than the feed`() throws {
        try site.publish("1.1.0", nil, ["--app-id", "com.example.kiosk"])
        let source = try site.folder.writeTree(Site.client("2.0.0"), to: "web")
        try leavingFeedAlone {
            for more in [["--app-id", "com.example.other"], []] {
                try site.publish(source, as: "2.0.0", more).failed(43, "appMismatch")
            }
        }
    }

    @Test(arguments: ["s/\"version\": \"1.0.0\"/\"version\": \"9.9.9\"/", "s/\"signature\": \"./\"signature\": \"/"])
    func `publish rejects a feed with a changed manifest`(change: String) throws {
        try Clientctl.stock(["sed", "-i", change, site.manifest])
        let source = try site.folder.writeTree(Site.client("1.0.1"), to: "web")
        try leavingFeedAlone {
            let refused = try site.publish(source, as: "1.0.1")
            #expect([20, 78].contains(refused.status), "\(refused.errors)")
            #expect(refused.subject?.hasSuffix("manifest.json") == true)
        }
        try Clientctl.stock(["rm", site.manifest])
        try site.publish(source, as: "1.0.1").succeeded("published")
    }

    @Test func `publish reports an incomplete release folder as configInvalid`() throws {
        let folder = "\(site.feed)/releases/v1.0.0"
        try Clientctl.stock(["rm", "\(folder)/manifest.json"])
        try leavingFeedAlone {
            let refused = try site.publish(site.folder.file("web-1.0.0"), as: "1.0.0").failed(78, "configInvalid")
            #expect(refused.subject == folder)
            #expect(!refused.errors.contains("disk"))
        }
        try Clientctl.stock(["rm", "-r", folder])
        try site.folder.write(bytes("stray"), to: "feed/releases/v1.0.0")
        try leavingFeedAlone {
            try site.publish(site.folder.file("web-1.0.0"), as: "1.0.0").failed(78, "configInvalid")
        }
    }

    @Test func `publish reports a manifest with another archive path as digestMismatch`() throws {
        try Clientctl.stock(["cp", site.manifest, "\(site.feed)/releases/v1.0.0/manifest.json"])
        let refused = try site.publish(site.folder.file("web-1.0.0"), as: "1.0.0").failed(23, "digestMismatch")
        #expect(!refused.errors.contains("disk"))
    }

    @Test func `publish reports completed when it restores files of a feed`() throws {
        let manifest = try contents(ofFile: site.manifest)
        try Clientctl.stock(["rm", site.manifest])
        try site.publish(site.folder.file("web-1.0.0"), as: "1.0.0").succeeded("completed")
        #expect(try contents(ofFile: site.manifest) == manifest)
        try site.publish(site.folder.file("web-1.0.0"), as: "1.0.0").succeeded("unchanged")
    }

    @Test func `publish rejects a file that changes while it is packed`() throws {
        let source = try site.folder.writeTree(["index.html": bytes("<p>"), "big": noise(60_000_000)], to: "web")
        let publisher = try Clientctl.start([
            "publish", source, "--version", "2.0.0", "--feed", site.feed, "--key", site.key, "--min-shell", "1.0.0",
            "--format", "zip", "--level", "9", "--json",
        ])
        // The temporary folder appears after the files are listed and packing has begun.
        var isPacking = false
        while !isPacking, try publisher.wait(within: .milliseconds(1)) == nil {
            isPacking = try Clientctl.stock(["ls", "-A", "\(site.feed)/releases"]).contains(".publish-")
        }
        try Clientctl.stock(
            ["sh", "-c", "printf x | dd of=big conv=notrunc bs=1 seek=59999999 2>/dev/null"], in: source)
        let ended = Outcome(try publisher.wait()).failed(78, "configInvalid")
        #expect(ended.subject == "big")
        #expect(try Clientctl.stock(["ls", "-A", "\(site.feed)/releases"]) == "v1.0.0\n")
    }
}

/// Creation, promotion and recall of channels, with their effects on the feed.
@Suite(.ownThread) struct ChannelBeginningTests {
    private let site: ChannelSite

    init() throws { site = try ChannelSite(withRoot: false) }

    private func publish(_ version: String, _ channel: String, _ more: [String] = []) throws -> Outcome {
        let source = try site.folder.writeTree(Site.client(version), to: "web-\(version)")
        return try Clientctl.run(
            [
                "publish", source, "--version", version, "--feed", site.feed, "--key", site.key("release"),
                "--min-shell",
                "1.0.0", "--app-id", ChannelSite.appId, "--level", "1", "--channel", channel, "--channel-key",
                site.key("channel"), "--json",
            ] + more)
    }

    @Test func `publish creates the first channel of a new feed, and none that a feed could have lost`() throws {
        try publish("1.0.0", "stable", ["--dry-run"]).succeeded("dryRun")
        let made = try publish("1.0.0", "stable").succeeded("published")
        #expect(made["channel"]?.objectValue?["sequence"] == .integer(1))
        #expect(made.errors.contains("is a new feed"), "\(made.errors)")
        try Clientctl.stock(["rm", "-r", "\(site.feed)/channels"])
        try publish("1.1.0", "stable").failed(78, "configInvalid")
        // A run that stopped before it wrote the channel is completed.
        try Clientctl.stock(["rm", "\(site.feed)/manifest.json"])
        try publish("1.1.0", "stable").failed(78, "configInvalid")
        try publish("1.0.0", "stable", ["--publisher-state", site.folder.file("other")]).succeeded("completed")
    }

    @Test func `publish does not create a channel that this publisher signed before`() throws {
        let state = ["--publisher-state", site.folder.file("state")]
        try publish("1.0.0", "stable", state).succeeded("published")
        try site.channel("renew", "--publisher-state", site.folder.file("state")).succeeded("changed")
        try Clientctl.stock(["rm", "-r", site.feed])
        let refused = try publish("1.0.0", "stable", state).failed(22, "rollbackAttempt")
        #expect(refused.errors.contains("--create --sequence 3"), "\(refused.errors)")
    }

    @Test func `publish keeps the state of two feeds with the same key and channel apart`() throws {
        let state = ["--publisher-state", site.folder.file("state")]
        for version in ["1.0.0", "1.1.0"] { try publish(version, "stable", state).succeeded("published") }
        for version in ["1.0.0", "1.1.0", "1.2.0"] {
            try publish(version, "stable", state + ["--feed", site.folder.file("staging")]).succeeded("published")
        }
        try publish("1.2.0", "stable", state).succeeded("published")
    }

    @Test func `publish creates a channel in a feed with releases only with --create`() throws {
        try publish("0.9.0", "other").succeeded("published")
        let refused = try publish("1.0.0", "stable").failed(78, "configInvalid")
        #expect(refused.subject == "channel stable")
        #expect(refused.errors.contains("--create"))
        #expect(access("\(site.feed)/releases/v1.0.0", F_OK) != 0)
        try publish("1.0.0", "stable", ["--create"]).succeeded("published")
        // --create is accepted again for the same release, because the first run may have been stopped.
        try publish("1.0.0", "stable", ["--create"]).succeeded("unchanged")
        let created = try publish("1.1.0", "stable", ["--create"]).succeeded("published")
        #expect(created.errors.contains("--create had no effect"), "\(created.errors)")
        let mistyped = try publish("1.1.0", "stabel").failed(78, "configInvalid")
        #expect(mistyped.errors.contains("it has other, stable. Did you mean stable?"), "\(mistyped.errors)")
        let made = try publish("1.1.0", "stabel", ["--create", "--dry-run"]).succeeded("dryRun")
        #expect(made.errors.contains("the feed already has stable"), "\(made.errors)")
        let unknown = try site.channel("renew", channel: "prod")
        #expect(
            unknown.errors.contains("has no channel prod; it has other, stable. Create it with"), "\(unknown.errors)")
        try site.release("promote", "--version", "1.0.0", "--to", "beta").failed(78, "configInvalid")
        try site.release("promote", "--version", "1.0.0", "--to", "beta", "--create").succeeded("changed")
    }

    @Test func `publish --create --sequence restarts a lost channel above the sequence of devices`() throws {
        try publish("1.0.0", "stable", ["--create"]).succeeded("published")
        for _ in 1...3 { try site.channel("renew").succeeded("changed") }
        func install() throws -> Outcome {
            try Clientctl.run([
                "install", "--channel", "\(site.feed)/channels/stable.json", "--trust", site.folder.file("trusted"),
                "--store",
                site.folder.file("store"), "--shell-version", "1.5.0", "--app-id", ChannelSite.appId, "--json",
            ])
        }
        try site.folder.makeFolder("trusted")
        for name in ["release", "channel"] { try Clientctl.stock(["cp", site.pub(name), site.folder.file("trusted")]) }
        try install().succeeded("installed")
        try Clientctl.stock(["rm", "\(site.feed)/channels/stable.json"])
        try publish("1.1.0", "stable").failed(78, "configInvalid")
        let made = try publish("1.1.0", "stable", ["--create", "--sequence", "5"]).succeeded("published")
        #expect(made["channel"]?.objectValue?["sequence"] == .integer(5))
        try install().succeeded("installed")
    }

    @Test func `publish warns that it ignores another rollout of a published release`() throws {
        try publish("1.0.0", "stable", ["--create", "--rollout", "10%"]).succeeded("published")
        let same = try publish("1.0.0", "stable", ["--rollout", "10%"]).succeeded("unchanged")
        #expect(same.strings("warnings") == [])
        let ignored = try publish("1.0.0", "stable", ["--rollout", "50%"]).succeeded("unchanged")
        #expect(
            ignored.strings("warnings") == [
                "--rollout 50% was ignored, because channel stable has 1.0.0 already, for 10% of the devices. Use "
                    + "`clientctl release rollout 50% --version 1.0.0`."
            ])
    }

    @Test func `release promote keeps rollout and pause`() throws {
        try publish("1.0.0", "stable", ["--create"]).succeeded("published")
        try publish("1.1.0", "stable", ["--rollout", "2.5%"]).succeeded("published")
        try site.release("pause", "--version", "1.1.0").succeeded("changed")
        try site.release("promote", "--version", "1.1.0", "--to", "later", "--create").succeeded("changed")
        let later = try site.list("later")["releases"]?.arrayValue?.first?.objectValue
        #expect(later?["rollout"] == .string("2.5%"))
        #expect(later?["paused"] == .bool(true))
        try site.release("promote", "--version", "1.1.0", "--to", "other", "--create", "--rollout", "100%").succeeded()
        let other = try site.list("other")["releases"]?.arrayValue?.first?.objectValue
        #expect(other?["rollout"] == .string("100%"))
        #expect(other?["paused"] == .bool(true))
    }

    @Test func `release recall reports the effect on manifest.json`() throws {
        func manifest(_ outcome: Outcome) -> JSONObject? { outcome["manifest"]?.objectValue }
        try publish("1.0.0", "stable", ["--create"]).succeeded("published")
        try publish("1.1.0", "stable").succeeded("published")
        let first = try site.release("recall", "--version", "1.1.0", "--reason", "bad").succeeded("changed")
        #expect(manifest(first) == ["changed": .bool(true), "offers": .string("1.0.0"), "removed": .bool(false)])
        let second = try site.release("recall", "--version", "1.0.0", "--reason", "bad").succeeded("changed")
        #expect(manifest(second) == ["changed": .bool(true), "offers": .null, "removed": .bool(true)])
        try Clientctl.run(["feed", "check", "file://\(site.feed)/", "--channel", "stable", "--json"]).succeeded("good")
        try Clientctl.run(["feed", "offer", "1.0.0", "--feed", site.feed, "--json"]).failed(78, "configInvalid")
        // The outcome names written files even if the channel did not change.
        try site.release("recall", "--version", "1.0.0", "--undo").succeeded("changed")
        try Clientctl.stock(["rm", "\(site.feed)/manifest.json"])
        try site.release("recall", "--version", "1.0.0", "--undo").succeeded("completed")
    }

    @Test func `publish rejects a feed with an expired trust root`() throws {
        let rooted = try ChannelSite(withRoot: false)
        try rooted.publish("1.0.0").succeeded("published")
        let made = try rooted.initRoot(["--expires-in", "1s"]).succeeded("created")
        let end = try Timestamp(parsing: try #require(made.string("expires")))
        while Timestamp.now < end { usleep(50_000) }
        try Clientctl.stock(["mkdir", "\(rooted.feed)/trust"])
        for name in ["trust/1.json", "trust.json"] {
            try Clientctl.stock(["cp", rooted.trust, "\(rooted.feed)/\(name)"])
        }
        let before = try TreeSnapshot(of: rooted.feed)
        let refused = try rooted.publish("1.1.0").failed(21, "expired")
        #expect(refused.subject == "trust root 1")
        try rooted.release("pause", "--version", "1.0.0").failed(21, "expired")
        #expect(try TreeSnapshot(of: rooted.feed).changes(since: before) == [])
    }
}

/// Secrets that a person or a shell provides beside the flags.
@Suite(.ownThread) struct SecretInputTests {
    private let site: Site
    private let encrypted: String

    init() throws {
        site = try Site()
        encrypted = site.folder.file("enc.key.pem")
        try Clientctl.stock(["cp", site.key, encrypted])
        try Clientctl.encrypt(encrypted, passphrase: "horse")
    }

    @Test(arguments: [
        "cat \"$K\" | \"$0\" keys show /dev/stdin --json", "cat \"$K\" | \"$0\" keys show - --json",
        "\"$0\" keys show <(cat \"$K\") --json", "cat \"$P\" | \"$0\" keys show - --json",
        "echo horse | \"$0\" keys show \"$E\" --passphrase-file /dev/stdin --json",
        "echo horse | \"$0\" keys show \"$E\" --passphrase-file - --json",
        "\"$0\" keys show \"$E\" --passphrase-file <(echo horse) --json",
        "\"$0\" publish web --version 1.0.0 --feed feed --min-shell 1.0.0 --key <(cat \"$K\") --json",
    ])
    func `reads keys and passphrases from pipes`(line: String) throws {
        try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        let ending = try Program.run(
            ["bash", "-c", line, Clientctl.path],
            environment: Clientctl.environment(["K": site.key, "P": site.trust, "E": encrypted]), in: site.folder.path)
        Outcome(ending).succeeded()
    }

    @Test func `rejects an endless pipe as a key`() throws {
        let refused = try Clientctl.run(["keys", "show", "/dev/zero", "--json"]).failed(78, "configInvalid")
        #expect(refused.subject?.contains("/dev/zero") == true)
    }

    private static let typing = """
        import os, pty, signal, sys, time
        keys, program, arguments = sys.argv[1].encode().decode("unicode_escape").encode(), sys.argv[2], sys.argv[3:]
        child, terminal = pty.fork()
        if child == 0:
            # Restores the default signals, like a shell, because threads of the tests block some.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.execv(program, [program, *arguments])
        import termios
        said = b""
        for key in keys.split(b"|"):
            asked = b""
            while b": " not in asked:
                asked += os.read(terminal, 1024)
            said += asked
            while termios.tcgetattr(terminal)[3] & termios.ECHO:
                time.sleep(0.01)
            os.write(terminal, key)
        try:
            while True:
                more = os.read(terminal, 1024)
                if not more: break
                said += more
        except OSError:
            pass
        _, status = os.waitpid(child, 0)
        print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, os.waitstatus_to_exitcode(status), b"horse" in said)
        """

    private func type(_ keys: String, _ arguments: String...) throws -> String {
        try Clientctl.stock(["python3", "-c", Self.typing, keys, Clientctl.path] + arguments)
    }

    @Test(arguments: [(#"\x03"#, "2 -2 False\n"), (#"\x04"#, "0 78 False\n")])
    func `Ctrl-C and Ctrl-D end a passphrase prompt`(keys: String, ending: String) throws {
        let out = site.folder.file("typed")
        #expect(try type(keys, "keys", "generate", "--out", out, "--prompt") == ending)
        #expect(access("\(out).key.pem", F_OK) != 0)
    }

    @Test func `reads a typed passphrase without echo`() throws {
        let out = site.folder.file("typed")
        #expect(try type(#"horse\n|horse\n"#, "keys", "generate", "--out", out, "--prompt") == "0 0 False\n")
        try Clientctl.run(["keys", "show", "\(out).key.pem", "--json"], environment: ["CLIENTCTL_PASSPHRASE": "horse"])
            .succeeded()
    }
}

/// Readers that close early and commands that never stop writing.
@Suite(.ownThread) struct BoundedOutputTests {
    private let site: Site

    init() throws { site = try Site() }

    @Test func `a listing ends quietly when its reader closes the pipe`() throws {
        var files = Site.client("1.0.0")
        for number in 1...3000 { files["many/file-with-a-long-name-\(number)"] = [] }
        try site.publish("1.0.0", files)
        let scratch = try site.folder.makeFolder("scratch")
        let archive = "\(site.feed)/releases/v1.0.0/client-v1.0.0.tar.zst"
        for source in [archive, "file://\(archive)"] {
            let ending = try Program.run(
                ["bash", "-c", "\"$0\" inspect \"$1\" | head -1; exit ${PIPESTATUS[0]}", Clientctl.path, source],
                environment: Clientctl.environment(["TMPDIR": scratch]))
            #expect(ending.status == 141)
            #expect(ending.errors.isEmpty)
            #expect(ending.text.hasPrefix("an archive"))
            #expect(try TreeSnapshot(of: scratch).paths == [])
        }
    }

    @Test(arguments: ["cat /dev/zero", "yes", "exec cat /dev/zero"])
    func `ends a signing command that never stops writing`(command: String) throws {
        let scratch = try site.folder.makeFolder("scratch")
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        let refused = try Clientctl.run(
            [
                "publish", source, "--version", "1.0.0", "--feed", site.feed, "--min-shell", "1.0.0", "--json",
                "--sign-command", command, "--sign-public-key", site.trust,
            ], environment: ["TMPDIR": scratch]
        ).failed(78, "configInvalid")
        #expect(refused.errors.contains("65536 bytes"))
        #expect(try TreeSnapshot(of: scratch).paths == [])
    }

    @Test(.enabled(if: Clientctl.isRoot, "only root can run as another user"), arguments: [false, true])
    func `names a signing command of another user that it may not end, and does not wait`(isStopped: Bool) throws {
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        let id = site.folder.file("id")
        // The test runs as root without the right to end processes of other users, like a user whose command uses
        // sudo.
        let tool = "echo ready >&2; \(isStopped ? "" : "head -c 99999 /dev/zero; ")exec sleep 600"
        let signer = "echo $$ > \(id); exec setpriv --reuid 4321 --clear-groups sh -c '\(tool)'"
        let publisher = try Program(
            [
                "setpriv", "--bounding-set", "-kill", "--inh-caps", "-all", Clientctl.path, "publish", source,
                "--version", "1.0.0", "--feed", site.feed, "--min-shell", "1.0.0", "--json", "--sign-command", signer,
                "--sign-public-key", site.trust,
            ], environment: Clientctl.environment())
        for _ in 0..<6000 where try !publisher.printed().errors.contains("ready") { poll(nil, 0, 10) }
        if isStopped { publisher.send(SIGTERM) }
        let ending = try publisher.wait()
        let process = try #require(
            pid_t(String(decoding: try contents(ofFile: id), as: UTF8.self).split(separator: "\n")[0]))
        #expect(kill(process, SIGKILL) == 0)
        if isStopped {
            #expect(ending.signal == SIGTERM)
        } else {
            Outcome(ending).failed(78, "configInvalid")
        }
        #expect(ending.errors.contains("end it by hand"), "\(ending.errors)")
    }
}
