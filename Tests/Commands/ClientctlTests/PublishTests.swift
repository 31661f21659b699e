import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@Suite(.ownThread) struct PublishTests {
    private let site: Site

    init() throws { site = try Site() }

    @Test(arguments: [SIGINT, SIGTERM]) func `publish leaves no draft when a signal ends it`(signal: Int32) throws {
        let files = Site.client("1.0.0").merging(["large.bin": noise(24_000_000)]) { $1 }
        let web = try site.folder.writeTree(files, to: "web")
        let running = try Clientctl.start([
            "publish", web, "--version", "1.0.0", "--feed", site.feed, "--key", site.key, "--min-shell", "1.0.0",
            "--level", "19",
        ])
        func isPacking() throws -> Bool {
            try Clientctl.stock(["sh", "-c", "ls -A \"$1\"/releases/.publish-* 2>/dev/null || true", "sh", site.feed])
                != ""
        }
        var early: Program.Ending?
        while try !isPacking(), early == nil { early = try running.wait(within: .milliseconds(10)) }
        running.send(signal)
        let ending = try early ?? running.wait()
        #expect(ending.signal == signal, "\(ending.status ?? -1) \(ending.errors)")
        #expect(try TreeSnapshot(of: site.feed).paths == ["releases"])
    }

    @Test func `publish writes the layout of the wire format with complete manifests`() throws {
        let notes = try site.folder.write(bytes("Fixes “it”.\n"), to: "notes")
        let published = try site.publish(
            "1.5.0", nil, ["--max-shell", "2.0.0", "--app-id", "com.example.kiosk", "--notes", notes],
            environment: ["SOURCE_DATE_EPOCH": "1700000000"])
        let feed = try TreeSnapshot(of: site.feed)
        #expect(
            feed.paths == [
                "manifest.json", "releases", "releases/v1.5.0", "releases/v1.5.0/client-v1.5.0.tar.zst",
                "releases/v1.5.0/manifest.json", "releases/v1.5.0/notes.txt",
            ])
        #expect(feed.entries.values.allSatisfy { [0o100644, 0o040755].contains($0.mode) })

        let client = Site.client("1.5.0")
        let archive = try #require(feed.files["releases/v1.5.0/client-v1.5.0.tar.zst"])
        let newest = try site.object(site.manifest)
        let release = try site.object("\(site.feed)/releases/v1.5.0/manifest.json")
        let expected: [(String, JSONValue)] = [
            ("schema", .integer(1)), ("appId", .string("com.example.kiosk")), ("version", .string("1.5.0")),
            (
                "sha256",
                .string(
                    try HandmadeRelease.sha256("\(site.feed)/releases/v1.5.0/client-v1.5.0.tar.zst"))
            ),
            ("size", .integer(archive.count)), ("installedSize", .integer(client.values.reduce(0) { $0 + $1.count })),
            ("fileCount", .integer(client.count)), ("minShellVersion", .string("1.0.0")),
            ("maxShellVersion", .string("2.0.0")), ("createdAt", .string("2023-11-14T22:13:20Z")),
            ("keyId", .string(site.keyId)), ("notesSha256", .string(try HandmadeRelease.sha256(notes))),
        ]
        for document in [newest, release] {
            for (name, value) in expected { #expect(document[name] == value, "\(name)") }
            #expect(
                Set(document.members.map(\.name))
                    == Set(expected.map(\.0) + ["url", "contentSha256", "signature"]))
        }
        #expect(newest["url"] == .string("releases/v1.5.0/client-v1.5.0.tar.zst"))
        #expect(release["url"] == .string("client-v1.5.0.tar.zst"))
        #expect(newest["signature"]?.stringValue?.isEmpty == false)

        #expect(published["newest"] == .bool(true))
        #expect(published["files"] == .integer(client.count))
        #expect(published["archiveSize"] == .integer(archive.count))
        #expect(published["sha256"] == newest["sha256"])
        #expect(published["contentSha256"] == newest["contentSha256"])
        let largest = published["largest"]?.arrayValue?.first?.objectValue
        #expect(largest?["path"] == .string("index.html"))
    }

    @Test func `publishing the same folder again changes nothing`() throws {
        try site.publish("1.0.0")
        let before = try TreeSnapshot(of: site.feed)
        let again = try site.publish(site.folder.file("web-1.0.0"), as: "1.0.0").succeeded("unchanged")
        #expect(again["contentSha256"] == (try site.object(site.manifest))["contentSha256"])
        #expect(try TreeSnapshot(of: site.feed).changes(since: before) == [])
    }

    @Test func `path, times and modes of a folder do not change its digest`() throws {
        let first = try site.publish("1.0.0")
        let elsewhere = try site.folder.writeTree(Site.client("1.0.0"), to: "some/where/else")
        try Clientctl.stock(
            ["sh", "-c", "find . -type f -exec touch -d 2001-01-01 {} + && chmod -R go-rwx ."], in: elsewhere)
        try Clientctl.stock(["chmod", "755", "\(elsewhere)/index.html"])
        try Clientctl.stock(["mkdir", "\(elsewhere)/an-empty-folder"])
        let other = try Site()
        let second = try other.publish(elsewhere, as: "1.0.0").succeeded("published")
        #expect(first.string("contentSha256") == second.string("contentSha256"))
        #expect(first.string("sha256") == second.string("sha256"))
    }

    @Test func `SOURCE_DATE_EPOCH makes two publications identical`() throws {
        let epoch = ["SOURCE_DATE_EPOCH": "1700000000"]
        try site.publish("1.0.0", environment: epoch)
        let first = try TreeSnapshot(of: site.feed)
        try Clientctl.stock(["mv", site.feed, site.feed + ".first"])
        try site.publish(site.folder.file("web-1.0.0"), as: "1.0.0", environment: epoch).succeeded("published")
        #expect(try TreeSnapshot(of: site.feed).changes(since: first) == [])
    }

    @Test func `publish ignores an empty SOURCE_DATE_EPOCH`() throws {
        try site.publish("1.0.0", environment: ["SOURCE_DATE_EPOCH": ""])
        #expect(try site.object(site.manifest)["createdAt"] != .string("1970-01-01T00:00:00Z"))
    }

    @Test func `publish rejects a SOURCE_DATE_EPOCH that is not a number`() throws {
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        try site.publish(source, as: "1.0.0", environment: ["SOURCE_DATE_EPOCH": "yesterday"])
            .failed(78, "configInvalid")
        #expect(try TreeSnapshot(of: site.feed).paths == [])
    }

    @Test func `publish --dry-run writes nothing`() throws {
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        let rehearsed = try site.publish(source, as: "1.0.0", ["--dry-run"]).succeeded("dryRun")
        #expect(access(site.feed, F_OK) != 0)
        let published = try site.publish(source, as: "1.0.0").succeeded("published")
        #expect(rehearsed["sha256"] == published["sha256"])
        #expect(rehearsed["archiveSize"] == published["archiveSize"])
        let before = try TreeSnapshot(of: site.feed)
        try site.folder.write(bytes("changed"), to: "web/index.html")
        try site.publish(source, as: "1.1.0", ["--dry-run"]).succeeded("dryRun")
        #expect(try TreeSnapshot(of: site.feed).changes(since: before) == [])
    }

    @Test func `publishing an older version keeps manifest.json`() throws {
        try site.publish("2.0.0")
        let newest = try contents(ofFile: site.manifest)
        let older = try site.publish("1.10.0")
        #expect(older["newest"] == .bool(false))
        #expect(try contents(ofFile: site.manifest) == newest)
        try site.install().succeeded("installed")
        #expect(try site.list().strings("versions") == ["embedded", "v2.0.0"])
        let newer = try site.publish("2.0.1")
        #expect(newer["newest"] == .bool(true))
        #expect(try site.object(site.manifest)["version"] == .string("2.0.1"))
    }

    private func warnings(_ outcome: Outcome) -> [String] { outcome.strings("warnings") ?? [] }

    @Test func `publish notes once that a feed is new, without a warning`() throws {
        let first = try site.publish("1.0.0")
        #expect(warnings(first) == [])
        #expect(first.errors.contains("clientctl: \(site.feed) is a new feed"), "\(first.errors)")
        #expect(try !site.publish("1.1.0").errors.contains("new feed"))
    }

    @Test func `publish omits missing deltas of a small release, unless their bases are named`() throws {
        try site.publish("1.0.0")
        func text(_ version: String, _ more: [String] = []) throws -> String {
            let source = try site.folder.writeTree(
                ["index.html": bytes("<title>\(version)</title>")], to: "small-\(version)")
            let outcome = try Clientctl.run(
                ["publish", source, "--version", version, "--feed", site.feed, "--key", site.key] + more)
            #expect(outcome.status == 0, "\(outcome.errors)")
            return outcome.text
        }
        #expect(try !text("1.1.0").contains("deltas"))
        #expect(try text("1.2.0", ["--delta-from", "1.0.0"]).contains("deltas     none from 1.0.0: "))
    }

    @Test(arguments: ["deploy@updates.example.com:/srv/feed", "updates:feed", "./"])
    func `publish rejects an address of another machine as --feed`(feed: String) throws {
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        let arguments = [
            "publish", source, "--version", "1.0.0", "--key", site.key, "--min-shell", "1.0.0", "--json", "--feed",
            feed,
        ]
        if feed == "./" {
            try Clientctl.run(["publish"] + arguments.dropFirst().dropLast() + ["./a:b"], in: site.folder.path)
                .succeeded("published")
            return
        }
        let refused = try Clientctl.run(arguments, in: site.folder.path).failed(64, "usage")
        #expect(refused.errors.contains("names another machine"))
    }

    @Test func `publish warns of a release below the one that manifest.json offers`() throws {
        try site.publish("2.0.0")
        let lower = try site.publish("1.0.0")
        #expect(warnings(lower).map { $0.contains("no device installs 1.0.0") } == [true])
    }

    @Test func `publish warns that a published release keeps its notes and format`() throws {
        try site.publish("1.0.0")
        let notes = try site.folder.write(bytes("New."), to: "notes")
        let again = try site.publish(
            site.folder.file("web-1.0.0"), as: "1.0.0", ["--notes", notes, "--format", "zip"]
        ).succeeded("unchanged")
        #expect(warnings(again).map { $0.contains("keeps its notes and its format") } == [true])
    }

    @Test func `publish rejects flags without effect`() throws {
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        for flags in [
            ["--document-max-age", "1m"], ["--single-writer"], ["--credential-command", "true"],
            ["--no-deltas", "--delta-from", "3"], ["--after-publish", "./a && ./b"],
        ] { try site.publish(source, as: "1.0.0", flags).failed(64, "usage") }
        try site.publish(source, as: "1.0.0", ["--after-publish", "./nowhere"]).failed(78, "configInvalid")
        #expect(access(site.feed, F_OK) != 0)
    }

    @Test func `publish --dry-run lists files that a new feed would get`() throws {
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        let rehearsed = try site.publish(source, as: "1.0.0", ["--dry-run"]).succeeded("dryRun")
        let kinds = (rehearsed["writes"]?.arrayValue ?? []).compactMap { $0.objectValue?["kind"]?.stringValue }
        #expect(kinds == ["create", "create", "create"])
    }

    @Test func `publishing a prerelease keeps its release in manifest.json`() throws {
        try site.publish("2.0.0")
        #expect(try site.publish("2.0.0-rc.1")["newest"] == .bool(false))
        #expect(try site.publish("2.0.1-rc.1")["newest"] == .bool(true))
    }

    @Test(arguments: ["tar.gz", "zip", "tar", "tar.zst"])
    func `every archive format installs the same files`(format: String) throws {
        let published = try site.publish("1.0.0", nil, ["--format", format])
        #expect(access("\(site.feed)/releases/v1.0.0/client-v1.0.0.\(format)", F_OK) == 0)
        try site.install().succeeded("installed")
        #expect(try site.installed("1.0.0") == Site.client("1.0.0"))
        let client = try #require(try site.list()["clients"]?.arrayValue?.first?.objectValue)
        #expect(client["contentSha256"] == published["contentSha256"])
    }

    @Test func `verify --rebuild accepts the released folder and rejects another one`() throws {
        try site.publish("1.0.0")
        let source = site.folder.file("web-1.0.0")
        let arguments = ["verify", site.manifest, "--trust", site.trust, "--json", "--rebuild", source]
        let verified = try Clientctl.run(arguments).succeeded("verified")
        #expect(verified["rebuilt"] == .bool(true))
        try site.folder.write(bytes("patched"), to: "web-1.0.0/app/shared.js")
        try site.folder.write(bytes("new"), to: "web-1.0.0/new.js")
        try Clientctl.stock(["rm", "\(source)/empty"])
        let refused = try Clientctl.run(arguments).failed(23, "digestMismatch")
        #expect(
            refused.errors.contains(
                "These files differ: app/shared.js, empty (missing), new.js (not released)."))
    }

    @Test func `inspect shows a manifest and an archive without verifying them`() throws {
        try site.publish("1.0.0")
        let manifest = try Clientctl.run(["inspect", site.manifest, "--json"]).succeeded()
        #expect(manifest.string("kind") == "manifest")
        #expect(manifest["verified"] == .bool(false))
        #expect(manifest["manifest"] == .object(try site.object(site.manifest)))
        let archive = try Clientctl.run(
            ["inspect", "\(site.feed)/releases/v1.0.0/client-v1.0.0.tar.zst", "--json"]
        ).succeeded()
        #expect(archive.string("kind") == "archive")
        #expect(archive["installable"] == .bool(true))
        let paths = archive["entries"]?.arrayValue?.compactMap { $0.objectValue?["path"]?.stringValue }
        #expect(
            paths
                == Site.client("1.0.0").keys.map(bytes).sorted { $0.lexicographicallyPrecedes($1) }.map {
                    String(decoding: $0, as: UTF8.self)
                })
        let plain = try Clientctl.run(["inspect", "\(site.feed)/releases/v1.0.0/client-v1.0.0.tar.zst"])
        let page = ByteCount(bytes: Site.client("1.0.0")["index.html"]?.count ?? 0)
        #expect(plain.text.contains("\n  file  \(page)  index.html\n"), "\(plain.text)")
    }
}
