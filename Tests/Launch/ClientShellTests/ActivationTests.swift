import BundleCore
import BundleTestTraits
import BundleTesting
import ClientShell
import Testing

/// When a client that is ready is shown, where the owner has said when that may be.
@Suite(.inTurn) struct ActivationTests {
    private struct Running {
        let bench: ShellBench
        let shell: ClientShell
        var events: EventReader
        let run: Task<Void, Never>
        private var ticks = 0

        /// 1.0.0 runs and has confirmed its start; it is noon.
        init(_ windows: String? = "02:00-04:00") async throws {
            bench = try await ShellBench(installing: ["1.0.0"])
            bench.showTime(12, 0)
            shell = try bench.shell { configuration in
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

        /// The shell looks at its store once more, and has.
        mutating func look() async {
            ticks += 1
            let moment = Duration.milliseconds(500 * ticks)
            await bench.clock.sleeper(until: moment)
            bench.clock.advance(by: .milliseconds(500))
            await bench.clock.sleeper(until: moment + .milliseconds(500))
        }
    }

    @Test func `without windows the page is left alone, and whoever loads it gets the new client`() async throws {
        var running = try await Running(nil)
        defer { running.run.cancel() }
        try await running.bench.install("1.1.0")
        await running.look()
        #expect(await running.events.line() == "available v1.1.0")
        #expect(running.bench.bridge.calls == ["base v1.0.0"])
        #expect(try await running.shell.pageWillLoad(takesNext: true).name == (try running.bench.name("1.1.0")))
    }

    @Test func `outside of its window a client waits, also where the page is loaded again`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        try await running.bench.install("1.1.0")
        await running.look()
        #expect(await running.events.line() == "available v1.1.0")
        #expect(try await running.shell.pageWillLoad(takesNext: true).name == (try running.bench.name("1.0.0")))
        running.bench.showTime(1, 59)
        await running.look()
        #expect(running.bench.bridge.calls == ["base v1.0.0"])
    }

    @Test func `in its window it is shown by itself`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        try await running.bench.install("1.1.0")
        await running.look()
        running.bench.showTime(2, 0)
        await running.look()
        #expect(running.bench.bridge.calls == ["base v1.0.0", "base v1.1.0", "reload"])
        let launched = try await running.shell.pageWillLoad()
        #expect(launched.name == (try running.bench.name("1.1.0")))
        // One that is on trial is not replaced before it has shown what it is worth.
        try await running.bench.install("1.2.0")
        await running.look()
        await running.look()
        #expect(running.bench.bridge.calls.count == 3)
        try await running.shell.startupDidComplete(launched.token)
        await running.shell.removed()
        await running.look()
        #expect(running.bench.bridge.calls.suffix(2) == ["base v1.2.0", "reload"])
    }

    @Test func `a page that asks gets it at any time`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        try await running.bench.install("1.1.0")
        await running.look()
        try await running.shell.reload()
        #expect(running.bench.bridge.calls == ["base v1.0.0", "base v1.1.0", "reload"])
    }

    @Test func `a shell that starts shows the best client at any time`() async throws {
        let bench = try await ShellBench(installing: ["1.0.0", "1.1.0"])
        bench.showTime(12, 0)
        let shell = try bench.shell { $0.activation = try? ActivationWindows(parsing: "02:00-04:00") }
        try await shell.start()
        #expect(try await shell.pageWillLoad().name == (try bench.name("1.1.0")))
    }

    @Test func `what must not run is left at any time`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        _ = try running.bench.verdicts().rollBack(to: .embedded)
        await running.look()
        #expect(await running.events.line() == "rolled back v1.0.0 to embedded: versionBlocked")
        #expect(running.bench.bridge.calls == ["base v1.0.0", "base embedded", "reload"])
    }

    @Test func `what must not run is left as soon as that works`() async throws {
        var running = try await Running()
        defer { running.run.cancel() }
        running.bench.bridge.refuse()
        _ = try running.bench.verdicts().rollBack(to: .embedded)
        await running.look()
        await running.look()
        #expect(await running.events.line() == "error internal")
        running.bench.bridge.refuse(false)
        await running.look()
        // The trouble was told once.
        #expect(await running.events.line() == "rolled back v1.0.0 to embedded: versionBlocked")
        #expect(running.bench.bridge.calls.suffix(2) == ["base embedded", "reload"])
    }
}
