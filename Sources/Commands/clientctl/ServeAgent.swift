import ArgumentParser
import BundleCore
import BundleDisk
import BundleValues
import ClientShell
import BundleServe
import Synchronization

/// What the machine around `serve` sees of it: the service manager, the log and the metrics.
final class ServeAgent: Sendable {
    /// Without any news the file is written anyway: days go by, and its age tells whether anybody writes it.
    private static let longestSilence = Duration.seconds(60)
    private static let shortestPause = Duration.seconds(1)

    private let manager: ServiceManager
    private let store: String
    private let file: MetricsFile?
    private let counted = Mutex(ShellMetrics(startedAt: .now))
    private let began = SuspendingClock().now
    private let ownsFile = Mutex(false)
    /// Of whoever writes the file at present.
    private let news = Mutex<AsyncStream<Void>.Continuation?>(nil)

    /// For the clients in `store`; `file` is where metrics are written, beside being answered.
    init(_ manager: ServiceManager, store: String, file: MetricsFile?) {
        self.manager = manager
        self.store = store
        self.file = file
    }

    private func tell() { _ = news.withLock { $0?.yield() } }

    // MARK: What happens

    /// Takes in what happened in the shell; `isTimed` where new clients wait for activation windows.
    func note(_ event: ShellEvent, isTimed: Bool) {
        if let line = LogLine(event, isTimed: isTimed) {
            Log.note(line)
            manager.status(line.message)
        }
        let reading = SuspendingClock().now - began
        counted.withLock { $0.note(event, at: .now, reading: reading) }
        tell()
    }

    /// Takes in how far an update is.
    func note(_ event: UpdateEvent) {
        counted.withLock { $0.note(event) }
        tell()
    }

    /// Takes in what is on the screen.
    func note(_ state: LaunchState) {
        counted.withLock { $0.note(state) }
        tell()
    }

    /// Takes in that the page in front was lost.
    func notePageLost() {
        counted.withLock { $0.noteLostPage() }
        tell()
    }

    /// Takes in that the browser is started again.
    func noteBrowserRestart() {
        counted.withLock { $0.noteBrowserRestart() }
        tell()
    }

    /// Takes in whether the connection to `peer` stands.
    func note(link peer: String, isUp: Bool) {
        counted.withLock { $0.note(link: peer, isUp: isUp) }
        tell()
    }

    /// The server listens.
    func ready(_ server: PageServer) { manager.ready("listening at http://127.0.0.1:\(server.port)/") }

    /// The end begins.
    func stopping() { manager.stopping() }

    /// Takes the metrics away, once they are its own: they would be taken for those of a program that runs.
    func end() {
        guard ownsFile.withLock(\.self) else { return }
        do throws(DiskError) { try file?.remove() } catch { Log.note(LogLine(UpdateFailure(error), event: "metrics")) }
    }

    // MARK: While it runs

    /// Gives signs of life and writes the file, until it is cancelled. There is no `shell` while the store cannot be had.
    func run(_ server: PageServer, _ shell: ClientShell? = nil) async {
        await withTaskGroup { group in
            group.addTask { [manager] in
                // A page needs both: files come by the one, its launch by the other.
                await manager.beat {
                    _ = await shell?.currentVersion
                    await server.answer()
                }
            }
            group.addTask { await self.keepFile() }
            await group.waitForAll()
        }
    }

    /// The metrics as they are now.
    func metrics() async -> String {
        // A store that cannot be read is told of elsewhere.
        let ledger = try? await onThread { [store] in try Inventory.read(at: store).ledger }
        return MetricsText.text(of: counted.withLock { $0.families(ledger, at: .now) })
    }

    private func keepFile() async {
        guard let file else { return }
        ownsFile.withLock { $0 = true }
        let (changes, teller) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        news.withLock { $0 = teller }
        await withTaskGroup { group in
            group.addTask {
                while !Task.isCancelled {
                    teller.yield()
                    try? await Task.sleep(for: Self.longestSilence)
                }
            }
            var trouble: UpdateFailure?
            for await _ in changes {
                let found = await write(file)
                if let found, found != trouble { Log.note(LogLine(found, event: "metrics")) }
                trouble = found
                try? await Task.sleep(for: Self.shortestPause)
            }
            group.cancelAll()
        }
    }

    /// Why it cannot be written; nil when it is.
    private func write(_ file: MetricsFile) async -> UpdateFailure? {
        let text = await metrics()
        do {
            try await onThread { try file.write(text) }
            return nil
        } catch {
            return UpdateFailure(error)
        }
    }
}

/// Flags of the agent.
struct AgentOptions: ParsableArguments {
    @OptionGroup var log: LogOptions

    @Option(
        help: ArgumentHelp(
            "Write the metrics to this file, too, for node_exporter's textfile collector; its name ends in .prom.",
            valueName: "file"), completion: .file())
    var metricsFile: String?

    /// Where the metrics are written.
    func folders(_ settings: Settings) throws -> [String] {
        try settings.optional("metrics-file", metricsFile).map { [try MetricsFile($0).folder] } ?? []
    }

    /// The agent of a `serve` that begins, and the log as it is wanted.
    func agent(_ store: String?, _ settings: Settings) throws -> ServeAgent {
        let manager = Wiring.serviceManager()
        try log.begin(settings)
        return ServeAgent(
            manager, store: try settings.required("store", store),
            file: try settings.optional("metrics-file", metricsFile).map { try MetricsFile($0) })
    }
}
