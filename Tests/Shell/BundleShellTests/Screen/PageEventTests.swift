import BundleCore
import BundleTestTraits
import BundleValues
import BundleServe
import BundleTesting
@testable import BundleShell
@testable import ClientServer
import Synchronization
import Testing

@Suite struct PageEventTests {
    private static func errors(_ names: [String]) -> [String] { names.map { "error networkUnavailable: \($0)" } }

    /// Returns the shell's events up to a rollback.
    private static func rollback(_ shell: ClientShell) async -> ShellEvent? {
        for await event in shell.events { if case .rolledBack = event { return event } }
        return nil
    }

    @Test(arguments: [true, false])
    func `reports a silent page as lost only while a program can restart the browser`(isFollowed: Bool) async throws {
        let losses = Mutex<[String]>([])
        let fixture = try await LoopbackFixture(heartbeat: .seconds(4), isFollowed: isFollowed) { reason in
            losses.withLock { $0.append(reason) }
        }
        let running = Task { await fixture.host.run() }
        let token = try await fixture.page()
        _ = try await fixture.host.call("heartbeat", token: token, body: ["page": .string("a")])
        for second in 1...5 {
            await fixture.clock.sleeper(until: .seconds(second))
            fixture.clock.advance(by: .seconds(1))
        }
        await fixture.clock.sleeper(until: .seconds(6))
        #expect(losses.withLock(\.self) == (isFollowed ? ["it has said nothing for 4s"] : []))
        running.cancel()
        await running.value
    }

    @Test func `sends an error that occurs before a page connects once`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        fixture.fail("one")
        let first = try await fixture.host.events(token: token)
        let second = try await fixture.host.events(token: token)
        #expect(await fixture.received(first) == Self.errors(["one"]))
        #expect(await fixture.received(second) == [])
    }

    @Test func `sends unacknowledged errors in order, before later ones`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        fixture.fail("one")
        fixture.fail("two")
        let events = try await fixture.host.events(token: token)
        fixture.fail("three")
        #expect(await fixture.received(events) == Self.errors(["one", "two", "three"]))
    }

    @Test func `does not repeat an error that a page has acknowledged`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        let first = try await fixture.host.events(token: token)
        let second = try await fixture.host.events(token: token)
        fixture.fail("one")
        let third = try await fixture.host.events(token: token)
        #expect(await fixture.received(first) == Self.errors(["one"]))
        #expect(await fixture.received(second) == Self.errors(["one"]))
        #expect(await fixture.received(third) == [])
    }

    @Test func `keeps an error after the last page has closed`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        let reading = Task { [events = try await fixture.host.events(token: token)] in for await _ in events {} }
        reading.cancel()
        await reading.value
        fixture.fail("one")
        #expect(await fixture.received(try await fixture.host.events(token: token)) == Self.errors(["one"]))
    }

    @Test
    func `repeats an error of an interrupted stream until a page acknowledges it`()
        async throws
    {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        // The stream is held without being read, so the host has not noticed that the page is gone.
        let cut = try await fixture.host.events(token: token)
        fixture.fail("one")
        fixture.bridge.finish()
        #expect(await fixture.received(try await fixture.host.events(token: token)) == Self.errors(["one"]))
        #expect(
            await fixture.received(try await fixture.host.events(token: token), acknowledgedBy: token)
                == Self.errors(["one"]))
        #expect(await fixture.received(try await fixture.host.events(token: token)) == [])
        _ = cut
    }

    @Test func `accepts an acknowledgement of an unloading page, and none of an unknown page`() async throws {
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
        #expect(await fixture.received(old, acknowledgedBy: outgoing) == Self.errors(["one"]) + ["reload"])
        #expect(await fixture.received(try await fixture.host.events(token: token)) == [])
    }

    @Test func `keeps the newest eight unacknowledged errors`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        for number in 1...9 { fixture.fail("\(number)") }
        let events = try await fixture.host.events(token: token)
        #expect(await fixture.received(events) == Self.errors((2...9).map(String.init)))
    }

    @Test func `sends errors after a reload to the next page only`() async throws {
        let fixture = try await LoopbackFixture()
        let outgoing = try await fixture.page()
        let old = try await fixture.host.events(token: outgoing)
        try await fixture.install("2.0.0")
        try await fixture.reload(outgoing)
        fixture.fail("one")
        // Its launch is still the newest one, but the page is unloading.
        let refused = await #expect(throws: CallRefusal.self) { _ = try await fixture.host.events(token: outgoing) }
        #expect(refused?.status == 403)
        #expect(refused?.code == "staleLaunch")
        let token = try await fixture.page()
        #expect(token != outgoing)
        let new = try await fixture.host.events(token: token)
        #expect(await fixture.received(old) == ["reload"])
        #expect(await fixture.received(new) == Self.errors(["one"]))
    }

    @Test(.inTurn) func `ends the stream of a page that has to reload`() async throws {
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

    @Test func `accepts another stream of a page that was reloaded in its launch`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        fixture.bridge.reload()
        await #expect(throws: CallRefusal.self) { _ = try await fixture.host.events(token: token) }
        #expect(try await fixture.page() == token)
        fixture.fail("one")
        #expect(await fixture.received(try await fixture.host.events(token: token)) == Self.errors(["one"]))
    }

    @Test(arguments: [true, false])
    func `reports a rollback to the page that follows the failed one`(isReportedLate: Bool) async throws {
        let fixture = try await LoopbackFixture(installed: "1.0.0")
        let failing = try await fixture.page()
        let old = try await fixture.host.events(token: failing)
        let launch = try #require(fixture.bridge.withScreen { $0.launch(ofPage: failing) })
        await fixture.shell.startupDidFail(launch, reason: "broken")
        let rollback = try #require(await Self.rollback(fixture.shell))
        if !isReportedLate { fixture.host.pass(rollback) }
        let new = try await fixture.host.events(token: try await fixture.page())
        if isReportedLate { fixture.host.pass(rollback) }
        fixture.fail("two")
        #expect(await fixture.received(old) == ["reload"])
        let lines = await fixture.received(new)
        #expect(lines.count == 2)
        #expect(lines.first?.hasPrefix("error healthFailed: ") == true)
        #expect(lines.first?.hasSuffix(" 1.0.0") == true)
        #expect(lines.last == "error networkUnavailable: two")
    }

    @Test func `does not report a rollback to the failed page`() async throws {
        let fixture = try await LoopbackFixture(installed: "1.0.0")
        let failing = try await fixture.page()
        let old = try await fixture.host.events(token: failing)
        let version = try SemanticVersion(parsing: "1.0.0")
        fixture.host.pass(
            .rolledBack(
                .installed(.archive(version)), to: .embedded, UpdateFailure(.healthFailed, subject: "x", "broken")))
        let other = try await fixture.host.events(token: failing)
        #expect(await fixture.received(old) == [])
        #expect(await fixture.received(other) == ["error healthFailed: broken 1.0.0"])
    }

    @Test func `reports a ready update once to a new stream`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        fixture.fail("one")
        try await fixture.install("2.0.0")
        try await fixture.shell.checkForUpdates()
        let events = try await fixture.host.events(token: token)
        #expect(await fixture.received(events) == Self.errors(["one"]) + ["updateAvailable 2.0.0"])
    }

    @Test func `does not repeat an update that began a stream`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        try await fixture.install("2.0.0")
        try await fixture.shell.checkForUpdates()
        let events = try await fixture.host.events(token: token)
        let name = try #require(await fixture.shell.availableVersion)
        fixture.host.pass(.updateAvailable(name))
        fixture.host.pass(.updateAvailable(.embedded))
        #expect(await fixture.received(events) == ["updateAvailable 2.0.0", "updateAvailable embedded"])
    }

    @Test func `reloads other windows when one loads another client`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        let events = try await fixture.host.events(token: token)
        #expect(try await fixture.page() == token)
        try await fixture.install("2.0.0")
        try await fixture.shell.checkForUpdates()
        // A probe changes nothing.
        #expect(try await fixture.host.page(isBrowser: false).token == token)
        #expect(try await fixture.page() != token)
        #expect(await fixture.received(events) == ["reload"])
        await #expect(throws: CallRefusal.self) { _ = try await fixture.host.events(token: token) }
    }

    @Test func `does not show the page of a launch that another one has replaced`() async throws {
        let fixture = try await LoopbackFixture()
        let slow = try await fixture.shell.pageWillLoad()
        try await fixture.install("2.0.0")
        let token = try await fixture.page()
        let events = try await fixture.host.events(token: token)
        #expect(try fixture.bridge.page(of: slow, in: fixture.host.generation) == nil)
        #expect(try await fixture.page() == token)
        #expect(await fixture.received(events) == [])
    }

    @Test func `starts the startup timer with the first report and follows the youngest page`()
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

    @Test func `sends or keeps an error exactly once while a stream begins`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        let names = (1...8).map(String.init)
        for _ in 1...200 {
            async let sent: Void = Task.detached { for name in names { fixture.fail(name) } }.value
            let events = try await fixture.host.events(token: token)
            await sent
            #expect(await fixture.received(events, acknowledgedBy: token) == Self.errors(names))
        }
    }
}
