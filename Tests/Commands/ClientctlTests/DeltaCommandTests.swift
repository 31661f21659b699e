import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Synchronization
import Testing

/// Deltas from `publish` to `install`.
@Suite(.ownThread) struct DeltaCommandTests {
    private let site: Site

    init() throws { site = try Site() }

    /// Returns a client with enough text for a delta to be smaller.
    private static func client(_ version: String, seed: UInt64 = 1) -> [String: [UInt8]] {
        var generator = SeededGenerator(seed: seed)
        let text = (0..<800).flatMap { _ in
            Array("const v\(UInt64.random(in: .min ... .max, using: &generator)) = 1;\n".utf8)
        }
        var files = Site.client(version)
        files["app/chunk.\(version.split(separator: ".").joined()).js"] = text + Array("// \(version)\n".utf8)
        return files
    }

    private func publish(_ version: String, _ more: [String] = []) throws -> Outcome {
        try site.publish(version, Self.client(version), more)
    }

    private func names(_ outcome: Outcome) -> [String] {
        (outcome["deltas"]?.arrayValue ?? []).map { delta in
            let object = delta.objectValue
            return (object?["base"]?.stringValue ?? "") + (object?["refusal"]?.stringValue.map { ": \($0)" } ?? "")
        }
    }

    private func deltas(of version: String) throws -> [String: [UInt8]] {
        try TreeSnapshot(of: "\(site.feed)/releases/v\(version)").files.filter { $0.key.hasSuffix(".delta") }
    }

    @Test func `release delta runs the hook and waits for the public address`() throws {
        try publish("1.0.0").succeeded("published")
        try publish("1.1.0", ["--no-deltas"]).succeeded("published")
        let (feed, seen) = (site.feed, site.folder.file("seen"))
        let hasList = Mutex(false)
        let server = try LoopbackServer { request in
            if request.target.hasSuffix("/deltas.json"), !hasList.withLock({ $0 }) { return Route(status: 404) }
            guard let bytes = try? contents(ofFile: feed + request.target) else { return Route(status: 404) }
            var route = Route.resource(bytes, entityTag: "\"\(bytes.count)\"")
            route.headers = [("Cache-Control", "max-age=30")]
            return route
        }
        let delta = [
            "release", "delta", "--version", "1.1.0", "--delta-from", "1.0.0", "--feed", feed, "--key", site.key,
            "--json",
            "--after-publish", "sh -c 'env >\"$0\"' \(seen)", "--public-url", try server.url("/").description,
        ]
        let behind = try Clientctl.run(delta + ["--public-within", "\(BusyMachine.seconds(3))s"]).failed(
            53, "notPublic")
        #expect(behind.outcome == "changed")
        #expect(behind.errors.contains("v1.1.0/deltas.json answered 404."))
        let variables = String(decoding: try contents(ofFile: seen), as: UTF8.self)
        #expect(variables.contains("PUBLISHED_DOCUMENTS=releases/v1.1.0/deltas.json\n"))
        #expect(variables.contains("PUBLISHED_VERSION=1.1.0\n") && variables.contains("PUBLISHED_OUTCOME=changed\n"))
        hasList.withLock { $0 = true }
        let done = try Clientctl.run(delta).succeeded("unchanged")
        #expect(done["public"]?.objectValue?["url"] != nil)
        withExtendedLifetime(server) {}
    }

    @Test func `install downloads the delta that publish created and reports its route`() throws {
        #expect(try names(publish("1.0.0")) == [])
        try #require(try site.install().status == 0)
        let seen = site.folder.file("seen")
        let second = try publish("1.1.0", ["--after-publish", "sh -c 'env >\"$0\"' \(seen)"])
        #expect(names(second) == ["1.0.0"])
        #expect(
            String(decoding: try contents(ofFile: seen), as: UTF8.self).contains(
                "PUBLISHED_DOCUMENTS=releases/v1.1.0/deltas.json manifest.json\n"))
        let delta = try #require(second["deltas"]?.arrayValue?.first?.objectValue)
        let installed = try site.install()
        #expect(installed["route"] == .string("delta"))
        #expect(installed["routeReason"] == .string("taken"))
        #expect(installed["routeDetail"] == .string("from 1.0.0"))
        #expect(installed["bytesDownloaded"] == delta["size"])
        #expect(try site.installed("1.1.0") == Self.client("1.1.0"))
        let status = try Clientctl.run(["status", "--store", site.store, "--json"])
        let rows = try #require(status["clients"]?.arrayValue).compactMap(\.objectValue)
        #expect(rows.contains { $0["route"] == .string("delta") && $0["name"]?.stringValue?.contains("1.1.0") == true })
        #expect(try Clientctl.run(["verify", "--store", site.store, "--json"]).status == 0)
    }

    @Test func `publish explains why a small archive has no delta, only on request`() throws {
        for version in ["1.0.0", "1.1.0"] { try site.publish(version).succeeded("published") }
        let flags = ["--feed", site.feed, "--key", site.key]
        let folder = try site.folder.writeTree(Site.client("1.2.0"), to: "small")
        let text = try Clientctl.run(["publish", folder, "--version", "1.2.0"] + flags).text
        #expect(text.contains("published 1.2.0") && !text.contains("  deltas "), "\(text)")
        try site.folder.writeTree(Site.client("1.3.0"), to: "small")
        let requested = try Clientctl.run(["publish", folder, "--version", "1.3.0", "--delta-from", "1.2.0"] + flags)
            .text
        #expect(requested.contains("  deltas     none from 1.2.0"), "\(requested)")
    }

    @Test func `check reports the delta and its size`() throws {
        func check() throws -> [JSONValue?] {
            let found = try site.check().succeeded("available")
            return [found["route"], found["routeReason"], found["routeDetail"], found["bytesToDownload"]]
        }
        func archive(_ version: String) throws -> JSONValue? {
            try site.object("\(site.feed)/releases/v\(version)/manifest.json")["size"]
        }
        _ = try publish("1.0.0")
        #expect(try check() == [.string("archive"), .string("noBase"), .null, archive("1.0.0")])
        try #require(try site.install().status == 0)
        let second = try publish("1.1.0")
        let delta = try #require(second["deltas"]?.arrayValue?.first?.objectValue)
        try site.leavingStoreAlone {
            #expect(try check() == [.string("delta"), .string("taken"), .string("from 1.0.0"), delta["size"]])
            let plain = try Clientctl.run(site.arguments("check").filter { $0 != "--json" })
            #expect(plain.text.contains("download: delta (taken, from 1.0.0): "))
        }
        #expect(try site.install()["bytesDownloaded"] == delta["size"])
        _ = try publish("1.2.0", ["--no-deltas"])
        #expect(try check() == [.string("archive"), .string("noDeltas"), .null, archive("1.2.0")])
    }

    @Test func `install downloads the archive and repairs the base when the base is damaged`() throws {
        _ = try publish("1.0.0")
        try #require(try site.install().status == 0)
        _ = try publish("1.1.0")
        let file = "\(site.store)/clients/v1.0.0/index.html"
        try Clientctl.stock(["sh", "-c", "printf damaged > \"$1\"", "sh", file])
        let installed = try site.install().succeeded("installed")
        #expect(installed["route"] == .string("archive"))
        #expect(installed["routeReason"] == .string("damagedBase"))
        #expect(installed.errors.contains("repair restored 1 file, and 0 stay damaged"))
        #expect(try site.installed("1.0.0") == Self.client("1.0.0"))
        #expect(try site.installed("1.1.0") == Self.client("1.1.0"))
        #expect(try Clientctl.run(["verify", "--store", site.store, "--json"]).status == 0)
    }

    @Test func `publish creates deltas from the last three releases by default`() throws {
        for version in ["1.0.0", "1.1.0", "1.2.0", "1.3.0"] { _ = try publish(version) }
        #expect(try names(publish("1.4.0")) == ["1.3.0", "1.2.0", "1.1.0"])
        #expect(try names(publish("1.5.0", ["--delta-from", "1", "--delta-from", "1.0.0"])) == ["1.4.0", "1.0.0"])
        #expect(try names(publish("1.6.0", ["--no-deltas"])) == [])
        #expect(try names(publish("1.7.0", ["--delta-from", "0"])) == [])
        #expect(try deltas(of: "1.7.0") == [:])
        let missing = try site.publish(
            site.folder.writeTree(Self.client("1.8.0"), to: "later"), as: "1.8.0", ["--delta-from", "1.0.9"])
        #expect(missing.status == 78)
        #expect(missing.errors.contains("has no release 1.0.9"))
    }

    @Test func `publish creates identical deltas from identical folders`() throws {
        let epoch = ["SOURCE_DATE_EPOCH": "1900000000"]
        var found: [[String: [UInt8]]] = []
        for feed in ["one", "two"] {
            for version in ["1.0.0", "1.1.0"] {
                let source = try site.folder.writeTree(Self.client(version), to: "\(feed)-\(version)")
                let outcome = try site.publish(
                    source, as: version, ["--feed", site.folder.file(feed)], environment: epoch)
                #expect(outcome.status == 0)
            }
            found.append(try TreeSnapshot(of: site.folder.file("\(feed)/releases/v1.1.0")).files)
        }
        #expect(found[0].count == 4)
        #expect(found[0] == found[1])
    }

    @Test func `release delta adds deltas later, also from a seed, and requires the release key`() throws {
        let seed = try site.folder.writeTree(Self.client("0.9.0"), to: "seed")
        _ = try publish("1.0.0")
        _ = try publish("1.1.0", ["--no-deltas"])
        func add(_ more: [String], key: String? = nil) throws -> Outcome {
            try Clientctl.run(
                ["release", "delta", "--version", "1.1.0", "--feed", site.feed, "--key", key ?? site.key, "--json"]
                    + more)
        }
        let first = try add(["--delta-from", "0", "--seed", seed])
        #expect(first["outcome"] == .string("changed"))
        #expect(try add([])["outcome"] == .string("changed"))
        #expect(try add([])["outcome"] == .string("unchanged"))
        #expect(try deltas(of: "1.1.0").count == 2)
        let installed = try site.install(nil, ["--seed", seed])
        #expect(installed["routeDetail"] == .string("from the seed"))
        #expect(try site.installed("1.1.0") == Self.client("1.1.0"))

        try #require(
            try Clientctl.run(["keys", "generate", "--out", site.folder.file("other"), "--json"]).status == 0)
        let before = try TreeSnapshot(of: site.feed)
        #expect(try add(["--delta-from", seed], key: site.folder.file("other.key.pem")).status == 20)
        // A list with a foreign signature is not replaced.
        let list = "\(site.feed)/releases/v1.1.0/deltas.json"
        let other = String(decoding: try contents(ofFile: list), as: UTF8.self).replacing(
            "\"sig\": \"", with: "\"sig\": \"AAAA")
        try site.folder.write(Array(other.utf8), to: "feed/releases/v1.1.0/deltas.json")
        #expect(try add(["--delta-from", seed]).status == 20)
        #expect(before.files.count == (try TreeSnapshot(of: site.feed).files.count))
    }

    @Test func `publish omits a delta larger than half of the archive`() throws {
        _ = try publish("1.0.0")
        let outcome = try site.publish("1.1.0", Self.client("1.1.0", seed: 2))
        #expect(names(outcome).first?.contains("more than half of the archive") == true)
        #expect(try deltas(of: "1.1.0") == [:])
    }

    @Test func `publish omits a delta from a damaged base, and fails when it cannot unpack the base`() throws {
        var large = Self.client("1.0.0")
        large["large.txt"] = [UInt8](repeating: 65, count: 2 << 20)
        _ = try site.publish("1.0.0", large)
        let archive = "feed/releases/v1.0.0/client-v1.0.0.tar.zst"
        let whole = try contents(ofFile: site.folder.file(archive))
        try site.folder.write(whole.map { $0 ^ 1 }, to: archive)
        #expect(try names(publish("1.1.0")).first?.contains("is missing or is not the signed one") == true)
        try site.folder.write(whole, to: archive)
        let source = try site.folder.writeTree(Self.client("1.2.0"), to: "limited")
        let line = [
            Clientctl.path, "publish", source, "--version", "1.2.0", "--feed", site.feed, "--key", site.key,
            "--min-shell", "1.0.0",
        ]
        // The file size limit is one megabyte.
        let limited = try Program.run(
            ["bash", "-c", "ulimit -f 1024; trap '' XFSZ; exec \"$@\"", "bash"] + line,
            environment: Clientctl.environment())
        #expect(limited.status != 0)
        #expect(limited.errors.contains("File too large"), "\(limited.errors)")
        #expect(access("\(site.feed)/releases/v1.2.0", F_OK) != 0)
    }

    @Test func `inspect and channel list show deltas, and verify checks them`() throws {
        _ = try publish("1.0.0", ["--channel", "stable", "--create"])
        _ = try publish("1.1.0", ["--channel", "stable"])
        let folder = "\(site.feed)/releases/v1.1.0"
        let shown = try Clientctl.run(["inspect", "\(folder)/deltas.json", "--json"])
        #expect(shown["kind"] == .string("deltas"))
        let listed = try Clientctl.run(["channel", "list", "--feed", site.feed, "--channel", "stable", "--json"])
        let releases = try #require(listed["releases"]?.arrayValue).compactMap {
            $0.objectValue?["deltas"]?.arrayValue?.count
        }
        #expect(releases == [1, 0])
        func verify() throws -> Outcome {
            try Clientctl.run(["verify", "\(folder)/manifest.json", "--trust", site.trust, "--json"])
        }
        #expect(try verify()["deltas"]?.arrayValue?.count == 1)
        let (name, bytes) = try #require(try deltas(of: "1.1.0").first)
        try site.folder.write(bytes.map { $0 ^ 1 }, to: "feed/releases/v1.1.0/\(name)")
        #expect(try verify().status == 23)
    }

    @Test(.enabled(if: Stock.hasPython, "python3 and zstd are missing"))
    func `another program can apply a delta with python3 and zstd`()
        throws
    {
        _ = try publish("1.0.0")
        _ = try publish("1.1.0")
        let name = try #require(try deltas(of: "1.1.0").keys.first)
        let script = "\(Checkout.root)/Tests/Base/BundleArchiveTests/Delta/apply-delta.py"
        try Clientctl.stock([
            "python3", script, "\(site.feed)/releases/v1.1.0/\(name)", site.folder.file("web-1.0.0"),
            site.folder.file("applied"),
        ])
        #expect(try TreeSnapshot(of: site.folder.file("applied")).files == Self.client("1.1.0"))
    }
}

/// Programs of this machine that are not part of Swift.
private enum Stock {
    static let hasPython =
        system(
            "python3 -c 'import zstandard' 2>/dev/null || python3 -c 'from compression import zstd' 2>/dev/null "
                + "|| (python3 -c '' && zstd --version) >/dev/null 2>&1") == 0
}
