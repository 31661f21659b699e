import BundleValues
import BundleTestTraits
import BundleTesting
import MeteorSource
import MeteorTesting
import Testing

/// Tests that a rejected manifest costs one request and leaves the store unchanged.
@Suite("Hot code push: rejected manifests", .ownThread)
struct HostileManifestTests {
    let device: PushedDevice

    init() async throws {
        device = try PushedDevice.app(App.bundle("v1", [App.asset("a.txt", "a")]))
        try device.restart()
        try device.deploy(App.bundle("v2", [App.asset("a.txt", "a of v2"), App.asset("b/c.txt", "c")]))
        try await device.activate()
    }

    /// Returns the manifest with other entries.
    private static func manifest(
        version: JSONValue = .string("v3"), _ entries: [JSONObject] = [], more: JSONObject = [:]
    ) -> [UInt8] {
        var object: JSONObject = [
            "format": .string("web-program-pre1"), "version": version,
            "cordovaCompatibilityVersions": .object(["ios": .string("ios-1"), "android": .string("android-1")]),
            "manifest": .array(entries.map(JSONValue.object)),
        ]
        for member in more.members { object[member.name] = member.value }
        return JSONWriter.bytes(of: .object(object))
    }

    private static func entry(_ path: String, url: String? = nil, hash: String = "h") -> JSONObject {
        [
            "path": .string(path), "where": .string("client"), "type": .string("asset"), "cacheable": .bool(false),
            "url": .string(url ?? "/" + path), "hash": .string(hash), "size": .integer(3),
        ]
    }

    private func expectRefusal(
        _ manifest: [UInt8], _ subject: String, sourceLocation: SourceLocation = #_sourceLocation
    )
        async throws
    {
        try device.server.serve(version: "v2")
        device.server.heal()
        device.server.fault("/manifest.json", .content(manifest))
        let before = try TreeSnapshot(of: device.folder.path)
        let failure = try await device.failure()
        #expect(failure?.code == .manifestMalformed, sourceLocation: sourceLocation)
        #expect(failure?.subject == subject, "\(failure?.message ?? "")", sourceLocation: sourceLocation)
        #expect(failure?.message.contains("invalidAssetManifest") == true, sourceLocation: sourceLocation)
        #expect(device.requests == Requests.of("/manifest.json"), sourceLocation: sourceLocation)
        #expect(
            try TreeSnapshot(of: device.folder.path).changes(since: before) == [], sourceLocation: sourceLocation)
    }

    /// Invalid paths by their fault.
    static let paths = [
        "../escape.js", "app/../../escape.js", "app/..", "..", "/etc/passwd", "//app/a.js", "app//a.js", "app/./a.js",
        "app\\..\\escape.js", "C:\\a.js", "app/a\u{0}.js", "app/a\n.js", "app/\u{7F}.js", "", "/", "app/",
        "program.json", "INDEX.HTML", "Program.JSON/a.js", String(repeating: "a/", count: 600) + "a",
        String(repeating: "a", count: 300), "app/\u{202E}sj.a",
    ]

    @Test("AN-07, P34: rejects an invalid path", arguments: paths)
    func path(_ path: String) async throws {
        try await expectRefusal(Self.manifest([Self.entry(path, url: "/a.js")]), "manifest[0].path")
    }

    static let urls = [
        "/../escape.js", "/app/../../escape.js", "/%2e%2e/escape.js", "/app/%2E%2E%2Fescape.js", "/%2e%2e%2fa.js",
        "app/a.js", "https://elsewhere.test/a.js", "//elsewhere.test/a.js", "/a\\b.js", "/a\u{0}.js", "/a\r\nX: y",
        "/app//a.js", "/app/./a.js", "",
    ]

    @Test("rejects an invalid URL", arguments: urls)
    func url(_ url: String) async throws {
        try await expectRefusal(Self.manifest([Self.entry("app/a.js", url: url)]), "manifest[0].url")
    }

    static let collisions: [(String, String)] = [
        ("app/a.js", "app/A.js"), ("app/a.js", "APP/a.js"), ("app/caf\u{E9}.js", "app/cafe\u{301}.js"),
        ("app/stra\u{DF}e.js", "app/STRASSE.js"), ("app/a", "app/a/b.js"), ("app/a/b.js", "app/a"),
        ("app/a", "APP/A/b.js"), ("index.html/a.js", "app/a.js"),
    ]

    @Test("N-17: rejects two paths that collide on some file system", arguments: collisions)
    func collision(_ first: String, _ second: String) async throws {
        let isFirst = first.hasPrefix("index.html")
        let entries = [Self.entry(first, url: "/1.js"), Self.entry(second, url: "/2.js")]
        try await expectRefusal(Self.manifest(entries), "manifest[\(isFirst ? 0 : 1)].path")
    }

    @Test("N-17: rejects two URLs that collide on some file system", arguments: collisions.dropLast())
    func urlCollision(_ first: String, _ second: String) async throws {
        let entries = [Self.entry("1.js", url: "/" + first), Self.entry("2.js", url: "/" + second)]
        try await expectRefusal(Self.manifest(entries), "manifest[1].url")
    }

    @Test("P01: rejects one file with two contents")
    func conflictingTwins() async throws {
        let entries = [
            Self.entry("app/a.js", url: "/__cordova/a.js"), Self.entry("app/a.js", url: "/a.js", hash: "other"),
        ]
        try await expectRefusal(Self.manifest(entries), "manifest[1].path")
    }

    @Test("rejects one URL with two contents")
    func conflictingURLs() async throws {
        let entries = [Self.entry("app/a.js", url: "/a.js?1"), Self.entry("app/b.js", url: "/a.js?2")]
        try await expectRefusal(Self.manifest(entries), "manifest[1].url")
    }

    static let versions = [
        "../x", "..", ".", ".hidden", "Downloading", "downloading", "PartialDownload", "embedded", "", "a/b", "a\\b",
        "/a", "a\u{0}", "a\nb", String(repeating: "v", count: 4096), String(repeating: "v", count: 129),
    ]

    @Test("N-14: rejects a version that cannot name a folder", arguments: versions)
    func version(_ version: String) async throws {
        try await expectRefusal(Self.manifest(version: .string(version)), "version")
    }

    @Test(
        "rejects a version that is not a string",
        arguments: [JSONValue.null, .integer(3), .bool(true), .array([]), .object([:])])
    func versionKind(_ version: JSONValue) async throws {
        try device.server.serve(version: "v2")
        let before = try TreeSnapshot(of: device.folder.path)
        device.server.fault("/manifest.json", .content(Self.manifest(version: version)))
        #expect(try await device.failure()?.code == .manifestMalformed)
        #expect(device.requests == Requests.of("/manifest.json"))
        #expect(try TreeSnapshot(of: device.folder.path).changes(since: before) == [])
    }

    /// Members of an entry that are invalid or missing.
    static let members: [(String, JSONValue?)] = [
        ("path", nil), ("path", .integer(1)), ("url", nil), ("url", .bool(true)), ("type", nil), ("type", .null),
        ("cacheable", nil), ("cacheable", .string("true")), ("cacheable", .integer(1)), ("where", nil),
        ("hash", .integer(1)), ("hash", .string("a\"b")), ("hash", .string("a\r\nSet-Cookie: x")),
        ("hash", .string("")), ("size", .string("3")), ("size", .integer(-1)), ("sri", .string("AAAA")),
        ("sri", .string("not base64")),
    ]

    @Test("rejects an entry with a missing or invalid member", arguments: members)
    func member(_ name: String, _ value: JSONValue?) async throws {
        var entry = Self.entry("app/a.js")
        entry[name] = value
        try await expectRefusal(Self.manifest([Self.entry("app/ok.js"), entry]), "manifest[1].\(name)")
    }

    static let documents: [String: String] = [
        "nothing": "", "blanks": " \n", "an array": "[]", "a text": "\"v3\"", "a number": "1", "null": "null",
        "half of it": "{\"version\": \"v3\", \"manif", "two of them": "{}{}", "an open comment": "/* {} */ {}",
        "a page": "<!DOCTYPE html><html><head></head></html>",
        "a page behind a byte order mark": "\u{FEFF}\n<html></html>",
        "no list": #"{"version":"v3","cordovaCompatibilityVersions":{"android":"android-1"}}"#,
        "a list that is none":
            #"{"version":"v3","cordovaCompatibilityVersions":{"android":"android-1"},"manifest":{"0":{}}}"#,
        "entries that are none":
            #"{"version":"v3","cordovaCompatibilityVersions":{"android":"android-1"},"manifest":[1]}"#,
        "a version twice": #"{"version":"v3","version":"v4","manifest":[]}"#,
        "another format": #"{"format":"web-program-pre2","version":"v3","manifest":[]}"#,
        "deep nesting": #"{"x":"# + String(repeating: "[", count: 100_000),
        "half a character": #"{"version":"\ud800","manifest":[]}"#,
    ]

    @Test("P09, P14, SW-06: rejects a document that is not a manifest", arguments: documents.keys.sorted())
    func document(_ name: String) async throws {
        try device.server.serve(version: "v2")
        device.server.fault("/manifest.json", .content(Array((Self.documents[name] ?? "").utf8)))
        let before = try TreeSnapshot(of: device.folder.path)
        let failure = try await device.failure()
        #expect(failure?.code == .manifestMalformed)
        #expect(failure?.message.contains("HTML page") == name.hasPrefix("a page"))
        #expect(device.requests == Requests.of("/manifest.json"))
        #expect(try TreeSnapshot(of: device.folder.path).changes(since: before) == [])
    }

    @Test("rejects bytes after the document", arguments: ["x", "{}", "\u{0}", "<html>", "]"])
    func trailing(_ text: String) async throws {
        try await expectRefusal(Self.manifest() + Array(text.utf8), "manifest")
    }

    @Test("rejects a hundred megabytes")
    func hundredMegabytes() async throws {
        let text = [UInt8](repeating: UInt8(ascii: "x"), count: 100 << 20)
        try await expectRefusal(Array(#"{"version":""#.utf8) + text + Array("\"}".utf8), "manifest")
    }

    @Test("rejects a million entries")
    func millionEntries() async throws {
        let entry = JSONWriter.bytes(of: .object(Self.entry("a")))
        var manifest = Array(
            #"{"version":"v3","cordovaCompatibilityVersions":{"android":"android-1"},"manifest":["#.utf8)
        for _ in 0..<1_000_000 {
            manifest += entry
            manifest.append(UInt8(ascii: ","))
        }
        try await expectRefusal(manifest + entry + Array("]}".utf8), "manifest")
    }

    @Test("rejects the largest number of entries if none is for the client")
    func manyEntries() async throws {
        let head = #"{"version":"v3","cordovaCompatibilityVersions":{"android":"android-1"},"manifest":["#
        let entry = #"{"where":"x"}"#
        let list = String(repeating: entry + ",", count: 1_000_000) + entry
        #expect(list.utf8.count < 16 << 20)
        try await expectRefusal(Array((head + list + "]}").utf8), "manifest")
    }
}
