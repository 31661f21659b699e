package import BundleCore
import BundleServe
package import BundleValues
import Synchronization
package import BundleShell

/// The bridge for a browser on the same machine. The shell changes the screen on its thread, and the server reads it
/// on its own; a lock protects it.
package final class LoopbackBridge: ShellBridge {
    /// More than the errors with which a stream begins, and the progress reports until the server closes a page that does not
    /// read.
    private static let waitingEvents = 128

    private let screen = Mutex(Screen())

    /// The texts and the style of the shell's own pages.
    let design: ScreenDesign

    /// The origins that releases may use.
    private let bound: OriginBound

    /// Creates a bridge without a page. The shell's own pages have the `design`. Releases may use origins within `bound`.
    package init(_ design: ScreenDesign = ScreenDesign(), within bound: OriginBound = .all) {
        (self.design, self.bound) = (design, bound)
    }

    /// Sets the files of pages that load from now on.
    package func show(_ client: ReadyClient) throws {
        let files = try open(client)
        screen.withLock { $0.next = files }
    }

    /// Requests every page to reload.
    package func reload() { end { $0.reload() } }

    /// Stores the status, which pages read.
    package func update(_ status: ShellStatus) { screen.withLock { $0.status = status } }

    /// Reads or changes the screen.
    func withScreen<Value: Sendable>(_ body: (inout sending Screen) throws -> sending Value) rethrows -> Value {
        try screen.withLock(body)
    }

    /// Ends streams outside the lock, because their end acquires it.
    private func end(_ body: (inout sending Screen) -> sending [AsyncStream<PageEvent>.Continuation]) {
        for stream in screen.withLock(body) { stream.finish() }
    }

    /// Shows `state` at `time`; nil for a device that is starting.
    func show(_ state: LaunchState?, at time: Timestamp) throws {
        let since = screen.withLock { $0.since(state, at: time) }
        let ownPage = try StatePage(state, since: since)?.page(design)
        let notice: ServerConfiguration.Bridge? =
            if case .updateRequired(let minimum) = state { try UpdateNotice(minimum: minimum).script(design) } else {
                nil
            }
        end { $0.show(state, ownPage: ownPage, notice: notice) }
    }

    /// Records the last of `sessions` that ended at `time`, before the next page is shown. Returns true if another
    /// one has ended since the call before. An unreadable record ends no session.
    @discardableResult
    package func noteEnded(_ sessions: any SessionRepository, at time: Timestamp) async -> Bool {
        guard let record = try? await sessions.record() else { return false }
        return (try? withScreen { try $0.record(ended: record.endings(at: time)?.name, random: Self.word) }) ?? false
    }

    /// Returns 32 random letters and digits.
    private static func word() throws -> String { String(try LaunchToken.random().text.prefix(32)) }

    /// Returns the page of a launch; nil if all pages were forgotten since `generation`, or if another launch runs.
    func page(of launched: Launched, in generation: Int) throws -> Page? {
        let client = launched.prepared.client
        let ready = screen.withLock { $0.next }
        // Opened outside the lock, which the server's only thread acquires for every request.
        let files = if let ready, ready.client.name == client.name { ready } else { try open(client) }
        let newId = try Self.word()
        guard let shown = screen.withLock({ $0.page(of: launched, files, newId: newId, in: generation) }) else {
            return nil
        }
        for stream in shown.ended { stream.finish() }
        return shown.page
    }

    /// Opens the files of `client` and splits its index page where the bridge is inserted.
    func open(_ client: ReadyClient) throws -> Screen.OpenClient {
        let labels = try client.labels(ofFilesOver: Site.largestFileInMemory)
        let site = try Site(client.root, labels: labels, within: client.mayDeclareOrigins ? bound : .unsigned)
        return Screen.OpenClient(client: client, site: site)
    }

    /// Returns the events for a page with `token`; nil if the page is not shown or has to reload.
    func listen(token: String) -> AsyncStream<PageEvent>? {
        let (events, stream) = AsyncStream<PageEvent>.makeStream(
            bufferingPolicy: .bufferingNewest(Self.waitingEvents))
        let number = screen.withLock { $0.newListener() }
        stream.onTermination = { [weak self] _ in _ = self?.screen.withLock { $0.remove(number) } }
        return screen.withLock { $0.listen(number, token: token, stream) } ? events : nil
    }

    /// Ends every stream.
    func finish() { end { $0.streams } }
}
