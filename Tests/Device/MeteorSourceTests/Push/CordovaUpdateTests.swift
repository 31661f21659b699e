import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import MeteorSource
import MeteorTesting
import Testing

/// Tests groups D and E of the Cordova suite (METEOR section 8.3): all requests with their queries, and exact bytes.
@Suite("Cordova suite: updates", .ownThread)
struct CordovaUpdateTests {
    let device: PushedDevice
    let fixtures: CordovaFixtures

    init() throws { (device, fixtures) = try PushedDevice.cordova() }

    private func map(_ version: CordovaVersion) -> String {
        fixtures.sourceMapURL(of: "app/template.mobileapp.js", in: version)
    }

    /// Shows the seed and downloads version2.
    private func download() async throws {
        try device.restart()
        try device.server.serve(version: "version2")
        try await device.update()
    }

    /// Runs and confirms version2, then serves version3.
    private func activateVersion2(keep: Int = 3) async throws {
        try device.restart()
        try device.server.serve(version: "version2")
        try await device.activate(keep: keep)
        try device.server.serve(version: "version3")
    }

    // MARK: D: the seed to version2

    @Test("CW-27: shows version1 when version2 is ready, and version2 after a reload")
    func switchesOnReload() async throws {
        try device.restart()
        try device.server.serve(version: "version2")
        guard case .installed(let version, _) = try await device.update() else {
            Issue.record("nothing was installed")
            return
        }
        #expect(version.description == "version2")
        #expect(try device.pageVersion() == "version1")
        try device.reload()
        #expect(try device.pageVersion() == "version2")
    }

    @Test("CW-28: requests exactly the manifest, the page and changed files, each once")
    func asksForChangesOnly() async throws {
        try await download()
        #expect(
            device.requests
                == Requests.of(
                    "/manifest.json", "/", "/app/template.mobileapp.js", map(.version2), "/some-file",
                    "/some-other-file"))
    }

    @Test("CW-29: serves unchanged files from the seed and changed files from version2")
    func servesUnchanged() async throws {
        try await download()
        try device.reload()
        #expect(try device.text("/some-text.txt") == "some-text.txt\n")
        #expect(try device.text("/some-file") == "some-file (changed)\n")
        #expect(try device.text("/some-other-file") == "some-other-file\n")
        #expect(
            try device.served("/app/template.mobileapp.js")
                == fixtures.content(of: "app/template.mobileapp.js", in: .version2))
        #expect(
            try device.served(map(.version2)) == fixtures.content(of: "app/template.mobileapp.js.map", in: .version2))
    }

    @Test("CW-30: shows version2 after a restart without a reload")
    func remembersAfterRestart() async throws {
        try await download()
        try device.restart()
        #expect(try device.pageVersion() == "version2")
    }

    // MARK: E: version2 to version3

    @Test("CW-31: shows version2 until the reload, then version3")
    func switchesAgainOnReload() async throws {
        try await activateVersion2()
        try await device.update()
        #expect(try device.pageVersion() == "version2")
        try device.reload()
        #expect(try device.pageVersion() == "version3")
    }

    @Test("CW-32: does not request files of version2 again")
    func linksFromTheLastVersion() async throws {
        try await activateVersion2()
        try await device.update()
        #expect(
            device.requests
                == Requests.of("/manifest.json", "/", "/app/template.mobileapp.js", map(.version3), "/some-file"))
    }

    @Test("CW-33: serves inherited, linked and new files")
    func servesAllKinds() async throws {
        try await activateVersion2()
        try await device.update()
        try device.reload()
        #expect(try device.text("/some-text.txt") == "some-text.txt\n")
        #expect(try device.text("/some-other-file") == "some-other-file\n")
        #expect(try device.text("/some-file") == "some-file (changed again)\n")
    }

    @Test("CW-34, adapted: keeps version2 as the previous version until another version has followed")
    func removesOldVersions() async throws {
        try await activateVersion2(keep: 1)
        try await device.update(keep: 1)
        try device.reload()
        #expect(try device.versionsOnDisk() == ["version2", "version3"])
        try await device.confirm(keep: 1)
        #expect(try device.inventory().ledger.previous?.description == "meteor-version2")
        #expect(try device.versionsOnDisk() == ["version2", "version3"])
        try device.server.serve(version: CordovaVersion.loopbackRootURL.rawValue)
        try await device.activate(keep: 1)
        #expect(try device.versionsOnDisk() == ["127.0.0.1_root_url", "version3"])
    }

    @Test("CW-35: shows version3 after a restart")
    func remembersTheNewerAfterRestart() async throws {
        try await activateVersion2()
        try await device.update()
        try device.restart()
        #expect(try device.pageVersion() == "version3")
    }
}
