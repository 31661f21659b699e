import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@Suite(.ownThread) struct InstallTests {
    private let site: Site

    init() throws { site = try Site() }

    private func inode(_ path: String) throws -> UInt {
        var status = stat()
        try #require(lstat("\(site.store)/clients/\(path)", &status) == 0)
        return UInt(status.st_ino)
    }

    @Test func `install makes a release from HTTP the current client, and a second check sends one request`() throws {
        let published = try site.publish("1.0.0")
        let server = try LoopbackServer(folder: site.feed)
        let url = try server.url("/manifest.json").display
        let installed = try site.install(url).succeeded("installed")
        #expect(installed.string("version") == "1.0.0")
        #expect(installed.string("path") == "\(site.store)/clients/v1.0.0")
        #expect(installed["previous"] == .null)
        #expect(installed["bytesDownloaded"] == published["archiveSize"])
        #expect(installed.strings("retained") == ["v1.0.0"])
        #expect(installed.strings("removed") == [])
        #expect(server.requests.map(\.target) == ["/manifest.json", "/releases/v1.0.0/client-v1.0.0.tar.zst"])

        let store = try site.stored()
        let clients = Site.client("1.0.0").keys.map { "clients/v1.0.0/\($0)" }
        let folders = [
            "clients", "clients/v1.0.0", "clients/v1.0.0/app", "clients/v1.0.0/img", "downloads", "meteor", "receipts",
            "serving", "staging",
        ]
        #expect(
            store.paths
                == (clients + folders + [
                    "clients/previousVersion", "ledger.before.json", "ledger.json", "lock", "receipts/v1.0.0.json",
                ])
                .sorted())
        for (path, entry) in store.entries where path.hasPrefix("clients/v1.0.0") {
            #expect(entry.mode == (entry.isFile ? 0o100644 : 0o040755), "\(path)")
        }
        #expect(try site.installed("1.0.0") == Site.client("1.0.0"))
        #expect(store.files["clients/previousVersion"] == bytes("embedded\n"))
        let receipt = try site.object("\(site.store)/receipts/v1.0.0.json")
        #expect(receipt["manifest"] == .object(try site.object(site.manifest)))
        #expect(receipt["files"]?.arrayValue?.count == Site.client("1.0.0").count)

        try site.leavingStoreAlone {
            let again = try site.install(url).succeeded("upToDate")
            #expect(again.string("version") == "1.0.0")
            #expect(again["bytesDownloaded"] == .integer(0))
            #expect(again.strings("retained") == ["v1.0.0"])
            #expect(again.strings("removed") == [])
        }
        #expect(server.requests.map(\.target).dropFirst(2) == ["/manifest.json"])
        #expect(server.connectionCount == 2)
    }

    @Test func `install accepts a path, a relative path or a file URL without a network`() throws {
        try site.publish("1.0.0")
        for manifest in [site.manifest, "file://\(site.manifest)", "feed/manifest.json"] {
            let outcome = try Clientctl.run(
                site.arguments("install", manifest), environment: ["http_proxy": "http://127.0.0.1:9"],
                in: site.folder.path
            ).succeeded("installed", "\(manifest)")
            #expect(outcome.string("version") == "1.0.0")
            #expect(try site.installed("1.0.0") == Site.client("1.0.0"))
            try Clientctl.stock(["rm", "-r", site.store])
        }
    }

    @Test func `--proxy overrides the proxy of the environment, or disables it`() throws {
        try site.publish("1.0.0")
        let archive = "/releases/v1.0.0/client-v1.0.0.tar.zst"
        let proxy = try LoopbackServer([
            "http://feed.invalid/manifest.json": Route(try contents(ofFile: site.manifest)),
            "http://feed.invalid\(archive)": Route(try contents(ofFile: site.feed + archive)),
        ])
        let install = site.arguments("install", "http://feed.invalid/manifest.json")
        let address = "http://127.0.0.1:\(proxy.port)"
        let other = ["http_proxy": "http://127.0.0.1:9"]
        try Clientctl.run(install, environment: other).failed(10, "networkUnavailable")
        try Clientctl.run(install + ["--proxy", "none"], environment: ["http_proxy": address]).failed(
            10, "networkUnavailable")
        #expect(proxy.requests.isEmpty)
        try Clientctl.run(install, environment: other.merging(["CLIENTCTL_PROXY": address]) { $1 }).succeeded(
            "installed")
        try Clientctl.run(install + ["--proxy", address], environment: other).succeeded("upToDate")
        #expect(proxy.requests.map(\.target).contains("http://feed.invalid\(archive)"))
        for wrong in ["proxy.example.com", "ftp://proxy.example.com", "http://user:secret@127.0.0.1:9", ""] {
            let refused = try Clientctl.run(install + ["--proxy", wrong]).failed(64, "usage")
            #expect(!refused.errors.contains("secret"))
        }
    }

    @Test func `rejects an argument that is not UTF-8`() throws {
        let line =
            #"exec "$0" install --json --shell-version 1.5.0 --store "$(printf '"# + site.folder.path + #"/a\377')""#
        let refused = Outcome(
            try Program.run(["sh", "-c", line, Clientctl.path], environment: Clientctl.environment()))
        refused.failed(64, "usage")
        #expect(try TreeSnapshot(of: site.folder.path).paths.allSatisfy { !$0.hasPrefix("a") })
    }

    @Test func `inspect and verify accept the folder of a feed for its manifest`() throws {
        try site.publish("1.0.0")
        let shown = try Clientctl.run(["inspect", site.feed, "--json"]).succeeded()
        #expect(shown.string("kind") == "manifest")
        try Clientctl.run(["verify", "feed/", "--trust", site.trust, "--json"], in: site.folder.path).succeeded(
            "verified")
        let refused = try Clientctl.run(["verify", "\(site.feed)/releases", "--trust", site.trust, "--json"])
        refused.failed(78, "configInvalid")
        #expect(refused.errors.contains("manifest.json"))
    }

    @Test func `install keeps the previous client and shares its unchanged files`() throws {
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        let old = try site.installed("1.0.0")
        try site.publish("1.1.0")
        let next = try site.install().succeeded("installed")
        #expect(next.string("previous") == "v1.0.0")
        #expect(next.string("current") == "v1.1.0")
        #expect(next.strings("retained") == ["v1.0.0", "v1.1.0"])
        #expect(try site.installed("1.0.0") == old)
        #expect(try site.installed("1.1.0") == Site.client("1.1.0"))
        #expect(try inode("v1.0.0/app/shared.js") == inode("v1.1.0/app/shared.js"))
        #expect(try inode("v1.0.0/index.html") != inode("v1.1.0/index.html"))
        #expect(try contents(ofFile: "\(site.store)/clients/previousVersion") == bytes("v1.0.0\n"))
        let list = try site.list().succeeded()
        #expect(list.strings("versions") == ["embedded", "v1.0.0", "v1.1.0"])
        #expect(list.string("current") == "v1.1.0")
        #expect(list.string("previous") == "v1.0.0")
        try Clientctl.run(["verify", "--store", site.store, "--json"]).succeeded()
    }

    @Test func `install keeps three clients by semantic version`() throws {
        let steps: [(version: String, removed: [String], kept: [String])] = [
            ("1.9.0", [], ["v1.9.0"]),
            ("1.10.0", [], ["v1.9.0", "v1.10.0"]),
            ("1.11.0-rc.1", [], ["v1.9.0", "v1.10.0", "v1.11.0-rc.1"]),
            ("1.11.0", ["v1.9.0"], ["v1.10.0", "v1.11.0-rc.1", "v1.11.0"]),
            ("1.12.0", ["v1.10.0"], ["v1.11.0-rc.1", "v1.11.0", "v1.12.0"]),
        ]
        for step in steps {
            try site.publish(step.version)
            let outcome = try site.install().succeeded("installed", "\(step.version)")
            #expect(outcome.strings("removed") == step.removed, "\(step.version)")
            #expect(outcome.strings("retained") == step.kept, "\(step.version)")
            #expect(try site.list().strings("versions") == ["embedded"] + step.kept, "\(step.version)")
            let names = Set(
                try site.stored().paths.filter { $0.hasPrefix("clients/v") }.map { $0.split(separator: "/")[1] })
            #expect(names == Set(step.kept.map { Substring($0) }), "\(step.version)")
            let receipts = try site.stored().paths.filter { $0.hasPrefix("receipts/") }
            #expect(Set(receipts) == Set(step.kept.map { "receipts/\($0).json" }), "\(step.version)")
        }
        #expect(try site.installed("1.12.0") == Site.client("1.12.0"))
    }

    @Test func `list sorts clients by semantic version`() throws {
        let versions = ["1.9.0", "1.10.0-alpha", "1.10.0-alpha.1", "1.10.0-rc.2", "1.10.0-rc.10", "1.10.0", "1.10.1"]
        for version in versions {
            try site.publish(version)
            try site.install(nil, ["--keep", "9"]).succeeded("installed")
        }
        #expect(try site.list().strings("versions") == ["embedded"] + versions.map { "v\($0)" })

        // With --dry-run, `prune` only lists what it would remove. The current, previous and newest clients are always
        // kept.
        let arguments = ["prune", "--store", site.store, "--keep", "1", "--json"]
        try site.leavingStoreAlone {
            let plan = try Clientctl.run(arguments + ["--dry-run"]).succeeded("dryRun")
            #expect(plan.strings("retained") == ["v1.10.0", "v1.10.1"])
        }
        let done = try Clientctl.run(arguments).succeeded("removed")
        #expect(done.strings("removed") == versions.dropLast(2).map { "v\($0)" })
        #expect(try site.list().strings("versions") == ["embedded", "v1.10.0", "v1.10.1"])
    }

    @Test func `install selects the newest client that the shell supports`() throws {
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        try site.publish("2.0.0", nil, ["--max-shell", "1.5.0"])
        #expect(try site.install(shell: "1.5.0").succeeded("installed").string("current") == "v2.0.0")

        // This shell is too new for 2.0.0. 1.1.0 is lower, but the newest usable version.
        try site.publish("1.1.0")
        let manifest = "\(site.feed)/releases/v1.1.0/manifest.json"
        #expect(try site.install(manifest, shell: "1.5.0").succeeded("upToDate").string("version") == "2.0.0")
        let outcome = try site.install(manifest, shell: "1.6.0").succeeded("installed")
        #expect(outcome.string("current") == "v1.1.0")
        #expect(outcome.string("previous") == "v2.0.0")
        let status = try Clientctl.run(["status", "--store", site.store, "--shell-version", "1.6.0", "--json"])
            .succeeded()
        #expect(status.string("next") == "v1.1.0")
        #expect(status["updateRequired"] == .null)
        let rows = status["clients"]?.arrayValue?.compactMap(\.objectValue) ?? []
        #expect(rows.map { $0["name"]?.stringValue } == ["embedded", "v1.0.0", "v1.1.0", "v2.0.0"])
        #expect(rows.map { $0["next"]?.boolValue } == [false, false, true, false])
        #expect(rows.last?["reason"]?.stringValue?.contains("1.5.0") == true)
    }

    @Test func `check evaluates every rule like install and changes nothing`() throws {
        try site.publish("1.0.0")
        let available = try site.check().succeeded("available")
        #expect(available.string("version") == "1.0.0")
        #expect(access(site.store, F_OK) != 0)
        try site.install().succeeded("installed")
        try site.publish("2.0.0", nil, ["--max-shell", "1.5.0"])
        let cases: [(outcome: String, manifest: String, shell: String, failing: String)] = [
            ("upToDate", "\(site.feed)/releases/v1.0.0/manifest.json", "1.5.0", "newer"),
            ("incompatible", site.manifest, "0.9.0", "shell"), ("incompatible", site.manifest, "1.5.1", "shell"),
        ]
        try site.leavingStoreAlone {
            #expect(try site.check().succeeded("available").string("version") == "2.0.0")
            for expected in cases {
                let outcome = try site.check(expected.manifest, shell: expected.shell)
                #expect(outcome.status == 3, "\(expected)")
                #expect(outcome.outcome == expected.outcome, "\(expected)")
                #expect(outcome.code == nil, "\(expected)")
                #expect(failing(outcome).contains(expected.failing), "\(expected)")
            }
        }
        try site.block("2.0.0", goingBackTo: "1.0.0")
        try site.leavingStoreAlone {
            let blocked = try site.check()
            #expect(blocked.status == 3)
            #expect(blocked.outcome == "blocked")
            #expect(failing(blocked) == ["blocked"])
        }
    }

    private func failing(_ outcome: Outcome) -> [String] {
        let rules = outcome["rules"]?.arrayValue?.compactMap(\.objectValue) ?? []
        #expect(rules.allSatisfy { $0["detail"]?.stringValue?.isEmpty == false })
        return rules.filter { $0["passed"] == .bool(false) }.compactMap { $0["rule"]?.stringValue }
    }

    @Test func `install rejects a blocked version`() throws {
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        try site.publish("2.0.0")
        try site.block("2.0.0", goingBackTo: "1.0.0")
        try site.leavingStoreAlone {
            let refused = try site.install().failed(41, "versionBlocked")
            #expect(refused.subject == "2.0.0")
        }
        let status = try Clientctl.run(["status", "--store", site.store, "--json"]).succeeded()
        #expect(status["blocked"]?.arrayValue?.first?.objectValue?["version"] == .string("2.0.0"))
    }

    @Test func `--trust accepts a folder of keys and rejects a file in it that is not a key`() throws {
        try site.publish("1.0.0")
        let keys = try site.folder.makeFolder("keys")
        try Clientctl.run(["keys", "generate", "--out", site.folder.file("other"), "--json"]).succeeded()
        try Clientctl.stock(["cp", site.folder.file("other.pub.pem"), site.trust, keys])
        try site.install(nil, ["--trust", keys]).succeeded("installed")
        try site.folder.write(bytes("not a key"), to: "keys/zz.pem")
        try site.publish("1.1.0")
        try site.leavingStoreAlone { try site.install(nil, ["--trust", keys]).failed(78, "configInvalid") }
    }

    @Test func `publish, check, install and launch need no shell version`() throws {
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        try Clientctl.run([
            "publish", source, "--version", "1.0.0", "--feed", site.feed, "--key", site.key, "--level", "1", "--json",
        ]).succeeded("published")
        let device = ["--store", site.store, "--json"]
        let update = ["--manifest", site.manifest, "--trust", site.trust] + device
        try Clientctl.run(["check"] + update).succeeded()
        try Clientctl.run(["install"] + update).succeeded("installed")
        #expect(try Clientctl.run(["launch"] + device).succeeded().string("version") == "1.0.0")
        try site.publish("1.1.0", nil, ["--min-shell", "1.0.0"])
        try Clientctl.run(["install"] + update).failed(42, "incompatibleShell")
    }
}

extension Site {
    /// Blocks the version that the feed offers with a manual rollback.
    func block(_ version: String, goingBackTo older: String) throws {
        try install().succeeded("installed")
        let answer = try Clientctl.run(["rollback", "--version", older, "--store", store, "--json"]).succeeded(
            "rolledBack")
        #expect(answer.strings("blocked") == ["v\(version)"])
    }
}
