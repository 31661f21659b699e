import BundleValues
import BundleTesting
import MeteorTesting
import Testing

/// Compares the generated fixtures with the table of METEOR section 8.2.
@Suite("CordovaFixtures") struct FixtureTests {
    static let table: [(path: String, size: Int, hash: String)] = [
        ("merged-stylesheets.css", 30, "20ae2c8d51b2507244e598844414ecdec2615ce3"),
        ("app/some-data.json", 15, "3edc8875bc0dd76d9f5fce5e823dca6f17a26da7"),
        ("app/some-file", 10, "23300652a57f3e819038d9a268ba36af0e25d33b"),
        ("app/some-font.woff", 15, "6ec7e1e1c0199bfb5bcd6877de9fe7abefd26df8"),
        ("app/some-image.jpg", 15, "13f1d459365d5604dbf2b64b203fa583c1c7fc3f"),
        ("app/some-image.png", 15, "06b05b4c2720cd9ff733d21c594eac4e865a6e73"),
        ("app/some-javascript.js", 19, "51a3422f25ddf466a35e00e327d5f4ca90eee8f4"),
        ("app/some-page.html", 15, "5dc6878863a1fd4f7f69713b4c072280932255af"),
        ("app/some-stylesheet.css", 20, "b33cc1bdaa963ae1cec9afd4c833d80caf7641a2"),
        ("app/some-text.txt", 14, "bb874a02400d28518a3d0f7a4c7fd8970735bea1"),
        ("app/some-video.mp4", 15, "45e892d4c7ce693f5cd551fcd671cf227ff1ae3a"),
    ]

    let folder: TemporaryFolder
    let fixtures: CordovaFixtures

    init() throws {
        folder = try TemporaryFolder()
        fixtures = try CordovaFixtures(in: folder.path)
    }

    @Test(arguments: table) func `gives each file the hash of the table`(row: (path: String, size: Int, hash: String))
        throws
    {
        let entry = try #require(try fixtures.bundle(.version1).entry(row.path))
        #expect(entry.hash == row.hash)
        #expect(entry.size == row.size)
        #expect(try contents("seed/\(row.path)").count == row.size)
        #expect(try SHA1.hex(of: contents("seed/\(row.path)")) == row.hash)
    }

    @Test func `gives changed files the hashes of the table`() {
        #expect(fixtures.hash(of: "app/some-file", in: .version2) == "20242aa2ac9c728ca21c7cbbee841fd87e8277aa")
        #expect(fixtures.hash(of: "app/some-file", in: .version3) == "eb436b5a9ae39f7b8faef931024a86b73729da9e")
        #expect(fixtures.hash(of: "app/some-other-file", in: .version3) == "aa4405bb6a2eb7d79af8488b44d91e5c66c123a5")
        let template = "app/template.mobileapp.js"
        let hashes = [CordovaVersion.version1, .version2, .version3].map { fixtures.hash(of: template, in: $0) }
        #expect(Set(hashes).count == 3)
        #expect(fixtures.sourceMapURL(of: template, in: .version2) == "/app/\(hashes[1]).map")
    }

    @Test func `lists fifteen entries in the seed, fourteen of them for the client, and has other files`() throws {
        let manifest = try manifest("seed/program.json")
        let entries = try #require(manifest["manifest"]?.arrayValue).compactMap(\.objectValue)
        #expect(entries.count == 15)
        #expect(entries.filter { $0["where"] == .string("client") }.count == 14)
        #expect(manifest["version"] == .string("version1"))
        #expect(
            entries.first?["url"]?.stringValue
                == "/packages/meteor.js?\(fixtures.hash(of: "packages/meteor.js", in: .version1))")
        for path in ["not-in-manifest", "cordova_plugins.js", "head.html", "index.html", "app/mobileapp.js.map"] {
            #expect(try !contents("seed/\(path)").isEmpty)
        }
    }

    @Test func `names the source in a source map`() throws {
        let path = fixtures.sourceMapURL(of: "app/mobileapp.js", in: .version1)
        let map = try JSONScanner.parse(contents("versions/version1\(path)"), maximumBytes: 1000).objectValue
        #expect(map?["sources"]?.arrayValue == [.string("app/mobileapp.js")])
    }

    @Test func `changes the broken variants of version2 in the right places`() throws {
        let template = "app/template.mobileapp.js"
        let good = try manifestBytes(.version2)
        for version in [CordovaVersion.missingAsset, .invalidAsset, .versionMismatch] {
            #expect(try manifestBytes(version) == good)
        }
        #expect(try !FolderSnapshot(of: fixtures.folder(of: .missingAsset)).paths.contains(template))
        #expect(
            try SHA1.hex(of: contents("versions/\(CordovaVersion.invalidAsset.rawValue)/\(template)"))
                == fixtures.hash(of: template, in: .version3))
        #expect(try page(.versionMismatch).contains("autoupdateVersionCordova%22%3A%22version3"))
    }

    @Test func `writes pages with a wrong runtime config`() throws {
        #expect(try !page(.missingRootURL).contains("%22ROOT_URL%22"))
        #expect(try page(.loopbackRootURL).contains("http%3A%2F%2F127.0.0.1%3A3000%2F"))
        #expect(try page(.wrongRootURL).contains("http%3A%2F%2Flocalhost%3A3001%2F"))
        #expect(try !page(.missingAppId).contains("appId"))
        #expect(try page(.wrongAppId).contains("another_app_id"))
        for version in [CordovaVersion.missingRootURL, .loopbackRootURL, .wrongRootURL, .missingAppId, .wrongAppId] {
            let manifest = try manifest("versions/\(version.rawValue)/manifest.json")
            #expect(manifest["manifest"] == .array([]))
            #expect(manifest["version"] == .string(version.rawValue))
        }
    }

    @Test func `omits or changes the compatibility version`() throws {
        let missing = try manifest("versions/\(CordovaVersion.missingCompatibility.rawValue)/manifest.json")
        #expect(missing["cordovaCompatibilityVersions"] == nil)
        #expect(missing["manifest"]?.arrayValue?.count == 15)
        let other = try manifest("versions/\(CordovaVersion.differentCompatibility.rawValue)/manifest.json")
        let versions = other["cordovaCompatibilityVersions"]?.objectValue
        #expect(versions?["ios"] == .string("9a02a7998ece3cf17379eec42582b3618825dc91"))
    }

    @Test func `has the manifest, the page and two files in the partial version2`() throws {
        #expect(
            try FolderSnapshot(of: fixtures.partialVersion2).paths == [
                "app", "app/some-file", "app/some-other-file", "index.html", "program.json",
            ])
        #expect(try contents("partial-version2/program.json") == manifestBytes(.version2))
    }

    @Test func `omits format and sizes in a bundle of the Capacitor suite`() throws {
        let bundle = try CapacitorBundles.bundle("v1", [CapacitorBundles.asset("app/main.js", "1")]).build()
        let manifest = try #require(try JSONScanner.parse(bundle.manifest, maximumBytes: 10_000).objectValue)
        #expect(manifest["format"] == nil)
        let entry = try #require(manifest["manifest"]?.arrayValue?.first?.objectValue)
        #expect(entry["url"] == .string("/app/main.js"))
        #expect(entry["hash"] == .string("356a192b7913b04c54574d18c28d46e6395428ab"))
        #expect(entry["size"] == nil)
        #expect(String(decoding: bundle.page, as: UTF8.self).contains("autoupdateVersionCordova%22%3A%22v1"))
    }

    private func contents(_ name: String) throws -> [UInt8] {
        try BundleContent.file(folder.file(name)).read()
    }

    private func manifestBytes(_ version: CordovaVersion) throws -> [UInt8] {
        try contents("versions/\(version.rawValue)/manifest.json")
    }

    private func page(_ version: CordovaVersion) throws -> String {
        String(decoding: try contents("versions/\(version.rawValue)/index.html"), as: UTF8.self)
    }

    private func manifest(_ name: String) throws -> JSONObject {
        try #require(try JSONScanner.parse(contents(name), maximumBytes: 1 << 20).objectValue)
    }
}
