import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// Commands with a feed in a bucket, against a server that checks every request signature.
@Suite(.ownThread, .enabled(if: TestBucket.missing == nil, "\(TestBucket.missing ?? "")")) struct BucketTests {
    private let site: ChannelSite
    private let bucket: TestBucket
    private let feed: String

    init() throws {
        site = try ChannelSite()
        bucket = try TestBucket.forAllTests.get()
        feed = "s3://feeds" + site.folder.path
    }

    private func run(_ arguments: [String], _ more: [String: String] = [:]) throws -> Outcome {
        try Clientctl.run(arguments, environment: bucket.environment.merging(more) { $1 })
    }

    private func publish(_ version: String, _ more: [String] = [], _ environment: [String: String] = [:]) throws
        -> Outcome
    {
        let source = try site.folder.writeTree(Site.client(version), to: "web-\(version)")
        return try run(
            [
                "publish", source, "--version", version, "--feed", feed, "--min-shell", "1.0.0", "--app-id",
                ChannelSite.appId, "--level", "1", "--key", site.key("release"), "--channel-key", site.key("channel"),
                "--channel", "stable", "--json",
            ] + more, environment)
    }

    private func release(_ arguments: String...) throws -> Outcome {
        try run(
            ["release"] + arguments + [
                "--feed", feed, "--channel", "stable", "--channel-key", site.key("channel"), "--json",
            ])
    }

    @Test func `a change waits in a bucket until a second person approves it`() throws {
        let people = try TwoPeopleSite()
        try run(["feed", "copy", people.site.feed, feed, "--json"]).succeeded("copied")
        func edit(_ words: [String], as name: String, _ more: [String] = []) throws -> Outcome {
            try run(
                words + [
                    "--feed", feed, "--channel", "stable", "--channel-key", people.site.key(name), "--trust",
                    people.site.pinned, "--json",
                ] + more)
        }
        let pause = ["release", "pause", "--version", "1.1.0", "--propose", "--expect-sequence", "2"]
        let id = try #require(
            try edit(pause, as: "channel").succeeded("proposed")["proposal"]?.objectValue?["id"]?.stringValue)
        let list = try run(["release", "proposals", "--feed", feed, "--trust", people.site.pinned])
        #expect(list.text.contains("signed by Alice, token 2"), "\(list.text) \(list.errors)")
        let approve = ["release", "approve", id, "--expect-sequence"]
        let alone = try edit(approve + ["2"], as: "channel").failed(78, "configInvalid")
        #expect(alone.errors.contains("Another person must approve it"), "\(alone.errors)")
        try edit(approve + ["2"], as: "new").succeeded("changed")
        try edit(approve + ["3"], as: "new").failed(55, "proposalOutdated")
        #expect(try run(["release", "proposals", "--feed", feed]).text.contains("no change waits"))
    }

    @Test func `publishes, edits, lists, shows and verifies a feed in a bucket`() throws {
        try run(["trust", "publish", site.trust, "--feed", feed, "--json"]).succeeded("published")
        try run(["trust", "publish", site.trust, "--feed", feed, "--json"]).succeeded("unchanged")
        try publish("1.0.0", ["--create"]).succeeded("published")
        try publish("1.0.0").succeeded("unchanged")
        try publish("1.1.0", ["--rollout", "10%"]).succeeded("published")
        let other = try site.folder.writeTree(Site.client("other"), to: "web-1.1.0")
        #expect(other.hasSuffix("web-1.1.0"))
        try run(
            [
                "publish", other, "--version", "1.1.0", "--feed", feed, "--min-shell", "1.0.0", "--app-id",
                ChannelSite.appId, "--key", site.key("release"), "--channel", "stable", "--channel-key",
                site.key("channel"), "--json",
            ]
        ).failed(51, "versionExists")
        try release("rollout", "50%", "--version", "1.1.0").succeeded("changed")
        try release("rollout", "60%", "--version", "1.1.0", "--expect-sequence", "2").failed(22, "rollbackAttempt")
        let list = try run(["channel", "list", "--feed", feed, "--json"]).succeeded()
        let verbose = try run(["channel", "list", "--feed", feed, "-v"])
        #expect(verbose.errors.contains("channels/stable.json: status 200, "), "\(verbose.errors)")
        #expect(list["channels"]?.arrayValue?.count == 1)
        let page = try run(
            [
                "fleet", "page", "--out", site.folder.file("page.html"), "--feed", feed, "--trust", site.trust,
                "--json",
            ]
        ).succeeded("written")
        #expect(page["channels"]?.arrayValue?.first?.objectValue?["verified"] == .bool(true))
        #expect(page["warnings"] == .array([]))
        let inspected = try run(["inspect", "\(feed)/channels/stable.json", "--json"]).succeeded()
        #expect(inspected["channel"]?.objectValue?["sequence"] == .integer(3))
        try run(["verify", feed, "--trust", site.trust, "--json"]).succeeded("verified")
        try run(["verify", "\(feed)/releases/v1.1.0/manifest.json", "--trust", site.trust, "--json"]).succeeded(
            "verified")
        try run(["verify", "\(feed)/channels/stable.json", "--trust", site.trust, "--json"]).succeeded("verified")
        try run(["inspect", "\(feed)/nothing.json", "--json"]).failed(78, "configInvalid")
    }

    @Test func `copies a feed into and out of a bucket, and removes unreferenced files there`() throws {
        for version in ["1.0.0", "1.1.0"] { try site.publish(version, ["--rollout", "100%", "--no-deltas"]) }
        try site.release("withdraw", "--version", "1.0.0").succeeded("changed")
        try run(["feed", "copy", site.feed, feed, "--json"]).succeeded("copied")
        try run(["feed", "copy", site.feed, feed, "--json"]).succeeded("unchanged")
        let back = site.folder.file("back")
        try run(["feed", "copy", feed, back, "--json"]).succeeded("copied")
        #expect(try TreeSnapshot(of: back).files == TreeSnapshot(of: site.feed).files)
        let kit = site.folder.file("kit")
        let exported = try run(["feed", "export", "--feed", feed, "--to", kit, "--json"]).succeeded("exported")
        #expect(exported.strings("releases") == ["1.1.0"])
        try Clientctl.run(["verify", kit, "--trust", site.trust, "--json"]).succeeded("verified")
        let prune = ["feed", "prune", "--feed", feed, "--keep", "1", "--json"]
        #expect(try run(prune).succeeded("unchanged")["removed"] == .array([]))
        try run(prune + ["--min-age", "0s"]).succeeded("removed")
        try run(["verify", feed, "--trust", site.trust, "--json"]).succeeded("verified")
        try run(["verify", "\(feed)/releases/v1.0.0/manifest.json", "--trust", site.trust, "--json"]).failed(
            78, "configInvalid")
    }

    @Test func `keeps secrets out of errors and process arguments when a request fails`() throws {
        let secret = "S3CR3Tabcdefghij0123456789/+abcdefghij00"
        let seen = site.folder.file("seen")
        let printing = site.folder.file("keys.json")
        try site.folder.write(
            Array("{\"Version\":1,\"AccessKeyId\":\"\(bucket.keyId)\",\"SecretAccessKey\":\"\(bucket.secret)\"}".utf8),
            to: "keys.json")
        let none = ["AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""]
        let line = "tr '\\0' ' ' </proc/$PPID/cmdline >'\(seen)'; cat '\(printing)'"
        let good = try publish("1.0.0", ["--create", "--credential-command", line], none).succeeded("published")
        let wrong = try publish("1.2.0", [], ["AWS_SECRET_ACCESS_KEY": secret]).failed(11, "httpStatus")
        let token = try publish("1.2.0", [], ["AWS_SESSION_TOKEN": secret])
        let unreachable = try publish(
            "1.2.0", [], ["AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_SECRET_ACCESS_KEY": secret]
        ).failed(10, "networkUnavailable")
        let missing = try publish("1.2.0", [], none).failed(78, "configInvalid")
        let processes = String(decoding: try contents(ofFile: seen), as: UTF8.self)
        #expect(processes.contains("publish"))
        for output in [good, wrong, token, unreachable, missing].map({ $0.text + $0.errors }) + [processes] {
            #expect(!output.contains(secret) && !output.contains(bucket.secret), "\(output)")
        }
    }

    /// Scans the arguments of all processes and all files below a folder until a stop file exists or the parent exits.
    /// Prints the paths that contain one of the secrets.
    private static let watch = """
        import glob, os, sys, time
        secrets = [text.encode() for text in os.environ["WATCHED"].split()]
        seen = set()
        parent = os.getppid()
        def look(path):
            try:
                with open(path, "rb") as file:
                    data = file.read()
            except OSError:
                return
            if any(secret in data for secret in secrets):
                seen.add(path)
        print("ready", flush=True)
        while True:
            isLast = os.path.exists(sys.argv[2]) or os.getppid() != parent
            for path in glob.glob("/proc/[0-9]*/cmdline"):
                look(path)
            for top, _, names in os.walk(sys.argv[1]):
                for name in names:
                    look(os.path.join(top, name))
            if isLast:
                break
            time.sleep(0.005)
        print(*sorted(seen))
        """

    @Test func `keeps secrets out of all output, arguments and files of every feed command`() throws {
        let wrong = "S3CR3Tabcdefghij0123456789/+abcdefghij00"
        let apart = try TemporaryFolder()
        let printing = try apart.write(
            Array("{\"Version\":1,\"AccessKeyId\":\"\(bucket.keyId)\",\"SecretAccessKey\":\"\(bucket.secret)\"}".utf8),
            to: "keys.json")
        let temporary = try site.folder.writeTree(["tmp/x": []], to: ".") + "/tmp"
        let watcher = try Program(
            ["python3", "-c", Self.watch, site.folder.path, apart.file("stop")],
            environment: Clientctl.environment(["WATCHED": "\(bucket.secret) \(wrong)"]))
        var output: [String] = []
        func all(_ arguments: [String], _ more: [String: String] = [:], _ status: Int32 = 0) throws {
            for form in [["--json"], []] {
                let outcome = try run(arguments + form, more.merging(["TMPDIR": temporary]) { $1 })
                #expect(outcome.status == status, "\(arguments): \(outcome.errors)")
                output.append(outcome.text + outcome.errors)
            }
        }
        func publish(_ version: String, _ more: [String] = []) throws -> [String] {
            [
                "publish", try site.folder.writeTree(Site.client(version), to: "web-\(version)"), "--version", version,
                "--feed", feed, "--min-shell", "1.0.0", "--app-id", ChannelSite.appId, "--level", "1", "--key",
                site.key("release"),
            ] + more
        }
        let edit = ["--feed", feed, "--channel", "stable", "--channel-key", site.key("channel")]
        let inStable = ["--channel", "stable", "--channel-key", site.key("channel")]
        let byCommand = ["--credential-command", "cat '\(printing)'"]
        let none = ["AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""]
        try all(["trust", "publish", site.trust, "--feed", feed])
        try all(try publish("1.0.0"))
        try all(try publish("1.1.0", byCommand + ["--after-publish", "true"]), none)
        try run(try publish("1.2.0", inStable + ["--create"]))
            .succeeded()
        try all(try publish("1.3.0", inStable + ["--dry-run"]))
        try all(["release", "pause", "--version", "1.2.0"] + edit)
        for list in [["channel", "list"], ["channel", "log"], ["feed", "prune"]] {
            try all(list + ["--feed", feed] + (list[1] == "log" ? ["--channel", "stable"] : []))
        }
        try all(["verify", feed, "--trust", site.trust])
        try all(["inspect", "\(feed)/channels/stable.json"])
        try all(["feed", "copy", feed, site.folder.file("back")])
        try all(["feed", "check", "file://\(site.folder.file("back"))/", "--origin", feed])
        try run(["feed", "export", "--feed", feed, "--to", site.folder.file("kit")]).succeeded()
        try all(try publish("1.4.0", inStable), ["AWS_SECRET_ACCESS_KEY": wrong], 11)
        try all(try publish("1.4.0", inStable), ["AWS_SECRET_ACCESS_KEY": wrong + "\u{7}"], 78)
        try all(
            try publish("1.4.0", inStable),
            ["AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_SECRET_ACCESS_KEY": wrong], 10)
        try all(try publish("1.4.0", inStable + ["--credential-command", "cat '\(printing)'; exit 3"]), none, 78)
        try apart.write([], to: "stop")
        let watched = try watcher.wait()
        #expect(watched.status == 0 && watched.text == "ready\n\n", "\(watched.text) \(watched.errors)")
        for text in output { #expect(!text.contains(bucket.secret) && !text.contains(wrong), "\(text)") }
    }

    @Test func `reads keys from the shared credentials file`() throws {
        let path = site.folder.file("credentials")
        try site.folder.write(
            Array("[p]\naws_access_key_id = \(bucket.keyId)\naws_secret_access_key = \(bucket.secret)\n".utf8),
            to: "credentials")
        let file = ["AWS_ACCESS_KEY_ID": "", "AWS_SHARED_CREDENTIALS_FILE": path, "AWS_PROFILE": "p"]
        try publish("1.0.0", ["--create"], file).succeeded("published")
        try publish("1.1.0", [], file.merging(["AWS_PROFILE": "q"]) { $1 }).failed(78, "configInvalid")
    }
}

/// Addresses that are neither a folder nor a bucket.
@Suite(.ownThread) struct FeedAddressTests {
    @Test(arguments: [
        "ftp://x/y", "ws://x/y", "s3://B", "s3://bucket/a b", "s3://", "s3:/my-bucket/kiosk",
        "https:/updates.example.com",
    ])
    func `rejects a feed address of another scheme and names the accepted ones`(address: String) throws {
        let refused = try Clientctl.run(["channel", "list", "--feed", address, "--json"]).failed(64, "usage")
        #expect(refused.errors.contains("s3://bucket/prefix"), "\(refused.errors)")
    }

    @Test func `takes keys from the profiles of AWS's configuration file, or names the way for other profiles`() throws
    {
        let home = try TemporaryFolder()
        let ran = home.file("ran")
        try home.makeFolder(".aws")
        try home.write(
            bytes(
                """
                [profile program]
                credential_process = touch '\(ran)'; echo '{"Version": 1}'
                [profile keys]
                aws_access_key_id = A
                aws_secret_access_key = geheim
                [profile sso]
                sso_session = work
                [profile role]
                role_arn = arn:aws:iam::1:role/x
                source_profile = keys
                """), to: ".aws/config")
        func list(_ profile: String) throws -> Outcome {
            try Clientctl.run(
                ["channel", "list", "--feed", "s3://bucket/feed", "--json"],
                environment: ["HOME": home.path, "AWS_PROFILE": profile, "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"])
        }
        #expect(try list("program").failed(78, "configInvalid").errors.contains("The output of the credential command"))
        #expect(access(ran, F_OK) == 0)
        try list("keys").failed(10, "networkUnavailable")
        for (profile, member) in [("sso", "sso_session"), ("role", "role_arn")] {
            let refused = try list(profile).failed(78, "configInvalid")
            #expect(refused.errors.contains(member), "\(refused.errors)")
            let line = "aws configure export-credentials --profile \(profile) --format process"
            #expect(refused.errors.contains("--credential-command \"\(line)\""), "\(refused.errors)")
        }
        unlink(ran)
        let source = try home.writeTree(Site.client("1.0.0"), to: "web")
        try Clientctl.run(
            [
                "publish", source, "--version", "1.0.0", "--feed", "s3://bucket/feed", "--json", "--key",
                Site().key,
            ],
            environment: ["HOME": home.path, "AWS_PROFILE": "program", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"]
        ).failed(78, "configInvalid")
        #expect(access(ran, F_OK) == 0, "the sandbox of publish stopped the program")
    }

    @Test func `rejects a bucket without keys or region`() throws {
        let list = ["channel", "list", "--feed", "s3://bucket/feed", "--json"]
        let keys = ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"]
        #expect(try Clientctl.run(list).failed(78, "configInvalid").errors.contains("--credential-command"))
        #expect(try Clientctl.run(list, environment: keys).failed(78, "configInvalid").errors.contains("AWS_REGION"))
        let profile = ["AWS_PROFILE": "shop", "AWS_REGION": "eu-central-1"]
        let unreachable = try Clientctl.run(list, environment: profile).failed(78, "configInvalid")
        #expect(unreachable.errors.contains("shop") && unreachable.errors.contains("/nonexistent/.aws/credentials"))
        let endpoint = keys.merging(["AWS_ENDPOINT_URL_S3": "127.0.0.1:9000"]) { $1 }
        let address = try Clientctl.run(list, environment: endpoint).failed(78, "configInvalid")
        #expect(address.subject == "AWS_ENDPOINT_URL_S3" && address.errors.contains("http:// or https://"))
    }
}
