import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import MeteorSource
import MeteorTesting
import Testing

/// Tests the decisions on a device with their requests, and versions that do not start.
@Suite("Hot code push: decisions", .ownThread)
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

    /// Installs a version and lets its starts fail until it is blocked.
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

    @Test("MD-01, adapted: returns from a failed version3 to version2 and retries once before it blocks version3")
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

    @Test("MD-02, adapted: returns from a failed version2 to the seed and retries once before it blocks version2")
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

    @Test("MD-03, AN-09: requests only the manifest for a blocked version and reports it")
    func blocked() async throws {
        try await block("v2")
        try device.server.serve(version: "v2")
        try await device.expectRefusal(.versionBlocked, "blacklisted version", requests: Requests.of("/manifest.json"))
    }

    @Test("reports a blocked version whether it is compatible or not")
    func blockBeatsCompatibility() async throws {
        try await block("v2")
        try device.deploy(version("v2", compatibility: "android-2"), as: "incompatible v2")
        try await device.expectRefusal(.versionBlocked, "blacklisted version", requests: Requests.of("/manifest.json"))
    }

    @Test("rejects the seed's version if it is offered for another shell")
    func compatibilityBeatsSeed() async throws {
        try device.deploy(version("v2"))
        try await device.activate()
        try device.deploy(version("v1", compatibility: "android-2"))
        try await device.expectRefusal(
            .unsuitableBundle, "potentially incompatible", requests: Requests.of("/manifest.json"))
    }

    @Test("rejects an installed version if it is offered for another shell")
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

    @Test("chooses an installed version without a download")
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

    @Test("reports nothing for the current version with any compatibility version")
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

    @Test("N-12: fails, retries and blocks a version across restarts, and accepts a later one")
    func blockedAcrossRestarts() async throws {
        try await block("v2")
        for _ in 0..<3 { #expect(try device.restart().name == .embedded) }
        try device.deploy(version("v3"))
        try await device.update()
        try device.reload()
        #expect(try device.text("/a.txt") == "a of v3")
    }

    @Test("N-12: counts the death of the shell in a trial as a failed start")
    func diesInTrial() async throws {
        try device.deploy(version("v2"))
        try await device.update()
        let names = try (0..<6).map { _ in try device.restart().name.description }
        #expect(names == ["meteor-v2", "embedded", "meteor-v2", "embedded", "embedded", "embedded"])
        #expect(try device.inventory().ledger.blocks.map(\.version.description) == ["v2"])
    }

    @Test("N-11: shows the last confirmed version after a failed start and a restart")
    func restartsGood() async throws {
        try device.deploy(version("v2"))
        try await device.activate()
        try device.deploy(version("v3"))
        try await device.update()
        try device.reload()
        try device.fail()
        #expect(try device.restart().name.description == "meteor-v2")
        // The only retry. If it fails too, v2 stays.
        #expect(try device.restart().name.description == "meteor-v3")
        try device.fail()
        for _ in 0..<3 { #expect(try device.restart().name.description == "meteor-v2") }
        #expect(try device.text("/a.txt") == "a of v2")
    }
}
