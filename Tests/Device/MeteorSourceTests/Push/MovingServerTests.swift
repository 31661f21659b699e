import BundleValues
import BundleCore
import BundleDisk
import BundleTestTraits
import BundleTesting
import MeteorSource
import MeteorTesting
import Testing

/// Tests servers that change at awkward moments (METEOR section 3.6).
@Suite("Hot code push: changing servers", .ownThread)
struct MovingServerTests {
    let device: PushedDevice

    init() throws {
        device = try PushedDevice.app(Self.version("v1"))
        try device.restart()
    }

    /// Returns a version with two files that change in every version, one that the later two share, and `more`.
    private static func version(_ name: String, _ more: [BundleEntry] = []) -> MeteorBundleBuilder {
        let shared = name == "v1" ? "shared" : "shared, since v2"
        return App.bundle(
            name, [App.script("app.js", "run('\(name)');\n"), App.asset("shared.txt", shared)] + more)
    }

    // MARK: Back to the running version

    @Test("N-09: drops a pending update when the server returns to the seed")
    func backToSeed() async throws {
        try device.deploy(Self.version("v2"))
        try await device.update()
        #expect(try device.inventory().ledger.pending?.description == "meteor-v2")
        try device.deploy(Self.version("v1"))
        guard case .upToDate = try await device.update() else {
            Issue.record("something was installed")
            return
        }
        #expect(device.requests == Requests.of("/manifest.json"))
        #expect(try device.inventory().ledger.pending == nil)
        try device.reload()
        #expect(try device.pageVersion() == "v1")
        try device.restart()
        #expect(try device.pageVersion() == "v1")
    }

    @Test("N-09: drops a pending update when the server returns to the current version")
    func backToCurrent() async throws {
        try device.deploy(Self.version("v2"))
        try await device.activate()
        try device.deploy(Self.version("v3"))
        try await device.update()
        #expect(try device.inventory().ledger.pending?.description == "meteor-v3")
        try device.server.serve(version: "v2")
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json"))
        #expect(try device.inventory().ledger.pending == nil)
        try device.restart()
        #expect(try device.pageVersion() == "v2")
    }

    @Test("ends a running download when the server returns to the current version")
    func backWhileDownloading() async throws {
        let gate = try Gate()
        defer { gate.open() }
        try device.publish(Self.version("v1"))
        try device.deploy(Self.version("v2", [App.asset("held.txt", "held")]))
        device.server.fault("/held.txt", .hold(gate))
        let runner = UpdateRunner(try device.updater())
        let first = Task { try await runner.check() }
        try await device.waitForFinished(["/shared.txt"])
        #expect(device.server.wait(for: "/held.txt"))
        #expect(device.server.wait(for: "/app/app.js"))
        try device.server.serve(version: "v1")
        let outcomes = [try await runner.check(), try await first.value]
        for outcome in outcomes {
            guard case .upToDate(let version, _, _) = outcome else {
                Issue.record("\(outcome)")
                continue
            }
            #expect(version.description == "v1")
        }
        #expect(device.requests == Requests.of("/manifest.json"))
        #expect(try device.versionsOnDisk() == [])
        #expect(try device.inventory().ledger.pending == nil)
    }

    // MARK: On to another version

    @Test("N-08: continues with a newer manifest during a download and reuses complete files")
    func newerWhileDownloading() async throws {
        let gate = try Gate()
        defer { gate.open() }
        try device.publish(Self.version("v3", [App.asset("new.txt", "new")]))
        try device.deploy(Self.version("v2", [App.asset("held.txt", "held")]))
        device.server.fault("/held.txt", .hold(gate))
        let runner = UpdateRunner(try device.updater())
        let first = Task { try await runner.check() }
        try await device.waitForFinished(["/shared.txt", "/app/app.js"])
        #expect(device.server.wait(for: "/held.txt"))
        try device.server.serve(version: "v3")
        let outcomes = [try await runner.check(), try await first.value]
        for outcome in outcomes {
            guard case .installed(let version, _) = outcome else {
                Issue.record("\(outcome)")
                continue
            }
            #expect(version.description == "v3")
        }
        #expect(device.requests == Requests.of("/manifest.json", "/", "/app/app.js", "/new.txt"))
        #expect(try device.versionsOnDisk() == ["v3"])
        try device.reload()
        #expect(try device.text("/app/app.js") == "run('v3');\n")
        #expect(try device.text("/shared.txt") == "shared, since v2")
        #expect(try device.text("/new.txt") == "new")
        #expect(try device.text("/held.txt") == nil)
    }

    @Test("SW-33: downloads once for two checks at the same time")
    func joins() async throws {
        let gate = try Gate()
        try device.deploy(Self.version("v2"))
        device.server.fault("/shared.txt", .hold(gate))
        let runner = UpdateRunner(try device.updater())
        let first = Task { try await runner.check() }
        #expect(device.server.wait(for: "/shared.txt"))
        let second = Task { try await runner.check() }
        while device.requests["/__cordova/manifest.json"] != 2 { try await Task.sleep(for: .milliseconds(5)) }
        // The second check joins the download; on a busy machine it can arrive after its end.
        try await Task.sleep(for: .milliseconds(500))
        gate.open()
        for check in [first, second] {
            switch try await check.value {
            case .installed(let version, _), .upToDate(let version, _, _): #expect(version.description == "v2")
            case .chosen, .notInRollout, .waiting: Issue.record("it was not downloaded")
            }
        }
        #expect(
            device.requests == Requests.of("/manifest.json", "/manifest.json", "/", "/app/app.js", "/shared.txt"))
    }

    @Test("checks once more if the page is of another version")
    func deploysBeforePage() async throws {
        try device.publish(Self.version("v3"))
        try device.deploy(Self.version("v2"))
        try device.server.serve(version: "v3", fromRequest: 2)
        guard case .installed(let version, _) = try await device.update() else {
            Issue.record("nothing was installed")
            return
        }
        #expect(version.description == "v3")
        #expect(device.requests == Requests.of("/", "/manifest.json", "/", "/app/app.js", "/shared.txt"))
        try device.reload()
        #expect(try device.text("/app/app.js") == "run('v3');\n")
    }

    @Test("checks once more if the label of a script is of another version")
    func deploysBeforeAsset() async throws {
        let script = { (name: String) in App.bundle(name, [App.script("app.js", "run('\(name)');\n")]) }
        try device.publish(script("v3"))
        try device.deploy(script("v2"))
        try device.server.serve(version: "v3", fromRequest: 3)
        try await device.update()
        #expect(device.requests == Requests.of("/app/app.js", "/manifest.json", "/", "/app/app.js"))
        #expect(try device.versionsOnDisk() == ["v3"])
        try device.reload()
        #expect(try device.text("/app/app.js") == "run('v3');\n")
    }

    @Test("checks once more if a file is missing (404)")
    func deploysWithoutAsset() async throws {
        try device.publish(App.bundle("v3", [App.script("later.js", "run('v3');\n")]))
        try device.deploy(App.bundle("v2", [App.script("app.js", "run('v2');\n")]))
        try device.server.serve(version: "v3", fromRequest: 3)
        try await device.update()
        #expect(device.requests == Requests.of("/app/app.js", "/manifest.json", "/", "/app/later.js"))
        try device.reload()
        #expect(try device.pageVersion() == "v3")
    }

    @Test(
        "N-01, P16: rejects a page of another version than the manifest in every form of the page",
        arguments: [IndexPage.VersionStyle.autoupdateVersions, .autoupdateVersionCordova])
    func otherPage(style: IndexPage.VersionStyle) async throws {
        try device.deploy(
            Self.version("v2").with {
                $0.page.versionStyle = style
                $0.page.version = "v3"
            })
        try await device.expectRefusal(
            .versionMismatch, "expected: v2, actual: v3", requests: Requests.of("/manifest.json", "/manifest.json", "/")
        )
    }

    @Test("accepts a page without a version")
    func silentPage() async throws {
        try device.deploy(Self.version("v2").with { $0.page.versionStyle = .none })
        try await device.update()
        #expect(try device.inventory().ledger.pending?.description == "meteor-v2")
    }

    // MARK: Unreachable servers

    @Test("reports a server that does not answer and changes nothing")
    func offline() async throws {
        device.server.stop()
        try await device.expectRefusal(.networkUnavailable, "Error downloading asset manifest", requests: [:])
    }

    @Test("SW-41: reports the status of a failed manifest request after one attempt")
    func manifestStatus() async throws {
        try device.deploy(Self.version("v2"))
        device.server.fault("/manifest.json", .status(500))
        // Only the caller of `update(following:)` checks once more.
        try await device.expectRefusal(
            .httpStatus, "Non-success status code 500 for asset manifest", requests: Requests.of("/manifest.json"))
    }

    @Test("P19: retries a manifest whose connection ends")
    func manifestRetried() async throws {
        try device.deploy(Self.version("v2"))
        device.server.fault("/manifest.json", .hangUp, times: 2)
        try await device.update()
        #expect(try device.versionsOnDisk() == ["v2"])
    }

    // MARK: Removed files

    @Test("N-19: does not serve a file of the seed that the new version does not list")
    func removedAsset() async throws {
        let device = try PushedDevice.app(Self.version("v1", [App.asset("old.txt", "old")]))
        try device.restart()
        #expect(try device.text("/old.txt") == "old")
        try device.deploy(Self.version("v2"))
        try await device.update()
        try device.reload()
        #expect(try device.text("/old.txt") == nil)
        #expect(try device.text("/shared.txt") == "shared, since v2")
    }

    @Test("requests only the page for a manifest without entries and serves nothing of the seed")
    func noEntries() async throws {
        try device.deploy(App.bundle("v2", []))
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/"))
        try device.reload()
        #expect(try device.pageVersion() == "v2")
        #expect(try device.text("/shared.txt") == nil)
        #expect(try device.text("/app/app.js") == nil)
    }

    @Test("chooses an installed version that failed once in the next check, and runs it after the fallback")
    func failedOnce() async throws {
        try device.deploy(Self.version("v2"))
        try await device.update()
        try device.reload()
        try device.fail()
        device.server.clearRequests()
        try device.server.serve(version: "v2")
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json"))
        #expect(try device.reload().name == .embedded)
        #expect(try device.reload().name.description == "meteor-v2")
        try await device.confirm()
        #expect(try device.restart().name.description == "meteor-v2")
    }

    @Test("N-20: keeps a pending version when it removes old ones")
    func keepsPending() async throws {
        try device.deploy(Self.version("v2"))
        try await device.update(keep: 1)
        try device.reload()
        try device.deploy(Self.version("v3"))
        try await device.update(keep: 1)
        try await device.confirm(keep: 1)
        #expect(try device.inventory().ledger.pending?.description == "meteor-v3")
        #expect(try device.versionsOnDisk().contains("v3"))
        try device.reload()
        #expect(try device.text("/app/app.js") == "run('v3');\n")
    }

    @Test(
        "P02: keeps the files of the shown page while another version is installed and old ones are removed")
    func shownPageStays() async throws {
        let shown = try device.reload()
        try device.deploy(Self.version("v2"))
        try await device.update(keep: 1)
        #expect(try device.text("/app/app.js") == "run('v1');\n")
        #expect(try device.text("/shared.txt") == "shared")
        try device.reload()
        try await device.confirm(keep: 1)
        let root = shown.prepared.client.root.directory
        #expect(try root.contents("app/app.js", maximumBytes: 100) == Array("run('v1');\n".utf8))
    }
}
