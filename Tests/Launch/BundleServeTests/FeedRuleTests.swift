import BundleValues
import BundleTesting
import Testing

@testable import BundleServe

@Suite struct `A path below a feed` {
    private func file(_ path: String) -> FeedFile? { FeedFile(RequestPath(Array(path.utf8))) }

    @Test(arguments: [
        "manifest.json", "trust.json", "channels/stable.json", "channels/a.b.json", "trust/1.json",
    ])
    func `names a document that is replaced`(path: String) {
        #expect(file(path) == .mutable(RequestPath(Array(path.utf8))))
    }

    @Test(arguments: ["releases/v1.0.0/manifest.json", "releases/v1.0.0/client-v1.0.0.tar.zst"])
    func `names a file that is written once`(path: String) {
        #expect(file(path) == .lasting(RequestPath(Array(path.utf8))))
    }

    @Test(arguments: [
        "", "manifest", "index.html", "manifest.json.new", "lock", ".htpasswd", "channels", "channels/",
        "channels/stable",
        "channels/.stable.json", "channels/stable.json.new", "channels/sub/stable.json", "trust/1.json.new",
        "releases/",
        "releases/v1.0.0", "releases/v1.0.0/", "releases/.publish-abc/manifest.json", "releases/v1.0.0/.hidden",
        "releases/v1.0.0/manifest.json.new", "releases/v1.0.0/sub/file", "other/v1.0.0/file", "Manifest.json",
        "manifest.json/", "/manifest.json",
    ])
    func `names nothing that is shown`(path: String) {
        #expect(file(path) == nil)
    }
}

@Suite struct `A file of bearer tokens` {
    private func tokens(_ text: String) throws -> BearerTokens {
        try BearerTokens(lines: Array(text.utf8), of: "tokens")
    }

    private func admits(_ tokens: BearerTokens, _ field: String) -> Bool {
        Array(field.utf8).withUnsafeBytes { tokens.admit($0) }
    }

    @Test func `admits whoever brings one of its lines, and nobody else`() throws {
        let tokens = try tokens("first-token\n\n  second~token== \r\n")
        for field in ["Bearer first-token", "bearer second~token==", "BEARER   first-token "] {
            #expect(admits(tokens, field), "\(field)")
        }
        for field in [
            "", "Bearer", "Bearer ", "first-token", "Basic first-token", "Bearer first-toke", "Bearer first-token2",
            "Bearer first-token second~token==", "Bearer First-token", "Bearerfirst-token",
        ] {
            #expect(!admits(tokens, field), "\(field)")
        }
    }

    @Test(arguments: ["", "\n \n", "to ken\n", "good\n# comment\n", "t\u{F6}ken", "a\u{0}b"])
    func `that holds none, or something else, is refused`(text: String) {
        #expect(throws: UpdateFailure.self) { try tokens(text) }
    }

    @Test func `never shows a token in a refusal`() throws {
        let failure = try #require(throws: UpdateFailure.self) { try tokens("sesame\nopen sesame\n") }
        #expect(failure.subject == "tokens:2")
        #expect(!failure.message.contains("sesame"))
    }
}
