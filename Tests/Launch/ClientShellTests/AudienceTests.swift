import BundleCore
import BundleTestTraits
import BundleValues
import BundleTesting
import ClientShell
import Testing

/// Who looks at the screen, and what becomes of what others were shown.
@Suite(.inTurn) struct AudienceTests {
    private static func good(_ version: String) async throws -> ShellBench {
        let bench = try await ShellBench(installing: [version])
        let launched = try Launcher(
            .init(store: bench.store, shell: bench.version("1.0.0"), seed: nil, verifies: false), warn: { _ in }
        ).launch()
        _ = try bench.verdicts().confirm(launched.name, launched.token)
        return bench
    }

    @Test func `everybody gets the best client, also without being admitted`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        let shell = try bench.shell()
        try await shell.admit(.everybody)
        #expect(bench.bridge.calls == ["base v1.0.0"])
        try await shell.admit(.everybody)
        #expect(bench.bridge.calls == ["base v1.0.0"])
        #expect(try await shell.pageWillLoad().name == (try bench.name("1.0.0")))
    }

    @Test func `guests get the seed, and leave no trace`() async throws {
        let bench = try await Self.good("1.0.0")
        let shell = try bench.shell()
        try await shell.admit(.guests)
        let before = try bench.ledger()
        let launched = try await shell.pageWillLoad()
        #expect(launched.name == .embedded)
        #expect(!launched.isTrial)
        #expect(await shell.isCurrent(launched.token))
        try await shell.startupDidComplete(launched.token)
        await shell.removed()
        // A look at the store writes down what the disk refused before; there was nothing of that kind.
        try await shell.checkForUpdates()
        #expect(try bench.ledger() == before)
        #expect(bench.bridge.calls == ["base embedded"])
        #expect(await shell.currentVersion == .embedded)
    }

    @Test func `guests get no client that is installed meanwhile`() async throws {
        let bench = try await Self.good("1.0.0")
        let shell = try bench.shell()
        try await shell.admit(.guests)
        let launched = try await shell.pageWillLoad()
        try await bench.install("2.0.0")
        try await shell.checkForUpdates()
        #expect(await !shell.isUpdateAvailable)
        await #expect(throws: ShellError.noPendingVersion) { try await shell.reload() }
        #expect(try await shell.pageWillLoad(takesNext: true).token == launched.token)
        #expect(bench.bridge.calls == ["base embedded"])
        // Whoever logs in does.
        try await shell.admit(.everybody)
        #expect(try await shell.pageWillLoad().name == (try bench.name("2.0.0")))
    }

    @Test func `nobody gets anything`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        let shell = try bench.shell()
        try await shell.admit(.nobody)
        await #expect(throws: ShellError.notStarted) { _ = try await shell.pageWillLoad() }
        await #expect(throws: ShellError.notStarted) { try await shell.start() }
        try await bench.install("2.0.0")
        try await shell.checkForUpdates()
        await #expect(throws: ShellError.notStarted) { _ = try await shell.pageWillLoad() }
        #expect(bench.bridge.calls == [])
        #expect(try bench.ledger().launch == nil)
    }

    @Test(arguments: [ClientShell.Audience.guests, .nobody])
    func `a client on trial that is taken off the screen has not failed`(audience: ClientShell.Audience) async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        let shell = try bench.shell()
        try await shell.admit(.everybody)
        let launched = try await shell.pageWillLoad()
        #expect(launched.isTrial)
        await bench.clock.sleeper(until: .seconds(10))
        try await shell.admit(audience)
        #expect(await !shell.isCurrent(launched.token))
        #expect(await shell.currentVersion == nil)
        #expect(try bench.ledger().launch?.isOpenTrial == false)
        #expect(try bench.ledger().record(of: bench.client("1.0.0")) == nil)
        // Its time is over, and it is nobody's concern.
        bench.clock.advance(by: .seconds(60))
        try await shell.admit(.everybody)
        let again = try await shell.pageWillLoad()
        #expect(again.name == launched.name)
        #expect(again.isTrial)
        #expect(again.token != launched.token)
        #expect(try bench.ledger().record(of: bench.client("1.0.0")) == nil)
    }

    @Test func `without a seed guests get the reason, and everybody gets the client again`() async throws {
        let bench = try await Self.good("1.0.0")
        let shell = try bench.shell(hasSeed: false)
        for _ in 0..<2 {
            let failure = await #expect(throws: UpdateFailure.self) { try await shell.admit(.guests) }
            #expect(failure?.code == .configInvalid)
            await #expect(throws: ShellError.notStarted) { _ = try await shell.pageWillLoad() }
        }
        try await shell.admit(.everybody)
        #expect(try await shell.pageWillLoad().name == (try bench.name("1.0.0")))
    }

    @Test func `what was missing is shown once it is installed`() async throws {
        let bench = try await ShellBench()
        let shell = try bench.shell(hasSeed: false)
        await #expect(throws: UpdateFailure.self) { try await shell.admit(.everybody) }
        try await bench.install("1.0.0")
        try await shell.checkForUpdates()
        try await shell.admit(.everybody)
        #expect(try await shell.pageWillLoad().name == (try bench.name("1.0.0")))
    }

    @Test func `a shell that is too old for the best client says which one it needs`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0"])
        let newer = try bench.version("3.0.0")
        _ = try await Updater(
            source: MemorySource(try MemoryOffer("2.0.0", minimumShell: "3.0.0")),
            device: .init(store: bench.store, shell: newer, appId: nil, keep: 9), warn: { _ in }
        ).update()
        let shell = try bench.shell()
        try await shell.admit(.everybody)
        #expect(await shell.missingShell == newer)
        #expect(try await shell.pageWillLoad().name == (try bench.name("1.0.0")))
        // One for this shell, and better.
        try await bench.install("2.1.0")
        try await shell.checkForUpdates()
        #expect(await shell.missingShell == nil)
    }
}
