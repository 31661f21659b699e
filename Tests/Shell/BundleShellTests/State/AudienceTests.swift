import BundleCore
import BundleTestTraits
import BundleValues
import BundleTesting
import BundleShell
import Testing

@Suite(.inTurn) struct AudienceTests {
    private static func good(_ version: String) async throws -> ShellFixture {
        let fixture = try await ShellFixture(installing: [version])
        let launched = try Launcher(
            .init(store: fixture.store, shell: fixture.version("1.0.0"), seed: nil, verifies: false),
            environment: Environment()
        ).launch()
        _ = try fixture.verdicts().confirm(launched.name, launched.token)
        return fixture
    }

    @Test func `admitting users shows the best client once`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        let shell = try fixture.shell()
        try await shell.admit(.everybody)
        #expect(fixture.bridge.calls == ["base v1.0.0"])
        try await shell.admit(.everybody)
        #expect(fixture.bridge.calls == ["base v1.0.0"])
        #expect(try await shell.pageWillLoad().name == (try fixture.name("1.0.0")))
    }

    @Test func `guests see the seed without a record in the ledger`() async throws {
        let fixture = try await Self.good("1.0.0")
        let shell = try fixture.shell()
        try await shell.admit(.guests)
        let before = try fixture.ledger()
        let launched = try await shell.pageWillLoad()
        #expect(launched.name == .embedded)
        #expect(!launched.isTrial)
        #expect(await shell.isCurrent(launched.token))
        try await shell.startupDidComplete(launched.token)
        await shell.removed()
        // A reading of the store writes verdicts that the disk refused before; there was none.
        try await shell.checkForUpdates()
        #expect(try fixture.ledger() == before)
        #expect(fixture.bridge.calls == ["base embedded"])
        #expect(await shell.currentVersion == .embedded)
    }

    @Test func `guests do not see a client that is installed during their visit`() async throws {
        let fixture = try await Self.good("1.0.0")
        let shell = try fixture.shell()
        try await shell.admit(.guests)
        let launched = try await shell.pageWillLoad()
        try await fixture.install("2.0.0")
        try await shell.checkForUpdates()
        #expect(await !shell.isUpdateAvailable)
        await #expect(throws: ShellError.noPendingVersion) { try await shell.reload() }
        #expect(try await shell.pageWillLoad(takesNext: true).token == launched.token)
        #expect(fixture.bridge.calls == ["base embedded"])
        // A user who logs in sees it.
        try await shell.admit(.everybody)
        #expect(try await shell.pageWillLoad().name == (try fixture.name("2.0.0")))
    }

    @Test func `an empty audience is shown nothing`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        let shell = try fixture.shell()
        try await shell.admit(.nobody)
        await #expect(throws: ShellError.notStarted) { _ = try await shell.pageWillLoad() }
        await #expect(throws: ShellError.notStarted) { try await shell.start() }
        try await fixture.install("2.0.0")
        try await shell.checkForUpdates()
        await #expect(throws: ShellError.notStarted) { _ = try await shell.pageWillLoad() }
        #expect(fixture.bridge.calls == [])
        #expect(try fixture.ledger().launch == nil)
    }

    @Test(arguments: [ClientShell.Audience.guests, .nobody])
    func `ending the launch of a client on trial for another audience does not fail it`(audience: ClientShell.Audience)
        async throws
    {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        let shell = try fixture.shell()
        try await shell.admit(.everybody)
        let launched = try await shell.pageWillLoad()
        #expect(launched.isTrial)
        await fixture.clock.sleeper(until: .seconds(10))
        try await shell.admit(audience)
        #expect(await !shell.isCurrent(launched.token))
        #expect(await shell.currentVersion == nil)
        #expect(try fixture.ledger().launch?.isOpenTrial == false)
        #expect(try fixture.ledger().record(of: fixture.client("1.0.0")) == nil)
        // The timeout of its trial has passed without effect.
        fixture.clock.advance(by: .seconds(60))
        try await shell.admit(.everybody)
        let again = try await shell.pageWillLoad()
        #expect(again.name == launched.name)
        #expect(again.isTrial)
        #expect(again.token != launched.token)
        #expect(try fixture.ledger().record(of: fixture.client("1.0.0")) == nil)
    }

    @Test func `admitting guests without a seed throws, and users see the client again`() async throws {
        let fixture = try await Self.good("1.0.0")
        let shell = try fixture.shell(hasSeed: false)
        for _ in 0..<2 {
            let failure = await #expect(throws: UpdateFailure.self) { try await shell.admit(.guests) }
            #expect(failure?.code == .configInvalid)
            await #expect(throws: ShellError.notStarted) { _ = try await shell.pageWillLoad() }
        }
        try await shell.admit(.everybody)
        #expect(try await shell.pageWillLoad().name == (try fixture.name("1.0.0")))
    }

    @Test func `shows the first client once it is installed`() async throws {
        let fixture = try await ShellFixture()
        let shell = try fixture.shell(hasSeed: false)
        await #expect(throws: UpdateFailure.self) { try await shell.admit(.everybody) }
        try await fixture.install("1.0.0")
        try await shell.checkForUpdates()
        try await shell.admit(.everybody)
        #expect(try await shell.pageWillLoad().name == (try fixture.name("1.0.0")))
    }

    @Test func `reports the shell version that the best client needs`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0"])
        let newer = try fixture.version("3.0.0")
        _ = try await Updater(
            source: MemorySource(try MemoryOffer("2.0.0", minimumShell: "3.0.0")),
            device: .init(store: fixture.store, shell: newer, appId: nil, keep: 9), environment: Environment()
        ).update()
        let shell = try fixture.shell()
        try await shell.admit(.everybody)
        #expect(await shell.missingShell == newer)
        #expect(try await shell.pageWillLoad().name == (try fixture.name("1.0.0")))
        // A better client that this shell can run.
        try await fixture.install("2.1.0")
        try await shell.checkForUpdates()
        #expect(await shell.missingShell == nil)
    }
}
