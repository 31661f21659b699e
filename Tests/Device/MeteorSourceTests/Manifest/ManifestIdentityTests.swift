import MeteorSource
import Testing

@Suite("ManifestIdentity") struct ManifestIdentityTests {
    private static func manifest(_ version: String, settings: String, logo: String = "2") -> String {
        let entries = [
            ManifestText.entry("app/app.js"),
            ManifestText.entry("app/logo.png", type: "asset", hash: String(repeating: logo, count: 40)),
            "{\"path\":\"head.html\",\"where\":\"internal\",\"type\":\"head\",\"hash\":\"\(String(repeating: "3", count: 40))\"}",
        ]
        return ManifestText.manifest(entries, version: version, more: settings)
    }

    @Test(arguments: [
        ("", "a1494f8abb5ee7f18b057befc142c4612a119741"),
        (",\"PUBLIC_SETTINGS\":{}", "8bdfa18676bd658066238f76cce45667c3c505b8"),
        (",\"PUBLIC_SETTINGS\":{\"a\":1}", "2efbfe437f91303272d30ce951c54c259083054d"),
        (",\"PUBLIC_SETTINGS\" : {\n  \"a\" :\t1\r\n}\n", "2efbfe437f91303272d30ce951c54c259083054d"),
    ])
    func `computes the version from settings and entries`(settings: String, version: String) throws {
        #expect(try ManifestText.parse(Self.manifest(version, settings: settings)).identity == .computed)
        let changed = Self.manifest(version, settings: settings, logo: "4")
        #expect(try ManifestText.parse(changed).identity == .stated)
    }

    @Test func `ignores white space outside of strings`() throws {
        let settings = " { \"a b\" : \"c \\\\\" , \"d\\\" e\" : [ 1.50 , \" \" ] } "
        let text = Array("{\"a b\":\"c \\\\\",\"d\\\" e\":[1.50,\" \"]}".utf8)
        let version = try ManifestIdentity.version(publicSettings: text, pathsAndHashes: [])
        let manifest = "{\"version\":\"\(version)\",\"PUBLIC_SETTINGS\":\(settings),\"manifest\":[]}"
        #expect(try ManifestText.parse(manifest).identity == .computed)
    }

    @Test func `keeps the stated version if an entry has no hash`() throws {
        let version = try ManifestIdentity.version(publicSettings: nil, pathsAndHashes: Array("a".utf8))
        let entry = ManifestText.entry("a", hash: nil)
        #expect(try ManifestText.parse(ManifestText.manifest([entry], version: version)).identity == .stated)
    }
}
