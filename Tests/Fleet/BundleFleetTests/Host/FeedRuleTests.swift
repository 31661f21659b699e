import BundleDisk
import BundleServe
import BundleTesting
import BundleValues
import Glibc
import Testing

@testable import BundleFleet

@Suite struct FeedFileTests {
    private func file(_ path: String) -> FeedFile? { FeedFile(RequestPath(Array(path.utf8))) }

    @Test(arguments: [
        "manifest.json", "trust.json", "channels/stable.json", "channels/a.b.json", "trust/1.json",
    ])
    func `classifies documents as mutable`(path: String) {
        #expect(file(path) == .mutable(RequestPath(Array(path.utf8))))
    }

    @Test(arguments: ["releases/v1.0.0/manifest.json", "releases/v1.0.0/client-v1.0.0.tar.zst"])
    func `classifies files of releases as immutable`(path: String) {
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
    func `rejects paths that a feed does not have`(path: String) {
        #expect(file(path) == nil)
    }
}

@Suite struct FeedTagTests {
    private let folder: TemporaryFolder
    private let mirrors: [FeedFiles]

    init() throws {
        let folder = try TemporaryFolder()
        self.folder = folder
        let large = [UInt8](repeating: 7, count: 1 << 20 + 1)
        mirrors = try ["one", "two"].map { name in
            let feed = try folder.writeTree(["releases/v1/a.zst": large, "manifest.json": [2]], to: name)
            return FeedFiles(try Directory.open(feed), isPrivate: false)
        }
    }

    private func setTime(_ path: String, _ seconds: Int) {
        let time = timespec(tv_sec: seconds, tv_nsec: 0)
        for name in ["one", "two"] { utimensat(AT_FDCWD, folder.file("\(name)/\(path)"), [time, time], 0) }
    }

    private func tags(_ path: String) throws -> [[UInt8]?] {
        let file = try #require(FeedFile(RequestPath(Array(path.utf8))))
        return try mirrors.map { try $0.find(file)?.tag }
    }

    @Test func `tags an archive equally on all mirrors, by its modification time`() throws {
        setTime("releases/v1/a.zst", 1)
        let first = try tags("releases/v1/a.zst")
        #expect(first[0] != nil && first[0] == first[1])
        setTime("releases/v1/a.zst", 2)
        #expect(try tags("releases/v1/a.zst")[0] != first[0])
    }

    @Test func `tags a document by its content, and not by its modification time`() throws {
        setTime("manifest.json", 1)
        let first = try tags("manifest.json")
        #expect(first[0] != nil && first[0] == first[1])
        try folder.write([3], to: "two/new")
        rename(folder.file("two/new"), folder.file("two/manifest.json"))
        setTime("manifest.json", 1)
        let second = try tags("manifest.json")
        #expect(second[0] == first[0] && second[1] != first[1])
    }
}

@Suite struct BearerTokensTests {
    private func tokens(_ text: String) throws -> BearerTokens {
        try BearerTokens(lines: Array(text.utf8), of: "tokens")
    }

    private func admits(_ tokens: BearerTokens, _ field: String) -> Bool {
        Array(field.utf8).withUnsafeBytes { tokens.admit($0) }
    }

    @Test func `authorizes the tokens of a file and no others`() throws {
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
    func `rejects a file without tokens or with other content`(text: String) {
        #expect(throws: UpdateFailure.self) { try tokens(text) }
    }

    @Test func `reports no token in an error`() throws {
        let failure = try #require(throws: UpdateFailure.self) { try tokens("sesame\nopen sesame\n") }
        #expect(failure.subject == "tokens:2")
        #expect(!failure.message.contains("sesame"))
    }
}
