import BundleValues
import BundleSigning
import MeteorSource
import Testing

@Suite("AssetVerifier") struct VerificationTests {
    private static let hello = Array("hello\n".utf8)
    private static let sha1 = "f572d396fae9206628714fb2ce00f72e94f2258f"
    private static let sri = "58IrmUxZ2c8rSOVJseJGZmNgRZMNPafBrLKZ0cO3+TH5Sq5B7dosKyB6NuEPi8uNRSI+VIePWzFufOO2vAGWKQ=="
    private static let scriptHash = "8f7552fdef19f0d6cee22efac03848a86c7f06e5"
    private static let publicHash = "0a1d9560bd5d0a32f9466a450fbcae2dc50f01be"
    private static let zeros = String(repeating: "0", count: 40)

    /// Returns the evidence for an asset of a manifest that can have others, or nil if it is rejected.
    private static func evidence(
        _ body: [UInt8], type: String = "js", hash: String?, sri: String? = nil, size: Int? = nil, tag: String? = nil,
        mode: VerificationMode = .compatible, others: [String] = []
    ) throws -> AssetEvidence? {
        let more = (sri.map { ",\"sri\":\"\($0)\"" } ?? "") + (size.map { ",\"size\":\($0)" } ?? "")
        let entry = ManifestText.entry("a", type: type, hash: hash, more: more)
        let manifest = try ManifestText.parse([entry] + others)
        do {
            return try AssetVerifier(manifest, mode: mode).evidence(
                for: manifest.assets[0], digests(body, for: manifest.assets[0]), entityTag: tag)
        } catch let error as AssetRefusal {
            #expect(error.failure.message.contains("Hash mismatch for asset: /a"))
            #expect(error.failure.code == .digestMismatch)
            return nil
        }
    }

    /// Returns the digests of a body that is passed in pieces of all sizes.
    private static func digests(_ body: [UInt8], for asset: MeteorAsset) throws -> AssetDigests {
        var digester = try AssetDigester(for: asset)
        var rest = body[...]
        var length = 1
        while !rest.isEmpty {
            let piece = Array(rest.prefix(length))
            try piece.withUnsafeBytes { try digester.update($0) }
            rest = rest.dropFirst(length)
            length += 1
        }
        return try digester.finish()
    }

    private static func flipped(_ body: [UInt8]) -> [UInt8] { [body[0] ^ 1] + body.dropFirst() }
    private static let withSRI = ManifestText.entry("other.js", more: ",\"sri\":\"\(sri)\"")

    @Test func `computes the golden digests`() throws {
        let asset = try ManifestText.parse([Self.withSRI]).assets[0]
        let digests = try Self.digests(Self.hello, for: asset)
        #expect(LabelHasher.hex(digests.sha1) == Self.sha1)
        #expect(digests.sha512.map { Base64.encode($0) } == Self.sri)
        #expect(digests.sha256 == (try SHA256Digest.of(Self.hello)))
        #expect(digests.size == 6)
        #expect(try Self.digests([], for: .index).sha512 == nil)
    }

    @Test func `N-02: accepts the hashes of every server with the strongest evidence`() throws {
        #expect(try Self.evidence(Self.hello, hash: Self.sha1, sri: Self.sri, tag: "\"\(Self.sha1)\"") == .sha1)
        #expect(try Self.evidence(Self.hello, hash: Self.scriptHash, sri: Self.sri, size: 6) == .sri)
        #expect(
            try Self.evidence(Self.hello, type: "asset", hash: Self.publicHash, others: [Self.withSRI]) == .meteorPublic
        )
        #expect(try Self.evidence(Self.hello, hash: Self.zeros, tag: "\"\(Self.zeros)\"") == .label)
        #expect(try Self.evidence(Self.hello, hash: Self.zeros) == AssetEvidence.none)
    }

    @Test func `N-02: rejects one changed byte`() throws {
        let body = Self.flipped(Self.hello)
        for mode in [VerificationMode.compatible, .strict] {
            let label = "\"\(Self.scriptHash)\""
            #expect(
                try Self.evidence(body, hash: Self.scriptHash, sri: Self.sri, size: 6, tag: label, mode: mode) == nil)
            #expect(
                try Self.evidence(
                    body, type: "asset", hash: Self.publicHash, tag: "\"\(Self.publicHash)\"", mode: mode,
                    others: [Self.withSRI]) == nil)
        }
    }

    @Test func `accepts another digest where the server changes files`() throws {
        let label = "\"\(Self.scriptHash)\""
        let appended = Self.hello + Array("//# sourceMappingURL=x".utf8)
        for (type, evidence) in [("dynamic js", AssetEvidence.label), ("js", nil), ("css", nil), ("asset", nil)] {
            #expect(
                try Self.evidence(
                    appended, type: type, hash: Self.scriptHash, sri: Self.sri, size: 6, tag: label) == evidence)
        }
        let stripped = Array(Self.hello.dropLast())
        #expect(try Self.evidence(stripped, hash: Self.scriptHash, sri: Self.sri, size: 6, tag: label) == .label)
        #expect(try Self.evidence(Self.flipped(Self.hello), hash: Self.scriptHash, sri: Self.sri, tag: label) == .label)
        #expect(
            try Self.evidence(
                Self.flipped(Self.hello), type: "dynamic js", hash: Self.scriptHash, sri: Self.sri, size: 6, tag: label)
                == .label)
    }

    @Test func `rejects an asset without evidence in the strict mode if it could have some`() throws {
        #expect(try Self.evidence(Self.hello, hash: Self.zeros, mode: .strict) == nil)
        #expect(try Self.evidence(Self.hello, hash: nil, mode: .strict) == AssetEvidence.none)
        #expect(try Self.evidence(Self.hello, hash: Self.zeros, tag: "\"\(Self.zeros)\"", mode: .strict) == .label)
    }

    @Test func `accepts public files without proof if the server does not name them by a recipe`() throws {
        let old = ManifestText.entry("other.js")
        let early = ManifestText.entry("other.png", type: "asset", more: ",\"sri\":\"\(Self.sri)\"")
        for others in [[old], [early], [Self.withSRI, early]] {
            let label = "\"\(Self.zeros)\""
            #expect(
                try Self.evidence(Self.hello, type: "asset", hash: Self.zeros, tag: label, others: others) == .label)
        }
        #expect(try Self.evidence(Self.hello, type: "asset", hash: nil, others: [Self.withSRI]) == AssetEvidence.none)
    }

    @Test func `SW-35: rejects the label of other content even if the bytes are right`() throws {
        #expect(try Self.evidence(Self.hello, hash: Self.sha1, tag: "\"\(Self.zeros)\"") == nil)
        #expect(try Self.evidence(Self.hello, hash: Self.sha1, tag: "W/\"\(Self.zeros)\"") == nil)
        #expect(try Self.evidence(Self.hello, hash: nil, tag: "\"\(Self.zeros)\"") == AssetEvidence.none)
    }

    private static let h = "0123456789abcdef0123456789abcdef01234567"

    @Test(
        arguments: [
            ("\"\(h)\"", h), ("W/\"\(h)\"", h), ("\"\(h)-gzip\"", nil), (h, nil), ("\"\(h.uppercased())\"", nil),
            ("\"\(h.dropLast())\"", nil), ("\"\(h)0\"", nil), ("\"\(String(repeating: "Z", count: 40))\"", nil),
            ("", nil),
            ("\"", nil), ("w/\"\(h)\"", nil), ("\"\(h)\", \"\(h)\"", nil), ("'\(h)'", nil), ("W/\"5a-17f\"", nil),
        ] as [(String, String?)])
    func `SW-55, SW-56, N-04: reads a label of 40 lower-case hex digits in quotes, weak or strong`(
        tag: String, hash: String?
    )
        throws
    {
        #expect(AssetLabel.hash(entityTag: tag) == hash)
        let other = ManifestText.otherHash
        let found = try Self.evidence(Self.hello, hash: Self.h, tag: tag)
        #expect(found == (hash == nil ? AssetEvidence.none : .label))
        #expect((try Self.evidence(Self.hello, hash: other, tag: tag) == nil) == (hash != nil))
    }

    @Test(arguments: [
        ("<!doctype html><html>", true), ("<!DOCTYPE html>", true), ("<html>", true), (" \n\t<HTML lang=en>", true),
        ("\u{FEFF}<html>", true), ("<head>", true), ("<?xml version=\"1.0\"?><Error/>", true),
        ("<!-- portal --> <!doctype html>", true), ("<!-- a --><!-- b -->\n<html>", true), ("<a href=x>", true),
        ("<!-- hide from old browsers\nvar a = 1 //-->", false), ("<!-- a -->\nvar b", false), ("<!--", false),
        ("<!-- a {} -->\nb { color: red }", false), ("var a = '<html>'", false), ("", false), ("<", false),
        ("< 1", false), ("/* <html> */", false),
    ])
    func `N-05: rejects a page instead of a script or style sheet`(body: String, isPage: Bool) throws {
        for type in ["js", "css", "dynamic js"] {
            #expect((try Self.evidence(Array(body.utf8), type: type, hash: nil) == nil) == isPage)
        }
        for type in ["asset", "json", "other"] {
            #expect(try Self.evidence(Array(body.utf8), type: type, hash: nil) == AssetEvidence.none)
        }
    }

    @Test func `requires proof of all public files if one is proven`() throws {
        func asset(_ name: String, _ type: String, _ more: String = "", hash: String? = Self.zeros) throws
            -> MeteorAsset
        {
            try ManifestText.parse([ManifestText.entry(name, type: type, hash: hash, more: more)]).assets[0]
        }
        let proven = (asset: try asset("proven.png", "asset"), evidence: AssetEvidence.sha1, size: 5)
        let labelled = (asset: try asset("labelled.png", "asset"), evidence: AssetEvidence.label, size: 5)
        let unproven = (asset: try asset("unproven.png", "asset"), evidence: AssetEvidence.none, size: 5)
        let exempt: [AssetVerifier.Inspected] = [
            (try asset("script.js", "js"), .label, 5), (.index, .none, 5),
            (try asset("x.png", "asset", hash: nil), .none, 5),
            (try asset("y.png", "asset", ",\"sri\":\"\(Self.sri)\""), .label, 5),
            (try asset("stripped.js", "js", ",\"size\":6"), .label, 5),
            (try asset("dynamic.js", "dynamic js", ",\"size\":5"), .label, 5),
        ]
        #expect(AssetVerifier.inconsistencies([labelled, unproven] + exempt).isEmpty)
        #expect(AssetVerifier.inconsistencies([proven] + exempt).isEmpty)
        let refused = AssetVerifier.inconsistencies([labelled, proven, unproven] + exempt)
        #expect(refused.map(\.urlPath) == ["/labelled.png", "/unproven.png"])

        let script: AssetVerifier.Inspected = (try asset("whole.js", "js", ",\"size\":5"), .label, 5)
        #expect(AssetVerifier.inconsistencies([script, proven]).map(\.urlPath) == ["/whole.js"])
        let byRecipe = (asset: proven.asset, evidence: AssetEvidence.meteorPublic, size: 5)
        #expect(AssetVerifier.inconsistencies([script, byRecipe]).isEmpty)
    }
}
