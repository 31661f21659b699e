import BundleCore
import BundleTestTraits
import BundleTesting
import Glibc
import MeteorSource
import MeteorTesting
import Testing

/// Tests groups R and S of the Cordova suite (METEOR section 8.3): the download of version2 stopped after `some-file` and
/// `some-other-file`.
@Suite("Cordova suite: resumed downloads", .ownThread)
struct CordovaResumeTests {
    let device: PushedDevice
    let fixtures: CordovaFixtures

    init() throws { (device, fixtures) = try PushedDevice.cordova() }

    private func map(_ version: CordovaVersion) -> String {
        fixtures.sourceMapURL(of: "app/template.mobileapp.js", in: version)
    }

    private func interruptVersion2() async throws {
        try device.restart()
        try device.server.serve(version: "version2")
        try await device.interrupt(
            after: ["/some-file", "/some-other-file"], holding: ["/app/template.mobileapp.js", map(.version2)])
        #expect(try device.versionsOnDisk() == [])
        #expect(try device.inventory().ledger.pending == nil)
    }

    // MARK: R: the same version

    @Test("CW-53: does not request complete files again")
    func resumes() async throws {
        try await interruptVersion2()
        try device.server.serve(version: "version2")
        try await device.update()
        #expect(
            device.requests == Requests.of("/manifest.json", "/", "/app/template.mobileapp.js", map(.version2)))
    }

    @Test("CW-54, CW-55: shows version1 until the reload, then version2 with the kept files")
    func showsResumed() async throws {
        try await interruptVersion2()
        try await device.update()
        #expect(try device.pageVersion() == "version1")
        try device.reload()
        #expect(try device.pageVersion() == "version2")
        #expect(try device.text("/some-file") == "some-file (changed)\n")
        #expect(try device.text("/some-other-file") == "some-other-file\n")
    }

    // MARK: S: another version

    @Test("CW-56: does not request unchanged files of another version")
    func resumesForAnother() async throws {
        try await interruptVersion2()
        try device.server.serve(version: "version3")
        try await device.update()
        #expect(
            device.requests
                == Requests.of("/manifest.json", "/", "/app/template.mobileapp.js", map(.version3), "/some-file"))
    }

    @Test("CW-57, CW-58, CW-59: shows version1 until the reload, then version3 with the kept files")
    func showsTheOther() async throws {
        try await interruptVersion2()
        try device.server.serve(version: "version3")
        try await device.update()
        #expect(try device.pageVersion() == "version1")
        try device.reload()
        #expect(try device.pageVersion() == "version3")
        #expect(try device.text("/some-other-file") == "some-other-file\n")
        #expect(try device.text("/some-file") == "some-file (changed again)\n")
    }

    @Test("removes the interrupted attempt after the installation")
    func clearsUp() async throws {
        try await interruptVersion2()
        #expect(access("\(device.store)/downloads/interrupted", F_OK) == 0)
        try await device.update()
        #expect(access("\(device.store)/downloads/interrupted", F_OK) != 0)
    }

    @Test(
        "N-24, P03: requests a kept file again if it is shorter, longer or changed",
        arguments: ["some-file (chan", "some-file (changed)\n\n", "some-file (Changed)\n", ""])
    func refusesTruncated(content: String) async throws {
        try await interruptVersion2()
        try device.folder.write(Array(content.utf8), to: "store/downloads/interrupted/tree/app/some-file")
        try device.server.serve(version: "version2")
        try await device.update()
        #expect(
            device.requests
                == Requests.of("/manifest.json", "/", "/app/template.mobileapp.js", map(.version2), "/some-file"))
        try device.reload()
        #expect(try device.text("/some-file") == "some-file (changed)\n")
    }

    // MARK: Beyond the suite

    @Test("resumes after the process died during a download")
    func diedInTheMiddle() async throws {
        try device.restart()
        try device.server.serve(version: "version2")
        let gate = try Gate()
        for path in ["/app/template.mobileapp.js", map(.version2)] { device.server.fault(path, .hold(gate)) }
        let task = Task { try await device.update() }
        try await device.waitForFinished(["/some-file", "/some-other-file"])
        let folder = try TemporaryFolder()
        try Command.run(["cp", "-a", device.store, folder.file("store")])
        gate.open()
        _ = try await task.value

        let next = try PushedDevice(
            folder, seed: fixtures.seed, versions: [fixtures.versions], tags: .contentDigest)
        try next.server.serve(version: "version2")
        #expect(try next.restart().name == .embedded)
        #expect(try next.pageVersion() == "version1")
        try await next.update()
        #expect(
            next.requests == Requests.of("/manifest.json", "/", "/app/template.mobileapp.js", map(.version2)))
        try next.reload()
        #expect(try next.pageVersion() == "version2")
        #expect(try next.text("/some-file") == "some-file (changed)\n")
    }

    @Test("keeps the files of two interrupted attempts")
    func interruptedTwice() async throws {
        try await interruptVersion2()
        try await device.interrupt(
            after: ["/some-file", "/some-other-file", "/app/template.mobileapp.js"], holding: [map(.version2)])
        try device.server.serve(version: "version2")
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/", map(.version2)))
        try device.reload()
        #expect(try device.text("/some-file") == "some-file (changed)\n")
        #expect(try device.text("/some-other-file") == "some-other-file\n")
        #expect(
            try device.served("/app/template.mobileapp.js")
                == fixtures.content(of: "app/template.mobileapp.js", in: .version2))
    }

    @Test("keeps the files of an interrupted attempt while the seed's version is offered")
    func interruptedThenBack() async throws {
        try await interruptVersion2()
        try device.server.serve(version: "version1")
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json"))
        try device.server.serve(version: "version2")
        try await device.update()
        #expect(
            device.requests == Requests.of("/manifest.json", "/", "/app/template.mobileapp.js", map(.version2)))
    }
}
