package import BundleCore
import BundleValues
import BundleDisk
import BundleServe
package import ClientShell
import ShellBoot
import Synchronization

/// The web view's side for a browser on the same machine. The shell writes the screen on its thread, the server reads it on
/// its own; whoever does holds the lock for that alone.
package final class LoopbackBridge: ShellBridge {
    /// More than the errors that are kept: a stream begins with those.
    private static let waitingEvents = 16

    private let screen = Mutex(Screen())

    /// A bridge without a page.
    package init() {}

    /// Pages that are loaded from now on get the files of `client`.
    package func setServerBasePath(_ client: ReadyClient) throws {
        let files = try Self.open(client)
        screen.withLock { $0.next = files }
    }

    /// Tells every page to load itself again.
    package func reload() { end { $0.reload() } }

    /// Pages are told what follows.
    package func update(_ status: ShellStatus) { screen.withLock { $0.status = status } }

    /// Reads the screen, or changes it.
    func withScreen<Value: Sendable>(_ body: (inout sending Screen) throws -> sending Value) rethrows -> Value {
        try screen.withLock(body)
    }

    /// Ends streams when the lock is free: their end takes it.
    private func end(_ body: (inout sending Screen) -> sending [AsyncStream<PageEvent>.Continuation]) {
        for stream in screen.withLock(body) { stream.finish() }
    }

    /// Shows `state` from now on, nil for a device that starts.
    func show(_ state: LaunchState?) throws {
        let ownPage = try StatePage(state)?.page()
        let notice: ServerConfiguration.Bridge? =
            if case .updateRequired(let minimum) = state { try UpdateNotice(minimum: minimum).script() } else { nil }
        end { $0.show(state, ownPage: ownPage, notice: notice) }
    }

    /// The page of a launch; nil where all pages were forgotten since `generation`.
    func page(of launched: Launched, in generation: Int) throws -> Page? {
        let client = launched.prepared.client
        let ready = screen.withLock { $0.next }
        // Opened outside the lock, which the server's one thread takes for every request.
        let files = if let ready, ready.client.name == client.name { ready } else { try Self.open(client) }
        let newId = String(try LaunchToken.random().text.prefix(32))
        guard let shown = screen.withLock({ $0.page(of: launched, files, newId: newId, in: generation) }) else {
            return nil
        }
        for stream in shown.ended { stream.finish() }
        return shown.page
    }

    /// The files of `client`, its index page cut where the page bridge goes.
    static func open(_ client: ReadyClient) throws -> Screen.OpenClient {
        let name = "index.html"
        guard let index = try client.root.directory.contents(name, maximumBytes: 16 << 20) else {
            throw UpdateFailure(
                .storeDamaged, subject: client.root.path, "The serving root \(client.root.path) has no \(name).")
        }
        let start = HTMLOutline(index).headStart
        let page = IndexPage(
            before: Array(index[..<start]), after: Array(index[start...]),
            scriptSources: try ScriptSource.expressions(for: index))
        return Screen.OpenClient(
            client: client, site: try Site(root: client.root.directory, index: page, labels: try client.labels()))
    }

    /// Events for a page with `token`; nil where it is not shown, or was told to load again.
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
