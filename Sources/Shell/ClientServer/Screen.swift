import BundleCore
import BundleValues
import BundleServe
import BundleShell

/// The present content of pages: one value, which the shell and the coordinator change as a whole, and which the
/// server reads.
struct Screen {
    /// The files of a client. The value keeps its root from being removed.
    struct OpenClient: Sendable {
        let client: ReadyClient
        let site: Site
    }

    /// A launch in one session, as its pages see it.
    private struct ShownLaunch {
        let id: String
        let token: String
        let files: OpenClient
        let isTrial: Bool
    }

    /// The open event stream of a page.
    private struct PageListener {
        let client: ClientName?
        let stream: AsyncStream<PageEvent>.Continuation
        var known: ClientName?
    }

    /// An error and the streams that carry it. Without a stream, the next page receives it.
    private struct CarriedError {
        let event: PageEvent
        var streams: Set<Int>
    }

    /// The number of outgoing launches whose pages may still request files.
    private static let rememberedLaunches = 4
    private static let keptErrors = 8

    /// The present state; nil while the device starts.
    private(set) var state: LaunchState? = .client
    /// The reason of the state on the screen, and the time of the first state with it.
    private var reason: (text: String, since: Timestamp)?
    /// The page of the shell itself; nil while clients are shown.
    private(set) var ownPage: Page?
    private var notice: ServerConfiguration.Bridge?
    /// Increases whenever all pages are forgotten.
    private(set) var generation = 0
    /// The name of the last session that ended, if it is known. The next user must not see what its users left in the
    /// browser.
    private var ended: String?
    /// The last part of every page's token, random for each session; empty before the first session has ended.
    private var session = ""
    /// Whether a session has ended since pages were shown.
    private(set) var hasEnded = false
    /// The status that the shell reported last.
    var status = ShellStatus()
    /// The client that the shell prepared last.
    var next: OpenClient?
    private var launches: [ShownLaunch] = []
    private var visited: [OpenClient] = []
    private var listeners: [Int: PageListener] = [:]
    private var lastListener = 0
    /// The token of the pages that were requested to reload.
    private var outgoing: String?
    /// Errors that no page has acknowledged, the oldest first. An error is lost with a stream that ends, so it is
    /// sent again.
    private var unacknowledged: [CarriedError] = []
    private var lastError = 0
    /// The last error of the coordinator.
    private var trouble: String?

    // MARK: States

    /// Shows `state`. Open pages reload and lose the files of earlier pages, unless the state before and `state` both show every client and no
    /// session has ended in between. Returns the event streams of these pages, which the caller has to end.
    mutating func show(
        _ state: LaunchState?, ownPage: Page?, notice: ServerConfiguration.Bridge?
    ) -> [AsyncStream<PageEvent>.Continuation] {
        let goesOn = self.state?.showsEveryClient == true && state?.showsEveryClient == true && !hasEnded
        hasEnded = false
        (self.state, self.ownPage, self.notice) = (state, ownPage, notice)
        if goesOn { return [] }
        generation += 1
        (launches, visited) = ([], [])
        return reload()
    }

    /// Returns since when the screen has shown the reason of `state`, which is shown at `time`.
    mutating func since(_ state: LaunchState?, at time: Timestamp) -> Timestamp {
        guard let text = state?.reason.map({ "\($0.code.rawValue) \($0.subject)" }) else {
            reason = nil
            return time
        }
        if reason?.text != text { reason = (text, time) }
        return reason?.since ?? time
    }

    /// Records the last session that ended. Returns true if it changed. Tokens of pages then end with the result of
    /// `draw`, so pages of that session are rejected, though the launch continues.
    mutating func record(ended: String?, random: () throws -> String) rethrows -> Bool {
        guard ended != self.ended else { return false }
        (session, hasEnded, self.ended) = (try random(), true, ended)
        return true
    }

    /// The session that browsers have to clear before they show a page. Pages of the shell clear nothing: a client
    /// that is shown decides whether its data is kept.
    var leaving: Leaving? {
        ended.map { Leaving(ended: $0, clears: ownPage == nil && site(ofPage: nil)?.keepsSiteData == false) }
    }

    /// The refusal of a page of another launch, or of a session that has ended, which it recognizes by the name.
    var staleLaunch: CallRefusal {
        CallRefusal(
            status: 403, code: "staleLaunch", message: "This page belongs to another launch or session: load it again.",
            ended: ended ?? "", isLocked: isLocked)
    }

    private var isLocked: Bool { state?.isLock == true }

    /// Returns whether pages may show `name`.
    func mayShow(_ name: ClientName) -> Bool { state?.mayShow(name) == true }

    /// Returns whether this error differs from the last one, and records it.
    mutating func isNew(trouble: String) -> Bool {
        defer { self.trouble = trouble }
        return self.trouble != trouble
    }

    // MARK: Pages

    /// Returns the page of a launch, which is the same for every load. If the launch shows another client than the
    /// one before, other windows follow: the caller has to end the returned streams. Nil if all pages were forgotten
    /// since `generation`, or if another launch runs.
    mutating func page(
        of launched: Launched, _ files: OpenClient, newId: String, in generation: Int
    ) -> (page: Page, ended: [AsyncStream<PageEvent>.Continuation])? {
        guard self.generation == generation, launched.token == status.token else { return nil }
        let token = pageToken(launched.token)
        let isOther = launches.last.map { $0.files.client.name != launched.name } ?? false
        let ended = isOther ? reload() : []
        if outgoing == token { outgoing = nil }
        let known = launches.last { $0.token == token }
        let launch = known ?? ShownLaunch(id: newId, token: token, files: files, isTrial: launched.isTrial)
        if known == nil {
            launches.append(launch)
            if launches.count > Self.rememberedLaunches { launches.removeFirst() }
        }
        let page = Page(
            id: launch.id, token: token, site: launch.files.site, notice: notice, ended: self.ended)
        return (page, ended)
    }

    /// Returns the files of the launch that the cookie names, or of the newest one, if they may be shown.
    func site(ofPage id: String?) -> Site? {
        if let ownPage { return ownPage.site }
        guard let files = (launches.last { $0.id == id } ?? launches.last)?.files ?? next, mayShow(files.client.name)
        else { return nil }
        return files.site
    }

    /// Returns the declared origins of an open client that the device does not grant, as sentences.
    func refusedOrigins(of name: ClientName) -> [String] {
        let open = [next].compactMap(\.self) + launches.map(\.files)
        return open.last { $0.client.name == name }?.site.origins.refusals ?? []
    }

    /// Returns the files of a client that is visited without a launch, if they are open.
    func site(visiting name: ClientName) -> Site? { visited.last { $0.client.name == name }?.site }

    /// Keeps the files of a visited client open, with the last few. Returns nil if all were forgotten since
    /// `generation`.
    mutating func visit(_ files: OpenClient, in generation: Int) -> Site? {
        guard self.generation == generation else { return nil }
        visited.append(files)
        if visited.count > Self.rememberedLaunches { visited.removeFirst() }
        return files.site
    }

    /// Requests every page to reload. The caller has to end the returned streams; the next page receives later
    /// events.
    mutating func reload() -> [AsyncStream<PageEvent>.Continuation] {
        let ended = listeners
        outgoing = launches.last?.token
        for (number, listener) in ended {
            listener.stream.yield(
                PageEvent(name: "reload", data: ["ended": .string(self.ended ?? ""), "locked": .bool(isLocked)]))
            _ = remove(number)
        }
        return ended.values.map(\.stream)
    }

    // MARK: Events

    private func pageToken(_ launch: LaunchToken) -> String { launch.text + session }

    /// Returns the running launch if `token` belongs to its pages in this session; nil for other tokens and for pages
    /// of the shell.
    func launch(ofPage token: String) -> LaunchToken? {
        guard ownPage == nil, let launch = status.token, pageToken(launch) == token else { return nil }
        return launch
    }

    /// The client of the running launch, if it is on trial.
    var clientOnTrial: ReadyClient? {
        launches.last { $0.files.client.name == status.current }.flatMap { $0.isTrial ? $0.files.client : nil }
    }

    /// Returns the client of the page with `token`, even if it is unloading; nil for a page that was not shown
    /// recently.
    func client(ofPage token: String) -> ClientName? { launches.last { $0.token == token }?.files.client.name }

    /// Returns whether `token` belongs to the pages that are shown.
    func isCurrent(_ token: String) -> Bool {
        if let ownPage { ownPage.token == token } else { launch(ofPage: token) != nil }
    }

    mutating func newListener() -> Int {
        lastListener += 1
        return lastListener
    }

    /// Adds an event stream for a page with `token`. Returns false for a page that was requested to reload. The
    /// stream begins with the errors that no other stream carries, and with the client that is ready.
    mutating func listen(_ number: Int, token: String, _ stream: AsyncStream<PageEvent>.Continuation) -> Bool {
        guard isCurrent(token), outgoing != token else { return false }
        let client = launches.last { $0.token == token }?.files.client.name
        listeners[number] = PageListener(client: client, stream: stream)
        if ownPage != nil { return true }
        for index in unacknowledged.indices where unacknowledged[index].streams.isEmpty {
            stream.yield(unacknowledged[index].event)
            unacknowledged[index].streams = [number]
        }
        if let name = status.available { send(update: name) }
        return true
    }

    /// Removes a stream. The caller has to release it outside the lock: its last reference may end it.
    mutating func remove(_ number: Int) -> AsyncStream<PageEvent>.Continuation? {
        for index in unacknowledged.indices { unacknowledged[index].streams.remove(number) }
        return listeners.removeValue(forKey: number)?.stream
    }

    /// Records that a page with `token` received the error `id`. Returns false for a page that was never shown.
    mutating func acknowledge(_ id: Int, token: String) -> Bool {
        guard isCurrent(token) || launches.contains(where: { $0.token == token }) else { return false }
        unacknowledged.removeAll { $0.event.id == id }
        return true
    }

    /// Reports a client that is ready to every page, once.
    mutating func send(update name: ClientName) {
        guard ownPage == nil else { return }
        for (number, listener) in listeners where listener.known != name {
            listeners[number]?.known = name
            var data: JSONObject = ["version": .string(name.shortDescription)]
            if name == status.available, let facts = status.facts {
                data.describe(size: facts.size, notes: facts.notes, isUrgent: facts.isUrgent)
            }
            listener.stream.yield(PageEvent(name: "updateAvailable", data: data))
        }
    }

    /// Reports the progress of a download to every page.
    func sendProgress(bytes: Int, of size: Int?) {
        guard ownPage == nil else { return }
        let data: JSONObject = ["bytes": .integer(bytes), "of": size.map(JSONValue.integer) ?? .null]
        for listener in listeners.values { listener.stream.yield(PageEvent(name: "downloadProgress", data: data)) }
    }

    /// Reports to every page that a check found no newer client, and which one waits for its second trial.
    mutating func sendUpToDate() {
        guard ownPage == nil, status.available == nil, let name = status.current else { return }
        var data: JSONObject = ["version": .string(name.shortDescription)]
        if let waiting = status.waiting { data["waiting"] = .object(waiting.members) }
        let event = PageEvent(name: "upToDate", data: data)
        for listener in listeners.values { listener.stream.yield(event) }
    }

    /// Reports an error to every page, except those of the client that `failed`, which is being replaced and whose version the
    /// error names. The newest eight errors are kept until a page acknowledges them.
    mutating func send(error failure: UpdateFailure, failed: ClientName? = nil) {
        guard ownPage == nil else { return }
        lastError += 1
        var data: JSONObject = ["code": .string(failure.code.rawValue), "message": .string(failure.message)]
        if let failed { data["version"] = .string(failed.shortDescription) }
        let error = PageEvent(name: "error", data: data, id: lastError)
        var streams: Set<Int> = []
        for (number, listener) in listeners where failed == nil || listener.client != failed {
            if case .terminated = listener.stream.yield(error) { continue }
            streams.insert(number)
        }
        unacknowledged.append(CarriedError(event: error, streams: streams))
        if unacknowledged.count > Self.keptErrors { unacknowledged.removeFirst() }
    }

    /// All event streams.
    var streams: [AsyncStream<PageEvent>.Continuation] { listeners.values.map(\.stream) }
}
