import BundleValues
import BundleTesting
import Glibc
import MeteorTesting
import Testing

/// Tests the golden vectors of METEOR appendix A, and the files of a built bundle.
@Suite("MeteorBundleBuilder") struct BuilderTests {
    let hello = BundleContent.text("hello\n")

    @Test func `computes the hashes of every generation as in the golden vectors`() throws {
        let digests = try ContentDigests(of: hello)
        #expect(digests.size == 6)
        #expect(
            try HashScheme.bytes.hash(of: digests, isPublicAsset: false) == "f572d396fae9206628714fb2ce00f72e94f2258f")
        #expect(
            digests.sri
                == "58IrmUxZ2c8rSOVJseJGZmNgRZMNPafBrLKZ0cO3+TH5Sq5B7dosKyB6NuEPi8uNRSI+VIePWzFufOO2vAGWKQ==")
        #expect(
            try HashScheme.modern.hash(of: digests, isPublicAsset: false) == "8f7552fdef19f0d6cee22efac03848a86c7f06e5")
        let compiled = try HashScheme.modern.hash(of: digests, isPublicAsset: false, inputHash: digests.sha1)
        #expect(compiled == "433ba85c5dde9267b435e8735e0ea0f5dcee96e9")
        #expect(
            try HashScheme.modern.hash(of: digests, isPublicAsset: true) == "0a1d9560bd5d0a32f9466a450fbcae2dc50f01be")
    }

    @Test func `computes salted hashes from the salt and the content`() throws {
        let digests = try ContentDigests(of: hello)
        #expect(try HashScheme.saltedContents.hash(of: digests, isPublicAsset: true) == SHA1.hex(of: "1hello\n"))
        #expect(try HashScheme.saltedSRI.hash(of: digests, isPublicAsset: true) == SHA1.hex(of: "1" + digests.sri))
    }

    @Test(
        arguments: [
            (nil, "a1494f8abb5ee7f18b057befc142c4612a119741"),
            (.object([:]), "8bdfa18676bd658066238f76cce45667c3c505b8"),
            (.object(["a": .integer(1)]), "2efbfe437f91303272d30ce951c54c259083054d"),
        ] as [(JSONValue?, String)])
    func `computes the version from settings and entries`(settings: JSONValue?, expected: String) throws {
        var entries = [
            BundleEntry("app/app.js", type: "js", nil), BundleEntry("app/logo.png", nil), .fragment("head.html", hello),
        ]
        for (index, digit) in ["1", "2", "3"].enumerated() {
            entries[index].hash = .stated(String(repeating: digit, count: 40))
        }
        let bundle = try MeteorBundleBuilder(.computed, entries).with { $0.publicSettings = settings }.build()
        #expect(bundle.version == expected)
    }

    @Test func `computes the compatibility version of the golden vector`() throws {
        let text = try CompatibilityDigest.text(platform: "6.1.0", plugins: ["b-plugin": "2.0.0", "a-plugin": "1.0.0"])
        #expect(text == "ec35f02fa027464661a7607c9d866f836af021ad")
    }

    @Test func `encodes the runtime config as encodeURIComponent does`() {
        let config: JSONObject = [
            "ROOT_URL": .string("http://localhost:3000/"), "appId": .string("abc"), "note": .string("a \"q\" + 💻"),
        ]
        let encoded =
            "%7B%22ROOT_URL%22%3A%22http%3A%2F%2Flocalhost%3A3000%2F%22%2C%22appId%22%3A%22abc%22%2C%22note%22%3A"
            + "%22a%20%5C%22q%5C%22%20%2B%20%F0%9F%92%BB%22%7D"
        #expect(
            IndexPage.assignment(of: config)
                == "__meteor_runtime_config__ = JSON.parse(decodeURIComponent(\"\(encoded)\"))")
        #expect(URIComponent.decode(encoded) == String(decoding: JSONWriter.bytes(of: .object(config)), as: UTF8.self))
        #expect(URIComponent.decode("%7") == nil)
        #expect(URIComponent.decode("%ff") == nil)
    }

    @Test func `lists the public assets of a prefixed bundle twice and stores them once`() throws {
        let entries = [
            BundleEntry("app/app.js", url: "/app/app.js?hash={hash}", type: "js", hello, sourceMap: .init(.text("{}"))),
            BundleEntry("app/logo.png", url: "/logo.png", hello),
        ]
        let bundle = try MeteorBundleBuilder(.computed, entries).with { $0.hasPrefixedURLs = true }.build()
        let listed = try manifest(bundle)["manifest"]?.arrayValue?.compactMap(\.objectValue) ?? []
        let hash = "8f7552fdef19f0d6cee22efac03848a86c7f06e5"
        #expect(
            listed.map { $0["url"]?.stringValue } == [
                "/__cordova/app/app.js?hash=\(hash)", "/__cordova/logo.png", "/logo.png",
            ])
        #expect(listed.first?["sourceMapUrl"]?.stringValue == "/__cordova/app/\(hash).map")
        #expect(listed.map { $0["sri"] == nil } == [false, true, true])
        let folder = try TemporaryFolder()
        try bundle.writeServerLayout(to: folder.file("served"))
        #expect(
            try FolderSnapshot(of: folder.file("served")).paths == [
                "app", "app/\(hash).map", "app/app.js", "index.html", "logo.png", "manifest.json",
            ])
    }

    @Test func `writes the version into pages of the generations that have it`() throws {
        let builder = MeteorBundleBuilder(.stated("v"), [])
        let old = try builder.with { $0.page.versionStyle = .autoupdateVersionCordova }.build()
        #expect(try config(in: old)["autoupdateVersionCordova"]?.stringValue == "v")
        let new = try config(in: builder.build())
        #expect(new["autoupdateVersionCordova"] == nil)
        let versions = new["autoupdate"]?.objectValue?["versions"]?.objectValue
        #expect(versions?["web.cordova"]?.objectValue?["version"]?.stringValue == "v")
        let other = try config(in: builder.with { $0.page.version = "w" }.build())
        #expect(
            other["autoupdate"]?.objectValue?["versions"]?.objectValue?["web.cordova"]?.objectValue?["version"]
                == .string("w"))
    }

    @Test func `links the files of a web folder into a bundle`() throws {
        let folder = try TemporaryFolder()
        let web = try folder.writeTree(
            [
                "index.html": Array("<!doctype html><html><head><title>mine</title></head></html>".utf8),
                "main.js": [1], "main.js.map": [2], "alone.map": [3], "style.css": [4],
                "img/a:b.0123456789abcdef.png": [5], "img/plain.png": [6], "dynamic/part.js": [7],
            ], to: "web")
        let bundle = try WebFolder.bundle(web).build()
        let entries = try manifest(bundle)["manifest"]?.arrayValue?.compactMap(\.objectValue) ?? []
        let rows = entries.map { entry in
            [entry["path"], entry["type"]].map { $0?.stringValue ?? "" }.joined(separator: " ")
                + (entry["cacheable"]?.boolValue == true ? " kept" : "")
        }
        #expect(
            rows == [
                "app/alone.map asset", "dynamic/part.js dynamic js kept",
                "app/img/a_b.0123456789abcdef.png asset kept", "app/img/plain.png asset", "app/main.js js kept",
                "app/style.css css kept",
            ])
        #expect(entries[4]["sourceMap"]?.stringValue == "app/main.js.map")
        #expect(String(decoding: bundle.page, as: UTF8.self).contains("<title>mine</title>"))
        #expect(try config(in: bundle)["appId"]?.stringValue == "test-app-id")
        try bundle.writeBundleLayout(to: folder.file("seed"))
        #expect(try inode(folder.file("seed/app/main.js")) == inode("\(web)/main.js"))
    }

    @Test func `rejects two names that become equal by their colons`() throws {
        let folder = try TemporaryFolder()
        let web = try folder.writeTree(["a:b": [1], "a_b": [2]], to: "web")
        let error = #expect(throws: BundleFolderError.self) { try WebFolder.bundle(web) }
        #expect(error?.description.contains("app/a_b") == true)
    }

    @Test func `rejects a target folder that is not empty`() throws {
        let folder = try TemporaryFolder()
        try folder.writeTree(["a": [1]], to: "full")
        let bundle = try MeteorBundleBuilder().build()
        #expect(throws: BundleFolderError.self) { try bundle.writeBundleLayout(to: folder.file("full")) }
        #expect(try FolderSnapshot(of: folder.file("full")).paths == ["a"])
    }

    private func manifest(_ bundle: MeteorBundle) throws -> JSONObject {
        try #require(try JSONScanner.parse(bundle.manifest, maximumBytes: 1 << 20).objectValue)
    }

    private func config(in bundle: MeteorBundle) throws -> JSONObject {
        let page = String(decoding: bundle.page, as: UTF8.self)
        let start = try #require(page.firstRange(of: "decodeURIComponent(\""))
        let text = try #require(URIComponent.decode(page[start.upperBound...].prefix { $0 != "\"" }))
        return try #require(try JSONScanner.parse(Array(text.utf8), maximumBytes: 1 << 20).objectValue)
    }

    private func inode(_ path: String) throws -> UInt {
        var status = stat()
        try #require(stat(path, &status) == 0)
        return status.st_ino
    }
}
