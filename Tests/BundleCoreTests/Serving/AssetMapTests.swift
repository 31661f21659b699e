import BundleDisk
import BundleTesting
import Glibc
import Testing

@testable import BundleCore

@Suite struct `A map of assets` {
    private static func own(_ pairs: [String]) -> [AssetMap.OwnAsset] {
        pairs.map { pair in
            let parts = pair.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
            return AssetMap.OwnAsset(url: String(parts[0]), file: String(parts.last ?? ""))
        }
    }

    @Test func `takes query, fragment and one slash off a URL, and calls the root index`() throws {
        let folder = try Directory.open("/")
        let map = try AssetMap(
            Self.own([
                "/ index.html", "/app/app.js?hash=1?2#3 app/a.js", "/a#b?c a", "b/c d",
                "/__cordova/app/app.js app/a.js",
                "/a%20b x", "/%2g x", "/% x", "/100%25 x", "/.well-known/y .well-known/y",
            ]), in: folder)
        #expect(
            map.assets.map { "\($0.urlPath) \($0.path)" } == [
                "index.html index.html", "app/app.js app/a.js", "a a", "b/c d", "__cordova/app/app.js app/a.js",
                "a%20b x", "%2g x", "% x", "100%25 x", ".well-known/y .well-known/y",
            ])
        #expect(map.assets.allSatisfy { !$0.isKnownFile && $0.source === folder })
        #expect(try AssetMap(Self.own(["?x index.html"]), in: folder).assets.map(\.urlPath) == [.index])
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
    func `refuses a path that is none`(asset: String, finding: String) throws {
        #expect(AssetMap.findings(Self.own([asset, "/ok ok"])) == [finding])
        #expect(throws: OrganizingError.invalid(findings: [finding])) {
            try AssetMap(Self.own([asset]), in: Directory.open("/"))
        }
    }

    @Test(arguments: [
        (["/ a", "/index.html b"], "Duplicate normalized URL path: index.html"),
        (["/a?1 a", "/a?2 a"], "Duplicate normalized URL path: a"),
        (["a a", "/a a"], "Duplicate normalized URL path: a"),
        (["/A a", "/a b"], "URL paths A and a differ only in case or normalisation"),
        (["/é a", "/e\u{301} b"], "URL paths é and e\u{301} differ only in case or normalisation"),
        (["/Straße a", "/STRASSE b"], "URL paths Straße and STRASSE differ only in case or normalisation"),
        (["/A/x a", "/a/y b"], "URL paths A and a differ only in case or normalisation"),
        (["/a/B/x a", "/a/b/y b"], "URL paths a/B and a/b differ only in case or normalisation"),
        (["/a/x a", "/A b"], "URL paths a and A differ only in case or normalisation"),
        (["/a a", "/a/b b"], "URL path a is a file and a folder"),
        (["/a/b/c a", "/a/b b"], "URL path a/b is a file and a folder"),
    ])
    func `refuses what no folder could hold side by side`(assets: [String], finding: String) throws {
        #expect(AssetMap.findings(Self.own(assets)) == [finding])
        // The same where one of them comes from the parent.
        let parent = try AssetMap(Self.own([assets[0]]), in: Directory.open("/"))
        let inherits = assets[0].hasPrefix("/a?") || assets[0] == "/ a" || assets[0] == "a a"
        let found = AssetMap.findings(Self.own([assets[1]]), inheriting: parent)
        #expect(found == (inherits ? [] : AssetMap.findings(Self.own(assets.reversed()))))
        #expect(found.count == (inherits ? 0 : 1))
    }

    @Test func `tells everything that is wrong with it in one sentence`() throws {
        let error = try #require(throws: OrganizingError.self) {
            try AssetMap(Self.own(["/../x a", "/a /b", "/a c"]), in: Directory.open("/"))
        }
        let findings = [
            "URL path /../x: path-traversal", "file path /b: path-absolute", "Duplicate normalized URL path: a",
        ]
        #expect(error == .invalid(findings: findings))
        #expect(error.failure.code == .unsuitableBundle)
        #expect(error.failure.subject == findings[0])
        #expect("\(error)" == "Bundle validation failed: \(findings.joined(separator: "; "))")
    }

    @Test func `inherits what it does not own`() throws {
        let folders = try [Directory.open("/"), Directory.open("/"), Directory.open("/")]
        let oldest = try AssetMap(Self.own(["/ i0", "/a a0", "/b b0"]), in: folders[0])
        let old = try AssetMap(Self.own(["/ i1", "/a a1", "/c c1"]), in: folders[1], inheriting: oldest)
        let map = try AssetMap(Self.own(["/ i2", "/c?x c2"]), in: folders[2], inheriting: old)
        #expect(map.assets.map { "\($0.urlPath) \($0.path)" } == ["index.html i2", "c c2", "a a1", "b b0"])
        #expect(zip(map.assets, [2, 2, 1, 0]).allSatisfy { $0.source === folders[$1] })
    }

    @Test func `of a tree has its regular files under legal names, and says what it leaves out`() throws {
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
        #expect(try AssetMap([], in: Directory.open(path), inheriting: map).warnings == map.warnings)
    }

    @Test func `of a tree is refused where names differ only in case`() throws {
        let folder = try TemporaryFolder()
        try folder.writeTree(["a": [], "A": []], to: "t")
        #expect(throws: OrganizingError.self) { try AssetMap(tree: Directory.open(folder.file("t"))) }
    }
}
