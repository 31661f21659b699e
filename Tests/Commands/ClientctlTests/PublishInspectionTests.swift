import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `publish` inspects a folder before it packs it: warnings, exclusions and rejections.
@Suite(.ownThread) struct PublishInspectionTests {
    private let site: Site
    private let source: String
    private let files: [String: [UInt8]]

    init() throws {
        site = try Site()
        files = [
            "index.html": bytes(
                "<!doctype html><script src=app.js></script><script src=https://cdn.example/x.js></script><img src=gone.png>\n"
            ),
            "app.js": bytes("console.log(1)\n//# sourceMappingURL=app.js.map\n"),
            "app.js.map": bytes("{\"version\":3}"),
            "twin.js": bytes("console.log(1)\n//# sourceMappingURL=app.js.map\n"), "eval.js": bytes("eval('1')"),
            ".DS_Store": bytes("junk"), "deep/page.html~": bytes("<p>old</p>"), "other.js.gz": bytes("not of a file"),
            "large.bin": [UInt8](repeating: 7, count: 3000),
        ]
        source = try site.folder.writeTree(files, to: "web")
        try Clientctl.stock(["gzip", "-k9", "\(source)/app.js"])
        try Clientctl.stock(["zstd", "-qk", "\(source)/eval.js"])
    }

    private func codes(_ value: JSONValue?) -> [String: [String]] {
        var codes: [String: [String]] = [:]
        for group in value?.arrayValue ?? [] {
            guard let object = group.objectValue, let code = object["code"]?.stringValue else { continue }
            codes[code] = object["files"]?.arrayValue?.compactMap { $0.objectValue?["path"]?.stringValue }
            #expect(object["count"]?.integerValue == codes[code]?.count)
        }
        return codes
    }

    @Test func `publish warns of an --exclude pattern without a match`() throws {
        let published = try site.publish(
            source, as: "1.0.0", ["--exclude", "nothere.*", "--exclude", "*.map", "--exclude", "deep"])
        published.succeeded("published")
        #expect(published.errors.contains("--exclude nothere.* excludes nothing"), "\(published.errors)")
        for pattern in ["*.map", "deep"] { #expect(!published.errors.contains("--exclude \(pattern) leaves")) }
    }

    @Test func `publish reports findings and publishes the files`() throws {
        let published = try site.publish(source, as: "1.0.0").succeeded("published")
        #expect(published["files"] == .integer(files.count + 2))
        #expect(
            codes(published["findings"]) == [
                "precompressed": ["app.js.gz", "eval.js.zst"], "maps": ["app.js.map"], "duplicates": ["twin.js"],
                "junk": [".DS_Store", "deep/page.html~"], "missingFile": ["index.html"],
                "foreignOrigin": ["index.html"],
                "eval": ["eval.js"], "neverConfirms": ["index.html"],
            ])
        #expect(published["dropped"] == .array([]))
        for words in [
            "2 precompressed copies, ", "(app.js.gz, eval.js.zst). ", "--drop precompressed",
            "1 source map, 13 bytes (app.js.map)",
            "(index.html: <img> gone.png)", "start serve with --csp \"script-src https://cdn.example\"",
            "start serve with --csp \"script-src 'unsafe-eval'\"",
        ] { #expect(published.errors.contains(words), "\(words): \(published.errors)") }
        try Clientctl.run(["verify", site.manifest, "--trust", site.trust, "--rebuild", source, "--json"]).succeeded(
            "verified")
    }

    @Test func `publish leaves out dropped files, and verify --rebuild does the same`() throws {
        let drop = ["--drop", "precompressed,maps,junk"]
        let rehearsed = try site.publish(source, as: "1.0.0", drop + ["--dry-run"]).succeeded("dryRun")
        #expect(rehearsed["files"] == .integer(files.count - 3))
        let published = try site.publish(source, as: "1.0.0", drop).succeeded("published")
        #expect(published["files"] == .integer(files.count - 3))
        #expect(
            codes(published["dropped"]) == ["precompressed": ["app.js.gz", "eval.js.zst"], "maps": ["app.js.map"]])
        #expect(
            Set(codes(published["findings"]).keys) == [
                "duplicates", "missingFile", "foreignOrigin", "eval", "neverConfirms",
            ])
        #expect(published.errors.contains("excluded 2 precompressed copies"))
        let verify = ["verify", site.manifest, "--trust", site.trust, "--rebuild", source, "--json"]
        try Clientctl.run(verify).failed(23, "digestMismatch")
        try Clientctl.run(verify + drop).succeeded("verified")
        try Clientctl.run(verify, environment: ["CLIENTCTL_DROP": "maps,junk,precompressed"]).succeeded("verified")
        try site.publish(source, as: "1.0.0", drop).succeeded("unchanged")
        try site.publish(source, as: "1.0.1", ["--drop", "maps,gone"]).failed(64, "usage")
    }

    @Test func `publish rejects missing scripts of index.html unless they are allowed`() throws {
        try site.folder.write(
            bytes("<script src=/app.js></script><script src=gone/main.js></script>"), to: "web/index.html")
        let refused = try site.publish(source, as: "1.0.0").failed(24, "archiveRejected")
        #expect(refused.subject == "missing-script: gone/main.js")
        for allowed in ["missingScript", "main.js", "gone"] {
            let rehearsed = try site.publish(source, as: "1.0.0", ["--allow", allowed, "--dry-run"]).succeeded("dryRun")
            #expect(codes(rehearsed["findings"])["missingScript"] == ["index.html"])
        }
        try site.publish(source, as: "1.0.0", ["--allow", "other.js"]).failed(24, "archiveRejected")
    }

    @Test func `publish advises a publisher about a file that devices refuse`() throws {
        try Clientctl.stock(["ln", "-s", "index.html", "\(source)/link.html"])
        let linked = try site.publish(source, as: "1.0.0").failed(24, "archiveRejected")
        #expect(linked.errors.contains("link.html in \(source) cannot be in a release: it is a symbolic link"))
        #expect(linked.errors.contains("--exclude") && !linked.errors.contains("Publish the client again"))
        try Clientctl.stock(["truncate", "-s", "60M", "\(source)/zeros.bin"])
        let dense = try site.publish(source, as: "1.0.0", ["--exclude", "link.html"]).failed(24, "archiveRejected")
        #expect(dense.errors.contains("zeros.bin in \(source)") && dense.errors.contains("No flag raises this limit"))
        try site.publish(source, as: "1.0.0", ["--exclude", "link.html", "--exclude", "*.bin"]).succeeded("published")
    }

    @Test(arguments: [
        ("https://api.example.com/v1", "content=\"https://api.example.com\""),
        ("https://*.example.com", "has a wildcard"),
        ("'unsafe-inline'", "is a keyword"), ("http://api.example.com", "is not encrypted"),
        ("https://a.example;", "spaces separate origins"),
    ])
    func `publish refuses a declaration that devices would ignore`(value: String, advice: String) throws {
        let page =
            "<meta name=\"clientctl:connect\" content=\"https://a.example \(value)\"><script src=/app.js></script>"
        try site.folder.write(bytes(page), to: "web/index.html")
        let refused = try site.publish(source, as: "1.0.0").failed(24, "archiveRejected")
        #expect(refused.subject == "declaration: \(value)")
        for words in ["\(source)/index.html has a declaration", value, advice] {
            #expect(refused.errors.contains(words), "\(words): \(refused.errors)")
        }
        try site.folder.write(bytes("<meta name=clientctl:font content=https://a.example>"), to: "web/index.html")
        let unknown = try site.publish(source, as: "1.0.0").failed(24, "archiveRejected")
        #expect(unknown.subject == "declaration: clientctl:font")
    }

    @Test func `publish proposes a declaration, and publish, verify and inspect show it`() throws {
        let calls =
            "fetch(\"https://api.example.com/x\");new WebSocket('wss://live.example.com');a.startupDidComplete()"
        func folder(_ head: String) throws -> String {
            try site.folder.writeTree(
                ["index.html": bytes("<!doctype html>\(head)<script src=a.js></script>"), "a.js": bytes(calls)],
                to: "calls")
        }
        let proposal = "<meta name=\"clientctl:connect\" content=\"https://api.example.com wss://live.example.com\">"
        let without = try site.publish(folder(""), as: "1.0.0").succeeded("published")
        #expect(codes(without["findings"]) == ["undeclaredCall": ["a.js", "a.js"]])
        #expect(
            without.errors.contains("(a.js: https://api.example.com, a.js: wss://live.example.com)"),
            "\(without.errors)")
        #expect(without.errors.contains("add to the <head> of index.html: \(proposal)"), "\(without.errors)")
        #expect(without["origins"] == .object([:]))
        let with = try site.publish(folder(proposal), as: "1.1.0").succeeded("published")
        #expect(with["findings"] == .array([]))
        let origins: JSONValue = .object([
            "connect": .array([.string("https://api.example.com"), .string("wss://live.example.com")])
        ])
        #expect(with["origins"] == origins)
        let line = "connect https://api.example.com wss://live.example.com"
        let verify = ["verify", site.manifest, "--trust", site.trust]
        #expect(try Clientctl.run(verify + ["--json"]).succeeded("verified")["origins"] == origins)
        #expect(try Clientctl.run(verify).text.contains("  declares \(line)"))
        let archive = "\(site.feed)/releases/v1.1.0/client-v1.1.0.tar.zst"
        #expect(try Clientctl.run(["inspect", archive, "--json"]).succeeded()["origins"] == origins)
        #expect(try Clientctl.run(["inspect", archive]).text.contains("  declares  \(line)"))
        let again = [
            "publish", "calls", "--version", "1.1.0", "--feed", site.feed, "--key", site.key, "--min-shell", "1.0.0",
        ]
        #expect(try Clientctl.run(again, in: site.folder.path).text.contains("  declares   \(line)"))
    }

    @Test func `publish warns of a client that cannot confirm its start`() throws {
        func warnings(_ files: [String: String]) throws -> Outcome {
            let folder = try site.folder.writeTree(files.mapValues(bytes), to: "start")
            defer { _ = try? Clientctl.stock(["rm", "-r", folder]) }
            return try site.publish(folder, as: "3.0.0", ["--dry-run"]).succeeded("dryRun")
        }
        let never = try warnings(["index.html": "<h1>Hello</h1>"])
        #expect(never.errors.contains("No file calls startupDidComplete()"))
        let empty = try warnings(["index.html": " \n"])
        #expect(codes(empty["findings"]) == ["emptyPage": ["index.html"]])
        #expect(empty.errors.contains("index.html is empty. Devices would show a white screen"))
        let blocked = try warnings([
            "index.html":
                "<meta http-equiv=content-security-policy content=\"default-src 'none'\"><script>a.startupDidComplete()</script>"
        ])
        #expect(codes(blocked["findings"]) == ["blocksConfirmation": ["index.html"]])
        let worker = try warnings([
            "index.html": "<script src=a.js></script>",
            "a.js": "navigator.serviceWorker.register('sw.js'); a.startupDidComplete()",
        ])
        #expect(codes(worker["findings"]) == ["serviceWorker": ["a.js"]])
        let compiled = try warnings(["index.html": "<h1>Hello</h1>", "a.bin": "\u{0}startupDidComplete\u{0}"])
        #expect(codes(compiled["findings"]) == [:])
    }

    @Test func `publish warns of content that equals another release`() throws {
        try site.publish("1.0.0")
        try site.publish("1.1.0")
        let same = try site.publish(site.folder.file("web-1.0.0"), as: "1.2.0").succeeded("published")
        #expect(same.errors.contains("The content is the same as in 1.0.0. Did you build?"))
        #expect(codes(same["findings"])["sameContent"] == ["index.html"])
        let again = try site.publish(site.folder.file("web-1.1.0"), as: "1.1.0").succeeded("unchanged")
        #expect(codes(again["findings"])["sameContent"] == nil)
    }

    @Test func `publish prints at most five lines, then the findings`() throws {
        let outcome = try Clientctl.run([
            "publish", source, "--version", "1.0.0", "--feed", site.feed, "--key", site.key, "--level", "1",
        ])
        #expect(outcome.status == 0, "\(outcome.errors)")
        let lines = outcome.text.split(separator: "\n")
        #expect(lines.first?.hasPrefix("published 1.0.0 to ") == true && lines.count <= 5, "\(outcome.text)")
        #expect(lines.contains { $0.hasPrefix("  size       ") } && lines.contains { $0.contains("offers 1.0.0") })
        let notes = outcome.errors.split(separator: "\n")
        #expect(notes.first?.contains("is a new feed") == true, "\(outcome.errors)")
        let warnings = notes.dropFirst()
        #expect(!warnings.isEmpty && warnings.allSatisfy { $0.hasPrefix("warning: ") }, "\(outcome.errors)")
        let index = warnings.map { $0.contains("index.html") || $0.contains("startupDidComplete") }
        #expect(index.first == true, "\(outcome.errors)")
    }

    @Test func `publish treats repositories and dependencies as junk`() throws {
        _ = try site.folder.writeTree([".git/HEAD": bytes("ref"), "lib/node_modules/x.js": bytes("1")], to: "web")
        try site.publish(source, as: "1.0.0", ["--drop", "maps"]).failed(24, "archiveRejected")
        try site.publish(source, as: "1.0.0", ["--drop", "junk"]).succeeded("published")
    }

    @Test func `publish rejects a release over --budget, or that grows by more, with status 52`() throws {
        let refused = try site.publish(source, as: "1.0.0", ["--budget", "2kB"]).failed(52, "overBudget")
        #expect(refused.subject == source)
        #expect(refused.errors.contains("more than --budget allows. The largest files: large.bin 3.0 kB"))
        #expect(access(site.feed, F_OK) != 0)
        try site.publish(source, as: "1.0.0", ["--budget", "2kB,+10%", "--exclude", "large.bin"])
            .succeeded("published")
        let grown = try site.publish(source, as: "1.0.1", ["--budget", "1MB,+10%"]).failed(52, "overBudget")
        #expect(grown.errors.contains("more than 1.0.0, and --budget allows"), "\(grown.errors)")
        try site.publish(source, as: "1.0.1", ["--budget", "1MB,+1MB"]).succeeded("published")
        try site.publish(source, as: "1.0.2", ["--budget", "some"]).failed(64, "usage")
        let single = try site.publish(source, as: "1.0.2", ["--max-file-size", "2999B"]).failed(24, "archiveRejected")
        #expect(single.errors.contains("large.bin"))
    }

    @Test func `publish --archive-maps stores source maps by version and keeps them in the release`() throws {
        _ = try site.folder.writeTree(["deep/b.css.map": bytes("{}")], to: "web")
        let maps = site.folder.file("maps/of/kiosk")
        let kept = ["app.js.map": bytes("{\"version\":3}"), "deep/b.css.map": bytes("{}")]
        try site.publish(source, as: "0.9.0", ["--archive-maps", maps, "--dry-run"]).succeeded("dryRun")
        #expect(access(maps, F_OK) != 0)
        let published = try site.publish(source, as: "1.0.0", ["--archive-maps", maps]).succeeded("published")
        #expect(codes(published["findings"])["maps"] == ["app.js.map", "deep/b.css.map"])
        try site.publish(source, as: "1.1.0", ["--archive-maps", maps, "--drop", "maps"]).succeeded("published")
        for version in ["v1.0.0", "v1.1.0"] { #expect(try TreeSnapshot(of: "\(maps)/\(version)").files == kept) }
        try Clientctl.stock(["rm", "-r", "\(maps)/v1.0.0"])
        try site.publish(source, as: "1.0.0", ["--archive-maps", maps]).succeeded("unchanged")
        #expect(try TreeSnapshot(of: maps).files.count == 4)
        // Maps of a rejected release do not replace those of the published version.
        try site.folder.write(bytes("{\"other\":1}"), to: "web/app.js.map")
        try site.publish(source, as: "1.0.0", ["--archive-maps", maps]).failed(51, "versionExists")
        #expect(try TreeSnapshot(of: "\(maps)/v1.0.0").files == kept)
    }
}
