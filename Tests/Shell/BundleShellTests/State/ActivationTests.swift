import BundleCore
import BundleTestTraits
import BundleTesting
import BundleShell
import Testing

@Suite(.inTurn) struct ActivationTests {
    private struct Running {
        let fixture: ShellFixture
        let shell: ClientShell
        var events: EventReader
        let run: Task<Void, Never>
        private var ticks = 0

        /// Creates a device on which 1.0.0 runs and has confirmed its start. The time is noon.
        init(_ windows: String? = "02:00-04:00") async throws {
            fixture = try await ShellFixture(installing: ["1.0.0"])
            fixture.showTime(12, 0)
            shell = try fixture.shell { configuration in
                configuration.storeInterval = .milliseconds(500)
                configuration.activation = windows.flatMap { try? ActivationWindows(parsing: $0) }
            }
            try await shell.start()
            events = EventReader(shell)
            let launched = try await shell.pageWillLoad()
            try await shell.startupDidComplete(launched.token)
            await shell.removed()
            run = Task { [shell] in await shell.run() }
            for line in ["launched v1.0.0 on trial", "confirmed v1.0.0"] { #expect(await events.line() == line) }
        }

        /// Lets the shell read its store once.
        mutating func readStore() async {
            ticks += 1
            let moment = Duration.milliseconds(500 * ticks)
            await fixture.clock.sleeper(until: moment)
            fixture.clock.advance(by: .milliseconds(500))
            await fixture.clock.sleeper(until: moment + .milliseconds(500))
        }
    }

    @Test func `without activation windows a page changes its client only when a user loads it`() async throws {
        var running = try await Running(nil)
        defer { running.run.cancel() }
        try await running.fixture.install("1.1.0")
        await running.readStore()
        #expect(await running.events.line() == "available v1.1.0")
        #expect(running.fixture.bridge.calls == ["base v1.0.0"])
        #expect(try await running.shell.pageWillLoad(takesNext: true).name == (try running.fixture.name("1.1.0")))
    }

    @Test func `outside its activation window a ready client waits even if the page is reloaded`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        try await running.fixture.install("1.1.0")
        await running.readStore()
        #expect(await running.events.line() == "available v1.1.0")
        #expect(try await running.shell.pageWillLoad(takesNext: true).name == (try running.fixture.name("1.0.0")))
        running.fixture.showTime(1, 59)
        await running.readStore()
        #expect(running.fixture.bridge.calls == ["base v1.0.0"])
    }

    @Test func `an activation window shows a ready client without a request`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        try await running.fixture.install("1.1.0")
        await running.readStore()
        running.fixture.showTime(2, 0)
        await running.readStore()
        #expect(running.fixture.bridge.calls == ["base v1.0.0", "base v1.1.0", "reload"])
        let launched = try await running.shell.pageWillLoad()
        #expect(launched.name == (try running.fixture.name("1.1.0")))
        // A client on trial is not replaced.
        try await running.fixture.install("1.2.0")
        await running.readStore()
        await running.readStore()
        #expect(running.fixture.bridge.calls.count == 3)
        try await running.shell.startupDidComplete(launched.token)
        await running.shell.removed()
        await running.readStore()
        #expect(running.fixture.bridge.calls.suffix(2) == ["base v1.2.0", "reload"])
    }

    @Test func `a page may reload to the ready client outside the activation windows`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        try await running.fixture.install("1.1.0")
        await running.readStore()
        try await running.shell.reload()
        #expect(running.fixture.bridge.calls == ["base v1.0.0", "base v1.1.0", "reload"])
    }

    @Test func `a starting shell shows the best client outside the activation windows`() async throws {
        let fixture = try await ShellFixture(installing: ["1.0.0", "1.1.0"])
        fixture.showTime(12, 0)
        let shell = try fixture.shell { $0.activation = try? ActivationWindows(parsing: "02:00-04:00") }
        try await shell.start()
        #expect(try await shell.pageWillLoad().name == (try fixture.name("1.1.0")))
    }

    @Test func `a blocked client is replaced outside the activation windows`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        _ = try running.fixture.verdicts().rollBack(to: .embedded)
        await running.readStore()
        #expect(await running.events.line() == "rolled back v1.0.0 to embedded: versionBlocked")
        #expect(running.fixture.bridge.calls == ["base v1.0.0", "base embedded", "reload"])
    }

    @Test func `a blocked client is replaced once the web view accepts another one`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        running.fixture.bridge.refuse()
        _ = try running.fixture.verdicts().rollBack(to: .embedded)
        await running.readStore()
        await running.readStore()
        #expect(await running.events.line() == "error internal")
        running.fixture.bridge.refuse(false)
        await running.readStore()
        // The failure was reported once.
        #expect(await running.events.line() == "rolled back v1.0.0 to embedded: versionBlocked")
        #expect(running.fixture.bridge.calls.suffix(2) == ["base embedded", "reload"])
    }
}
