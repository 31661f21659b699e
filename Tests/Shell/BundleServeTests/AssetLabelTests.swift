import BundleCore
import BundleValues
import BundleDisk
import BundleServe
import BundleTestTraits
import BundleTesting
import Testing

@Suite(.ownThread) struct AssetLabelTests {
    private static let hash = "0123456789abcdef0123456789abcdef01234567"

    private func fixture(
        _ files: [String: [UInt8]], _ labels: [String: AssetLabels.Label]
    ) async throws -> Fixture {
        let fixture = try await Fixture()
        var byPath: [BundlePath: AssetLabels.Label] = [:]
        for (path, label) in labels { byPath[try BundlePath(parsing: path)] = label }
        let root = try Directory.open(try fixture.folder.writeTree(files, to: "labelled"))
        let site = try Site(root: root, index: Fixture.index, labels: AssetLabels(byPath))
        fixture.host.with { $0.current = site }
        return fixture
    }

    @Test func `leaves the fields of files without a label unchanged`() async throws {
        let files = ["app.0123456789abcdef.js": [UInt8(1)], "plain.js": [2], "labelled.js": [3]]
        let fixture = try await fixture(
            files, ["labelled.js": .init(hash: Self.hash, sourceMapURL: nil)])
        let hashed = try fixture.ask("/app.0123456789abcdef.js")
        #expect(hashed["ETag"]?.hasPrefix("\"sha256-") == true)
        #expect(try fixture.ask("/labelled.js?1")["ETag"]?.hasPrefix("\"\(Self.hash)-sha256-") == true)
        for path in ["/app.0123456789abcdef.js", "/plain.js?1", "/labelled.js?1"] {
            #expect(try fixture.ask(path)["Cache-Control"] == "no-cache", "\(path)")
        }
    }

    @Test func `applies a label to every name of a file`() async throws {
        let fixture = try await Fixture()
        let client = try Directory.open(
            try fixture.folder.writeTree(["index.html": [], "app/a.js": Array("a".utf8)], to: "client"))
        let map = try AssetMap([
            .init(url: "/", source: client, file: "index.html"),
            .init(url: "/a.js?hash=1", source: client, file: "app/a.js"),
            .init(url: "/__cordova/a.js?hash=1", source: client, file: "app/a.js"),
        ])
        let serving = try Directory.open(try fixture.folder.makeFolder("serving"))
        let root = try BundleOrganizer(serving: serving).organize(map, as: "r")
        let label = AssetLabels.Label(hash: Self.hash, sourceMapURL: nil)
        let labels = AssetLabels([
            try BundlePath(parsing: "a.js"): label, try BundlePath(parsing: "__cordova/a.js"): label,
        ])
        let site = try Site(root: root.directory, index: Fixture.index, labels: labels)
        fixture.host.with { $0.current = site }
        for name in ["/a.js", "/__cordova/a.js"] {
            let answer = try fixture.ask("\(name)?hash=1")
            #expect(answer.text == "a", "\(name)")
            #expect(answer["ETag"]?.hasPrefix("\"\(Self.hash)-sha256-") == true)
            #expect(answer["Cache-Control"] == "no-cache")
        }
        // The prefix does not lead to the calls of pages, and no other name is reserved.
        #expect(try fixture.ask("/__cordova/b.js", navigation).status == 404)
        #expect(try fixture.ask("/__cordova", navigation).status == 404)
        #expect(try fixture.ask("/__cordovax/a.js").status == 404)
        #expect(try fixture.ask("/__cordova/settings", navigation).status == 404)
        #expect(fixture.host.with { $0.pages.isEmpty })
    }

    @Test(arguments: ["", "a\"b", "a b", "a\r\nX: y", "ä", "a\u{7F}"])
    func `ignores a hash that cannot be part of an entity tag`(hash: String) async throws {
        let fixture = try await fixture(
            ["a.js": [1]], ["a.js": .init(hash: hash, sourceMapURL: nil)])
        let answer = try fixture.ask("/a.js")
        let tag = try #require(answer["ETag"])
        #expect(tag.wholeMatch(of: /"sha256-[0-9a-f]{64}"/) != nil)
        #expect(answer["X"] == nil)
        #expect(try fixture.ask("/a.js", ["If-None-Match: \(tag)"]).status == 304)
    }

    @Test(arguments: [
        ("/m/a.map", "/m/a.map"), ("/m/a.map?x#y", "/m/a.map"), ("/m/a b.map", "/m/a%20b.map"),
        ("/m/ü%.map", "/m/%C3%BC%25.map"), ("/m/gone.map", nil), ("m/a.map", nil), ("//m/a.map", nil),
        ("/m/../m/a.map", nil), ("https://a/m/a.map", nil), ("", nil), ("/m/a.map\r\nX: y", nil),
    ])
    func `sends the source map of a label only if the file exists`(url: String, field: String?) async throws {
        let fixture = try await fixture(
            ["a.js": [1], "m/a.map": [2], "m/a b.map": [3], "m/ü%.map": [4]],
            ["a.js": .init(hash: nil, sourceMapURL: url)])
        let answer = try fixture.ask("/a.js")
        #expect(answer["X-SourceMap"] == field)
        #expect(answer["X"] == nil)
        if let field { #expect(try fixture.ask(field).body.count == 1) }
    }

    @Test func `applies a label to a file that is not kept in memory`() async throws {
        let large = [UInt8](repeating: 7, count: 100_000)
        let fixture = try await fixture(
            ["a.bin": large], ["a.bin": .init(hash: Self.hash, sourceMapURL: nil)])
        for target in ["/a.bin", "/a.bin?1"] {
            let answer = try fixture.ask(target)
            #expect(answer.body == large)
            let tag = try #require(answer["ETag"])
            #expect(tag.hasPrefix("\"\(Self.hash)-"))
            let part = try fixture.ask(target, ["Range: bytes=-2", "If-Range: \(tag)"])
            #expect(part.body == [7, 7])
            #expect(part["Cache-Control"] == "no-cache")
        }
    }
}
