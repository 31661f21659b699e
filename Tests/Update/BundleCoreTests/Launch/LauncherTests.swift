import BundleDisk
import BundleTesting
import Glibc
import Testing

@testable import BundleCore
import BundleValues

struct LauncherTests {
    // MARK: The line

    @Test func `an empty device shows the seed, and needs no trial`() throws {
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

    @Test func `a launch is on the disk when it returns, and the secret is not`() async throws {
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

    @Test func `a trial without a verdict has failed when the next shell starts, and is retried once`() async throws {
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

    @Test func `a client that confirmed is no trial any more, and may end as it likes`() async throws {
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

    @Test func `after a failed launch the last known good client is shown, not the next lower one`() async throws {
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

    @Test func `what is fallen back to is on trial where it never confirmed`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        let device = try bench.device(seed: nil)
        #expect(try bench.launcher(device).launch().name.description == "v1.1.0")
        let launched = try bench.launcher(device).launch()
        #expect(launched.name.description == "v1.0.0")
        #expect(launched.isTrial)
    }

    @Test func `without a seed a client that just failed is shown again rather than nothing, until it is blocked`()
        async throws
    {
        let bench = try await LaunchBench(installing: "1.0.0")
        let device = try bench.device(seed: nil)
        #expect(try bench.launcher(device).launch().name.description == "v1.0.0")
        let again = try bench.launcher(device).launch()
        #expect(again.prepared.choice.reason == .onlyOne)
        let failure = #expect(throws: UpdateFailure.self) { try bench.launcher(device).launch() }
        #expect(failure?.code == .configInvalid)
    }

    @Test func `before the first launch an installation is current at once, afterwards it is pending`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        #expect(try bench.ledger().current.description == "v1.0.0")
        #expect(try bench.ledger().pending == nil)
        _ = try bench.launch()
        try await bench.install("1.1.0")
        #expect(try bench.ledger().current.description == "v1.0.0")
        #expect(try bench.ledger().pending?.description == "v1.1.0")
    }

    @Test func `another seed is another shell: what was learnt about starts is forgotten, blocks by hand are not`()
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

    @Test func `a page that asks for another client is not to blame for its own trial`() async throws {
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

    @Test func `what was blocked or removed after it was made ready is not launched`() async throws {
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

    @Test func `a client to look at is no launch, and a blocked or unknown one is not shown`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        let launcher = try bench.launcher()
        #expect(try launcher.ready(try Sample.name("1.0.0"))?.name.description == "v1.0.0")
        #expect(try launcher.ready(.embedded)?.source == "embedded")
        #expect(try launcher.ready(try Sample.name("9.0.0")) == nil)
        _ = try bench.verdicts().rollBack(to: try Sample.name("1.0.0"))
        #expect(try launcher.ready(try Sample.name("1.1.0")) == nil)
        #expect(try bench.ledger().launch == nil)
    }

    // MARK: Others at work

    @Test func `nothing is tried while the disk takes no writes`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        let launcher = try bench.launcher()
        #expect(try launcher.prepare().choice.name.description == "v1.0.0")
        launcher.refuseTrials()
        let prepared = try launcher.prepare()
        #expect(prepared.choice.name == .embedded)
        // The first record that the disk takes ends that.
        #expect(try launcher.begin(prepared)?.isRecorded == true)
        #expect(try launcher.prepare().choice.name.description == "v1.0.0")
    }

    @Test func `a second shell is refused while the first lives`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        do {
            let first = try bench.launcher()
            let failure = #expect(throws: UpdateFailure.self) { try bench.launcher() }
            #expect(failure?.code == .storeLocked)
            // It has not judged the first one's trial.
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

    @Test func `what is shown is not collected, however few are to be kept`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0", "1.2.0", "1.3.0")
        do {
            let launcher = try bench.launcher()
            let look = try #require(try launcher.ready(try Sample.name("1.0.0")))
            let plan = try await bench.open().retain(keeping: 1)
            #expect(plan.retained.map(\.shortDescription) == ["1.0.0", "1.2.0", "1.3.0"])
            #expect(plan.removed.map(\.shortDescription) == ["1.1.0"])
            #expect(try look.root.directory.kind(of: "index.html") != nil)
        }
        #expect(try await bench.open().retain(keeping: 1).removed.map(\.shortDescription) == ["1.0.0"])
        #expect(try bench.names("serving") == [])
    }

    // MARK: What is broken

    @Test func `a client that was changed is not launched where that is checked, and comes back with an installation`()
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

    @Test func `a root that was changed by itself is made again where files are checked`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        try bench.overwrite("serving/archive-1.0.0/index.html", Array("evil".utf8))
        #expect(try bench.launch().page == "evil")
        #expect(try bench.launcher(verifies: true).launch().page.contains("client 1.0.0"))
    }

    @Test func `while somebody installs, a changed client is passed over and stays`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        try bench.overwrite("clients/v1.1.0/assets/app.js", Array("evil".utf8))
        let lock = try #require(try FileLock.take("lock", in: try bench.root()))
        #expect(try bench.launcher(verifies: true).launch().name.description == "v1.0.0")
        #expect(try bench.names("clients").contains("v1.1.0"))
        withExtendedLifetime(lock) {}
    }

    @Test func `a client that cannot be made ready is passed over, with a warning`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        try await bench.install(try MemoryOffer("1.1.0", files: ["app.js": "no page"]))
        let launched = try bench.launch()
        #expect(launched.name.description == "v1.0.0")
        #expect(bench.warnings.lines.count == 1)
        #expect(bench.warnings.lines.first?.contains("v1.1.0 is passed over") == true)
    }

    @Test func `a client with an unreadable folder is passed over`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        // Its page is a folder now: root reads whatever has no right for others.
        try bench.remove("clients/v1.1.0/index.html")
        try bench.root().directory("clients/v1.1.0").makeDirectory("index.html")
        #expect(try bench.launch().name.description == "v1.0.0")
        #expect(bench.warnings.lines.contains { $0.contains("v1.1.0 is passed over") })
    }

    @Test func `a missing seed is a warning where a client can run, and a plain error where none can`() async throws {
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

    @Test func `a seed without a page is no seed`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        try bench.root().makeDirectory("hollow")
        _ = try bench.launcher(try bench.device(seed: bench.store + "/hollow")).launch()
        #expect(bench.warnings.lines.first?.contains("has no index.html") == true)
    }

    @Test func `a seed whose files were replaced gets a root of its own, and the old one goes`() throws {
        let bench = try LaunchBench()
        let seed = try bench.seed()
        let old = try bench.launch().prepared.client.root.name
        #expect(try bench.launch().prepared.client.root.name == old)
        // The page is the same, so it is the same seed: only a file below a folder was replaced.
        let assets = try Directory.open(seed).directory("assets")
        try Array("newer".utf8).withUnsafeBytes { try assets.createFile("app.new", $0) }
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

    @Test func `a client that was removed and installed again gets a root of its own`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        try bench.remove("clients/v1.0.0")
        try await bench.install(try MemoryOffer("1.0.0", files: ["index.html": "another", "x.js": "x"]))
        let launched = try bench.launch()
        #expect(try launched.page.contains("another"))
        #expect(launched.isTrial)
    }

    @Test func `the root of a client that is gone goes with the next clearing up`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        _ = try bench.launchAndConfirm()
        #expect(try bench.names("serving") == ["archive-1.1.0"])
        try bench.remove("clients/v1.1.0")
        _ = try bench.open()
        #expect(try bench.names("serving") == [])
    }

    @Test func `any damage of the ledger is set aside, and something is shown all the same`() async throws {
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

    @Test func `a store that everybody may write to is refused`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        #expect(chmod(bench.store, 0o777) == 0)
        let failure = #expect(throws: UpdateFailure.self) { try bench.launch() }
        #expect(failure?.code == .permissionDenied)
    }

    @Test func `what a stopped organizer left is cleared when a shell starts`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.open()
        for name in [".new-x", ".old-y"] { try bench.root().directory("serving").makeDirectory(name) }
        _ = try bench.launcher()
        #expect(try bench.names("serving") == [])
    }
}
