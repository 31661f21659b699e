import BundleValues
import BundleSigning
import Testing

@testable import BundleFormats
@testable import ArchiveSource

@Suite struct ManifestStatementTests {
    private func manifest() throws -> Manifest {
        Manifest(
            version: try SemanticVersion(parsing: "1.5.1-rc.1"), url: "client.tar.zst",
            sha256: try SHA256Digest.of([]),
            shells: try ShellRange(minimum: SemanticVersion(parsing: "1.0.0")))
    }

    private static let digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    @Test func `writes a line for every field and an empty value for an absent one`() throws {
        #expect(
            String(decoding: try manifest().statement(), as: UTF8.self) == """
                swap-clients-manifest-v1
                appId=
                version=1.5.1-rc.1
                sha256=\(Self.digest)
                size=
                contentSha256=
                installedSize=
                fileCount=
                minShellVersion=1.0.0
                maxShellVersion=
                createdAt=

                """)
    }

    @Test func `writes the documented bytes for a complete manifest`() throws {
        var manifest = try manifest()
        manifest.appId = "com.example.\u{E9}kiosk"
        manifest.size = 1234
        manifest.contentSha256 = manifest.sha256
        manifest.installedSize = 9_007_199_254_740_991
        manifest.fileCount = 0
        manifest.shells = try ShellRange(
            minimum: SemanticVersion(parsing: "1.0.0"), maximum: SemanticVersion(parsing: "2.0.0"))
        manifest.createdAt = try Timestamp(parsing: "2026-01-02T03:04:05Z")
        manifest.keyId = "a hint"
        manifest.notesSha256 = manifest.sha256
        #expect(
            String(decoding: try manifest.statement(), as: UTF8.self) == """
                swap-clients-manifest-v1
                appId=com.example.\u{E9}kiosk
                version=1.5.1-rc.1
                sha256=\(Self.digest)
                size=1234
                contentSha256=\(Self.digest)
                installedSize=9007199254740991
                fileCount=0
                minShellVersion=1.0.0
                maxShellVersion=2.0.0
                createdAt=2026-01-02T03:04:05Z

                """)
    }

    @Test(arguments: ["a\nversion=9.9.9", "a\r", "\0", "\u{7F}", "\u{85}", "a\tb"])
    func `rejects a value with a control character`(_ appId: String) throws {
        var manifest = try manifest()
        manifest.appId = appId
        #expect(throws: ManifestRefusal(member: "appId", problem: "contains a control character")) {
            _ = try manifest.statement()
        }
    }
}

@Suite struct ManifestFormatTests {
    /// The five required members.
    static let required: [(name: String, value: String)] = [
        ("version", "\"1.5.1\""), ("url", "\"client.tar.zst\""),
        ("sha256", "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\""),
        ("minShellVersion", "\"1.0.0\""), ("signature", "\"AAECAw==\""),
    ]

    private func document(_ changes: [(String, String?)] = []) -> String {
        var members = Self.required.map { ($0.name, Optional($0.value)) }
        for (name, value) in changes {
            if let index = members.firstIndex(where: { $0.0 == name }) {
                members[index].1 = value
            } else {
                members.append((name, value))
            }
        }
        return "{" + members.compactMap { name, value in value.map { "\"\(name)\": \($0)" } }.joined(separator: ", ")
            + "}"
    }

    private func refusal(_ text: String) -> ManifestRefusal? {
        do throws(ManifestRefusal) {
            _ = try ManifestFormat.parse(Array(text.utf8))
            return nil
        } catch {
            return error
        }
    }

    @Test func `requires exactly five members`() throws {
        let parsed = try ManifestFormat.parse(Array(document().utf8))
        #expect(parsed.claims.version.description == "1.5.1")
        #expect(parsed.claims.appId == nil && parsed.claims.size == nil && parsed.claims.notesSha256 == nil)
        for (name, _) in Self.required {
            #expect(refusal(document([(name, nil)]))?.member == "manifest.\(name)", "\(name)")
        }
    }

    static let accepted: [(String, String)] = [
        ("schema", "1"), ("appId", "\"com.example\""), ("size", "0"), ("size", "9007199254740991"),
        ("installedSize", "5"), ("fileCount", "1"), ("maxShellVersion", "\"1.0.0\""),
        ("createdAt", "\"2026-01-02T03:04:05Z\""), ("keyId", "\"anything\""),
        ("notesSha256", "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\""),
        ("url", "\"https://example.com/a.tar.zst\""), ("url", "\"../a.tar\""), ("unknown", "{\"deep\": [1]}"),
        ("version", "\"1.0.0-rc.1\""),
        ("contentSha256", "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\""),
    ]

    @Test(arguments: accepted) func `accepts a valid optional member`(_ name: String, _ value: String) {
        #expect(refusal(document([(name, value)])) == nil)
    }

    static let refused: [(String, String)] = [
        ("schema", "2"), ("schema", "\"1\""), ("appId", "\"\""), ("appId", "1"), ("appId", "\"a\\nb\""),
        ("version", "\"v1.0.0\""), ("version", "\"1.0\""), ("version", "\"1.0.0+build\""), ("version", "1"),
        ("url", "\"\""), ("url", "\"a b\""), ("url", "\"a\\u0000b\""), ("url", "\"a\\u007fb\""), ("url", "[]"),
        ("sha256", "\"E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855\""), ("sha256", "\"e3b0\""),
        ("contentSha256", "\"e3b0\""), ("contentSha256", "1"), ("size", "-1"), ("size", "1.0"), ("size", "\"1\""),
        ("size", "9007199254740992"), ("size", "1e3"), ("installedSize", "-1"), ("fileCount", "true"),
        ("minShellVersion", "\"one\""), ("maxShellVersion", "\"0.9.0\""), ("maxShellVersion", "\"v2\""),
        ("createdAt", "\"2026-01-02\""), ("createdAt", "\"2026-01-02T03:04:05+00:00\""), ("createdAt", "0"),
        ("keyId", "1"), ("notesSha256", "[]"), ("notesSha256", "\"e3b0\""), ("signature", "\"\""),
        ("signature", "\"AAECAw\""),
        ("signature", "\"AAEC-_==\""), ("signature", "1"), ("appId", "null"), ("notesSha256", "null"),
        ("signatures", "null"),
    ]

    @Test(arguments: refused) func `rejects a member with an invalid value`(_ name: String, _ value: String) throws {
        let refusal = try #require(self.refusal(document([(name, value)])))
        #expect(refusal.member.hasSuffix(name) || refusal.member == "manifest", "\(refusal)")
        #expect(UpdateFailure(refusal).code == .manifestMalformed)
    }

    @Test(arguments: [
        "", "[]", "null", "{", "{} {}", "\u{FEFF}{}", "{\"version\": \"1.0.0\", \"version\": \"1.0.0\"}", "{\"a\": 1,}",
    ])
    func `rejects text that is not one strict JSON object`(_ text: String) {
        #expect(refusal(text)?.member == "manifest" || refusal(text)?.member.hasPrefix("manifest.") == true)
    }

    @Test(arguments: ["null", "1", "{}"]) func `accepts an unknown member`(_ value: String) {
        #expect(refusal(document([("unknown", value)])) == nil)
    }

    @Test func `rejects a duplicate member`() {
        let twice = document().dropLast() + ", \"version\": \"1.5.1\"}"
        #expect(refusal(String(twice))?.member == "manifest")
    }

    @Test func `rejects more than 64 signatures`() {
        let entry = "{\"keyid\": \"a\", \"sig\": \"AAEC\"}"
        let list = { (count: Int) in "[\(Array(repeating: entry, count: count).joined(separator: ","))]" }
        #expect(refusal(document([("signatures", list(63))])) == nil)
        #expect(refusal(document([("signatures", list(64))]))?.member == "manifest.signatures")
    }

    @Test func `rejects more than 64 KiB`() {
        let padding = String(repeating: " ", count: ManifestFormat.maximumBytes - document().utf8.count)
        #expect(refusal(document() + padding) == nil)
        #expect(refusal(document() + padding + " ")?.member == "manifest")
    }

    @Test func `parses a written manifest to the same values`() throws {
        let pair = try SigningPair()
        var manifest = try ManifestFormat.parse(Array(document().utf8)).claims
        manifest.appId = "com.example"
        manifest.size = 5
        manifest.contentSha256 = manifest.sha256
        manifest.installedSize = 6
        manifest.fileCount = 7
        manifest.shells = try ShellRange(minimum: manifest.shells.minimum, maximum: SemanticVersion(parsing: "3.0.0"))
        manifest.createdAt = try Timestamp(parsing: "2026-01-02T03:04:05Z")
        manifest.keyId = pair.id
        manifest.notesSha256 = manifest.sha256
        #expect(try ManifestFormat.parse(try pair.sign(manifest)).claims == manifest)
    }
}
