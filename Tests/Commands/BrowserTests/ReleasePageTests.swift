import ArchiveSource
import BundleCore
import BundleSigning
import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

/// The page of `clientctl fleet page` in a browser.
@Suite(.ownThread, .needsBrowser) struct ReleasePageTests {
    private let browser: Browser
    private let feed: SignedFeed

    init() throws {
        browser = try Browser.forAllTests()
        feed = try SignedFeed()
    }

    /// Opens the release page of the feed over HTTP.
    private func open(_ more: [String] = []) throws -> (page: BrowserPage, server: LoopbackServer) {
        let out = feed.kiosk.folder.file("page.html")
        try feed.kiosk.run(
            ["fleet", "page", "--out", out, "--feed", feed.path, "--trust", feed.kiosk.trust] + more)
        let server = try LoopbackServer([
            "/": Route(try contents(ofFile: out)).with { $0.headers = [("Content-Type", "text/html")] }
        ])
        return (try browser.open(server.root + "/", inWindow: true), server)
    }

    /// Takes screenshots of the page at several widths in both color schemes, and expects it to fit.
    private func takeScreenshots(_ page: BrowserPage, as name: String) throws {
        for (width, scheme) in [(360, "light"), (360, "dark"), (1200, "light"), (1200, "dark")] {
            try page.emulate(width: width, scheme: scheme)
            let picture = try ScreenshotFolder.keep(page, as: "release-page-\(name)-\(width)-\(scheme)")
            #expect(picture.count > 2000)
            let widest = try page.evaluate("document.documentElement.scrollWidth").integerValue
            #expect(widest.map { $0 <= width } == true, "\(name) at \(width)")
            let color = try page.evaluate("getComputedStyle(document.body).backgroundColor").stringValue
            #expect(color == (scheme == "dark" ? "rgb(14, 17, 22)" : "rgb(244, 245, 247)"))
        }
        try page.emulate(width: 800, scheme: "dark", isPrinted: true)
        _ = try ScreenshotFolder.keep(page, as: "release-page-\(name)-print")
        #expect(
            try page.evaluate("getComputedStyle(document.body).backgroundColor").stringValue == "rgb(255, 255, 255)")
        #expect(try page.evaluate("document.scripts.length") == .integer(0))
        #expect(page.console == [] && page.requests.count == 1)
    }

    @Test func `the release page of an empty feed is readable`() throws {
        let (page, server) = try open()
        #expect(try page.evaluate("document.body.innerText.includes('This feed has no channels.')") == .bool(true))
        try takeScreenshots(page, as: "empty")
        #expect(server.requests.count == 1)
    }

    @Test func `the release page of one release escapes its notes`() throws {
        let notes = "<img src=/x onerror=alert(1)><script src=/y></script>\n\(String(repeating: "unbroken", count: 40))"
        try feed.put(try [feed.release("1.0.0", notes: notes, rollout: 250)])
        let (page, server) = try open()
        #expect(try page.evaluate("document.images.length + document.scripts.length") == .integer(0))
        #expect(
            try page.evaluate("document.querySelector('.notes').textContent").stringValue?.hasPrefix("<img src=/x")
                == true)
        #expect(
            try page.evaluate("document.querySelector('.bar .full').getBoundingClientRect().width > 20") == .bool(true))
        try takeScreenshots(page, as: "one")
        #expect(server.requests.count == 1)
    }

    @Test func `the release page of 200 releases is readable with reports of devices`() throws {
        let engine = try LoopbackServer { Self.answer($0.target) }
        try feed.put(
            try (1...200).map { try feed.release("1.\($0).0", notes: "Fixes \($0)", rollout: $0 == 200 ? 100 : 1000) })
        let (page, server) = try open(["--prometheus", engine.root])
        #expect(try page.evaluate("document.querySelectorAll('.release, .line').length") == .integer(200))
        #expect(try page.evaluate("document.querySelectorAll('.course polyline').length") == .integer(2))
        let tall = "document.querySelector('.course').getBoundingClientRect().height > 100"
        #expect(try page.evaluate(tall) == .bool(true))
        try takeScreenshots(page, as: "many")
        #expect(server.requests.count == 1)
    }

    private static func answer(_ target: String) -> Route {
        let isRange = target.contains("query_range")
        func series(_ version: String, _ fact: String, _ count: Int) -> String {
            let points = (0..<20).map { #"[\#(1_800_000_000 + $0 * 21600),"\#(count * $0 / 20)"]"# }
            let value =
                isRange ? #""values":[\#(points.joined(separator: ","))]"# : #""value":[1800000000,"\#(count)"]"#
            return #"{"metric":{"version":"\#(version)","fact":"\#(fact)"},\#(value)}"#
        }
        let all = [series("1.199.0", "confirmed", 9000), series("1.200.0", "confirmed", 870)]
        let result = all + (isRange ? [] : [series("1.200.0", "failed", 31), series("1.199.0", "installed", 9100)])
        return .json(
            #"{"status":"success","data":{"resultType":"\#(isRange ? "matrix" : "vector")","result":["#
                + result.joined(separator: ",") + "]}}")
    }
}

/// A feed without archives, signed with the kiosk's key.
private final class SignedFeed {
    let kiosk: Kiosk
    var path: String { kiosk.folder.file("feed") }
    private let key: PrivateKey

    init() throws {
        kiosk = try Kiosk()
        key = try PrivateKey(parsingPEM: try contents(ofFile: kiosk.folder.file("release.key.pem")), passphrase: { [] })
        try kiosk.folder.makeFolder("feed/channels")
    }

    func release(_ version: String, notes: String, rollout: Int) throws -> ChannelDocument.Release {
        let one = try SemanticVersion(parsing: "1.0.0")
        var manifest = Manifest(
            version: try SemanticVersion(parsing: version), url: "../releases/v\(version)/client.tar.zst",
            sha256: try SHA256Digest.of(Array(version.utf8)), shells: try ShellRange(minimum: one))
        let text = Array(notes.utf8)
        (manifest.appId, manifest.notesSha256, manifest.size) = ("com.example.kiosk", try .of(text), 12_345_678)
        try kiosk.folder.makeFolder("feed/releases/v\(version)")
        try kiosk.folder.write(text, to: "feed/releases/v\(version)/notes.txt")
        manifest.createdAt = Timestamp.now
        let document = ManifestFormat.document(manifest, signature: try key.sign(try manifest.statement()))
        return ChannelDocument.Release(
            try ManifestFormat.parse(JSONWriter.bytes(of: document)), rollout: rollout)
    }

    func put(_ releases: [ChannelDocument.Release]) throws {
        var document = ChannelDocument(
            appId: "com.example.kiosk", channel: "stable", sequence: 200, issuedAt: .now,
            expires: Timestamp(clamping: Timestamp.now.secondsSinceEpoch + 86_400))
        document.releases = releases
        try kiosk.folder.write(try signed(document), to: "feed/channels/stable.json")
        try kiosk.folder.makeFolder("feed/channels/stable")
        for (index, release) in releases.enumerated() {
            document.sequence = index + 1
            document.releases = [release]
            try kiosk.folder.write(try signed(document), to: "feed/channels/stable/\(index + 1).json")
        }
    }

    private func signed(_ document: ChannelDocument) throws -> [UInt8] {
        var envelope = ChannelFormat.envelope(document)
        envelope.signatures = [.init(keyId: nil, bytes: try key.sign(envelope.message))]
        return envelope.document
    }
}
