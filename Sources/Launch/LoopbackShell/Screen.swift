import BundleCore
import BundleValues
import BundleServe
import ClientShell
import ShellBoot

/// What pages get at this moment: one value, which the shell and the coordinator change as a whole, and which the server reads.
struct Screen {
    /// The files of a client; keeps its root from being removed.
    struct OpenClient: Sendable {
        let client: ReadyClient
        let site: Site
    }

    /// A launch that was shown in one session, as its pages know it.
    private struct ShownLaunch {
        let id: String
        let token: String
        let files: OpenClient
    }

    /// A page's open stream of events.
    private struct Listener {
        let client: ClientName?
        let stream: AsyncStream<PageEvent>.Continuation
        var known: ClientName?
    }

    /// An error with the streams that carry it; where there is none any more, it is for the next page.
    private struct CarriedError {
        let event: PageEvent
        var streams: Set<Int>
    }

    /// Outgoing pages that may still ask for their files.
    private static let rememberedLaunches = 4
    private static let keptErrors = 8

    /// The state that is shown; nil while the device starts.
    private(set) var state: LaunchState? = .authenticated
    /// The page of the shell's own; nil where clients are shown.
    private(set) var ownPage: Page?
    private var notice: ServerConfiguration.Bridge?
    /// Counts how often all pages were forgotten.
    private(set) var generation = 0
    /// Names the last session that ended, as far as is known; what its users left in the browser is not for whoever comes.
    private var ended: String?
    /// The last part of every page's token: drawn when a session has ended, empty before the first.
    private var session = ""
    /// Whether one has ended since pages were shown.
    private(set) var hasEnded = false
    /// What runs, as the shell said last.
    var status = ShellStatus()
    /// The client that the shell handed over last.
    var next: OpenClient?
    private var launches: [ShownLaunch] = []
    private var visited: [OpenClient] = []
    private var listeners: [Int: Listener] = [:]
    private var lastListener = 0
    /// The token of the pages that were told to load again.
    private var outgoing: String?
    /// Errors that no page has said it heard, the oldest first: a stream may end, and what it carried with it.
    private var unheard: [CarriedError] = []
    private var lastError = 0
    /// What the coordinator could not do last.
    private var trouble: String?

    // MARK: States

    /// Shows `state` from now on; the streams are to be ended. Unless clients are shown as before, pages that are open load
    /// themselves again, and find nothing more of what was shown.
    mutating func show(
        _ state: LaunchState?, ownPage: Page?, notice: ServerConfiguration.Bridge?
    ) -> [AsyncStream<PageEvent>.Continuation] {
        let goesOn = Self.showsClients(self.state) && Self.showsClients(state) && !hasEnded
        hasEnded = false
        (self.state, self.ownPage, self.notice) = (state, ownPage, notice)
        if goesOn { return [] }
        generation += 1
        (launches, visited) = ([], [])
        return reload()
    }

    /// Notes which session was the last that ended. Where that is another one than before, it is true, and pages have tokens with what
    /// `draw` gives from then on: no page of that session is one of the next, though the launch goes on.
    mutating func note(ended: String?, draw: () throws -> String) rethrows -> Bool {
        guard ended != self.ended else { return false }
        (session, hasEnded, self.ended) = (try draw(), true, ended)
        return true
    }

    /// What browsers leave behind before they are shown a page. Pages of the shell's own clear nothing: whether a client asks to keep the
    /// data is decided when one is shown.
    var leaving: Leaving? {
        ended.map { Leaving(ended: $0, clears: ownPage == nil && site(ofPage: nil)?.keepsSiteData == false) }
    }

    /// Refuses a page that belongs to another launch, or to a session that has ended: it can tell by the name.
    var staleLaunch: CallRefusal {
        CallRefusal(
            status: 403, code: "staleLaunch", message: "This page belongs to another launch or session: load it again.",
            ended: ended ?? "")
    }

    private static func showsClients(_ state: LaunchState?) -> Bool {
        switch state {
        case .authenticated, .updateRequired: true
        case .unauthenticated, .signedOut, .locked, .maintenance, .waiting, .failure, nil: false
        }
    }

    /// Whether pages may get `name`.
    func mayShow(_ name: ClientName) -> Bool {
        if case .unauthenticated = state { name == .embedded } else { Self.showsClients(state) }
    }

    /// Whether this trouble is another one than before.
    mutating func isNew(trouble: String) -> Bool {
        defer { self.trouble = trouble }
        return self.trouble != trouble
    }

    // MARK: Pages

    /// The page of a launch: the same for every load of it. Where it shows another client than the launch before, other windows
    /// come along: their streams are to be ended. Nil where all pages were forgotten since `generation`, or another launch runs by now.
    mutating func page(
        of launched: Launched, _ files: OpenClient, newId: String, in generation: Int
    ) -> (page: Page, ended: [AsyncStream<PageEvent>.Continuation])? {
        guard self.generation == generation, launched.token == status.token else { return nil }
        let token = pageToken(launched.token)
        let isOther = launches.last.map { $0.files.client.name != launched.name } ?? false
        let ended = isOther ? reload() : []
        if outgoing == token { outgoing = nil }
        let known = launches.last { $0.token == token }
        let launch = known ?? ShownLaunch(id: newId, token: token, files: files)
        if known == nil {
            launches.append(launch)
            if launches.count > Self.rememberedLaunches { launches.removeFirst() }
        }
        let page = Page(
            id: launch.id, token: token, site: launch.files.site, notice: notice, ended: self.ended)
        return (page, ended)
    }

    /// The files of the page load that the cookie names, else those of the newest one, as far as they may be shown.
    func site(ofPage id: String?) -> Site? {
        if let ownPage { return ownPage.site }
        guard let files = (launches.last { $0.id == id } ?? launches.last)?.files ?? next, mayShow(files.client.name)
        else { return nil }
        return files.site
    }

    /// The files of a client that is only looked at, if they are open.
    func site(visiting name: ClientName) -> Site? { visited.last { $0.client.name == name }?.site }

    /// Keeps the files of a client open that is only looked at, with the last few; nil where all were forgotten since `generation`.
    mutating func visit(_ files: OpenClient, in generation: Int) -> Site? {
        guard self.generation == generation else { return nil }
        visited.append(files)
        if visited.count > Self.rememberedLaunches { visited.removeFirst() }
        return files.site
    }

    /// Tells every page to load itself again, and nothing more: its stream is to be ended, and what happens then is for its
    /// follower.
    mutating func reload() -> [AsyncStream<PageEvent>.Continuation] {
        let ended = listeners
        outgoing = launches.last?.token
        for (number, listener) in ended {
            listener.stream.yield(PageEvent(name: "reload", data: ["ended": .string(self.ended ?? "")]))
            _ = remove(number)
        }
        return ended.values.map(\.stream)
    }

    // MARK: Events

    private func pageToken(_ launch: LaunchToken) -> String { launch.text + session }

    /// The launch that runs, where `token` is that of its pages in this session; nil for all others, and for the shell's own.
    func launch(ofPage token: String) -> LaunchToken? {
        guard ownPage == nil, let launch = status.token, pageToken(launch) == token else { return nil }
        return launch
    }

    /// The client of the page with `token`, be it on its way out; nil for a page that was not shown lately.
    func client(ofPage token: String) -> ClientName? { launches.last { $0.token == token }?.files.client.name }

    /// Whether `token` is that of the pages that are shown.
    func isCurrent(_ token: String) -> Bool {
        if let ownPage { ownPage.token == token } else { launch(ofPage: token) != nil }
    }

    mutating func newListener() -> Int {
        lastListener += 1
        return lastListener
    }

    /// Whether a page with `token` is told what happens from now on: not one that was told to load again. It hears the errors
    /// that no page has heard, or may yet hear, and of the client that is ready.
    mutating func listen(_ number: Int, token: String, _ stream: AsyncStream<PageEvent>.Continuation) -> Bool {
        guard isCurrent(token), outgoing != token else { return false }
        let client = launches.last { $0.token == token }?.files.client.name
        listeners[number] = Listener(client: client, stream: stream)
        if ownPage != nil { return true }
        for index in unheard.indices where unheard[index].streams.isEmpty {
            stream.yield(unheard[index].event)
            unheard[index].streams = [number]
        }
        if let name = status.available { send(update: name) }
        return true
    }

    /// The stream is to be released where no lock is held: the last reference to it may end it.
    mutating func remove(_ number: Int) -> AsyncStream<PageEvent>.Continuation? {
        for index in unheard.indices { unheard[index].streams.remove(number) }
        return listeners.removeValue(forKey: number)?.stream
    }

    /// A page with `token` says that it heard the error `id`, also on its way out; false from a page that was never shown.
    mutating func hear(_ id: Int, token: String) -> Bool {
        guard isCurrent(token) || launches.contains(where: { $0.token == token }) else { return false }
        unheard.removeAll { $0.event.id == id }
        return true
    }

    /// Tells every page of a client that is ready, once.
    mutating func send(update name: ClientName) {
        guard ownPage == nil else { return }
        for (number, listener) in listeners where listener.known != name {
            listeners[number]?.known = name
            let data: JSONObject = ["version": .string(name.shortDescription)]
            listener.stream.yield(PageEvent(name: "updateAvailable", data: data))
        }
    }

    /// Tells every page that a check has found nothing newer than what runs, or is ready.
    mutating func sendUpToDate() {
        guard ownPage == nil, status.available == nil, let name = status.current else { return }
        let event = PageEvent(name: "upToDate", data: ["version": .string(name.shortDescription)])
        for listener in listeners.values { listener.stream.yield(event) }
    }

    /// Tells every page that listens, besides those of a client that `failed` and is about to go. Until one of them has said that
    /// it heard the error, and where there is none, it is kept for the next page, as one of the newest eight.
    mutating func send(error failure: UpdateFailure, failed: ClientName? = nil) {
        guard ownPage == nil else { return }
        lastError += 1
        let error = PageEvent(
            name: "error", data: ["code": .string(failure.code.rawValue), "message": .string(failure.message)],
            id: lastError)
        var streams: Set<Int> = []
        for (number, listener) in listeners where failed == nil || listener.client != failed {
            if case .terminated = listener.stream.yield(error) { continue }
            streams.insert(number)
        }
        unheard.append(CarriedError(event: error, streams: streams))
        if unheard.count > Self.keptErrors { unheard.removeFirst() }
    }

    /// Every stream there is.
    var streams: [AsyncStream<PageEvent>.Continuation] { listeners.values.map(\.stream) }
}
