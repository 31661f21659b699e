import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import MeteorSource
import MeteorTesting
import Testing

/// The Cordova suite's groups F and G (METEOR section 8.3): the server goes back to the seed's version, or stays where it is.
@Suite("a server that goes back to the seed's version, or does not move", .ownThread)
struct CordovaReversionTests {
    let device: PushedDevice

    init() throws { (device, _) = try PushedDevice.cordova() }

    /// Version2 runs and is good; `version` is served.
    private func activateVersion2(thenServing version: String, keep: Int = 3) async throws {
        try device.restart()
        try device.server.serve(version: "version2")
        try await device.activate(keep: keep)
        try device.server.serve(version: version)
    }

    @Test("CW-36: version2 is shown until the reload, then version1")
    func switchesBackOnReload() async throws {
        try await activateVersion2(thenServing: "version1")
        guard case .chosen(let version, let report) = try await device.update() else {
            Issue.record("the seed was not chosen")
            return
        }
        #expect(version.description == "version1")
        #expect(report.name == .embedded)
        #expect(try device.pageVersion() == "version2")
        try device.reload()
        #expect(try device.pageVersion() == "version1")
    }

    @Test("CW-37: only the manifest is asked for")
    func asksForTheManifestOnly() async throws {
        try await activateVersion2(thenServing: "version1")
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json"))
    }

    @Test("CW-38: the seed's files are served, and nothing that only version2 has")
    func servesTheSeed() async throws {
        try await activateVersion2(thenServing: "version1")
        try await device.update()
        try device.reload()
        #expect(try device.text("/some-text.txt") == "some-text.txt\n")
        #expect(try device.text("/some-file") == "some-file\n")
        #expect(try device.text("/some-other-file") == nil)
    }

    @Test("CW-39: there is no downloaded copy of version1")
    func makesNoCopy() async throws {
        try await activateVersion2(thenServing: "version1")
        try await device.update()
        try device.reload()
        #expect(try device.versionsOnDisk() == ["version2"])
    }

    @Test("CW-40, adapted: version2 stays on the disk as the previous one, and goes when version3 has followed")
    func removesVersion2() async throws {
        try await activateVersion2(thenServing: "version1", keep: 1)
        try await device.update(keep: 1)
        try device.reload()
        try await device.confirm(keep: 1)
        #expect(try device.versionsOnDisk() == ["version2"])
        try device.server.serve(version: "version3")
        try await device.activate(keep: 1)
        #expect(try device.versionsOnDisk() == ["version3"])
    }

    @Test("CW-41: a restart shows version1")
    func remembersTheSeed() async throws {
        try await activateVersion2(thenServing: "version1")
        try await device.update()
        try device.restart()
        #expect(try device.pageVersion() == "version1")
    }

    @Test("CW-42, CW-43: nothing new is no news, and costs the manifest")
    func nothingNew() async throws {
        try await activateVersion2(thenServing: "version2")
        let before = try device.picture()
        guard case .upToDate(let version, _, let newest) = try await device.update() else {
            Issue.record("something was installed")
            return
        }
        #expect(version.description == "version2")
        #expect(newest.description == "meteor-version2")
        #expect(device.requests == Requests.of("/manifest.json"))
        #expect(try device.picture().changes(since: before) == [])
        #expect(try device.inventory().ledger.pending == nil)
    }
}
