import BundleFormats
import BundleSigning
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// Bundles for phones that `publish` writes, opened by a program that shares no code with it.
@Suite(.ownThread) struct PhoneBundleTests {
    private let site: ChannelSite

    init() throws { site = try ChannelSite() }

    private static let program = Checkout.root + "/Tests/Commands/ClientctlTests/Phones/open-phone.py"

    /// Creates keys for phones in the folder of the site.
    private func generate(_ name: String) throws {
        try Clientctl.run(["keys", "generate", "--phone", "--out", site.folder.file(name), "--json"]).succeeded()
    }

    private func file(_ version: String, _ name: String, of feed: String? = nil) -> String {
        "\(feed ?? site.feed)/releases/v\(version)/\(name)"
    }

    private func payload(_ version: String) throws -> JSONObject {
        let envelope = try SignedEnvelope(
            parsing: try contents(ofFile: file(version, "phone.json")), payloadType: PhoneBundleFormat.payloadType,
            maximumBytes: 65536, name: "phone bundle")
        return try #require(try JSONScanner.parse(envelope.payload, maximumBytes: 65536).objectValue)
    }

    private func open(_ encrypted: String, _ bundle: JSONObject, key: String) throws -> Program.Ending {
        let part = try #require(bundle["encrypted"]?.objectValue)
        return try Program.run(
            [
                "python3", Self.program, site.folder.file("\(key).pkcs1.pem"), encrypted,
                part["checksum"]?.stringValue ?? "", part["sessionKey"]?.stringValue ?? "",
                site.folder.file("opened.zip"),
            ], environment: Clientctl.environment())
    }

    @Test func `publish writes a zip of exactly the published files in order and without times`() throws {
        try site.publish("1.0.0", ["--phone"]).succeeded("published")
        let bundled = file("1.0.0", "phone.zip")
        let listed = try Clientctl.stock([
            "python3", "-c",
            """
            import sys, zipfile
            zip = zipfile.ZipFile(sys.argv[1])
            assert zip.testzip() is None
            for entry in zip.infolist(): print(entry.filename, entry.file_size, entry.compress_type, *entry.date_time)
            """, bundled,
        ])
        let names = Site.client("1.0.0").keys.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        let found = listed.split(separator: "\n").map(String.init)
        #expect(found.count == names.count)
        for (line, name) in zip(found, names) {
            let size = Site.client("1.0.0")[name]?.count ?? -1
            #expect(line.hasPrefix("\(name) \(size) "), "\(line)")
            #expect(line.hasSuffix(" 1980 1 1 0 0 0"), "\(line)")
        }
        let bundle = try payload("1.0.0")
        #expect(bundle["sha256"]?.stringValue == (try HandmadeRelease.sha256(bundled)))
        #expect(bundle["appId"]?.stringValue == ChannelSite.appId && bundle["version"]?.stringValue == "1.0.0")
        #expect(bundle["encrypted"] == nil && bundle["keyId"] == nil)
    }

    @Test func `publish makes the same bytes for phones in another feed and time zone`() throws {
        try generate("phone")
        let more = ["--phone-key", site.folder.file("phone.key.pem")]
        let made = try site.publish("1.0.0", more, environment: ["SOURCE_DATE_EPOCH": "1800000000"]).succeeded(
            "published")
        #expect(made["phone"]?.objectValue?["encrypted"] == .bool(true))
        let other = site.folder.file("other")
        try Clientctl.run(
            [
                "publish", site.folder.file("web-1.0.0"), "--version", "1.0.0", "--feed", other, "--key",
                site.key("release"), "--min-shell", "1.0.0", "--app-id", ChannelSite.appId, "--level", "1", "--json",
            ] + more, environment: ["SOURCE_DATE_EPOCH": "1800000000", "TZ": "Pacific/Kiritimati"]
        ).succeeded("published")
        for name in ["phone.zip", "phone.zip.enc", "phone.json"] {
            let (one, two) = (
                try contents(ofFile: file("1.0.0", name)), try contents(ofFile: file("1.0.0", name, of: other))
            )
            #expect(one == two, "\(name)")
        }
    }

    @Test func `reference program opens an encrypted bundle and refuses others`() throws {
        try generate("phone")
        try generate("thief")
        let more = ["--phone-key", site.folder.file("phone.key.pem")]
        try site.publish("1.0.0", more).succeeded("published")
        try site.publish("1.1.0", more).succeeded("published")
        let (bundle, encrypted) = (try payload("1.0.0"), file("1.0.0", "phone.zip.enc"))
        let good = try open(encrypted, bundle, key: "phone")
        #expect(good.status == 0, "\(good.errors)")
        #expect(
            try contents(ofFile: site.folder.file("opened.zip")) == contents(ofFile: file("1.0.0", "phone.zip")))

        let wrong = try open(encrypted, bundle, key: "thief")
        #expect(wrong.status == 1 && wrong.errors.contains("made by another key"))
        let bytes = try contents(ofFile: encrypted)
        let cut = try site.folder.write(Array(bytes.dropLast(16)), to: "cut")
        #expect(try open(cut, bundle, key: "phone").status == 1)
        let short = try site.folder.write(Array(bytes.dropLast(7)), to: "short")
        #expect(try open(short, bundle, key: "phone").status == 1)
        var changed = bytes
        changed[40] ^= 1
        let flipped = try open(try site.folder.write(changed, to: "changed"), bundle, key: "phone")
        #expect(flipped.status == 1 && flipped.errors.contains("another zip"))
        // The checksum of another version of the same key.
        var mixed = bundle
        var part = try #require(bundle["encrypted"]?.objectValue)
        part["checksum"] = try #require(payload("1.1.0")["encrypted"]?.objectValue)["checksum"]
        mixed["encrypted"] = .object(part)
        let other = try open(encrypted, mixed, key: "phone")
        #expect(other.status == 1 && other.errors.contains("another zip"))
    }

    @Test func `signature for Capawesome verifies with openssl and the key of the plugin`() throws {
        try generate("phone")
        try site.publish("1.0.0", ["--phone-key", site.folder.file("phone.key.pem")]).succeeded("published")
        let text = try #require(payload("1.0.0")["signature"]?.stringValue)
        let signature = try site.folder.write(try Base64.decode(text), to: "signature")
        try Clientctl.stock([
            "openssl", "dgst", "-sha256", "-verify", site.folder.file("phone.pub.pem"), "-signature", signature,
            file("1.0.0", "phone.zip"),
        ])
    }

    @Test func `publish refuses keys that no plugin accepts and a version that exists`() throws {
        try Clientctl.run(["keys", "generate", "--algorithm", "rsa-pss", "--out", site.folder.file("big"), "--json"])
            .succeeded()
        for key in ["big", "release"] {
            let refused = try site.publish("1.0.0", ["--phone-key", site.key(key)])
            refused.failed(78, "configInvalid")
            #expect(refused.errors.contains("RSA key of 2048 bits"), "\(refused.errors)")
        }
        #expect(access(file("1.0.0", "manifest.json"), F_OK) != 0)
        try site.publish("1.0.0").succeeded("published")
        let again = try site.publish("1.0.0", ["--phone"]).succeeded("unchanged")
        #expect(again.strings("warnings")?.first?.contains("phones") == true)
        let both = try Clientctl.run([
            "keys", "generate", "--phone", "--algorithm", "ed25519", "--out", site.folder.file("both"),
        ])
        #expect(both.status == 64)
    }

    @Test func `bundle of another release, with another signature or a changed member is refused`() throws {
        try generate("phone")
        try site.publish("1.0.0", ["--phone-key", site.folder.file("phone.key.pem")]).succeeded("published")
        try site.publish("1.1.0", ["--phone"]).succeeded("published")
        let keys = TrustedKeys([try PublicKey(parsingPEM: contents(ofFile: site.pub("release")))])
        let others = TrustedKeys([try PublicKey(parsingPEM: contents(ofFile: site.pub("channel")))])
        func manifest(_ version: String) throws -> Manifest {
            try ManifestFormat.parse(contents(ofFile: file(version, "manifest.json"))).claims
        }
        let document = try contents(ofFile: file("1.0.0", "phone.json"))
        _ = try PhoneBundleFormat.verify(document, of: manifest("1.0.0"), trusted: keys)
        #expect(throws: DocumentRefusal.self) {
            try PhoneBundleFormat.verify(document, of: manifest("1.1.0"), trusted: keys)
        }
        #expect(throws: UpdateFailure.self) {
            try PhoneBundleFormat.verify(document, of: manifest("1.0.0"), trusted: others)
        }
        let changed = String(decoding: document, as: UTF8.self).replacing(/"payload": "eyJ/, with: #""payload": "eyK"#)
        #expect(throws: (any Error).self) {
            try PhoneBundleFormat.verify(bytes(changed), of: manifest("1.0.0"), trusted: keys)
        }
    }
}
