import BundleCore
import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import MeteorSource
import MeteorTesting
import Testing

/// Tests files that need no download (METEOR section 3.3).
@Suite("Hot code push: reused files", .ownThread)
struct ReuseTests {
    private static let words = "words of some length, so that no other file has as many bytes\n"

    /// Creates a device that shows a seed with one small file.
    private func pushed(_ seed: MeteorBundleBuilder? = nil) throws -> PushedDevice {
        let device = try PushedDevice.app(seed ?? App.bundle("v1", [App.asset("small.txt", "small")]))
        try device.restart()
        return device
    }

    @Test("links a file of an installed version by URL path and hash")
    func byURL() async throws {
        let device = try pushed()
        try device.deploy(App.bundle("v2", [App.asset("a.txt", Self.words)]))
        try await device.activate()
        try device.deploy(App.bundle("v3", [App.asset("a.txt", Self.words), App.asset("b.txt", "b")]))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/", "/b.txt"))
        try device.reload()
        #expect(try device.text("/a.txt") == Self.words)
        #expect(try device.text("/b.txt") == "b")
    }

    @Test("links a file of an installed version by hash under another name")
    func byHash() async throws {
        let device = try pushed()
        try device.deploy(App.bundle("v2", [App.script("a.js", Self.words)]))
        try await device.activate()
        try device.deploy(App.bundle("v3", [App.script("moved/b.js", Self.words)]))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/"))
        try device.reload()
        #expect(try device.text("/app/moved/b.js") == Self.words)
        #expect(try device.text("/app/a.js") == nil)
    }

    @Test(
        "links a file of an archive client under any name if a hash proves its bytes, and downloads it otherwise",
        arguments: HashScheme.allCases)
    func fromArchive(hashes: HashScheme) async throws {
        let device = try pushed()
        let files = ["index.html": "archive", "static/kept.js": Self.words, "static/picture": "picture"]
        let channel = MemorySource(try MemoryOffer("1.2.0", files: files))
        let shell = try SemanticVersion(parsing: "1.0.0")
        _ = try await Updater(
            source: channel, device: .init(store: device.store, shell: shell, appId: nil, keep: 3),
            environment: Environment()
        ).update()
        try device.deploy(
            App.bundle("v2", [App.script("app.js", Self.words), App.asset("x.png", "picture")], hashes: hashes))
        try await device.update()
        // A salted hash without an `sri` does not prove the bytes.
        let unproven: [String] =
            switch hashes {
            case .bytes, .modern: []
            case .saltedContents: ["/app/app.js", "/x.png"]
            case .saltedSRI: []
            }
        #expect(device.requests == Requests.of(["/manifest.json", "/"] + unproven))
        try device.reload()
        #expect(try device.text("/app/app.js") == Self.words)
        #expect(try device.text("/x.png") == "picture")
    }

    @Test("inherits a file of the seed at another path")
    func fromSeedElsewhere() async throws {
        let device = try pushed(App.bundle("v1", [App.asset("images/old.png", Self.words)]))
        try device.deploy(App.bundle("v2", [App.asset("pictures/new.png", Self.words)]))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/"))
        try device.reload()
        #expect(try device.text("/pictures/new.png") == Self.words)
        #expect(try device.text("/images/old.png") == nil)
    }

    @Test("downloads a file that is missing in the seed")
    func seedFileMissing() async throws {
        let device = try pushed(App.bundle("v1", [App.asset("a.txt", Self.words), App.asset("b.txt", "b")]))
        #expect(unlink("\(device.folder.file("seed"))/app/a.txt") == 0)
        try device.deploy(App.bundle("v2", [App.asset("a.txt", Self.words), App.asset("b.txt", "b")]))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/", "/a.txt"))
        try device.reload()
        #expect(try device.text("/a.txt") == Self.words)
        #expect(try device.text("/b.txt") == "b")
    }

    @Test("downloads a file that is truncated in an installed version")
    func installedFileTruncated() async throws {
        let device = try pushed()
        try device.deploy(App.bundle("v2", [App.asset("a.txt", Self.words), App.asset("b.txt", "b")]))
        try await device.activate()
        #expect(truncate("\(device.store)/meteor/v2/app/a.txt", 10) == 0)
        try device.deploy(
            App.bundle("v3", [App.asset("a.txt", Self.words), App.asset("b.txt", "b"), App.asset("c.txt", "c")]))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/", "/a.txt", "/c.txt"))
        try device.reload()
        #expect(try device.text("/a.txt") == Self.words)
    }

    @Test("downloads a file that is missing in an installed version")
    func installedFileGone() async throws {
        let device = try pushed()
        try device.deploy(App.bundle("v2", [App.asset("a.txt", Self.words)]))
        try await device.activate()
        #expect(unlink("\(device.store)/meteor/v2/app/a.txt") == 0)
        try device.deploy(App.bundle("v3", [App.asset("a.txt", Self.words)]))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/", "/a.txt"))
        try device.reload()
        #expect(try device.text("/a.txt") == Self.words)
    }

    // MARK: Generations of servers

    private static func generation(_ version: String, _ hashes: HashScheme) -> MeteorBundleBuilder {
        App.bundle(version, [App.script("app.js", words), App.asset("x.png", "picture")], hashes: hashes)
    }

    @Test(
        "inherits the same bytes of the seed under hashes of another generation of servers",
        arguments: [HashScheme.bytes, .saltedContents, .saltedSRI], [HashScheme.bytes, .modern])
    func otherSchemeFromSeed(old: HashScheme, new: HashScheme) async throws {
        let device = try pushed(Self.generation("v1", old))
        try device.deploy(Self.generation("v2", new))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/"))
        try device.reload()
        #expect(try device.text("/app/app.js") == Self.words)
        #expect(try device.text("/x.png") == "picture")
    }

    @Test("links the same bytes of an installed version under hashes of another generation of servers")
    func otherSchemeFromInstalled() async throws {
        let device = try pushed()
        try device.deploy(Self.generation("v2", .saltedContents))
        try await device.activate()
        try device.deploy(Self.generation("v3", .modern))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/"))
        try device.reload()
        #expect(try device.text("/app/app.js") == Self.words)
        #expect(try device.text("/x.png") == "picture")
    }

    @Test("downloads other bytes of the same size under hashes of another generation")
    func otherBytesOtherScheme() async throws {
        let device = try pushed(Self.generation("v1", .saltedContents))
        let other = "Words" + Self.words.dropFirst(5)
        try device.deploy(App.bundle("v2", [App.script("app.js", other), App.asset("x.png", "picture")]))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/", "/app/app.js"))
        try device.reload()
        #expect(try device.text("/app/app.js") == other)
    }

    // MARK: Twins

    private func twins(_ version: String, _ entries: [BundleEntry]) -> MeteorBundleBuilder {
        App.bundle(version, entries).with { $0.hasPrefixedURLs = true }
    }

    @Test("N-03, P01: requests a file that is listed twice once and serves both URLs")
    func twins() async throws {
        let device = try pushed()
        try device.deploy(twins("v2", [App.script("app.js", "run();\n"), App.asset("images/x.png", "picture")]))
        try await device.update()
        #expect(
            device.requests
                == Requests.of("/manifest.json", "/", "/__cordova/app/app.js", "/__cordova/images/x.png"))
        try device.reload()
        #expect(try device.text("/images/x.png") == "picture")
        #expect(try device.text("/__cordova/images/x.png") == "picture")
        #expect(try device.text("/__cordova/app/app.js") == "run();\n")
        try device.deploy(twins("v3", [App.script("app.js", "go();\n"), App.asset("images/x.png", "picture")]))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/", "/__cordova/app/app.js"))
        try device.reload()
        #expect(try device.text("/images/x.png") == "picture")
        #expect(try device.text("/__cordova/images/x.png") == "picture")
    }

    @Test("N-03: uses one file of the seed for two assets with equal content")
    func twinsPartlyInSeed() async throws {
        let picture = App.asset("images/x.png", "picture")
        let device = try pushed(App.bundle("v1", [picture, App.asset("y.png", "other")]))
        try device.deploy(twins("v2", [picture]))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/"))
        try device.reload()
        #expect(try device.text("/images/x.png") == "picture")
        #expect(try device.text("/__cordova/images/x.png") == "picture")
    }

    @Test(
        "requests one of two equal assets that the seed has under another generation's hash"
    )
    func twinsOfAnotherScheme() async throws {
        let picture = App.asset("images/x.png", "picture")
        let device = try pushed(App.bundle("v1", [picture], hashes: .saltedContents))
        try device.deploy(twins("v2", [picture]))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/", "/__cordova/images/x.png"))
        try device.reload()
        #expect(try device.text("/images/x.png") == "picture")
        #expect(try device.text("/__cordova/images/x.png") == "picture")
    }
}
