import BundleValues
import MeteorSource
import Testing

@Suite("AssetManifest") struct ManifestTests {
    @Test func `SW-01: keeps the entries for the client in order`() throws {
        let manifest = try ManifestText.parse([
            ManifestText.entry("app/a.js"), "{\"path\":\"head.html\",\"where\":\"internal\",\"type\":\"head\"}",
            ManifestText.entry("app/a.css", type: "css"), "{\"where\":\"server\",\"path\":\"../x\",\"url\":7}",
        ])
        #expect(manifest.assets.map(\.urlPath) == ["/app/a.js", "/app/a.css", "/"])
        #expect(manifest.version.description == "version1")
    }

    @Test(arguments: ["", ",\"version\":null"])
    func `SW-02: rejects a manifest without a version`(version: String) throws {
        let message = try #require(try ManifestText.refusal(of: "{\"manifest\":[]\(version)}"))
        #expect(message.contains("does not have a version"))
        #expect(message.contains("invalidAssetManifest"))
    }

    @Test(arguments: [
        "\"cordovaCompatibilityVersions\":{\"android\":\"a\"}", "\"cordovaCompatibilityVersions\":{}", "\"x\":1",
        "\"cordovaCompatibilityVersions\":null", "\"cordovaCompatibilityVersions\":{\"ios\":null,\"windows\":[]}",
    ])
    func `SW-03, SW-04: requires a compatibility version for the platform`(member: String) throws {
        let manifest = try ManifestText.parse("{\"version\":\"1\",\"manifest\":[],\(member)}")
        let error = try #require(throws: AssetManifestError.self) { try manifest.requireCompatibility(of: .ios) }
        #expect(error == .noCompatibility(.ios))
        #expect(error.failure.code == .manifestMalformed)
        #expect(error.failure.message.contains("does not have a cordovaCompatibilityVersion"))
        #expect(try ManifestText.parse([]).requireCompatibility(of: .android) == "android-1")
    }

    @Test func `SW-05: rejects another format and accepts a missing one`() throws {
        let text = "{\"format\":\"web-program-pre2\",\"version\":\"1\",\"manifest\":[]}"
        #expect(try #require(try ManifestText.refusal(of: text)).contains("incompatible"))
        #expect(try ManifestText.parse("{\"version\":\"1\",\"manifest\":[]}").assets == [.index])
    }

    @Test(arguments: [
        "{\"version\":\"1\",\"manifest\":[", "", "[]", "\"text\"", "null", "7", "{\"version\":\"1\",\"manifest\":[]} x",
        "{'version':1}", "\u{FEFF}{\"version\":\"1\",\"manifest\":[]}", "{\"version\":\"\\ud800\",\"manifest\":[]}",
    ])
    func `SW-06: rejects a document that is not a JSON object`(text: String) throws {
        #expect(try #require(try ManifestText.refusal(of: text)).contains("Error parsing asset manifest"))
    }

    @Test(arguments: ["<!DOCTYPE html>", "\n <html>", "\u{FEFF}<html>", "<"])
    func `explains why a server sends a page instead of a manifest`(text: String) throws {
        let message = try #require(try ManifestText.refusal(of: text))
        #expect(message.contains("Error parsing asset manifest: the server answered with an HTML page"))
        #expect(message.contains("restarting"))
        #expect(message.contains("mobile platform") && message.contains("captive portal"))
    }

    @Test func `SW-07, AN-12: reads hash, digest, size and source map`() throws {
        let sri = "58IrmUxZ2c8rSOVJseJGZmNgRZMNPafBrLKZ0cO3+TH5Sq5B7dosKyB6NuEPi8uNRSI+VIePWzFufOO2vAGWKQ=="
        let more =
            ",\"size\":6,\"sri\":\"\(sri)\",\"sourceMap\":\"app/a.js.map\",\"sourceMapUrl\":\"/app/1.map?x\","
            + "\"replaceable\":true"
        let assets = try ManifestText.parse([ManifestText.entry("app/a.js", more: more)]).assets
        #expect(assets.map(\.urlPath) == ["/app/a.js", "/app/1.map", "/"])
        let script = assets[0]
        #expect(script.hash == ManifestText.hash)
        #expect(script.size == 6)
        #expect(script.sri?.count == 64)
        #expect(script.sourceMapURL == "/app/1.map")
        #expect(script.kind == .script)
        let map = assets[1]
        #expect(map.file.string == "app/a.js.map")
        #expect(map.kind == .sourceMap)
        #expect(map.isCacheable)
        #expect(map.hash == nil)
    }

    @Test(arguments: [
        "", ",\"size\":null,\"sri\":null,\"hash\":null", ",\"sourceMap\":\"a.map\"", ",\"sourceMapUrl\":\"/a.map\"",
    ])
    func `SW-08, AN-12: accepts missing optional members and ignores half a source map`(more: String) throws {
        let asset = try ManifestText.parse([ManifestText.entry("app/a.js", hash: nil, more: more)]).assets
        #expect(asset.count == 2)
        #expect(asset[0].hash == nil)
        #expect(asset[0].size == nil)
        #expect(asset[0].sri == nil)
        #expect(asset[0].sourceMapURL == nil)
    }

    @Test func `SW-09: reads version, compatibility and assets and keeps the bytes`() throws {
        let text = ManifestText.manifest([ManifestText.entry("app/a.js")])
        let manifest = try ManifestText.parse(text)
        #expect(manifest.version.description == "version1")
        #expect(manifest.compatibility == [.ios: "ios-1", .android: "android-1"])
        #expect(manifest.assets.count == 2)
        #expect(manifest.bytes == Array(text.utf8))
        #expect(manifest.identity == .stated)
    }

    @Test func `SW-10: lists the index page last`() throws {
        let index = try #require(try ManifestText.parse([]).assets.last)
        #expect(index.urlPath == "/")
        #expect(index.file.string == "index.html")
        #expect(index.kind == .index)
        #expect(!index.isCacheable)
        #expect(index.hash == nil)
    }

    @Test(arguments: ["/", "/?x", "/index.html", "/index.html?hash=1"])
    func `ignores an entry for the index page`(url: String) throws {
        for path in ["index.html", "app/index.html"] {
            #expect(try ManifestText.parse([ManifestText.entry(path, url: url)]).assets == [.index])
        }
    }

    @Test func `SW-11, SW-16, AN-03: finds an asset by its URL without the query`() throws {
        let entry = ManifestText.entry("app/main.js", url: "/app/main.js?hash=1#2")
        let manifest = try ManifestText.parse([entry, ManifestText.entry("app/mäin.js")])
        #expect(manifest.asset(at: "/app/main.js")?.file.string == "app/main.js")
        #expect(manifest.asset(at: "/app/main.js?build=7")?.file.string == "app/main.js")
        #expect(manifest.asset(at: "/app/mäin.js")?.urlPath == "/app/mäin.js")
        #expect(manifest.asset(at: "/")?.kind == .index)
        #expect(manifest.asset(at: "/app/other.js") == nil)
    }

    @Test
    func
        `SW-12, AN-01: reuses a file under its URL path with an equal hash, or without hashes if the URL identifies it`()
        throws
    {
        let assets = try ManifestText.parse([
            ManifestText.entry("a.js", more: ",\"sourceMap\":\"a.map\",\"sourceMapUrl\":\"/a.map\"")
        ]).assets
        let changed = try ManifestText.parse([ManifestText.entry("a.js", hash: ManifestText.otherHash)]).assets
        let moved = try ManifestText.parse([ManifestText.entry("a.js", url: "/b.js")]).assets
        #expect(assets[0].isReusable(for: assets[0]))
        #expect(!assets[0].isReusable(for: changed[0]))
        #expect(!assets[0].isReusable(for: moved[0]))
        #expect(assets[1].isReusable(for: assets[1]))
        #expect(!MeteorAsset.index.isReusable(for: .index))
    }

    @Test(arguments: [
        ("/path?query=value", "/path"), ("/a/b/c?x=1&y=2", "/a/b/c"), ("/path", "/path"), ("/?x", "/"),
        ("/a#b?c", "/a"),
        ("/a?\u{301}b", "/a"),
    ])
    func `SW-54: removes query and fragment from a URL`(url: String, path: String) {
        #expect(MeteorAsset.urlPath(of: url) == path)
    }

    @Test func `accepts two URLs with one file of one content`() throws {
        let manifest = try ManifestText.parse([
            ManifestText.entry("app/x.png", url: "/__cordova/x.png", type: "asset"),
            ManifestText.entry("app/x.png", url: "/x.png", type: "asset"),
        ])
        #expect(manifest.assets.map(\.urlPath) == ["/__cordova/x.png", "/x.png", "/"])
        #expect(Set(manifest.assets.map(\.file)).count == 2)
    }

    @Test func `counts a repeated entry once`() throws {
        let entry = ManifestText.entry(
            "app/a.js", more: ",\"sourceMap\":\"app/a.map\",\"sourceMapUrl\":\"/app/a.map\"")
        #expect(try ManifestText.parse([entry, entry]).assets.count == 3)
    }

    @Test func `accepts any values and repetitions of unknown members`() throws {
        let more = ",\"hmrVersion\":1.5e3,\"x\":{\"a\":[null,-0.1,\"\\ud83d\\ude00\"]},\"x\":[[[[[]]]]]"
        let manifest = try ManifestText.parse(
            ManifestText.manifest([ManifestText.entry("a.js", more: ",\"y\":{\"z\":1e5}")], more: more))
        #expect(manifest.assets.count == 2)
    }

    @Test func `keeps unknown types`() throws {
        let types = ["js", "css", "dynamic js", "json", "asset", "wasm"]
        let entries = types.enumerated().map { ManifestText.entry("a\($0.offset)", type: $0.element) }
        let kinds = try ManifestText.parse(entries).assets.map(\.kind)
        #expect(kinds == [.script, .stylesheet, .dynamicScript, .json, .asset, .other, .index])
    }
}
