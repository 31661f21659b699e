import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import MeteorSource
import MeteorTesting
import Testing

/// The same table on a device, with what it asks the server for; and what becomes of versions that do not start.
@Suite("a device that decides about a hot code push", .ownThread)
struct DecisionTests {
    let device: PushedDevice

    init() throws {
        device = try PushedDevice.app(App.bundle("v1", [App.asset("a.txt", "a")]))
        try device.restart()
    }

    private func version(_ name: String, compatibility: String = "android-1") -> MeteorBundleBuilder {
        App.bundle(name, [App.asset("a.txt", "a of \(name)")]).with {
            $0.compatibility = ["android": .string(compatibility)]
        }
    }

    /// Brings a version and lets its trials fail until it is blocked.
    private func block(_ name: String) async throws {
        try device.deploy(version(name))
        try await device.update()
        for _ in 0..<2 {
            try device.restart()
            #expect(try device.pageVersion() == name)
            try device.fail()
            try device.restart()
        }
        #expect(try device.inventory().ledger.blocks.map(\.version.description) == [name])
    }

    @Test("MD-01, adapted: version3, which did not start, is left for version2, and retried once before it is blocked")
    func fallsBackToGood() async throws {
        try device.deploy(version("v2"))
        try await device.activate()
        try device.deploy(version("v3"))
        try await device.update()
        try device.reload()
        try device.fail()
        #expect(try device.inventory().ledger.pending?.description == "meteor-v2")
        #expect(try device.inventory().ledger.blocks == [])
        #expect(try device.reload().name.description == "meteor-v2")
        #expect(try device.reload().name.description == "meteor-v3")
        try device.fail()
        #expect(try device.inventory().ledger.pending?.description == "meteor-v2")
        #expect(try device.inventory().ledger.blocks.map(\.version.description) == ["v3"])
    }

    @Test("MD-02, adapted: version2, which did not start, is left for the seed, and retried once before it is blocked")
    func fallsBackToSeed() async throws {
        try device.deploy(version("v2"))
        try await device.update()
        try device.reload()
        try device.fail()
        #expect(try device.inventory().ledger.pending == .embedded)
        #expect(try device.inventory().ledger.blocks == [])
        #expect(try device.reload().name == .embedded)
        #expect(try device.reload().name.description == "meteor-v2")
        try device.fail()
        #expect(try device.inventory().ledger.pending == .embedded)
        #expect(try device.inventory().ledger.blocks.map(\.version.description) == ["v2"])
    }

    @Test("MD-03, AN-09: a blocked version costs the manifest and is told")
    func blocked() async throws {
        try await block("v2")
        try device.server.serve(version: "v2")
        try await device.expectRefusal(.versionBlocked, "blacklisted version", requests: Requests.of("/manifest.json"))
    }

    @Test("a blocked version is told as blocked, compatible or not")
    func blockBeatsCompatibility() async throws {
        try await block("v2")
        try device.deploy(version("v2", compatibility: "android-2"), as: "incompatible v2")
        try await device.expectRefusal(.versionBlocked, "blacklisted version", requests: Requests.of("/manifest.json"))
    }

    @Test("the seed's version for another shell is incompatible")
    func compatibilityBeatsSeed() async throws {
        try device.deploy(version("v2"))
        try await device.activate()
        try device.deploy(version("v1", compatibility: "android-2"))
        try await device.expectRefusal(
            .unsuitableBundle, "potentially incompatible", requests: Requests.of("/manifest.json"))
    }

    @Test("a version on the disk is incompatible when it is offered for another shell")
    func compatibilityBeatsDisk() async throws {
        try device.deploy(version("v2"))
        try await device.activate()
        try device.deploy(version("v3"))
        try await device.activate()
        #expect(try device.versionsOnDisk() == ["v2", "v3"])
        try device.deploy(version("v2", compatibility: "android-2"), as: "incompatible v2")
        try await device.expectRefusal(
            .unsuitableBundle, "potentially incompatible", requests: Requests.of("/manifest.json"))
    }

    @Test("a version on the disk is chosen without a download")
    func choosesFromDisk() async throws {
        try device.deploy(version("v2"))
        try await device.activate()
        try device.deploy(version("v3"))
        try await device.activate()
        try device.server.serve(version: "v2")
        guard case .chosen = try await device.update() else {
            Issue.record("v2 was not chosen")
            return
        }
        #expect(device.requests == Requests.of("/manifest.json"))
        try device.reload()
        #expect(try device.text("/a.txt") == "a of v2")
    }

    @Test("the current version is no news, whatever compatibility it is offered with")
    func currentBeatsCompatibility() async throws {
        try device.deploy(version("v2"))
        try await device.activate()
        try device.deploy(version("v2", compatibility: "android-2"), as: "incompatible v2")
        guard case .upToDate = try await device.update() else {
            Issue.record("v2 was news")
            return
        }
        #expect(device.requests == Requests.of("/manifest.json"))
    }

    @Test("N-12: failed, retried and blocked across restarts; a later version is taken")
    func blockedAcrossRestarts() async throws {
        try await block("v2")
        for _ in 0..<3 { #expect(try device.restart().name == .embedded) }
        try device.deploy(version("v3"))
        try await device.update()
        try device.reload()
        #expect(try device.text("/a.txt") == "a of v3")
    }

    @Test("N-12: a shell that dies in the trial counts as a failed start, twice and no more")
    func diesInTrial() async throws {
        try device.deploy(version("v2"))
        try await device.update()
        let names = try (0..<6).map { _ in try device.restart().name.description }
        #expect(names == ["meteor-v2", "embedded", "meteor-v2", "embedded", "embedded", "embedded"])
        #expect(try device.inventory().ledger.blocks.map(\.version.description) == ["v2"])
    }

    @Test("N-11: after a failed start a restart shows the last known good version, not the seed and not the faulty one")
    func restartsGood() async throws {
        try device.deploy(version("v2"))
        try await device.activate()
        try device.deploy(version("v3"))
        try await device.update()
        try device.reload()
        try device.fail()
        #expect(try device.restart().name.description == "meteor-v2")
        // The one retry; where that fails too, v2 stays.
        #expect(try device.restart().name.description == "meteor-v3")
        try device.fail()
        for _ in 0..<3 { #expect(try device.restart().name.description == "meteor-v2") }
        #expect(try device.text("/a.txt") == "a of v2")
    }
}
