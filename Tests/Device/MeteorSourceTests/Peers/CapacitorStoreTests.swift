import BundleValues
import BundleCore
import BundleDisk
import BundleTestTraits
import BundleTesting
import MeteorSource
import MeteorTesting
import Testing

/// Tests which bundles stay on disk across starts and stops (METEOR sections 8.5 and 8.7).
@Suite("CapacitorStore", .ownThread)
struct CapacitorStoreTests {
    private static func three() throws -> PushedDevice {
        try PushedDevice.capacitor(
            try .capacitor("v1", ["app/main.js": "one"]), try .capacitor("v2", ["app/main.js": "two"]),
            try .capacitor("v3", ["app/main.js": "three"]))
    }

    @Test("SW-43: removes an unused older version after the new one has started")
    func removesOlder() async throws {
        let device = try Self.three()
        try device.restart()
        for version in ["v1", "v2"] {
            try device.server.serve(version: version)
            try await device.update()
        }
        #expect(try device.versionsOnDisk() == ["v1", "v2"])
        try device.reload()
        try await device.confirm(keep: 1)
        #expect(try device.versionsOnDisk() == ["v2"])
        #expect(try device.inventory().bundles.map(\.name.description) == ["meteor-v2"])
        #expect(try device.served("/app/main.js") == Array("two".utf8))
    }

    @Test("SW-44: finds a version on disk even after the ledger was lost")
    func findsVersions() async throws {
        let device = try Self.three()
        try device.restart()
        try await device.follow("v1")
        #expect(try device.restart().name.description == "meteor-v1")
        for name in ["ledger.json", "ledger.before.json"] { try Directory.open(device.store).removeFile(name) }
        #expect(try device.restart().name.description == "meteor-v1")
        #expect(device.warningLines == ["recovered meteor-v1: it was complete but missing from the ledger."])
        #expect(try device.served("/app/main.js") == Array("one".utf8))
        try device.server.serve(version: "v1")
        try await device.update()
        #expect(device.requests == expectedRequests(page: 0))
    }

    @Test("SW-45: removes folders that the ledger does not have, and shows the installed version")
    func skipsOthers() async throws {
        let device = try Self.three()
        try device.restart()
        try await device.follow("v1")
        let manifest = try #require(device.stored("program.json", of: "v1"))
        let trees = "store/meteor"
        try device.folder.writeTree(["program.json": manifest], to: "\(trees)/PartialDownload")
        try device.folder.writeTree(["program.json": manifest], to: "\(trees)/Downloading")
        try device.folder.writeTree(["program.json": Array("{".utf8), "index.html": []], to: "\(trees)/corrupt")
        #expect(try device.inventory().bundles.map(\.name.description) == ["meteor-v1"])
        #expect(try device.restart().name.description == "meteor-v1")
        #expect(try device.versionsOnDisk() == ["v1"])
        #expect(
            device.warningLines.sorted()
                == ["Downloading", "PartialDownload", "corrupt"].map {
                    "meteor/\($0) was removed: the ledger has no client of this name, perhaps because its removal was interrupted."
                })
    }

    /// Downloads all files of v1 except `app/extra.js`.
    private func interrupted(byFailure: Bool) async throws -> PushedDevice {
        let device = try PushedDevice.capacitor(
            try .capacitor("v1", ["app/main.js": "main()", "app/extra.js": "extra()"]),
            try .capacitor("v2", ["app/main.js": "main()", "app/v2only.js": "two()"]))
        try device.restart()
        try device.server.serve(version: "v1")
        let gate = try Gate()
        device.server.fault("/app/extra.js", .all([.status(404), .hold(gate)]))
        let update = Task { try await device.failure() }
        try await device.completed("/app/main.js")
        // Otherwise the log can receive the request after it was cleared.
        #expect(device.server.wait(for: "/app/extra.js"))
        if byFailure { gate.open() } else { update.cancel() }
        #expect(try await update.value != nil)
        device.server.heal()
        try device.expectNothingCame()
        #expect(try Directory.open(device.store).directory("downloads").list() == ["interrupted"])
        return device
    }

    @Test("SW-46: does not request files of an interrupted download again", arguments: [true, false])
    func continuesSameVersion(byFailure: Bool) async throws {
        let device = try await interrupted(byFailure: byFailure)
        try device.server.serve(version: "v1")
        try await device.update()
        #expect(device.requests == expectedRequests("/app/extra.js"))
        #expect(try device.versionsOnDisk() == ["v1"])
        // The PartialDownload folder of the peers stays on disk.
        #expect(try Directory.open(device.store).directory("downloads").list() == [])
        try device.reload()
        #expect(try device.pageVersion() == "v1")
        #expect(try device.served("/app/main.js") == Array("main()".utf8))
        #expect(try device.served("/app/extra.js") == Array("extra()".utf8))
    }

    @Test("SW-47: reuses files of an interrupted download for another version", arguments: [true, false])
    func continuesOtherVersion(byFailure: Bool) async throws {
        let device = try await interrupted(byFailure: byFailure)
        try device.server.serve(version: "v2")
        try await device.update()
        #expect(device.requests == expectedRequests("/app/v2only.js"))
        #expect(try device.versionsOnDisk() == ["v2"])
        try device.reload()
        #expect(try device.pageVersion() == "v2")
        #expect(try device.served("/app/main.js") == Array("main()".utf8))
        #expect(try device.served("/app/v2only.js") == Array("two()".utf8))
        #expect(try device.served("/app/extra.js") == nil)
    }

    @Test("SW-48: confirms a version after a complete start and removes older ones")
    func completesStart() async throws {
        let device = try Self.three()
        try device.restart()
        for version in ["v1", "v2", "v3"] { try await device.follow(version, keep: 2) }
        let ledger = try device.inventory().ledger
        #expect(ledger.lastKnownGood.description == "meteor-v3")
        #expect(ledger.current == ledger.lastKnownGood)
        // v2 stays for a rollback; the peers keep only v3.
        #expect(try device.versionsOnDisk() == ["v2", "v3"])
        #expect(try device.restart().name.description == "meteor-v3")
        #expect(try device.served("/app/main.js") == Array("three".utf8))
    }

    @Test("AN-02: reports no findings for a valid bundle")
    func findsNothing() throws {
        let folder = try TemporaryFolder()
        let fixtures = try CordovaFixtures(in: folder.file("fixtures"))
        let seed = try Directory.open(fixtures.seed)
        let layout = MeteorBundles(platform: .ios)
        _ = try layout.assets(of: seed, owned: nil, inheriting: nil)
        let found = try layout.facts(of: seed)
        #expect(found?.version.description == "version1")
        #expect(found?.compatibility == CordovaBundles.iosCompatibility)
        #expect(try SeedFolder(at: fixtures.seed, layout: layout).manifestFailure == nil)
    }

    @Test("AN-11: arranges the seed by URL path")
    func laysSeedOut() throws {
        let (device, fixtures) = try PushedDevice.cordova()
        #expect(try device.restart().name == .embedded)
        #expect(device.warningLines == [])
        #expect(try device.pageVersion() == "version1")
        let template = "app/template.mobileapp.js"
        for (url, path) in [
            ("/some-file", "app/some-file"), ("/some-font.woff", "app/some-font.woff"), ("/\(template)", template),
            (fixtures.sourceMapURL(of: template, in: .version1), "\(template).map"),
        ] {
            #expect(try device.served(url) == fixtures.content(of: path, in: .version1), "\(url)")
        }
        #expect(try device.served("/app/some-file") == nil, "the path of its file is no URL of it")
    }
}
