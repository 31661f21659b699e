import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import MeteorSource
import MeteorTesting
import Testing

/// Tests groups F and G of the Cordova suite (METEOR section 8.3): the server returns to the seed's version, or does not
/// change.
@Suite("Cordova suite: returns to the seed", .ownThread)
struct CordovaReversionTests {
    let device: PushedDevice

    init() throws { (device, _) = try PushedDevice.cordova() }

    /// Runs and confirms version2, then serves `version`.
    private func activateVersion2(thenServing version: String, keep: Int = 3) async throws {
        try device.restart()
        try device.server.serve(version: "version2")
        try await device.activate(keep: keep)
        try device.server.serve(version: version)
    }

    @Test("CW-36: shows version2 until the reload, then version1")
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

    @Test("CW-37: requests only the manifest")
    func asksForTheManifestOnly() async throws {
        try await activateVersion2(thenServing: "version1")
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json"))
    }

    @Test("CW-38: serves the files of the seed and none of version2")
    func servesTheSeed() async throws {
        try await activateVersion2(thenServing: "version1")
        try await device.update()
        try device.reload()
        #expect(try device.text("/some-text.txt") == "some-text.txt\n")
        #expect(try device.text("/some-file") == "some-file\n")
        #expect(try device.text("/some-other-file") == nil)
    }

    @Test("CW-39: does not download version1")
    func makesNoCopy() async throws {
        try await activateVersion2(thenServing: "version1")
        try await device.update()
        try device.reload()
        #expect(try device.versionsOnDisk() == ["version2"])
    }

    @Test("CW-40, adapted: keeps version2 as the previous version until version3 has followed")
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

    @Test("CW-41: shows version1 after a restart")
    func remembersTheSeed() async throws {
        try await activateVersion2(thenServing: "version1")
        try await device.update()
        try device.restart()
        #expect(try device.pageVersion() == "version1")
    }

    @Test("CW-42, CW-43: reports nothing and requests only the manifest if nothing is new")
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
