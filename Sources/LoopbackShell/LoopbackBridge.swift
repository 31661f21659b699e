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

    /// A page's open stream of events.
    struct Listener: Sendable {
        let number: UInt64
        let events: AsyncStream<PageEvent>
    }

    private struct Listening {
        let client: ClientName?
        let stream: AsyncStream<PageEvent>.Continuation
        var knowsUpdate = false
    }

    private struct State {
        var next: Showing?
        var launches: [(id: String, token: String, showing: Showing)] = []
        var looks: [Showing] = []
        var listeners: [UInt64: Listening] = [:]
        var lastListener: UInt64 = 0
        /// Counts how often all pages were forgotten.
        var generation = 0
        /// The launch whose pages were told to load again.
        var outgoing: String?
        /// Errors that no page has heard, the oldest first.
        var unheard: [PageEvent] = []

        mutating func keep(_ error: PageEvent) {
            unheard.append(error)
            if unheard.count > LoopbackBridge.keptErrors { unheard.removeFirst() }
        }
    }

    /// Outgoing pages that may still ask for their files.
    private static let rememberedLaunches = 4
    private static let keptErrors = 8
    /// More than are kept: a stream begins with those.
    private static let waitingEvents = 16

    private let state = Mutex(State())

    /// A bridge without a page.
    public init() {}

    /// Pages that are loaded from now on get the files of `client`.
    public func setServerBasePath(_ client: ReadyClient) throws {
        let showing = try Self.showing(client)
        state.withLock { $0.next = showing }
    }

    /// Tells every page to load itself again, and nothing more: its stream ends, and what happens then is for its follower.
    public func reload() {
        let told = state.withLock { state in
            defer { state.listeners = [:] }
            state.outgoing = state.launches.last?.token
            for listener in state.listeners.values { listener.stream.yield(PageEvent(name: "reload", data: [:])) }
            return state.listeners.values.map(\.stream)
        }
        // Outside the lock, which the end of a stream takes.
        for stream in told { stream.finish() }
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

    /// How often all pages were forgotten.
    var generation: Int { state.withLock { $0.generation } }

    /// Forgets every page and every client that was looked at: nothing of them is served again.
    func forget() {
        state.withLock { state in
            state.generation += 1
            state.launches = []
            state.looks = []
        }
    }

    /// The page of a launch: the same for every load of it. Nil where all pages were forgotten since `generation`.
    func page(of launched: Launched, notice: ServerConfiguration.Bridge?, in generation: Int) throws -> Page? {
        let client = launched.prepared.client
        let ready = state.withLock { $0.next }
        // Opened outside the lock, which the server's one thread takes for every request.
        let showing = if let ready, ready.client.name == client.name { ready } else { try Self.showing(client) }
        let newId = String(try LaunchToken.random().text.prefix(32))
        return state.withLock { state in
            guard state.generation == generation else { return nil }
            let token = launched.token.text
            if state.outgoing == token { state.outgoing = nil }
            if let known = state.launches.last(where: { $0.token == token }) {
                return Page(id: known.id, token: token, site: known.showing.site, notice: notice)
            }
            state.launches.append((newId, token, showing))
            if state.launches.count > Self.rememberedLaunches { state.launches.removeFirst() }
            return Page(id: newId, token: token, site: showing.site, notice: notice)
        }
    }

    /// The files of the page load that the cookie names, else those of the newest one; those of `only` that client, if named.
    func site(ofPage id: String?, only name: ClientName? = nil) -> Site? {
        state.withLock { state in
            let known = state.launches.last { $0.id == id } ?? state.launches.last
            guard let shown = known?.showing ?? state.next, name == nil || shown.client.name == name else { return nil }
            return shown.site
        }
    }

    /// The files of a client that is only looked at, if they are open.
    func look(at name: ClientName) -> Site? {
        state.withLock { $0.looks.last { $0.client.name == name }?.site }
    }

    /// Opens the files of a client that is only looked at; the last few stay open. Nil where all were forgotten since `generation`.
    func look(at client: ReadyClient, in generation: Int) throws -> Site? {
        let showing = try Self.showing(client)
        return state.withLock { state in
            guard state.generation == generation else { return nil }
            state.looks.append(showing)
            if state.looks.count > Self.rememberedLaunches { state.looks.removeFirst() }
            return showing.site
        }
    }

    // MARK: Listeners

    /// Events for a page of the launch with `token`, first the errors that no page has heard; nil when it was told to load again.
    func listen(token: String) -> Listener? {
        let (events, stream) = AsyncStream<PageEvent>.makeStream(
            bufferingPolicy: .bufferingNewest(Self.waitingEvents))
        let number = state.withLock { state in
            state.lastListener += 1
            return state.lastListener
        }
        stream.onTermination = { [weak self] _ in self?.remove(number) }
        return state.withLock { state in
            if state.outgoing == token { return nil }
            let client = state.launches.last { $0.token == token }?.showing.client.name
            state.listeners[number] = Listening(client: client, stream: stream)
            for error in state.unheard { stream.yield(error) }
            state.unheard = []
            return Listener(number: number, events: events)
        }
    }

    private func remove(_ number: UInt64) {
        // Released outside the lock: the last reference to a stream may end it.
        _ = state.withLock { $0.listeners.removeValue(forKey: number) }
    }

    /// Tells one page of an update, unless it was told of one since it listens.
    func send(update: PageEvent, to listener: Listener) {
        state.withLock { state in
            guard let listening = state.listeners[listener.number], !listening.knowsUpdate else { return }
            state.listeners[listener.number]?.knowsUpdate = true
            listening.stream.yield(update)
        }
    }

    /// Tells every page that listens of an update.
    func send(update: PageEvent) {
        state.withLock { state in
            for (number, listening) in state.listeners {
                state.listeners[number]?.knowsUpdate = true
                listening.stream.yield(update)
            }
        }
    }

    /// Tells every page that listens, besides those of a client that `failed` and is about to go; where there is none, the error
    /// is kept for the next page, as one of the newest eight.
    func send(error: PageEvent, failed: ClientName? = nil) {
        state.withLock { state in
            var isHeard = false
            for listening in state.listeners.values where failed == nil || listening.client != failed {
                if case .terminated = listening.stream.yield(error) { continue }
                isHeard = true
            }
            if !isHeard { state.keep(error) }
        }
    }

    /// Ends every stream.
    func finish() {
        for listening in state.withLock({ Array($0.listeners.values) }) { listening.stream.finish() }
    }
}
