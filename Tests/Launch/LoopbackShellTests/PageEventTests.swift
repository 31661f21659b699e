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
        let bench = try await LoopbackBench()
        let token = try await bench.page()
        bench.fail("one")
        let first = try await bench.host.events(token: token)
        let second = try await bench.host.events(token: token)
        #expect(await bench.told(first) == Self.errors(["one"]))
        #expect(await bench.told(second) == [])
    }

    @Test func `errors that nobody heard keep their order, with those that come later`() async throws {
        let bench = try await LoopbackBench()
        let token = try await bench.page()
        bench.fail("one")
        bench.fail("two")
        let events = try await bench.host.events(token: token)
        bench.fail("three")
        #expect(await bench.told(events) == Self.errors(["one", "two", "three"]))
    }

    @Test func `an error that a page hears is not kept for another`() async throws {
        let bench = try await LoopbackBench()
        let token = try await bench.page()
        let first = try await bench.host.events(token: token)
        let second = try await bench.host.events(token: token)
        bench.fail("one")
        let third = try await bench.host.events(token: token)
        #expect(await bench.told(first) == Self.errors(["one"]))
        #expect(await bench.told(second) == Self.errors(["one"]))
        #expect(await bench.told(third) == [])
    }

    @Test func `an error after the last page has gone is kept`() async throws {
        let bench = try await LoopbackBench()
        let token = try await bench.page()
        let reading = Task { [events = try await bench.host.events(token: token)] in for await _ in events {} }
        reading.cancel()
        await reading.value
        bench.fail("one")
        #expect(await bench.told(try await bench.host.events(token: token)) == Self.errors(["one"]))
    }

    @Test
    func `an error that was on its way when the stream was cut is told again, until a page has heard it`()
        async throws
    {
        let bench = try await LoopbackBench()
        let token = try await bench.page()
        // Held, and not read: nobody knows yet that the page has gone.
        let cut = try await bench.host.events(token: token)
        bench.fail("one")
        bench.bridge.finish()
        #expect(await bench.told(try await bench.host.events(token: token)) == Self.errors(["one"]))
        #expect(await bench.told(try await bench.host.events(token: token), heardBy: token) == Self.errors(["one"]))
        #expect(await bench.told(try await bench.host.events(token: token)) == [])
        _ = cut
    }

    @Test func `a page on its way out may say what it heard, one that was never shown may not`() async throws {
        let bench = try await LoopbackBench()
        let outgoing = try await bench.page()
        let old = try await bench.host.events(token: outgoing)
        bench.fail("one")
        try await bench.install("2.0.0")
        try await bench.reload(outgoing)
        let token = try await bench.page()
        await #expect(throws: CallRefusal.self) {
            _ = try await bench.host.call("heard", token: "x", body: ["id": .integer(1)])
        }
        #expect(await bench.told(old, heardBy: outgoing) == Self.errors(["one"]) + ["reload"])
        #expect(await bench.told(try await bench.host.events(token: token)) == [])
    }

    @Test func `of errors that nobody heard the newest eight are told`() async throws {
        let bench = try await LoopbackBench()
        let token = try await bench.page()
        for number in 1...9 { bench.fail("\(number)") }
        let events = try await bench.host.events(token: token)
        #expect(await bench.told(events) == Self.errors((2...9).map(String.init)))
    }

    @Test func `after a reload an error is for the next page, and the outgoing one hears nothing more`() async throws {
        let bench = try await LoopbackBench()
        let outgoing = try await bench.page()
        let old = try await bench.host.events(token: outgoing)
        try await bench.install("2.0.0")
        try await bench.reload(outgoing)
        bench.fail("one")
        // Its launch is the newest still, but it is on its way out.
        let refused = await #expect(throws: CallRefusal.self) { _ = try await bench.host.events(token: outgoing) }
        #expect(refused?.status == 403)
        #expect(refused?.code == "staleLaunch")
        let token = try await bench.page()
        #expect(token != outgoing)
        let new = try await bench.host.events(token: token)
        #expect(await bench.told(old) == ["reload"])
        #expect(await bench.told(new) == Self.errors(["one"]))
    }

    @Test(.inTurn) func `the stream of a page that is told to load again ends by itself`() async throws {
        let bench = try await LoopbackBench()
        let outgoing = try await bench.page()
        let old = try await bench.host.events(token: outgoing)
        try await bench.install("2.0.0")
        try await bench.reload(outgoing)
        var count = 0
        for await event in old {
            #expect(event.name == "reload")
            count += 1
        }
        #expect(count == 1)
    }

    @Test func `a page that is loaded again in its launch listens again`() async throws {
        let bench = try await LoopbackBench()
        let token = try await bench.page()
        bench.bridge.reload()
        await #expect(throws: CallRefusal.self) { _ = try await bench.host.events(token: token) }
        #expect(try await bench.page() == token)
        bench.fail("one")
        #expect(await bench.told(try await bench.host.events(token: token)) == Self.errors(["one"]))
    }

    @Test(arguments: [true, false])
    func `a rollback is told to the follower of the page that failed`(isToldLate: Bool) async throws {
        let bench = try await LoopbackBench(installed: "1.0.0")
        let failing = try await bench.page()
        let old = try await bench.host.events(token: failing)
        let launch = try #require(bench.bridge.withScreen { $0.launch(ofPage: failing) })
        await bench.shell.startupDidFail(launch, "broken")
        let rollback = try #require(await Self.rollback(bench.shell))
        if !isToldLate { bench.host.pass(rollback) }
        let new = try await bench.host.events(token: try await bench.page())
        if isToldLate { bench.host.pass(rollback) }
        bench.fail("two")
        #expect(await bench.told(old) == ["reload"])
        let told = await bench.told(new)
        #expect(told.count == 2)
        #expect(told.first?.hasPrefix("error healthFailed: ") == true)
        #expect(told.last == "error networkUnavailable: two")
    }

    @Test func `a rollback is not told to the page that failed, though it listens still`() async throws {
        let bench = try await LoopbackBench(installed: "1.0.0")
        let failing = try await bench.page()
        let old = try await bench.host.events(token: failing)
        let version = try SemanticVersion(parsing: "1.0.0")
        bench.host.pass(
            .rolledBack(
                .installed(.archive(version)), to: .embedded, UpdateFailure(.healthFailed, subject: "x", "broken")))
        let other = try await bench.host.events(token: failing)
        #expect(await bench.told(old) == [])
        #expect(await bench.told(other) == ["error healthFailed: broken"])
    }

    @Test func `an update that is ready is told once to a page that begins to listen`() async throws {
        let bench = try await LoopbackBench()
        let token = try await bench.page()
        bench.fail("one")
        try await bench.install("2.0.0")
        try await bench.shell.checkForUpdates()
        let events = try await bench.host.events(token: token)
        #expect(await bench.told(events) == Self.errors(["one"]) + ["updateAvailable 2.0.0"])
    }

    @Test func `an update that a page was told of when it began to listen is not told again by its event`() async throws
    {
        let bench = try await LoopbackBench()
        let token = try await bench.page()
        try await bench.install("2.0.0")
        try await bench.shell.checkForUpdates()
        let events = try await bench.host.events(token: token)
        let name = try #require(await bench.shell.availableVersion)
        bench.host.pass(.updateAvailable(name))
        bench.host.pass(.updateAvailable(.embedded))
        #expect(await bench.told(events) == ["updateAvailable 2.0.0", "updateAvailable embedded"])
    }

    @Test func `other windows come along when one is loaded with another client`() async throws {
        let bench = try await LoopbackBench()
        let token = try await bench.page()
        let events = try await bench.host.events(token: token)
        #expect(try await bench.page() == token)
        try await bench.install("2.0.0")
        try await bench.shell.checkForUpdates()
        // A probe takes nothing.
        #expect(try await bench.host.page(isBrowser: false).token == token)
        #expect(try await bench.page() != token)
        #expect(await bench.told(events) == ["reload"])
        await #expect(throws: CallRefusal.self) { _ = try await bench.host.events(token: token) }
    }

    @Test func `the page of a launch that another one has overtaken is not shown`() async throws {
        let bench = try await LoopbackBench()
        let slow = try await bench.shell.pageWillLoad()
        try await bench.install("2.0.0")
        let token = try await bench.page()
        let events = try await bench.host.events(token: token)
        #expect(try bench.bridge.page(of: slow, in: bench.host.generation) == nil)
        #expect(try await bench.page() == token)
        #expect(await bench.told(events) == [])
    }

    @Test func `a start's time begins with its page's first report, and only the youngest page is in front`()
        async throws
    {
        let bench = try await LoopbackBench(installed: "1.0.0")
        let token = try await bench.page()
        func report(_ page: String, _ number: Int, hidden: Bool) async throws {
            let body: JSONObject = ["page": .string(page), "number": .integer(number), "hidden": .bool(hidden)]
            _ = try await bench.host.call("visibility", token: token, body: body)
        }
        await bench.clock.sleeper(until: .seconds(30))
        bench.clock.advance(by: .seconds(1))
        try await report("a", 0, hidden: false)
        await bench.clock.sleeper(until: .seconds(11))
        try await report("b", 0, hidden: false)
        try await report("a", 1, hidden: true)
        await bench.clock.sleeper(until: .seconds(11))
        try await report("b", 1, hidden: true)
        await bench.clock.noSleeper(until: .seconds(11))
    }

    @Test func `an error is kept or sent while a page begins to listen, never both and never neither`() async throws {
        let bench = try await LoopbackBench()
        let token = try await bench.page()
        let names = (1...8).map(String.init)
        for _ in 1...200 {
            async let sent: Void = Task.detached { for name in names { bench.fail(name) } }.value
            let events = try await bench.host.events(token: token)
            await sent
            #expect(await bench.told(events, heardBy: token) == Self.errors(names))
        }
    }
}
