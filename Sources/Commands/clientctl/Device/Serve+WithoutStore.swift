import BundleCore
import BundleDisk
import ClientShell
import BundleValues
import BundleServe

extension Serve {
    private static let diskInterval = Duration.seconds(2)

    /// Returns the shell when its store opens. The disk can be mounted, cleared or repaired later, so an error of the store does not end
    /// the process. Until the store opens, serves the seed from its folder. In that case, also returns the port and the signal handler.
    /// Returns nil if a signal to stop arrives first.
    func open(_ parts: Parts) async throws -> (shell: ClientShell, port: Int?, signals: StopSignals?)? {
        let (container, bridge, kiosk, agent) = (parts.container, parts.bridge, parts.kiosk, parts.agent)
        let refusal: any Error
        do {
            return (try container.shell(bridge: bridge), nil, nil)
        } catch  where Launcher.isWithoutStore(error) {
            // `--once` does not wait for a store. Without a seed, there is nothing to show while a path is wrong.
            let canRecover = (error as? DiskError)?.isWriteRefusal == true
            if once || (container.configuration.device.seed == nil && !canRecover) {
                throw error
            }
            refusal = error
        }
        // A program that reads the output can end this process at once.
        let (running, end) = AsyncStream<Void>.makeStream()
        let signals = StopSignals()
        signals.then { end.finish() }
        let screen = try await screenWithoutStore(parts, refusal: refusal)
        let shell = try await withThrowingTaskGroup(of: ClientShell?.self) { group in
            group.addTask {
                await withTaskGroup { group in
                    group.addTask { await kiosk.keepBrowser(at: screen.server.port) }
                    group.addTask {
                        await screen.boot.again(every: container.configuration.storeInterval, after: screen.shown)
                    }
                    group.addTask { await agent.run(screen.server) }
                    group.addTask { await agent.sendStates() }
                    for await _ in running {}
                    group.cancelAll()
                }
                return nil
            }
            group.addTask { try await Self.shell(container, bridge: bridge, after: refusal) }
            defer { group.cancelAll() }
            return try await group.next().flatMap(\.self)
        }
        await screen.server.stop(grace: .zero)
        return shell.map { ($0, screen.server.port, signals) }
    }

    /// Returns the shell when the store opens. Logs each new reason why it does not open.
    private static func shell(
        _ container: DeviceContainer, bridge: LoopbackBridge, after refusal: any Error
    ) async throws -> ClientShell {
        var logged = UpdateFailure(refusal).message
        while true {
            try await Task.sleep(for: diskInterval)
            do {
                return try container.shell(bridge: bridge)
            } catch {
                let message = UpdateFailure(error).message
                if message != logged { Output.warn("\(message) serve tries again every 2 seconds.") }
                logged = message
            }
        }
    }

    /// Starts a server that shows the seed, or the reason why there is no seed, until the store opens.
    private func screenWithoutStore(
        _ parts: Parts, refusal: any Error
    ) async throws -> (server: PageServer, boot: ShellBootSequence, shown: ShellBootSequence.Shown) {
        let (agent, kiosk, sessions) = (parts.agent, parts.kiosk, parts.sessions)
        let device = parts.container.configuration.device
        let reason = UpdateFailure(refusal)
        let bridge = LoopbackBridge(try design(), within: try origins.bound())
        let host = try SeedHost(bridge, of: device, because: refusal, .command)
        let boot = ShellBootSequence(
            sessions: sessions,
            launch: SeedLaunch(host) { if await bridge.noteEnded(sessions, at: .now) { kiosk.endSession() } },
            bridge: bridge,
            say: { if $0 != reason.message { Self.logState($0) } }, tell: { agent.note($0) })
        let shown = try await boot.first(waits: true)
        let name = host.seed
        if name == nil {
            Output.warn(
                "\(reason.message) No client is shown until the store opens; serve tries again every 2 seconds.")
        }
        let application = try? device.seed.flatMap { try SeedFolder(at: $0, layout: device.layout).facts?.appId }
        let server = try await PageServer.start(
            parts.pages.configuration(port: nil, application: application), host: host)
        try announce(server, names: name.map { [$0] } ?? [], next: name)
        agent.ready(server)
        return (server, boot, shown)
    }
}
