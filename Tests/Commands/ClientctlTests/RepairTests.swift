import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `repair` restores installed files to their receipts, also while a shell shows them.
@Suite(.ownThread) struct RepairTests {
    private let site: Site

    /// Two clients that share a file, and the feed of the second one.
    init() throws {
        site = try Site()
        for version in ["1.0.0", "1.1.0"] {
            try site.publish(version)
            try site.install().succeeded("installed")
        }
    }

    private func client(_ version: String, _ path: String) -> String { "\(site.store)/clients/v\(version)/\(path)" }

    /// Overwrites the file in place, so that every link to it is damaged.
    private func damage(_ path: String) throws {
        try Clientctl.stock(["sh", "-c", "printf damaged > \"$1\"", "sh", path])
    }

    /// Replaces the file by a copy with its own inode.
    private func unlinkOthers(of path: String) throws {
        try Clientctl.stock(["sh", "-c", "cp \"$1\" \"$1.new\" && mv \"$1.new\" \"$1\"", "sh", path])
    }

    private func repair(_ more: [String] = []) throws -> Outcome {
        try Clientctl.run(["repair", "--store", site.store, "--json"] + more)
    }

    @Test func `repair reports an intact store, and verify suggests repair for damage`() throws {
        let intact = try Clientctl.run(["repair", "--store", site.store])
        #expect(intact.text.contains(" of 2 clients: all are intact"), "\(intact.text)")
        try damage(client("1.1.0", "index.html"))
        let damaged = try Clientctl.run(["verify", "--store", site.store, "--json"]).failed(33, "storeDamaged")
        #expect(damaged.errors.contains("clientctl repair --store \(site.store)"), "\(damaged.errors)")
    }

    private func repaired(_ outcome: Outcome) -> Set<String> {
        Set(
            (outcome["repaired"]?.arrayValue ?? []).compactMap(\.objectValue).map { mended in
                let what = "\(mended["client"]?.stringValue ?? "") \(mended["path"]?.stringValue ?? "")"
                return "\(what) \(mended["from"]?.stringValue ?? "")"
                    + (mended["served"]?.boolValue == true ? " served" : "")
            })
    }

    private func requireIntact(_ comment: Comment? = nil) throws {
        try Clientctl.run(["verify", "--store", site.store, "--json"]).succeeded("verified", comment)
        for version in ["1.0.0", "1.1.0"] { #expect(try site.installed(version) == Site.client(version), comment) }
        #expect(
            try site.stored().paths.filter { $0.hasPrefix("staging/") || $0.hasPrefix("downloads/") } == [], comment)
    }

    private var feed: [String] { ["--manifest", site.manifest] }

    @Test func `repair leaves an intact store unchanged`() throws {
        try site.leavingStoreAlone {
            let outcome = try repair(feed).succeeded("intact")
            #expect(outcome.strings("clients") == ["v1.0.0", "v1.1.0"])
            #expect(outcome["files"] == .integer(Site.client("1.0.0").count * 2))
        }
    }

    @Test func `repair restores a file from another client`() throws {
        try unlinkOthers(of: client("1.1.0", "app/shared.js"))
        try damage(client("1.0.0", "app/shared.js"))
        try Clientctl.run(["verify", "--store", site.store, "--json"]).failed(33, "storeDamaged")
        #expect(repaired(try repair().succeeded("repaired")) == ["v1.0.0 app/shared.js v1.1.0"])
        try requireIntact()
        try repair().succeeded("intact")
    }

    @Test func `repair restores a shared file in each client from the archive`() throws {
        try damage(client("1.0.0", "app/shared.js"))
        let outcome = try repair(feed).succeeded("repaired")
        #expect(repaired(outcome) == ["v1.0.0 app/shared.js archive", "v1.1.0 app/shared.js archive"])
        try requireIntact()
        var one = stat(), other = stat()
        #expect(
            stat(client("1.0.0", "app/shared.js"), &one) == 0 && stat(client("1.1.0", "app/shared.js"), &other) == 0)
        #expect(one.st_ino == other.st_ino)
    }

    @Test func `repair restores a file from the seed and leaves the seed's file alone`() throws {
        let seed = try site.folder.writeTree(
            ["index.html": bytes("seed"), "other/name.js": Site.client("1.0.0")["app/shared.js"] ?? []], to: "seed")
        try damage(client("1.0.0", "app/shared.js"))
        let outcome = try repair(["--seed", seed]).succeeded("repaired")
        #expect(repaired(outcome) == ["v1.0.0 app/shared.js seed", "v1.1.0 app/shared.js seed"])
        try requireIntact()
        try damage(client("1.0.0", "app/shared.js"))
        #expect(try contents(ofFile: "\(seed)/other/name.js") == Site.client("1.0.0")["app/shared.js"])
    }

    @Test func `repair replaces folders, links and extra files`() throws {
        let place = client("1.1.0", "")
        try Clientctl.stock(["rm", "-r", "\(place)app"])
        try Clientctl.stock(["rm", "\(place)index.html", "\(place)empty"])
        try Clientctl.stock(["mkdir", "-p", "\(place)index.html/deep"])
        try #require(symlink("/etc/passwd", "\(place)empty") == 0)
        _ = try site.folder.writeTree(["clients/v1.1.0/img/more.svg": bytes("more")], to: "store")
        _ = try site.folder.writeTree(["clients/v1.0.0/more/deep/x": bytes("more")], to: "store")
        let outcome = try repair(feed).succeeded("repaired")
        #expect(repaired(outcome).contains("v1.1.0 img/more.svg removed"))
        #expect(repaired(outcome).contains("v1.1.0 app/main.1.1.0.js archive"))
        try Clientctl.run(["verify", "--store", site.store, "--json"]).succeeded("verified")
        #expect(try site.installed("1.1.0") == Site.client("1.1.0"))
        #expect(try contents(ofFile: "/etc/passwd").count > 10)
    }

    @Test func `repair replaces a file by the folder that belongs there`() throws {
        try Clientctl.stock(["sh", "-c", "rm -r \"$1\" && printf x > \"$1\"", "sh", client("1.1.0", "app")])
        try repair(feed).succeeded("repaired")
        try requireIntact()
    }

    @Test func `repair blocks a client that it cannot restore, until it can`() throws {
        try damage(client("1.1.0", "app/main.1.1.0.js"))
        let failed = try repair().failed(33, "storeDamaged")
        #expect(failed.string("outcome") == "damaged")
        #expect(failed["damaged"]?.arrayValue?.count == 1)
        #expect(failed.subject?.hasPrefix("v1.1.0: app/main.1.1.0.js ") == true)
        #expect(failed.errors.contains("1 file in the store \(site.store) is damaged."))
        #expect(try site.list().string("current") == "v1.0.0")
        let store = try site.stored()
        try repair().failed(33, "storeDamaged")
        #expect(try site.stored().changes(since: store) == [])
        try repair(feed).succeeded("repaired")
        try requireIntact()
        #expect(try site.list().string("current") == "v1.1.0")
    }

    @Test func `repair counts no failed start, and a restored client is confirmed again`() throws {
        let place = ["--store", site.store, "--json"]
        let launched = try Clientctl.run(["launch", "--shell-version", "1.5.0"] + place).succeeded()
        let token = try #require(launched.string("token"))
        try Clientctl.run(["confirm", "--version", "1.1.0", "--token", token] + place).succeeded()
        func client() throws -> JSONObject {
            let status = try Clientctl.run(["status"] + place).succeeded()
            let clients = (status["clients"]?.arrayValue ?? []).compactMap(\.objectValue)
            return try #require(clients.first { $0["name"] == .string("v1.1.0") })
        }
        try damage(self.client("1.1.0", "app/main.1.1.0.js"))
        try repair().failed(33, "storeDamaged")
        #expect(try client()["state"] == .string("blocked"))
        #expect(try client()["failures"]?.arrayValue?.isEmpty == true)
        #expect(try client()["reason"]?.stringValue?.contains("its files are damaged: app/main.1.1.0.js ") == true)
        // `list` and `status` mark the same client as the next one.
        let list = try Clientctl.run(["list", "--store", site.store]).text
        #expect(list.contains("* v1.0.0\n") && list.contains("  v1.1.0\n"))
        try repair(feed).succeeded("repaired")
        #expect(try client()["state"] == .string("good"))
    }

    @Test func `the only client is still launched when it stays damaged`() throws {
        try Clientctl.stock(["rm", "-r", site.store])
        try site.install().succeeded("installed")
        try damage(client("1.1.0", "app/main.1.1.0.js"))
        try repair().failed(33, "storeDamaged")
        let launch = ["launch", "--store", site.store, "--shell-version", "1.5.0", "--json"]
        #expect(try Clientctl.run(launch).succeeded().string("version") == "1.1.0")
    }

    @Test func `repair rejects a missing or damaged archive`() throws {
        try damage(client("1.1.0", "app/main.1.1.0.js"))
        try Clientctl.stock([
            "sh", "-c", "for f in \"$1\"/releases/v1.1.0/*.zst; do printf damaged > \"$f\"; done", "sh", site.feed,
        ])
        #expect(
            try repair(feed).failed(33, "storeDamaged").errors.contains("v1.1.0 cannot be restored from its archive: "))
        try Clientctl.stock(["sh", "-c", "rm \"$1\"/releases/v1.1.0/*.zst", "sh", site.feed])
        try repair(feed).failed(33, "storeDamaged")
        #expect(try contents(ofFile: client("1.1.0", "app/main.1.1.0.js")) == bytes("damaged"))
    }

    @Test func `repair rejects a changed receipt`() throws {
        let receipt = "\(site.store)/receipts/v1.0.0.json"
        try Clientctl.stock(["sed", "-i", "s/\"contentSha256\":\"./\"contentSha256\":\"x/", receipt])
        try damage(client("1.0.0", "app/main.1.0.0.js"))
        let failed = try repair(feed).failed(33, "storeDamaged")
        #expect(failed.subject?.hasPrefix("v1.0.0: has no valid receipt") == true)
    }

    @Test func `repair --dry-run changes nothing`() throws {
        try damage(client("1.1.0", "app/main.1.1.0.js"))
        try site.leavingStoreAlone {
            let outcome = try repair(feed + ["--dry-run"]).failed(33, "storeDamaged")
            #expect(outcome.string("outcome") == "dryRun")
        }
    }

    @Test func `repair rejects a path without a store and creates nothing`() throws {
        let path = site.folder.file("nowhere")
        try Clientctl.run(["repair", "--store", path, "--json"]).failed(78, "configInvalid")
        #expect(access(path, F_OK) != 0)
        try Clientctl.run(["repair", "--json"]).failed(64, "usage")
        try repair(feed + ["--channel", site.manifest]).failed(64, "usage")
    }

    @Test func `repair restores files that a shell is serving`() throws {
        let run = try ServeRun([
            "--store", site.store, "--shell-version", "1.5.0", "--manifest", site.manifest, "--trust", site.trust,
        ])
        _ = try run.loadPage()
        let root = "\(site.store)/serving/archive-1.1.0"
        #expect(try run.ask("GET /app/shared.js").body == Site.client("1.1.0")["app/shared.js"])
        try damage(client("1.1.0", "app/shared.js"))
        try damage("\(root)/index.html")
        let outcome = try repair(feed).succeeded("repaired")
        #expect(
            repaired(outcome) == [
                "v1.0.0 app/shared.js archive", "v1.1.0 app/shared.js archive", "v1.1.0 app/shared.js v1.1.0 served",
                "v1.1.0 index.html v1.1.0 served",
            ])
        #expect(try run.ask("GET /app/shared.js").body == Site.client("1.1.0")["app/shared.js"])
        #expect(try run.ask("GET /", ["Accept: text/html"]).text.contains("WebAppLocalServer"))
        #expect(try contents(ofFile: "\(root)/app/shared.js") == Site.client("1.1.0")["app/shared.js"])
        try run.stop()
        try requireIntact()
    }

    @Test(arguments: ["renameat", "renameat2", "linkat", "fsync", "syncfs", "mkdirat", "unlinkat"])
    func `repair completes after a kill at any system call`(call: String) throws {
        guard Strace.works else {
            print("repair test: KNOWN LIMITATION: strace cannot run here; kills at each \(call) are not tested")
            return
        }
        try damage(client("1.0.0", "app/shared.js"))
        try Clientctl.stock(["rm", "-r", client("1.1.0", "img")])
        _ = try site.folder.writeTree(["clients/v1.0.0/more/x": bytes("more")], to: "store")
        try Clientctl.stock(["cp", "-a", site.store, site.folder.file("template")])
        let arguments = ["repair", "--store", site.store, "--json"] + feed
        for number in 1...200 {
            let comment: Comment = "killed at \(call) \(number)"
            let ending = try Program.run(
                [
                    "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=\(call)", "-e",
                    "inject=\(call):signal=SIGKILL:when=\(number)", Clientctl.path,
                ] + arguments, environment: Clientctl.environment())
            if ending.status == 0 { return }
            for version in ["1.0.0", "1.1.0"] {
                let found = try contents(ofFile: client(version, "app/shared.js"))
                #expect(found == bytes("damaged") || found == Site.client(version)["app/shared.js"], comment)
            }
            let next = try Clientctl.run(arguments).succeeded(nil, comment)
            #expect(["repaired", "intact"].contains(next.outcome), comment)
            try requireIntact(comment)
            try Clientctl.stock(["rm", "-rf", site.store])
            try Clientctl.stock(["cp", "-a", site.folder.file("template"), site.store])
        }
        Issue.record("\(call) never ends")
    }
}
