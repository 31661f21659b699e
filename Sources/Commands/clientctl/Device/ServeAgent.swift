import ArgumentParser
import BundleCore
import BundleDisk
import BundleServe
import BundleValues
import BundleShell
import ClientServer
import Synchronization

/// Reports the state of `serve` to the service manager, the log and the metrics.
final class ServeAgent: Sendable {
    /// The metrics file is also written without changes, because its age shows that `serve` runs.
    private static let longestSilence = Duration.seconds(60)
    private static let shortestPause = Duration.seconds(1)

    private let manager: ServiceManager
    private let store: String
    private let file: MetricsFile?
    private let roster: RosterSender?
    private let counted = Mutex(ShellMetrics(startedAt: .now))
    private let began = SuspendingClock().now
    private let ownsFile = Mutex(false)
    /// The signal to the task that writes the metrics file.
    private let changeSignal = Mutex<AsyncStream<Void>.Continuation?>(nil)

    /// Creates an agent for the clients in `store`. Metrics are also written to `file`, and states are sent to `roster`.
    init(_ manager: ServiceManager, store: String, file: MetricsFile?, roster: RosterSender?) {
        self.manager = manager
        self.store = store
        self.file = file
        self.roster = roster
    }

    private func signalChange() { _ = changeSignal.withLock { $0?.yield() } }

    // MARK: Events

    /// Records an event of the shell. `isTimed` is true if new clients wait for activation windows.
    func note(_ event: ShellEvent, isTimed: Bool) {
        if let line = LogLine(event, isTimed: isTimed) {
            Log.note(line)
            manager.status(line.message)
        }
        let reading = SuspendingClock().now - began
        counted.withLock { $0.note(event, at: .now, reading: reading) }
        roster?.note(event)
        signalChange()
    }

    /// Records the progress of an update.
    func note(_ event: UpdateEvent) {
        counted.withLock { $0.note(event) }
        signalChange()
    }

    /// Records the state of the screen.
    func note(_ state: LaunchState) {
        counted.withLock { $0.note(state) }
        roster?.note(state)
        signalChange()
    }

    /// Counts a lost page.
    func notePageLost() {
        counted.withLock { $0.noteLostPage() }
        roster?.notePageLost()
        signalChange()
    }

    /// Counts a restart of the browser.
    func noteBrowserRestart() {
        counted.withLock { $0.noteBrowserRestart() }
        signalChange()
    }

    /// Records whether the connection to `peer` is up.
    func note(link peer: String, isUp: Bool) {
        counted.withLock { $0.note(link: peer, isUp: isUp) }
        signalChange()
    }

    /// Reports to the service manager that the server listens.
    func ready(_ server: PageServer) { manager.ready("listening at http://127.0.0.1:\(server.port)/") }

    /// Reports to the service manager that `serve` stops.
    func stopping() { manager.stopping() }

    /// Removes the metrics file if this agent wrote it. Otherwise, it would look like the metrics of a running program.
    func end() {
        guard ownsFile.withLock(\.self) else { return }
        do throws(DiskError) { try file?.remove() } catch { Log.note(LogLine(UpdateFailure(error), event: "metrics")) }
    }

    // MARK: Tasks

    /// Sends the states of the device to its roster until the task is cancelled.
    func sendStates() async { await roster?.run(RosterOptions.note) }

    /// Sends keep-alives to the service manager and writes the metrics file until the task is cancelled. `shell` is nil while the store
    /// cannot be opened.
    func run(_ server: PageServer, shell: ClientShell? = nil) async {
        await withTaskGroup { group in
            group.addTask { [manager] in
                // A page needs both: the server sends its files, and the shell launches it.
                await manager.beat {
                    _ = await shell?.currentVersion
                    await server.answer()
                }
            }
            group.addTask { await self.keepFile() }
            await group.waitForAll()
        }
    }

    /// Returns the current metrics.
    func metrics() async -> String {
        // Other code reports a store that cannot be read.
        let ledger = try? await onThread { [store] in try Inventory.read(at: store).ledger }
        return MetricsText.text(of: counted.withLock { $0.families(ledger, at: .now) })
    }

    private func keepFile() async {
        guard let file else { return }
        ownsFile.withLock { $0 = true }
        let (changes, signal) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        changeSignal.withLock { $0 = signal }
        await withTaskGroup { group in
            group.addTask {
                while !Task.isCancelled {
                    signal.yield()
                    try? await Task.sleep(for: Self.longestSilence)
                }
            }
            var lastFailure: UpdateFailure?
            for await _ in changes {
                let failure = await write(file)
                if let failure, failure != lastFailure { Log.note(LogLine(failure, event: "metrics")) }
                lastFailure = failure
                try? await Task.sleep(for: Self.shortestPause)
            }
            group.cancelAll()
        }
    }

    /// Writes the metrics file. Returns the failure, or nil.
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

/// The flags of the log and the metrics.
struct AgentOptions: ParsableArguments {
    @OptionGroup var log: LogOptions

    @Option(
        help: ArgumentHelp(
            "Also write the metrics to this file, for node_exporter's textfile collector. Its name ends in .prom.",
            valueName: "file"), completion: .file())
    var metricsFile: String?

    /// Returns the folder of the metrics file; empty without one.
    func folders() throws -> [String] {
        try metricsFile.map { [try MetricsFile($0).folder] } ?? []
    }

    /// Sets the form of the log, and returns the agent of `serve`.
    func agent(_ store: String?, roster: RosterSender?) throws -> ServeAgent {
        let manager = Wiring.serviceManager()
        try log.begin()
        return ServeAgent(
            manager, store: try FlagValue.required(store, of: "store"),
            file: try metricsFile.map { try MetricsFile($0) }, roster: roster)
    }
}

/// A file for the textfile collector of Prometheus's node_exporter. Each write replaces the file, so that readers never see a part of it.
struct MetricsFile {
    let folder: String
    private let name: String

    /// Creates a file at `path`. Throws `ValidationError` if the collector does not read files of this name.
    init(_ path: String) throws {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        name = String(parts.last ?? "")
        guard name.hasSuffix(".prom"), name.count > ".prom".count else {
            throw ValidationError(
                "--metrics-file takes a name that ends in .prom, because node_exporter reads no other files, not "
                    + "\(UntrustedName.display(path)).")
        }
        let parent = parts.dropLast().joined(separator: "/")
        folder = parts.count == 1 ? "." : parent.isEmpty ? "/" : parent
    }

    /// Replaces the file by `text`. All users may read it. Opens the folder each time, because it may be created late or be replaced.
    func write(_ text: String) throws(DiskError) {
        try Directory.open(folder).replaceFileWithoutSync(name, with: Array(text.utf8), mode: 0o644)
    }

    func remove() throws(DiskError) { try Directory.open(folder).removeFile(name) }
}
