import BundleCore
import BundleTestTraits
import BundleValues
import BundleServe
import BundleTesting
import ClientShell
import Testing

@testable import LoopbackShell

/// Which page is told what, and when nobody listens, who is told instead.
@Suite struct `Events for pages` {
    private static func errors(_ names: [String]) -> [String] { names.map { "error networkUnavailable: \($0)" } }

    /// The shell's events up to a rollback.
    private static func rollback(_ shell: ClientShell) async -> ShellEvent? {
        for await event in shell.events { if case .rolledBack = event { return event } }
        return nil
    }

    @Test func `an error before any page listens is told to the next that does, once`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        fixture.fail("one")
        let first = try await fixture.host.events(token: token)
        let second = try await fixture.host.events(token: token)
        #expect(await fixture.told(first) == Self.errors(["one"]))
        #expect(await fixture.told(second) == [])
    }

    @Test func `errors that nobody heard keep their order, with those that come later`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        fixture.fail("one")
        fixture.fail("two")
        let events = try await fixture.host.events(token: token)
        fixture.fail("three")
        #expect(await fixture.told(events) == Self.errors(["one", "two", "three"]))
    }

    @Test func `an error that a page hears is not kept for another`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        let first = try await fixture.host.events(token: token)
        let second = try await fixture.host.events(token: token)
        fixture.fail("one")
        let third = try await fixture.host.events(token: token)
        #expect(await fixture.told(first) == Self.errors(["one"]))
        #expect(await fixture.told(second) == Self.errors(["one"]))
        #expect(await fixture.told(third) == [])
    }

    @Test func `an error after the last page has gone is kept`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        let reading = Task { [events = try await fixture.host.events(token: token)] in for await _ in events {} }
        reading.cancel()
        await reading.value
        fixture.fail("one")
        #expect(await fixture.told(try await fixture.host.events(token: token)) == Self.errors(["one"]))
    }

    @Test
    func `an error that was on its way when the stream was cut is told again, until a page has heard it`()
        async throws
    {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        // Held, and not read: nobody knows yet that the page has gone.
        let cut = try await fixture.host.events(token: token)
        fixture.fail("one")
        fixture.bridge.finish()
        #expect(await fixture.told(try await fixture.host.events(token: token)) == Self.errors(["one"]))
        #expect(await fixture.told(try await fixture.host.events(token: token), heardBy: token) == Self.errors(["one"]))
        #expect(await fixture.told(try await fixture.host.events(token: token)) == [])
        _ = cut
    }

    @Test func `a page on its way out may say what it heard, one that was never shown may not`() async throws {
        let fixture = try await LoopbackFixture()
        let outgoing = try await fixture.page()
        let old = try await fixture.host.events(token: outgoing)
        fixture.fail("one")
        try await fixture.install("2.0.0")
        try await fixture.reload(outgoing)
        let token = try await fixture.page()
        await #expect(throws: CallRefusal.self) {
            _ = try await fixture.host.call("heard", token: "x", body: ["id": .integer(1)])
        }
        #expect(await fixture.told(old, heardBy: outgoing) == Self.errors(["one"]) + ["reload"])
        #expect(await fixture.told(try await fixture.host.events(token: token)) == [])
    }

    @Test func `of errors that nobody heard the newest eight are told`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        for number in 1...9 { fixture.fail("\(number)") }
        let events = try await fixture.host.events(token: token)
        #expect(await fixture.told(events) == Self.errors((2...9).map(String.init)))
    }

    @Test func `after a reload an error is for the next page, and the outgoing one hears nothing more`() async throws {
        let fixture = try await LoopbackFixture()
        let outgoing = try await fixture.page()
        let old = try await fixture.host.events(token: outgoing)
        try await fixture.install("2.0.0")
        try await fixture.reload(outgoing)
        fixture.fail("one")
        // Its launch is the newest still, but it is on its way out.
        let refused = await #expect(throws: CallRefusal.self) { _ = try await fixture.host.events(token: outgoing) }
        #expect(refused?.status == 403)
        #expect(refused?.code == "staleLaunch")
        let token = try await fixture.page()
        #expect(token != outgoing)
        let new = try await fixture.host.events(token: token)
        #expect(await fixture.told(old) == ["reload"])
        #expect(await fixture.told(new) == Self.errors(["one"]))
    }

    @Test(.inTurn) func `the stream of a page that is told to load again ends by itself`() async throws {
        let fixture = try await LoopbackFixture()
        let outgoing = try await fixture.page()
        let old = try await fixture.host.events(token: outgoing)
        try await fixture.install("2.0.0")
        try await fixture.reload(outgoing)
        var count = 0
        for await event in old {
            #expect(event.name == "reload")
            count += 1
        }
        #expect(count == 1)
    }

    @Test func `a page that is loaded again in its launch listens again`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        fixture.bridge.reload()
        await #expect(throws: CallRefusal.self) { _ = try await fixture.host.events(token: token) }
        #expect(try await fixture.page() == token)
        fixture.fail("one")
        #expect(await fixture.told(try await fixture.host.events(token: token)) == Self.errors(["one"]))
    }

    @Test(arguments: [true, false])
    func `a rollback is told to the follower of the page that failed`(isToldLate: Bool) async throws {
        let fixture = try await LoopbackFixture(installed: "1.0.0")
        let failing = try await fixture.page()
        let old = try await fixture.host.events(token: failing)
        let launch = try #require(fixture.bridge.withScreen { $0.launch(ofPage: failing) })
        await fixture.shell.startupDidFail(launch, "broken")
        let rollback = try #require(await Self.rollback(fixture.shell))
        if !isToldLate { fixture.host.pass(rollback) }
        let new = try await fixture.host.events(token: try await fixture.page())
        if isToldLate { fixture.host.pass(rollback) }
        fixture.fail("two")
        #expect(await fixture.told(old) == ["reload"])
        let told = await fixture.told(new)
        #expect(told.count == 2)
        #expect(told.first?.hasPrefix("error healthFailed: ") == true)
        #expect(told.last == "error networkUnavailable: two")
    }

    @Test func `a rollback is not told to the page that failed, though it listens still`() async throws {
        let fixture = try await LoopbackFixture(installed: "1.0.0")
        let failing = try await fixture.page()
        let old = try await fixture.host.events(token: failing)
        let version = try SemanticVersion(parsing: "1.0.0")
        fixture.host.pass(
            .rolledBack(
                .installed(.archive(version)), to: .embedded, UpdateFailure(.healthFailed, subject: "x", "broken")))
        let other = try await fixture.host.events(token: failing)
        #expect(await fixture.told(old) == [])
        #expect(await fixture.told(other) == ["error healthFailed: broken"])
    }

    @Test func `an update that is ready is told once to a page that begins to listen`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        fixture.fail("one")
        try await fixture.install("2.0.0")
        try await fixture.shell.checkForUpdates()
        let events = try await fixture.host.events(token: token)
        #expect(await fixture.told(events) == Self.errors(["one"]) + ["updateAvailable 2.0.0"])
    }

    @Test func `an update that a page was told of when it began to listen is not told again by its event`() async throws
    {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        try await fixture.install("2.0.0")
        try await fixture.shell.checkForUpdates()
        let events = try await fixture.host.events(token: token)
        let name = try #require(await fixture.shell.availableVersion)
        fixture.host.pass(.updateAvailable(name))
        fixture.host.pass(.updateAvailable(.embedded))
        #expect(await fixture.told(events) == ["updateAvailable 2.0.0", "updateAvailable embedded"])
    }

    @Test func `other windows come along when one is loaded with another client`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        let events = try await fixture.host.events(token: token)
        #expect(try await fixture.page() == token)
        try await fixture.install("2.0.0")
        try await fixture.shell.checkForUpdates()
        // A probe takes nothing.
        #expect(try await fixture.host.page(isBrowser: false).token == token)
        #expect(try await fixture.page() != token)
        #expect(await fixture.told(events) == ["reload"])
        await #expect(throws: CallRefusal.self) { _ = try await fixture.host.events(token: token) }
    }

    @Test func `the page of a launch that another one has overtaken is not shown`() async throws {
        let fixture = try await LoopbackFixture()
        let slow = try await fixture.shell.pageWillLoad()
        try await fixture.install("2.0.0")
        let token = try await fixture.page()
        let events = try await fixture.host.events(token: token)
        #expect(try fixture.bridge.page(of: slow, in: fixture.host.generation) == nil)
        #expect(try await fixture.page() == token)
        #expect(await fixture.told(events) == [])
    }

    @Test func `a start's time begins with its page's first report, and only the youngest page is in front`()
        async throws
    {
        let fixture = try await LoopbackFixture(installed: "1.0.0")
        let token = try await fixture.page()
        func report(_ page: String, _ number: Int, hidden: Bool) async throws {
            let body: JSONObject = ["page": .string(page), "number": .integer(number), "hidden": .bool(hidden)]
            _ = try await fixture.host.call("visibility", token: token, body: body)
        }
        await fixture.clock.sleeper(until: .seconds(30))
        fixture.clock.advance(by: .seconds(1))
        try await report("a", 0, hidden: false)
        await fixture.clock.sleeper(until: .seconds(11))
        try await report("b", 0, hidden: false)
        try await report("a", 1, hidden: true)
        await fixture.clock.sleeper(until: .seconds(11))
        try await report("b", 1, hidden: true)
        await fixture.clock.noSleeper(until: .seconds(11))
    }

    @Test func `an error is kept or sent while a page begins to listen, never both and never neither`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        let names = (1...8).map(String.init)
        for _ in 1...200 {
            async let sent: Void = Task.detached { for name in names { fixture.fail(name) } }.value
            let events = try await fixture.host.events(token: token)
            await sent
            #expect(await fixture.told(events, heardBy: token) == Self.errors(names))
        }
    }
}
