public import BundleCore
import BundleDisk
import BundleServe
public import ClientShell
import Synchronization

/// The web view's side for a browser on the same machine: which files pages get, and how they are told to load again.
public final class LoopbackBridge: ShellBridge {
    /// A page load's files; keeps the client's root from being removed.
    struct Showing: Sendable {
        let client: ReadyClient
        let site: Site
    }

    private struct State {
        var next: Showing?
        var launches: [(id: String, token: String, showing: Showing)] = []
        var looks: [Showing] = []
        var listeners: [UInt64: AsyncStream<PageEvent>.Continuation] = [:]
        var lastListener: UInt64 = 0
    }

    /// Outgoing pages that may still ask for their files.
    private static let rememberedLaunches = 4
    private static let waitingEvents = 16

    private let state = Mutex(State())

    /// A bridge without a page.
    public init() {}

    /// Pages that are loaded from now on get the files of `client`.
    public func setServerBasePath(_ client: ReadyClient) throws {
        let showing = try Self.showing(client)
        state.withLock { $0.next = showing }
    }

    /// Tells every page to load itself again.
    public func reload() {
        send(PageEvent(name: "reload", data: [:]))
    }

    /// The files of `client`, its index page cut where the page bridge goes.
    static func showing(_ client: ReadyClient) throws -> Showing {
        let name = "index.html"
        guard let index = try client.root.directory.contents(name, maximumBytes: 16 << 20) else {
            throw UpdateFailure(
                .storeDamaged, subject: client.root.path, "The serving root \(client.root.path) has no \(name).")
        }
        let start = HTMLOutline(index).headStart
        let page = IndexPage(
            before: Array(index[..<start]), after: Array(index[start...]),
            scriptSources: try ScriptSource.expressions(for: index))
        return Showing(
            client: client, site: try Site(root: client.root.directory, index: page, labels: try client.labels()))
    }

    // MARK: Pages

    /// The page of a launch: the same for every load of it.
    func page(of launched: Launched) throws -> Page {
        let client = launched.prepared.client
        let ready = state.withLock { $0.next }
        // Opened outside the lock, which the server's one thread takes for every request.
        let showing = if let ready, ready.client.name == client.name { ready } else { try Self.showing(client) }
        let newId = String(try LaunchToken.random().text.prefix(32))
        return state.withLock { state in
            let token = launched.token.text
            if let known = state.launches.last(where: { $0.token == token }) {
                return Page(id: known.id, token: token, site: known.showing.site)
            }
            state.launches.append((newId, token, showing))
            if state.launches.count > Self.rememberedLaunches { state.launches.removeFirst() }
            return Page(id: newId, token: token, site: showing.site)
        }
    }

    /// The files of the page load that the cookie names, else those of the newest one.
    func site(ofPage id: String?) -> Site? {
        state.withLock { state in
            let known = state.launches.last { $0.id == id } ?? state.launches.last
            return known?.showing.site ?? state.next?.site
        }
    }

    /// The files of a client that is only looked at, if they are open.
    func look(at name: ClientName) -> Site? {
        state.withLock { $0.looks.last { $0.client.name == name }?.site }
    }

    /// Opens the files of a client that is only looked at; the last few stay open.
    func look(at client: ReadyClient) throws -> Site {
        let showing = try Self.showing(client)
        state.withLock { state in
            state.looks.append(showing)
            if state.looks.count > Self.rememberedLaunches { state.looks.removeFirst() }
        }
        return showing.site
    }

    // MARK: Listeners

    /// Events for a page, `first` before all others.
    func listen(first: [PageEvent]) -> AsyncStream<PageEvent> {
        let (stream, continuation) = AsyncStream<PageEvent>.makeStream(
            bufferingPolicy: .bufferingNewest(Self.waitingEvents))
        let number = state.withLock { state in
            state.lastListener += 1
            state.listeners[state.lastListener] = continuation
            return state.lastListener
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { $0.listeners[number] = nil }
        }
        for event in first { continuation.yield(event) }
        return stream
    }

    /// Tells every page that listens.
    func send(_ event: PageEvent) {
        for listener in state.withLock({ Array($0.listeners.values) }) { listener.yield(event) }
    }

    /// Ends every stream.
    func finish() {
        for listener in state.withLock({ Array($0.listeners.values) }) { listener.finish() }
    }
}
