import BundleValues
import BundleDisk
import BundleTesting
import Glibc
import Testing

@testable import BundleCore

@Suite struct AssetMapTests {
    private static func placed(_ pairs: [String], in folder: Directory) -> [AssetMap.PlacedAsset] {
        pairs.map { pair in
            let parts = pair.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
            return AssetMap.PlacedAsset(url: String(parts[0]), source: folder, file: String(parts.last ?? ""))
        }
    }

    private static func findings(_ pairs: [String]) throws -> [String] {
        AssetMap.findings(placed(pairs, in: try Directory.open("/")))
    }

    @Test func `SW-21: removes query, fragment and one slash of a URL, and maps the root to the index page`() throws {
        let folder = try Directory.open("/")
        let map = try AssetMap(
            Self.placed(
                [
                    "/ index.html", "/app/app.js?hash=1?2#3 app/a.js", "/a#b?c a", "b/c d",
                    "/__cordova/app/app.js app/a.js",
                    "/a%20b x", "/%2g x", "/% x", "/100%25 x", "/.well-known/y .well-known/y",
                ], in: folder))
        #expect(
            map.assets.map { "\($0.urlPath) \($0.path)" } == [
                "index.html index.html", "app/app.js app/a.js", "a a", "b/c d", "__cordova/app/app.js app/a.js",
                "a%20b x", "%2g x", "% x", "100%25 x", ".well-known/y .well-known/y",
            ])
        #expect(map.assets.allSatisfy { !$0.isKnownFile && $0.source === folder })
        #expect(try AssetMap(Self.placed(["?x index.html"], in: folder)).assets.map(\.urlPath) == [.index])
    }

    @Test(arguments: [
        ("/../x a", "URL path /../x: path-traversal"), ("/a/./b a", "URL path /a/./b: name-not-canonical"),
        ("//a a", "URL path //a: path-absolute"), ("/a//b a", "URL path /a//b: name-not-canonical"),
        ("/a/ a", "URL path /a/: name-not-canonical"), ("/a\\b a", "URL path /a\\\\b: name-forbidden-char"),
        ("/a\0 a", "URL path /a\\x00: name-forbidden-char"), ("/a\u{1B} a", "URL path /a\\x1B: name-forbidden-char"),
        ("/%2e%2E/x a", "URL path /%2e%2E/x: percent-encoded path-traversal"),
        ("/.%2e/x a", "URL path /.%2e/x: percent-encoded path-traversal"),
        ("/a/%2e a", "URL path /a/%2e: percent-encoded name-not-canonical"),
        ("/%2f.. a", "URL path /%2f..: percent-encoded path-absolute"),
        ("/a%5c.. a", "URL path /a%5c..: percent-encoded name-forbidden-char"),
        ("/a%00 a", "URL path /a%00: percent-encoded name-forbidden-char"),
        ("/a%FF a", "URL path /a%FF: percent-encoded name-not-utf8"),
        ("/a ", "file path : name-not-canonical"), ("/a /a", "file path /a: path-absolute"),
        ("/a a/../b", "file path a/../b: path-traversal"), ("/a a\\b", "file path a\\\\b: name-forbidden-char"),
        ("/a a//b", "file path a//b: name-not-canonical"), ("/a a\u{7F}", "file path a\\x7F: name-forbidden-char"),
    ])
    func `SW-18, SW-20: refuses an invalid path`(asset: String, finding: String) throws {
        #expect(try Self.findings([asset, "/ok ok"]) == [finding])
        #expect(throws: OrganizingError.invalid(findings: [finding])) {
            try AssetMap(Self.placed([asset], in: Directory.open("/")))
        }
    }

    @Test(arguments: [
        (["/ a", "/index.html b"], "Duplicate normalized URL path: index.html"),
        (["/a?1 a", "/a?2 a"], "Duplicate normalized URL path: a"),
        (["a a", "/a a"], "Duplicate normalized URL path: a"),
        (["/A a", "/a b"], "URL paths A and a differ only in case or normalization"),
        (["/é a", "/e\u{301} b"], "URL paths é and e\u{301} differ only in case or normalization"),
        (["/Straße a", "/STRASSE b"], "URL paths Straße and STRASSE differ only in case or normalization"),
        (["/A/x a", "/a/y b"], "URL paths A and a differ only in case or normalization"),
        (["/a/B/x a", "/a/b/y b"], "URL paths a/B and a/b differ only in case or normalization"),
        (["/a/x a", "/A b"], "URL paths a and A differ only in case or normalization"),
        (["/a a", "/a/b b"], "URL path a is a file and a folder"),
        (["/a/b/c a", "/a/b b"], "URL path a/b is a file and a folder"),
    ])
    func `SW-19, N-17: refuses paths that no folder could hold side by side`(assets: [String], finding: String) throws {
        #expect(try Self.findings(assets) == [finding])
    }

    @Test func `reports all findings in one message`() throws {
        let error = try #require(throws: OrganizingError.self) {
            try AssetMap(Self.placed(["/../x a", "/a /b", "/a c"], in: Directory.open("/")))
        }
        let findings = [
            "URL path /../x: path-traversal", "file path /b: path-absolute", "Duplicate normalized URL path: a",
        ]
        #expect(error == .invalid(findings: findings))
        #expect(error.failure.code == .unsuitableBundle)
        #expect(error.failure.subject == findings[0])
        #expect("\(error)" == "Bundle validation failed: \(findings.joined(separator: "; "))")
    }

    @Test func `SW-20: reports every invalid file path`() throws {
        let files = ["../escape.js", "/absolute.js", "a\\b.js", "a//b.js"]
        let findings = try Self.findings(files.enumerated().map { "/\($0) \($1)" })
        #expect(
            findings.map { String($0.prefix { $0 != ":" }) } == [
                "file path ../escape.js", "file path /absolute.js", "file path a\\\\b.js", "file path a//b.js",
            ])
    }

    @Test func `P01: maps two URLs to one file, and files of several folders`() throws {
        let folders = try [Directory.open("/"), Directory.open("/")]
        let map = try AssetMap(
            Self.placed(["/ index.html", "/__cordova/x.png app/x.png", "/x.png app/x.png"], in: folders[0])
                + Self.placed(["/shared.js old/name.js"], in: folders[1]))
        #expect(
            map.assets.map { "\($0.urlPath) \($0.path)" } == [
                "index.html index.html", "__cordova/x.png app/x.png", "x.png app/x.png", "shared.js old/name.js",
            ])
        #expect(zip(map.assets, [0, 0, 0, 1]).allSatisfy { $0.source === folders[$1] })
    }

    @Test func `maps the regular files of a tree and warns about the others`() throws {
        let folder = try TemporaryFolder()
        try folder.writeTree(
            ["index.html": [1], "a/b/c.js": [2], "a/index.html": [3], "%2e%2e": [4], ".x/y": [5], "bad\u{1}": [6]],
            to: "t")
        let path = folder.file("t")
        for (target, name) in [("/etc", "out"), ("index.html", "link"), ("nowhere", "a/gone")] {
            try #require(symlink(target, "\(path)/\(name)") == 0)
        }
        try #require(mkfifo("\(path)/pipe", 0o600) == 0)
        try #require(mkdir("\(path)/bad\\dir", 0o755) == 0)
        let map = try AssetMap(tree: Directory.open(path))
        #expect(Set(map.assets.map(\.urlPath.string)) == ["index.html", "a/b/c.js", "a/index.html", "%2e%2e", ".x/y"])
        #expect(map.assets.allSatisfy { $0.urlPath == $0.path })
        #expect(
            Set(map.warnings) == [
                "out is a symbolic link; it is not served.", "link is a symbolic link; it is not served.",
                "a/gone is a symbolic link; it is not served.", "pipe is not a regular file; it is not served.",
                "bad\\x01 is not served (name-forbidden-char).", "bad\\\\dir is not served (name-forbidden-char).",
            ])
    }

    @Test func `refuses a tree whose names differ only in case`() throws {
        let folder = try TemporaryFolder()
        try folder.writeTree(["a": [], "A": []], to: "t")
        #expect(throws: OrganizingError.self) { try AssetMap(tree: Directory.open(folder.file("t"))) }
    }
}
