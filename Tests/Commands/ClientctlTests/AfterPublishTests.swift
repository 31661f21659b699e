import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Synchronization
import Testing

/// Commands that write a feed with `--after-publish` and `--public-url`.
@Suite(.ownThread) struct AfterPublishTests {
    private let site: ChannelSite
    private let seen: String

    init() throws {
        site = try ChannelSite()
        seen = site.folder.file("seen")
    }

    /// A hook that stores its environment and the channel file it finds.
    private var hook: [String] {
        [
            "--after-publish",
            "sh -c 'env | grep ^PUBLISHED_ >\"$0\"; cp \"$1\" \"$0.json\"; exit ${HOOK_STATUS:-0}' \(seen) \(document)",
        ]
    }

    private var document: String { "\(site.feed)/channels/stable.json" }

    /// A server of the feed, which acts as the cache in front of it. `change` can replace a response.
    private func serve(
        _ change: @escaping @Sendable (_ path: String, _ number: Int) -> Route? = { _, _ in nil }
    ) throws -> LoopbackServer {
        let feed = site.feed
        let count = Mutex<[String: Int]>([:])
        return try LoopbackServer { request in
            let number = count.withLock { count in
                count[request.target, default: 0] += 1
                return count[request.target, default: 0]
            }
            if let changed = change(request.target, number) { return changed }
            guard let found = try? contents(ofFile: feed + request.target) else { return Route(status: 404) }
            var route = Route.resource(found, entityTag: "\"\(found.count)\"")
            route.headers = [("Cache-Control", "max-age=30")]
            return route
        }
    }

    @Test func `runs the hook after the feed is written, and not in a dry run`() throws {
        try site.publish("1.0.0", hook + ["--dry-run"]).succeeded("dryRun")
        #expect(access(seen, F_OK) != 0)
        try site.publish("1.0.0", hook).succeeded("published")
        let variables = Set(
            String(decoding: try contents(ofFile: seen), as: UTF8.self).split(separator: "\n").map(String.init))
        #expect(
            variables == [
                "PUBLISHED_FEED=\(site.feed)", "PUBLISHED_OUTCOME=published", "PUBLISHED_VERSION=1.0.0",
                "PUBLISHED_CHANNEL=stable", "PUBLISHED_SEQUENCE=1",
                "PUBLISHED_DOCUMENTS=channels/stable.json manifest.json",
            ])
        #expect(try contents(ofFile: seen + ".json") == contents(ofFile: document))
        let edited = try Clientctl.run(
            [
                "release", "pause", "--version", "1.0.0", "--feed", site.feed, "--channel", "stable", "--channel-key",
                site.key("channel"), "--json",
            ] + hook)
        edited.succeeded("changed")
        #expect(try contents(ofFile: seen + ".json") == contents(ofFile: document))
        let later = String(decoding: try contents(ofFile: seen), as: UTF8.self)
        #expect(later.contains("PUBLISHED_SEQUENCE=2\n") && later.contains("PUBLISHED_OUTCOME=changed\n"))
    }

    @Test func `gives the hook this environment without the settings of clientctl`() throws {
        let hook = ["--after-publish", "sh -c 'env >\"$0\"' \(seen)"]
        try site.publish("1.0.0")
        try site.publish(
            "1.1.0", hook, environment: ["CLIENTCTL_PASSPHRASE": "horse", "CLIENTCTL_LEVEL": "1", "PURGE_TOKEN": "x"]
        ).succeeded("published")
        let variables = String(decoding: try contents(ofFile: seen), as: UTF8.self)
        #expect(!variables.contains("CLIENTCTL_") && !variables.contains("horse"))
        #expect(variables.contains("PURGE_TOKEN=x\n"))
    }

    @Test func `runs the hook after a trust root is published`() throws {
        let hook = ["--after-publish", "sh -c 'env >\"$0\"' \(seen)"]
        let root = ["trust", "publish", site.trust, "--feed", "\(site.feed)-2", "--json"]
        try Clientctl.run(root + hook).succeeded("published")
        let variables = String(decoding: try contents(ofFile: seen), as: UTF8.self)
        #expect(variables.contains("PUBLISHED_DOCUMENTS=trust.json trust/1.json\n"))
        #expect(variables.contains("PUBLISHED_OUTCOME=published\n"))
        try Clientctl.run(root + ["--after-publish", "/none/such"]).failed(78, "configInvalid")
    }

    @Test func `stops waiting for a silent server at --public-within`() throws {
        try site.publish("1.0.0")
        let silent = try LoopbackServer { _ in
            var route = Route([1, 2, 3])
            route.pace = .stall(after: 0)
            return route
        }
        let start = ContinuousClock.now
        let edit = ["release", "pause", "--version", "1.0.0", "--feed", site.feed, "--channel", "stable"]
        let outcome = try Clientctl.run(
            edit + [
                "--channel-key", site.key("channel"), "--public-url", try silent.url("/").description,
                "--public-within", "2s", "--json",
            ]
        ).failed(53, "notPublic")
        #expect(outcome.errors.contains("It did not respond in time."), "\(outcome.errors)")
        #expect(ContinuousClock.now - start < .seconds(30), "the transfer has a limit of its own, 30 seconds")
        withExtendedLifetime(silent) {}
    }

    @Test func `reports a failing hook with status 54 and keeps the release published`() throws {
        let failed = try site.publish("1.0.0", hook, environment: ["HOOK_STATUS": "9"]).failed(54, "hookFailed")
        #expect(failed.outcome == "published" && failed.subject == "sh")
        #expect(failed.errors.contains("ended with status 9"))
        try site.install("a").succeeded("installed")
        try Clientctl.stock(["rm", seen])
        try site.publish("1.0.0", hook).succeeded("unchanged")
        #expect(access(seen, F_OK) == 0)
        try site.publish("1.1.0", ["--after-publish", "/none/such"]).failed(78, "configInvalid")
        try site.publish("1.2.0", ["--after-publish", "a 'b"]).failed(64, "usage")
        #expect(try site.sequence() == 1)
    }

    @Test func `reports a failing hook when the parent ignores SIGCHLD`() throws {
        let arguments = [
            "publish", try site.folder.writeTree(Site.client("1.0.0"), to: "web"), "--version", "1.0.0", "--feed",
            site.feed,
            "--key", site.key("release"), "--min-shell", "1.0.0", "--app-id", ChannelSite.appId, "--after-publish",
            "false", "--json",
        ]
        let ending = try Program.run(
            ["bash", "-c", "trap '' CHLD; exec \"$0\" \"$@\"", Clientctl.path] + arguments,
            environment: Clientctl.environment())
        Outcome(ending).failed(54, "hookFailed")
    }

    @Test func `waits until the public address serves what was written`() throws {
        let current = try serve()
        let url = try current.url("/").description
        let done = try site.publish("1.0.0", ["--public-url", url]).succeeded("published")
        #expect(done["public"]?.objectValue?["url"]?.stringValue == url)
        let old = try contents(ofFile: document)
        let slow = try serve { path, number in
            switch path {
            case "/channels/stable.json": number < 3 ? Route(old) : nil
            case let path where path.hasSuffix("client-v1.1.0.tar.zst"): number < 2 ? Route(status: 404) : nil
            default: nil
            }
        }
        let late = try site.publish("1.1.0", ["--public-url", try slow.url("/").description]).succeeded("published")
        #expect((late["public"]?.objectValue?["milliseconds"]?.integerValue ?? 0) >= 500)
        let edit = ["release", "rollout", "50%", "--version", "1.1.0", "--feed", site.feed, "--channel", "stable"]
        try Clientctl.run(edit + ["--channel-key", site.key("channel"), "--public-url", url, "--json"])
            .succeeded("changed")
        withExtendedLifetime((current, slow)) {}
        try site.publish("1.2.0", ["--public-url", "file://\(site.feed)"]).succeeded("published")
    }

    @Test func `waits until the public address serves the trust root byte for byte`() throws {
        let roots = try serve { path, number in
            switch path {
            case "/trust.json": number < 2 ? Route(Array("{}".utf8)) : nil
            case "/trust/1.json": number < 2 ? Route(status: 404) : nil
            default: Route(status: 500)
            }
        }
        let root = ["trust", "publish", site.trust, "--feed", site.feed, "--json", "--public-url"]
        let late = try Clientctl.run(root + [roots.url("/").description]).succeeded("unchanged")
        #expect((late["public"]?.objectValue?["milliseconds"]?.integerValue ?? 0) >= 500)
        withExtendedLifetime(roots) {}
    }

    @Test func `stops waiting for a public address that rejects readers`() throws {
        let refusing = try serve { _, _ in Route(status: 403) }
        let outcome = try site.publish(
            "1.0.0", ["--public-url", try refusing.url("/").description, "--public-within", "1h"]
        ).failed(53, "notPublic")
        #expect(
            outcome.errors.contains("answered 403") && outcome.errors.contains("let every device read"),
            "\(outcome.errors)")
        let checked = try Clientctl.run(["feed", "check", try refusing.url("/").description, "--json"])
        #expect(checked.failed(11, "httpStatus").text.contains("\"refused\""), "\(checked.text)")
    }

    @Test func `reports an outdated public address with status 53 and keeps the release published`() throws {
        try site.publish("1.0.0", ["--rollout", "100%"])
        let old = try contents(ofFile: document)
        let stale = try serve { path, _ in path == "/channels/stable.json" ? Route(old) : nil }
        let short = try serve { path, _ in path.contains("client-v1.2.0") ? Route([1]) : nil }
        // The limit also cuts the first request, which takes longer on a busy machine.
        let limit = ["--public-within", "\(BusyMachine.seconds(3))s"]
        let behind = try site.publish("1.1.0", ["--public-url", try stale.url("/").description] + limit)
        behind.failed(53, "notPublic")
        #expect(behind.outcome == "published" && behind["public"] == nil)
        #expect(behind.errors.contains("channels/stable.json: It has sequence 1, and 2 was published"))
        let cut = try site.publish("1.2.0", ["--public-url", try short.url("/").description] + limit)
        #expect(cut.failed(53, "notPublic").errors.contains("client-v1.2.0.tar.zst: It has 1 bytes"))
        withExtendedLifetime((stale, short)) {}
        try site.publish("1.3.0", ["--public-url", "http://127.0.0.1:1", "--public-within", "1s"]).failed(
            53, "notPublic")
        #expect(try site.sequence() == 4)
        try site.publish("1.4.0", limit).failed(64, "usage")
        try site.publish("1.4.0", ["--public-url", "nowhere"]).failed(64, "usage")
        #expect(try site.sequence() == 4)
        let plain = try Clientctl.run([
            "release", "pause", "--version", "1.0.0", "--feed", site.feed, "--channel", "stable", "--channel-key",
            site.key("channel"), "--public-url", "http://127.0.0.1:1/", "--public-within", "1s",
        ])
        #expect(plain.status == 53 && plain.text.contains("channel stable: changed"))
        #expect(try site.sequence() == 5)
    }
}
