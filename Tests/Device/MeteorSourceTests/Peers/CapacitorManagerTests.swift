import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import MeteorTesting
import Testing

/// Tests the bundle manager of the Capacitor plugin (METEOR section 8.5): all requests with their queries, and exact
/// bytes.
@Suite("CapacitorManager", .ownThread)
struct CapacitorManagerTests {
    @Test("SW-13: serves the listed files of the bundle or the seed, and no other files of the seed")
    func inheritsFromSeed() async throws {
        let seed = try MeteorBundle.capacitor(
            "v-initial", ["app/shared.js": "shared", "app/changed.js": "old", "app/gone.js": "gone"])
        let device = try PushedDevice.capacitor(
            seed: seed,
            try .capacitor("v1", ["app/shared.js": "shared", "app/changed.js": "new", "app/child.js": "child"]))
        try device.restart()
        try await device.update()
        #expect(device.requests == expectedRequests("/app/changed.js", "/app/child.js"))
        try device.reload()
        #expect(try device.served("/app/shared.js") == Array("shared".utf8))
        #expect(try device.served("/app/changed.js") == Array("new".utf8))
        #expect(try device.served("/app/child.js") == Array("child".utf8))
        // The manifest decides; the peers still serve this file.
        #expect(try device.served("/app/gone.js") == nil)
        #expect(device.stored("app/shared.js", of: "v1") == nil, "inherited, not copied")
        #expect(device.stored("app/changed.js", of: "v1") == Array("new".utf8))
    }

    @Test("SW-27: downloads, stores and reports a new version")
    func storesNewVersion() async throws {
        let bundle = try MeteorBundle.capacitor("v1", ["app/main.js": "main()", "app/style.css": "b { }"])
        let device = try PushedDevice.capacitor(bundle)
        try device.restart()
        guard case .installed(let version, let report) = try await device.update() else {
            Issue.record("nothing was installed")
            return
        }
        #expect(version.description == "v1")
        #expect(report.pending == report.name)
        #expect(device.requests == expectedRequests("/app/main.js", "/app/style.css"))
        #expect(try device.versionsOnDisk() == ["v1"])
        #expect(
            try TreeSnapshot(of: "\(device.store)/meteor/v1").files == [
                "program.json": bundle.manifest, "index.html": bundle.page, "app/main.js": Array("main()".utf8),
                "app/style.css": Array("b { }".utf8),
            ])
    }

    @Test("SW-28: selects the seed for the seed's own version")
    func answersWithSeed() async throws {
        let device = try PushedDevice.capacitor()
        try device.restart()
        guard case .upToDate(let version, _, let newest) = try await device.update() else {
            Issue.record("something was done")
            return
        }
        #expect(version.description == "v-initial")
        #expect(newest == .embedded)
        #expect(device.requests == expectedRequests(page: 0))
        #expect(try device.versionsOnDisk() == [])
    }

    @Test("SW-29: selects an installed version after one request")
    func answersWithInstalled() async throws {
        let device = try PushedDevice.capacitor(try .capacitor("v1", ["app/main.js": "main()"]))
        try device.restart()
        try await device.update()
        let before = try TreeSnapshot(of: device.store)
        try device.server.serve(version: "v1")
        guard case .upToDate(let version, let inventory, let newest) = try await device.update() else {
            Issue.record("it was downloaded again")
            return
        }
        #expect(version.description == "v1")
        #expect(newest == inventory.bundles.first?.name)
        #expect(inventory.ledger.pending == newest)
        #expect(device.requests == expectedRequests(page: 0))
        #expect(try TreeSnapshot(of: device.store).changes(since: before) == [])
    }

    @Test("SW-30, SW-31: downloads only changed files of a second version")
    func downloadsChangesOnly() async throws {
        let device = try PushedDevice.capacitor(
            try .capacitor("v1", ["app/shared.js": "shared", "app/changed.js": "one"]),
            try .capacitor("v2", ["app/shared.js": "shared", "app/changed.js": "two"]))
        try device.restart()
        try await device.follow("v1")
        try device.server.serve(version: "v2")
        try await device.update()
        #expect(device.requests == expectedRequests("/app/changed.js"))
        try device.reload()
        #expect(try device.pageVersion() == "v2")
        #expect(try device.served("/app/shared.js") == Array("shared".utf8))
        #expect(try device.served("/app/changed.js") == Array("two".utf8))
        #expect(device.stored("app/changed.js", of: "v1") == Array("one".utf8))
    }

    @Test("SW-32, AN-10: writes nothing if the running version is offered")
    func leavesCurrent() async throws {
        let device = try PushedDevice.capacitor(try .capacitor("v1", ["app/main.js": "main()"]))
        try device.restart()
        try await device.follow("v1")
        let before = try TreeSnapshot(of: device.store)
        try device.server.serve(version: "v1")
        guard case .upToDate(_, _, let newest) = try await device.update() else {
            Issue.record("it was taken")
            return
        }
        #expect(newest.description == "meteor-v1")
        #expect(device.requests == expectedRequests(page: 0))
        #expect(try TreeSnapshot(of: device.store).changes(since: before) == [])
    }

    @Test("SW-33: downloads once for two checks at the same time and reports to both")
    func joinsChecks() async throws {
        let device = try PushedDevice.capacitor(try .capacitor("v1", ["app/main.js": "main()"]))
        try device.restart()
        let gate = try Gate()
        device.server.fault("/app/main.js", .hold(gate))
        let runner = UpdateRunner(try device.updater())
        let first = Task { try await runner.check() }
        while device.requests != expectedRequests("/app/main.js") { try await Task.sleep(for: .milliseconds(5)) }
        let second = Task { try await runner.check() }
        while device.requests["/__cordova/manifest.json"] != 2 { try await Task.sleep(for: .milliseconds(5)) }
        // Gives the second check time to request the running download.
        try await Task.sleep(for: .milliseconds(200))
        gate.open()
        for check in [first, second] {
            switch try await check.value {
            case .installed(let version, _), .upToDate(let version, _, _): #expect(version.description == "v1")
            case .chosen, .notInRollout, .waiting: Issue.record("it was not downloaded")
            }
        }
        #expect(device.requests == expectedRequests("/app/main.js", manifest: 2))
        #expect(try device.versionsOnDisk() == ["v1"])
    }

    @Test("AN-07: rejects a path outside the bundle before it requests or writes anything")
    func refusesEscapes() async throws {
        let device = try PushedDevice.capacitor(
            try .capacitor("v1", ["app/main.js": "main()"]) { builder in
                builder.entries.append(BundleEntry("../escape.js", url: "/escape.js", type: "js", .text("out")))
            })
        try device.restart()
        let before = try TreeSnapshot(of: device.folder.path)
        let failure = try #require(try await device.failure())
        #expect(failure.code == .manifestMalformed)
        #expect(failure.subject == "manifest[1].path")
        #expect(device.requests == expectedRequests(page: 0))
        #expect(try TreeSnapshot(of: device.folder.path).changes(since: before) == [])
        try device.expectNothingCame()
    }

    @Test("AN-08: does not download a version for another shell")
    func refusesOtherCompatibility() async throws {
        let device = try PushedDevice.capacitor(
            try .capacitor("v1", ["app/main.js": "main()"]) { builder in
                builder.compatibility = ["ios": .string("ios-1"), "android": .string("android-2")]
            })
        try device.restart()
        let failure = try #require(try await device.failure())
        #expect(failure.code == .unsuitableBundle)
        #expect(failure.subject == "unsuitableAssetBundle")
        #expect(failure.message.contains("potentially incompatible"))
        #expect(device.requests == expectedRequests(page: 0))
        try device.expectNothingCame()
    }

    @Test("AN-09: does not download a version that failed twice, but downloads the next one")
    func refusesBlocked() async throws {
        let device = try PushedDevice.capacitor(
            try .capacitor("v1", ["app/main.js": "bad()"]), try .capacitor("v2", ["app/main.js": "good()"]))
        try device.server.serve(version: "v1")
        try device.restart()
        try await device.update()
        for _ in 0..<2 {
            #expect(try device.reload().name.description == "meteor-v1")
            try device.fail()
            #expect(try device.reload().name == .embedded)
        }
        try device.server.serve(version: "v1")
        let failure = try #require(try await device.failure())
        #expect(failure.code == .versionBlocked)
        #expect(failure.message.hasPrefix("Skipping downloading blacklisted version"))
        #expect(device.requests == expectedRequests(page: 0))
        #expect(try device.reload().name == .embedded)
        try await device.follow("v2")
        #expect(try device.pageVersion() == "v2")
        #expect(try device.served("/app/main.js") == Array("good()".utf8))
    }
}
