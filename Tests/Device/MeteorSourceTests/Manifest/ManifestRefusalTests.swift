import BundleValues
import MeteorSource
import Testing

@Suite("AssetManifestError") struct ManifestRefusalTests {
    @Test(arguments: [
        ("\"../x\"", "version"), ("\"Downloading\"", "version"), ("\"\"", "version"), ("\"a/b\"", "version"),
        ("\".x\"", "version"), ("\"PartialDownload\"", "version"), ("\"a\\u0000\"", "version"), ("7", "version"),
        ("{}", "version"), ("\"" + String(repeating: "v", count: 4096) + "\"", "version"),
    ])
    func `N-14: rejects a version that cannot name a folder`(version: String, member: String) throws {
        let text = "{\"version\":\(version),\"manifest\":[]}"
        let error = try #require(throws: AssetManifestError.self) { try ManifestText.parse(text) }
        #expect(error.failure.code == .manifestMalformed)
        #expect(error.failure.code.exitStatus == 25)
        #expect(error.failure.subject == member)
        #expect(error.failure.message.utf8.count < 1000)
    }

    private static let good = ManifestText.entry("good.js")

    @Test(arguments: [
        ("{\"where\":\"client\"}", "manifest[1].path is missing"), ("7", "manifest[1] is not an object"),
        ("{\"path\":\"a\"}", "manifest[1].where is missing"), ("{\"where\":1}", "manifest[1].where is not a string"),
        ("{\"where\":\"client\",\"path\":7}", "manifest[1].path is not a string"),
        ("{\"where\":\"client\",\"path\":\"a\"}", "manifest[1].url is missing"),
        ("{\"where\":\"client\",\"path\":\"a\",\"url\":\"/a\"}", "manifest[1].type is missing"),
        ("{\"where\":\"client\",\"path\":\"a\",\"url\":\"/a\",\"type\":\"js\"}", "manifest[1].cacheable is missing"),
        (
            "{\"where\":\"client\",\"path\":\"a\",\"url\":\"/a\",\"type\":\"js\",\"cacheable\":1}",
            "manifest[1].cacheable is not true or false"
        ),
        (ManifestText.entry("a", hash: nil, more: ",\"hash\":7"), "manifest[1].hash is not a string"),
        (ManifestText.entry("a", hash: ""), "manifest[1].hash"),
        (ManifestText.entry("a", hash: "a\\\"b"), "manifest[1].hash"),
        (ManifestText.entry("a", hash: "a\\nb"), "manifest[1].hash"),
        (ManifestText.entry("a", hash: String(repeating: "a", count: 129)), "manifest[1].hash"),
        (ManifestText.entry("a", more: ",\"hash\":\"x\""), "manifest[1].hash is repeated"),
        (ManifestText.entry("a", more: ",\"size\":-1"), "manifest[1].size is not an integer"),
        (ManifestText.entry("a", more: ",\"size\":1.5"), "manifest[1].size is not an integer"),
        (ManifestText.entry("a", more: ",\"sri\":\"YQ==\""), "manifest[1].sri is not the base64 of a SHA-512"),
        (ManifestText.entry("a", more: ",\"sri\":[]"), "manifest[1].sri is not a string"),
        (ManifestText.entry("a", more: ",\"sourceMap\":1"), "manifest[1].sourceMap is not a string"),
        (
            ManifestText.entry("a", more: ",\"sourceMap\":\"a.map\",\"sourceMapUrl\":\"a.map\""),
            "manifest[1].sourceMapUrl"
        ),
        (
            ManifestText.entry("a", more: ",\"sourceMap\":\"../a.map\",\"sourceMapUrl\":\"/a.map\""),
            "manifest[1].sourceMap is refused"
        ),
        (ManifestText.entry("../a"), "manifest[1].path is refused"), (ManifestText.entry("/a"), "manifest[1].path"),
        (ManifestText.entry("a//b"), "manifest[1].path"), (ManifestText.entry("a\\\\b"), "manifest[1].path"),
        (ManifestText.entry("a\\u0000b"), "manifest[1].path"), (ManifestText.entry(""), "manifest[1].path"),
        (ManifestText.entry("program.json", url: "/p"), "manifest[1].path"),
        (ManifestText.entry("Program.JSON", url: "/p"), "manifest[1].path"),
        (ManifestText.entry("program.json/a", url: "/p"), "manifest[1].path"),
        (ManifestText.entry("index.html", url: "/p"), "manifest[1].path"),
        (ManifestText.entry("INDEX.html", url: "/p"), "manifest[1].path"),
        (ManifestText.entry("a", url: "a"), "manifest[1].url"), (ManifestText.entry("a", url: ""), "manifest[1].url"),
        (ManifestText.entry("a", url: "//h/a"), "manifest[1].url"),
        (ManifestText.entry("a", url: "http://h/a"), "manifest[1].url"),
        (ManifestText.entry("a", url: "/a/../b"), "path-traversal"),
        (ManifestText.entry("a", url: "/a/%2e%2E/b"), "percent-encoded path-traversal"),
        (ManifestText.entry("a", url: "/a%00"), "percent-encoded name-forbidden-char"),
        (ManifestText.entry("a", url: "/a%5cb"), "percent-encoded name-forbidden-char"),
        (ManifestText.entry("a", url: "/INDEX.html"), "differ only in case"),
        (ManifestText.entry("a", url: "/index.html/a"), "is a file and a folder"),
    ])
    func `names the entry that breaks a rule`(entry: String, fragment: String) throws {
        let message = try #require(try ManifestText.refusal(of: ManifestText.manifest([Self.good, entry])))
        #expect(message.contains("manifest[1]"))
        #expect(message.contains(fragment))
        #expect(message.contains("invalidAssetManifest"))
    }

    @Test(arguments: [
        (["a/b", "a"], "is a file and a folder"), (["a", "a/b"], "is a file and a folder"),
        (["a", "A"], "differ only in case or normalization"), (["x/a", "X/b"], "differ only in case or normalization"),
        (["é", "e\\u0301"], "differ only in case or normalization"),
    ])
    func `N-17: rejects files and URLs that collide on some file system`(
        paths: [String], fragment: String
    ) throws {
        let files = paths.enumerated().map { ManifestText.entry($0.element, url: "/u\($0.offset)") }
        let ofFiles = try #require(try ManifestText.refusal(of: ManifestText.manifest(files)))
        #expect(ofFiles.contains("manifest[1].path is refused: file path"))
        #expect(ofFiles.contains(fragment))
        let urls = paths.enumerated().map { ManifestText.entry("f\($0.offset)", url: "/\($0.element)") }
        let ofURLs = try #require(try ManifestText.refusal(of: ManifestText.manifest(urls)))
        #expect(ofURLs.contains("manifest[1].url is refused: URL path"))
        #expect(ofURLs.contains(fragment))
    }

    @Test(arguments: ["[]", "7", "null", "[{\"manifest\":[]}]"]) func `rejects a document that is not an object`(
        text: String
    ) {
        #expect(throws: AssetManifestError.notAnObject) { try ManifestText.parse(text) }
    }

    @Test func `rejects one file with two integrity values`() throws {
        let values = ["A", "Q"].map { String(repeating: "A", count: 85) + $0 + "==" }
        let entries = values.map { ManifestText.entry("x", url: "/\($0.suffix(3))", more: ",\"sri\":\"\($0)\"") }
        let message = try #require(try ManifestText.refusal(of: ManifestText.manifest(entries)))
        #expect(message.contains("names the file x again, with other content"))
    }

    @Test func `rejects two files with one URL path`() throws {
        let text = ManifestText.manifest([
            ManifestText.entry("app/dup.js", url: "/app/dup.js?build=1"),
            ManifestText.entry("app/dup2.js", url: "/app/dup.js?build=2"),
        ])
        let message = try #require(try ManifestText.refusal(of: text))
        #expect(message.contains("manifest[1].url is refused: Duplicate normalized URL path: app/dup.js"))
    }

    @Test(arguments: [
        ManifestText.entry("x", url: "/y", hash: ManifestText.otherHash), ManifestText.entry("x", url: "/y", hash: nil),
        ManifestText.entry("x", url: "/y", more: ",\"size\":2"),
        ManifestText.entry("z", url: "/y", more: ",\"sourceMap\":\"x\",\"sourceMapUrl\":\"/x.map\""),
    ])
    func `rejects one file with two contents`(second: String) throws {
        let first = ManifestText.entry("x", more: ",\"size\":1")
        let message = try #require(try ManifestText.refusal(of: ManifestText.manifest([first, second])))
        #expect(message.contains("names the file x again, with other content"))
    }

    @Test(arguments: [
        ("{\"version\":\"1\"}", "manifest is missing"),
        ("{\"version\":\"1\",\"manifest\":{}}", "manifest is not an array"),
        ("{\"version\":\"1\",\"manifest\":null}", "manifest is not an array"),
        ("{\"version\":\"1\",\"manifest\":[],\"manifest\":[]}", "manifest is repeated"),
        ("{\"version\":\"1\",\"version\":\"2\",\"manifest\":[]}", "version is repeated"),
        (
            "{\"version\":\"1\",\"manifest\":[],\"PUBLIC_SETTINGS\":1,\"PUBLIC_SETTINGS\":2}",
            "PUBLIC_SETTINGS is repeated"
        ),
        ("{\"version\":\"1\",\"manifest\":[],\"cordovaCompatibilityVersions\":[]}", "is not an object"),
        (
            "{\"version\":\"1\",\"manifest\":[],\"cordovaCompatibilityVersions\":{\"ios\":1}}",
            "cordovaCompatibilityVersions.ios is not a string"
        ),
        (
            "{\"version\":\"1\",\"manifest\":[],\"cordovaCompatibilityVersions\":{\"ios\":\"1\",\"ios\":\"2\"}}",
            "cordovaCompatibilityVersions.ios is repeated"
        ),
        ("{\"format\":1,\"version\":\"1\",\"manifest\":[]}", "format is not a string"),
    ])
    func `names the invalid member`(text: String, fragment: String) throws {
        let message = try #require(try ManifestText.refusal(of: text))
        #expect(message.contains(fragment))
        #expect(message.contains("invalidAssetManifest"))
    }

    /// Each document has another error after the place of the expected one, so an error found later is another one.
    @Test func `rejects a manifest at the limit, whatever follows`() throws {
        let many = "{\"manifest\":[" + String(repeating: "{\"where\":\"x\"},", count: 1_000_000) + "broken"
        #expect(try #require(try ManifestText.refusal(of: many)).contains("more than 20000 entries"))
        let deep = "{\"x\":" + String(repeating: "[", count: 1_000_000)
        #expect(try #require(try ManifestText.refusal(of: deep)).contains("more than 64 nested arrays"))
        let huge = "{\"manifest\":[{\"path\":\"" + String(repeating: "a", count: 15_000_000)
        #expect(try #require(try ManifestText.refusal(of: huge)).contains("a string of more than 8192 bytes"))
        #expect(throws: AssetManifestError.tooLarge(bytes: 100 << 20, limit: 16 << 20)) {
            try AssetManifest(parsing: [UInt8](repeating: 0x20, count: 100 << 20))
        }
    }

    @Test(arguments: [true, false])
    func `limits the folders of files and of URLs`(isFiles: Bool) throws {
        let entries = (0..<1000).map { index in
            let deep = (0..<21).map { "\(index)-\($0)" }.joined(separator: "/") + "/x"
            return ManifestText.entry(isFiles ? deep : "f\(index)", url: isFiles ? "/u\(index)" : "/\(deep)")
        }
        #expect(
            try #require(try ManifestText.refusal(of: ManifestText.manifest(entries))).contains(
                "more than 20000 folders"))
        var limits = AssetManifestLimits()
        limits.folders = 21_000
        #expect(try ManifestText.refusal(of: ManifestText.manifest(entries), limits: limits) == nil)
    }

    @Test func `accepts a manifest of the largest size`() throws {
        var limits = AssetManifestLimits()
        limits.entries = 2
        let three = ManifestText.manifest((0..<3).map { ManifestText.entry("a\($0)") })
        #expect(try #require(try ManifestText.refusal(of: three, limits: limits)).contains("more than 2 entries"))
        limits.entries = 3
        limits.bytes = three.utf8.count
        #expect(try ManifestText.refusal(of: three, limits: limits) == nil)
        limits.bytes -= 1
        #expect(try #require(try ManifestText.refusal(of: three, limits: limits)).contains("at most"))
    }
}
