import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import MeteorSource
import MeteorTesting
import Testing

/// The Cordova suite's groups D and E (METEOR section 8.3): request multisets with their queries, and exact bytes.
@Suite("hot code push, as the Cordova suite has it", .ownThread)
struct CordovaUpdateTests {
    let device: PushedDevice
    let fixtures: CordovaFixtures

    init() throws { (device, fixtures) = try PushedDevice.cordova() }

    private func map(_ version: CordovaVersion) -> String {
        fixtures.sourceMapURL(of: "app/template.mobileapp.js", in: version)
    }

    /// Shows the seed, and brings version2 without showing it.
    private func download() async throws {
        try device.restart()
        try device.server.serve(version: "version2")
        try await device.update()
    }

    /// Version2 runs and is good; version3 is served.
    private func activateVersion2(keep: Int = 3) async throws {
        try device.restart()
        try device.server.serve(version: "version2")
        try await device.activate(keep: keep)
        try device.server.serve(version: "version3")
    }

    // MARK: D: the seed to version2

    @Test("CW-27: on ready the page is still version1; after a reload it is version2")
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

    @Test("CW-28: exactly the manifest, the page and what has changed is asked for, each once")
    func asksForChangesOnly() async throws {
        try await download()
        #expect(
            device.requests
                == Requests.of(
                    "/manifest.json", "/", "/app/template.mobileapp.js", map(.version2), "/some-file",
                    "/some-other-file"))
    }

    @Test("CW-29: what has not changed is served with the seed's bytes, what has with the new ones")
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

    @Test("CW-30: a restart without a reload shows version2")
    func remembersAfterRestart() async throws {
        try await download()
        try device.restart()
        #expect(try device.pageVersion() == "version2")
    }

    // MARK: E: version2 to version3

    @Test("CW-31: version2 is shown until the reload, then version3")
    func switchesAgainOnReload() async throws {
        try await activateVersion2()
        try await device.update()
        #expect(try device.pageVersion() == "version2")
        try device.reload()
        #expect(try device.pageVersion() == "version3")
    }

    @Test("CW-32: what version2 has already is not asked for")
    func linksFromTheLastVersion() async throws {
        try await activateVersion2()
        try await device.update()
        #expect(
            device.requests
                == Requests.of("/manifest.json", "/", "/app/template.mobileapp.js", map(.version3), "/some-file"))
    }

    @Test("CW-33: inherited, linked and new files are served with their bytes")
    func servesAllKinds() async throws {
        try await activateVersion2()
        try await device.update()
        try device.reload()
        #expect(try device.text("/some-text.txt") == "some-text.txt\n")
        #expect(try device.text("/some-other-file") == "some-other-file\n")
        #expect(try device.text("/some-file") == "some-file (changed again)\n")
    }

    @Test("CW-34, adapted: version2 stays on the disk as the previous one, and goes when another version has followed")
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

    @Test("CW-35: a restart shows version3")
    func remembersTheNewerAfterRestart() async throws {
        try await activateVersion2()
        try await device.update()
        try device.restart()
        #expect(try device.pageVersion() == "version3")
    }
}
