import BundleCore
import BundleValues
import BundleDisk
import BundleTestTraits
import BundleTesting
import MeteorSource
import MeteorTesting
import Testing

/// Tests paths in URLs, changed seeds and small disks.
@Suite("Hot code push: paths, seeds and disks", .ownThread)
struct PlacesTests {
    private func version(_ name: String, _ more: [BundleEntry] = []) -> MeteorBundleBuilder {
        App.bundle(name, [App.script("app.js", "run('\(name)');\n")] + more)
    }

    // MARK: Addresses

    @Test("N-16, P29: keeps the path of ROOT_URL with and without a trailing slash", arguments: ["/", ""])
    func subPath(end: String) async throws {
        let device = try PushedDevice.app(version("v1"), rootPath: "/sub/app") { source in
            let text = source.rootURL.description
            guard let url = try? FetchURL(parsing: String(text.dropLast()) + end) else { return }
            source.rootURL = url
        }
        #expect(try device.source().rootURL.description.hasSuffix("/sub/app" + end))
        try device.restart()
        try device.deploy(version("v2", [App.asset("b c@\u{E9}.txt", "b")]))
        try await device.update()
        #expect(
            device.requests
                == Requests.of(
                    ["/manifest.json", "/", "/app/app.js", "/b%20c%40%C3%A9.txt"], below: "/sub/app"))
        try device.reload()
        #expect(try device.text("/app/app.js") == "run('v2');\n")
        #expect(try device.text("/b c@\u{E9}.txt") == "b")
    }

    @Test(
        "P18: treats root URLs that differ in a slash, the case or a default port as one server",
        arguments: ["http://localhost:3000", "HTTP://LOCALHOST:3000/", "http://localhost:3000//"])
    func normalised(rootURL: String) async throws {
        let device = try PushedDevice.app(version("v1"))
        try device.restart()
        try device.deploy(version("v2").with { $0.page.rootURL = rootURL })
        try await device.activate()
        try device.deploy(version("v3"))
        try await device.activate()
        #expect(try device.pageVersion() == "v3")
        guard case .upToDate = try await device.update() else {
            Issue.record("an endless update")
            return
        }
    }

    @Test("P39: serves a nested index.html unchanged without a check")
    func nestedIndex() async throws {
        let page = "<!DOCTYPE html><html><head><title>docs</title></head><body></body></html>"
        let device = try PushedDevice.app(version("v1"))
        try device.restart()
        try device.deploy(version("v2", [App.asset("docs/index.html", page)]))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/", "/app/app.js", "/docs/index.html"))
        try device.reload()
        #expect(try device.text("/docs/index.html") == page)
        #expect(try device.text("/")?.contains("WebAppLocalServer") == true)
    }

    // MARK: Seeds

    @Test("N-13: removes Meteor versions and their records after a change of the seed, and keeps archives")
    func otherSeed() async throws {
        let old = try PushedDevice.app(version("v1"))
        try old.restart()
        let shell = try SemanticVersion(parsing: "1.0.0")
        _ = try await Updater(
            source: MemorySource(try MemoryOffer("1.2.0")),
            device: .init(store: old.store, shell: shell, appId: nil, keep: 3), environment: Environment()
        ).update()
        try old.deploy(version("v2"))
        try await old.activate()
        try old.deploy(version("v3"))
        try await old.update()
        for _ in 0..<2 {
            try old.restart()
            #expect(try old.pageVersion() == "v3")
            try old.fail()
            try old.restart()
        }
        #expect(try old.versionsOnDisk() == ["v2", "v3"])
        #expect(try !old.inventory().ledger.blocks.isEmpty)

        old.shutDown()

        try version("v4").build().writeBundleLayout(to: old.folder.file("other-seed"))
        let new = try PushedDevice(old.folder, seed: old.folder.file("other-seed"), versions: [])
        try new.restart()
        #expect(try new.versionsOnDisk() == [])
        let left = try new.inventory().bundles.map { $0.name.description }
        #expect(left == ["v1.2.0"])
        #expect(try new.inventory().ledger.blocks == [])
        #expect(try new.text("/")?.contains("client 1.2.0") == true)
        // A version that was blocked with the old seed can be installed again.
        try new.deploy(version("v3"))
        try await new.update()
        try new.reload()
        #expect(try new.text("/app/app.js") == "run('v3');\n")
    }

    // MARK: Small disks

    /// Returns a file of one megabyte, with or without a stated size.
    @Test(
        "N-18: reports a disk that is too small and then installs a version that fits", arguments: [true, false])
    func fullDisk(statesSize: Bool) async throws {
        guard let disk = try SmallDisk() else {
            print("disk full: KNOWN LIMITATION: no tmpfs can be mounted here; not run")
            return
        }
        let elsewhere = try TemporaryFolder()
        let folder = try TemporaryFolder(under: disk.path)
        try version("v1").build().writeBundleLayout(to: folder.file("seed"))
        let device = try PushedDevice(folder, seed: folder.file("seed"), versions: [])
        try device.restart()
        var large = BundleEntry("app/large.bin", url: "/large.bin", .bytes(noise(3_000_000)))
        large.statesSize = statesSize
        try device.deploy(version("v2", [large]), in: elsewhere)
        let before = try device.picture()
        let failure = try await device.failure()
        #expect(failure?.code == .diskFull, "\(failure?.message ?? "no failure")")
        #expect(try device.picture().changes(since: before) == [])
        // Removed files are free after their last descriptor is closed.
        let store = try Directory.open(device.store)
        for _ in 0..<2400 where try store.freeSpace().bytes <= 500_000 { try await Task.sleep(for: .milliseconds(25)) }
        #expect(try store.freeSpace().bytes > 500_000)
        if statesSize { #expect(device.requests == Requests.of("/manifest.json")) }
        try device.deploy(version("v3"), in: elsewhere)
        try await device.update()
        try device.reload()
        #expect(try device.text("/app/app.js") == "run('v3');\n")
    }
}
