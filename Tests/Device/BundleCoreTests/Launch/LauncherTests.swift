import BundleDisk
import BundleTesting
import Glibc
import Testing

@testable import BundleCore
import BundleValues

struct LauncherTests {
    // MARK: Launches

    @Test func `shows the seed without a trial on a device without clients`() throws {
        let bench = try LaunchBench()
        let launched = try bench.launch()
        #expect(launched.name == .embedded)
        #expect(!launched.isTrial)
        #expect(launched.prepared.choice.reason == .onlyOne)
        #expect(launched.prepared.client.source == "embedded")
        #expect(try launched.page.contains("seed 1"))
        #expect(try hasShim(launched.page))
        #expect(bench.warnings.lines == [])
    }

    @Test func `a launch is stored when it returns, but its token is not`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        let launched = try bench.launch(shell: "1.2.3")
        #expect(launched.isTrial)
        #expect(launched.prepared.client.source == "archive")
        let ledger = try bench.ledger()
        let written = try #require(ledger.launch)
        #expect(written.name == launched.name)
        #expect(written.isOpenTrial)
        #expect(written.tokenSha256 == (try launched.token.digest()))
        #expect(ledger.shell?.description == "1.2.3")
        #expect(launched.token.text.count == 64)
        #expect(try bench.text("ledger.json")?.contains(launched.token.text) == false)
        #expect(try bench.launch().token != launched.token)
    }

    @Test func `fails a trial without a verdict at the next start, and retries it once`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        let version: ClientVersion = try Sample.version("1.0.0")
        #expect(try bench.launch().name == .installed(version))
        #expect(try bench.ledger().standing(of: version) == .trial)
        let fallen = try bench.launch()
        #expect(fallen.name == .embedded)
        #expect(fallen.prepared.choice.reason == .fallback(failed: .installed(version)))
        #expect(try bench.ledger().record(of: version)?.failures.map(\.cause) == [.interrupted])
        let again = try bench.launch()
        #expect(again.name == .installed(version))
        #expect(again.isTrial)
        guard case .retry = again.prepared.choice.reason else {
            Issue.record("\(again.prepared.choice.reason)")
            return
        }
        #expect(try bench.launch().name == .embedded)
        let block = try #require(try bench.ledger().block(on: version))
        #expect(block.cause == .failedStarts)
        #expect(block.count == 2)
        for _ in 0..<3 { #expect(try bench.launch().name == .embedded) }
    }

    @Test func `a confirmed client is not on trial again and may end at any time`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        let name = try bench.launchAndConfirm()
        #expect(try bench.ledger().lastKnownGood == name)
        for _ in 0..<3 {
            let launched = try bench.launch()
            #expect(launched.name == name)
            #expect(!launched.isTrial)
        }
        #expect(try bench.ledger().record(of: try Sample.version("1.0.0"))?.failures == [])
    }

    @Test func `falls back to the last known good client instead of the next lower one`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        try await bench.install("1.1.0")
        try await bench.install("1.2.0")
        let fall = try bench.launchAndFail()
        #expect(fall.next?.name.description == "v1.0.0")
        #expect(fall.failures == 1)
        #expect(fall.block == nil)
        #expect(try bench.ledger().pending?.description == "v1.0.0")
        let launched = try bench.launch()
        #expect(launched.name.description == "v1.0.0")
        #expect(!launched.isTrial)
        #expect(try bench.launch().name.description == "v1.2.0")
    }

    @Test func `a fallback that was never confirmed is on trial`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        let device = try bench.device(seed: nil)
        #expect(try bench.launcher(device).launch().name.description == "v1.1.0")
        let launched = try bench.launcher(device).launch()
        #expect(launched.name.description == "v1.0.0")
        #expect(launched.isTrial)
    }

    @Test func `retries a failed client without a seed until it is blocked`()
        async throws
    {
        let bench = try await LaunchBench(installing: "1.0.0")
        let device = try bench.device(seed: nil)
        #expect(try bench.launcher(device).launch().name.description == "v1.0.0")
        let again = try bench.launcher(device).launch()
        #expect(again.prepared.choice.reason == .onlyOne)
        let failure = #expect(throws: UpdateFailure.self) { try bench.launcher(device).launch() }
        #expect(failure?.code == .versionBlocked)
    }

    @Test func `an installation is current before the first launch and pending after it`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        #expect(try bench.ledger().current.description == "v1.0.0")
        #expect(try bench.ledger().pending == nil)
        _ = try bench.launch()
        try await bench.install("1.1.0")
        #expect(try bench.ledger().current.description == "v1.0.0")
        #expect(try bench.ledger().pending?.description == "v1.1.0")
    }

    @Test func `another seed forgets failed starts but keeps blocks by hand`()
        async throws
    {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0", "1.2.0")
        try bench.editLedger {
            $0.block(Ledger.Block(version: $0.entries[1].version, cause: .byHand, reason: "x", count: 0, since: .now))
        }
        for _ in 0..<5 { _ = try bench.launch() }
        #expect(try bench.ledger().block(on: try Sample.version("1.2.0"))?.cause == .failedStarts)
        try bench.seed("seed 2")
        let launched = try bench.launcher(try bench.device(seed: bench.path("seed"))).launch()
        #expect(launched.name.description == "v1.2.0")
        #expect(launched.isTrial)
        let ledger = try bench.ledger()
        #expect(ledger.records == [])
        #expect(ledger.blocks.map(\.version.description) == ["1.1.0"])
        #expect(ledger.lastKnownGood == .embedded)
    }

    @Test func `the first seed of a store forgets nothing`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        #expect(try bench.launcher(try bench.device(seed: nil)).launch().name.description == "v1.0.0")
        #expect(try bench.launch().name == .embedded)
        #expect(try bench.ledger().record(of: try Sample.version("1.0.0"))?.failures.count == 1)
    }

    @Test func `a page that asks for another client does not fail its own trial`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        let launcher = try bench.launcher()
        _ = try launcher.launch()
        try await bench.install("1.1.0")
        let next = try launcher.prepare()
        #expect(next.choice.name.description == "v1.1.0")
        _ = try #require(try launcher.begin(next))
        #expect(try bench.ledger().record(of: try Sample.version("1.0.0")) == nil)
        #expect(try bench.ledger().previous?.description == "v1.0.0")
        #expect(try bench.text("clients/previousVersion") == "v1.0.0\n")
    }

    @Test func `refuses to launch a client that was blocked or removed after its preparation`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        let launcher = try bench.launcher()
        let prepared = try launcher.prepare()
        _ = try bench.verdicts().rollBack(to: try Sample.name("1.0.0"))
        #expect(try launcher.begin(prepared) == nil)
        #expect(try launcher.launch().name.description == "v1.0.0")
        let gone = try launcher.prepare()
        try bench.editLedger { $0.forget(gone.choice.name.version ?? $0.entries[0].version) }
        #expect(try launcher.begin(gone) == nil)
    }

    @Test func `prepares a client for display without a launch, unless it is blocked or unknown`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        let launcher = try bench.launcher()
        #expect(try launcher.ready(try Sample.name("1.0.0"))?.name.description == "v1.0.0")
        #expect(try launcher.ready(.embedded)?.source == "embedded")
        #expect(try launcher.ready(try Sample.name("9.0.0")) == nil)
        _ = try bench.verdicts().rollBack(to: try Sample.name("1.0.0"))
        #expect(try launcher.ready(try Sample.name("1.1.0")) == nil)
        #expect(try bench.ledger().launch == nil)
    }

    // MARK: Other processes

    @Test func `does not start trials while the disk refuses writes`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        let launcher = try bench.launcher()
        #expect(try launcher.prepare().choice.name.description == "v1.0.0")
        launcher.refuseTrials()
        let prepared = try launcher.prepare()
        #expect(prepared.choice.name == .embedded)
        // A recorded launch allows trials again.
        #expect(try launcher.begin(prepared)?.isRecorded == true)
        #expect(try launcher.prepare().choice.name.description == "v1.0.0")
    }

    @Test func `refuses a second shell while the first one runs`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        do {
            let first = try bench.launcher()
            let failure = #expect(throws: UpdateFailure.self) { try bench.launcher() }
            #expect(failure?.code == .storeLocked)
            // The second shell did not end the first one's trial.
            _ = try first.launch()
            #expect(throws: UpdateFailure.self) { try bench.launcher() }
            #expect(try bench.ledger().launch?.isOpenTrial == true)
        }
        _ = try bench.launcher()
    }

    @Test func `a launch and a verdict do not wait for an installation`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0", "1.2.0")
        let lock = try #require(try FileLock.take("lock", in: try bench.root()))
        let launched = try bench.launch()
        #expect(launched.name.description == "v1.2.0")
        #expect(try !bench.verdicts().confirm(launched.name, launched.token))
        #expect(await (try bench.verdicts()).retain(1) == nil)
        #expect(try bench.names("clients").count == 4)
        withExtendedLifetime(lock) {}
    }

    @Test func `retention keeps a client that is shown`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0", "1.2.0", "1.3.0")
        do {
            let launcher = try bench.launcher()
            let look = try #require(try launcher.ready(try Sample.name("1.0.0")))
            let plan = try await bench.open().retain(keeping: 1)
            #expect(plan.retained.map(\.shortDescription) == ["1.0.0", "1.2.0", "1.3.0"])
            #expect(plan.removed.map(\.shortDescription) == ["1.1.0"])
            #expect(plan.shown.map(\.shortDescription) == ["1.0.0"])
            #expect(try look.root.directory.kind(of: "index.html") != nil)
        }
        #expect(try await bench.open().retain(keeping: 1).removed.map(\.shortDescription) == ["1.0.0"])
        #expect(try bench.names("serving") == [])
    }

    // MARK: Damage

    @Test func `skips and removes a damaged client if files are verified, until it is installed again`()
        async throws
    {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        try bench.overwrite("clients/v1.1.0/assets/app.js", Array("evil".utf8))
        #expect(try bench.launcher().prepare().choice.name.description == "v1.1.0")
        let launched = try bench.launcher(verifies: true).launch()
        #expect(launched.name.description == "v1.0.0")
        #expect(bench.warnings.lines.contains { $0.contains("v1.1.0, assets/app.js has other content") })
        #expect(try bench.names("clients") == ["previousVersion", "v1.0.0"])
        #expect(try bench.names("receipts") == ["v1.0.0.json"])
        _ = try bench.verdicts().confirm(launched.name, launched.token)
        try await bench.install("1.1.0")
        let again = try bench.launcher(verifies: true).launch()
        #expect(again.name.description == "v1.1.0")
        #expect(again.isTrial)
        #expect(
            try again.prepared.client.root.directory.contents("assets/app.js", maximumBytes: 99)
                == Array("run(\"1.1.0\")".utf8))
    }

    @Test func `recreates a damaged serving root if files are verified`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        try bench.overwrite("serving/archive-1.0.0/index.html", Array("evil".utf8))
        #expect(try bench.launch().page == "evil")
        #expect(try bench.launcher(verifies: true).launch().page.contains("client 1.0.0"))
    }

    @Test func `skips a damaged client but keeps it during an installation`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        try bench.overwrite("clients/v1.1.0/assets/app.js", Array("evil".utf8))
        let lock = try #require(try FileLock.take("lock", in: try bench.root()))
        #expect(try bench.launcher(verifies: true).launch().name.description == "v1.0.0")
        #expect(try bench.names("clients").contains("v1.1.0"))
        withExtendedLifetime(lock) {}
    }

    @Test func `skips a client that cannot be prepared, with a warning`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        try await bench.install(try MemoryOffer("1.1.0", files: ["app.js": "no page"]))
        let launched = try bench.launch()
        #expect(launched.name.description == "v1.0.0")
        #expect(bench.warnings.lines.count == 1)
        #expect(bench.warnings.lines.first?.contains("v1.1.0 is skipped") == true)
    }

    @Test func `skips a client whose page cannot be read`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        // The page is a folder, since root can read files without permissions.
        try bench.remove("clients/v1.1.0/index.html")
        try bench.root().directory("clients/v1.1.0").makeDirectory("index.html")
        #expect(try bench.launch().name.description == "v1.0.0")
        #expect(bench.warnings.lines.contains { $0.contains("v1.1.0 is skipped") })
    }

    @Test func `warns about a missing seed if a client can run, and fails if none can`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        let device = try bench.device(seed: bench.path("no-seed"))
        #expect(try bench.launcher(device).launch().name.description == "v1.0.0")
        #expect(bench.warnings.lines.count == 1)
        #expect(bench.warnings.lines.first?.contains("The seed cannot be opened") == true)
        let empty = try LaunchBench()
        let none = try empty.device(seed: empty.path("no-seed"))
        let failure = #expect(throws: UpdateFailure.self) { try empty.launcher(none).launch() }
        #expect(failure?.code == .configInvalid)
        #expect(failure?.message.contains("nothing to launch") == true)
        #expect(failure?.message.contains("no seed was named") == false, "one was")
        #expect(failure?.message.contains("\n") == false)
    }

    @Test func `refuses a seed without a page`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        try bench.root().makeDirectory("hollow")
        _ = try bench.launcher(try bench.device(seed: bench.store + "/hollow")).launch()
        #expect(bench.warnings.lines.first?.contains("has no index.html") == true)
    }

    @Test func `recreates the serving root of a seed whose files were replaced`() throws {
        let bench = try LaunchBench()
        let seed = try bench.seed()
        let old = try bench.launch().prepared.client.root.name
        #expect(try bench.launch().prepared.client.root.name == old)
        // The page is unchanged, so the seed is the same. Only a file in a folder was replaced.
        let assets = try Directory.open(seed).directory("assets")
        try Array("newer".utf8).withUnsafeBytes { try assets.createFile("app.new", with: $0) }
        try assets.rename("app.new", to: "app.js")
        var times = [timespec(tv_sec: 1_000_000_000, tv_nsec: 1), timespec(tv_sec: 1_000_000_000, tv_nsec: 1)]
        #expect(utimensat(AT_FDCWD, seed + "/assets", &times, 0) == 0)
        let launched = try bench.launcher(try bench.device(seed: seed)).launch()
        #expect(launched.prepared.client.root.name != old)
        #expect(try bench.names("serving") == [launched.prepared.client.root.name])
        #expect(
            try launched.prepared.client.root.directory.contents("assets/app.js", maximumBytes: 99)
                == Array("newer".utf8))
        #expect(try bench.launch(shell: "1.0.1").prepared.client.root.name != launched.prepared.client.root.name)
    }

    @Test func `recreates the serving root of a client that was removed and installed again`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        try bench.remove("clients/v1.0.0")
        try await bench.install(try MemoryOffer("1.0.0", files: ["index.html": "another", "x.js": "x"]))
        let launched = try bench.launch()
        #expect(try launched.page.contains("another"))
        #expect(launched.isTrial)
    }

    @Test func `removes the serving root of a removed client during recovery`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        _ = try bench.launchAndConfirm()
        #expect(try bench.names("serving") == ["archive-1.1.0"])
        try bench.remove("clients/v1.1.0")
        _ = try bench.open()
        #expect(try bench.names("serving") == [])
    }

    @Test func `sets a damaged ledger aside and shows a client`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        _ = try bench.launchAndConfirm()
        let good = Array((try bench.text("ledger.json") ?? "").utf8)
        var spoilt = stride(from: 0, to: good.count - 1, by: 97).map { Array(good[..<$0]) }
        var generator = SeededGenerator(seed: 0xDA)
        spoilt.append((0..<2000).map { _ in UInt8.random(in: 0...255, using: &generator) })
        for bytes in spoilt {
            try bench.overwrite("ledger.json", bytes)
            let launched = try bench.launch()
            #expect(launched.name.description == "v1.1.0")
            #expect(launched.isTrial)
            #expect(bench.warnings.lines.contains { $0.contains("ledger.json.damaged") })
            let kept = try bench.root().contents("ledger.json.damaged", maximumBytes: 1 << 20)
            #expect(kept == bytes)
            #expect(try bench.ledger().entries.map(\.version.description) == ["1.0.0", "1.1.0"])
        }
    }

    @Test func `refuses a store that every user may write to`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        #expect(chmod(bench.store, 0o777) == 0)
        let failure = #expect(throws: UpdateFailure.self) { try bench.launch() }
        #expect(failure?.code == .permissionDenied)
    }

    @Test func `removes the files of an interrupted organizer when a shell starts`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.open()
        for name in [".new-x", ".old-y"] { try bench.root().directory("serving").makeDirectory(name) }
        _ = try bench.launcher()
        #expect(try bench.names("serving") == [])
    }
}
