import BundleValues
import BundleDisk
import BundleServe
import BundleTesting
import Synchronization

/// A host that records requests, shows sites that a test may change, and accepts the tokens of its pages.
final class MemoryHost: PageHost {
    struct State {
        var current: Site
        var versions: [String: Site] = [:]
        var pages: [String: Site] = [:]
        var tokens: Set<String> = []
        var calls: [(method: String, token: String, body: JSONObject)] = []
        var streams: [String: AsyncStream<PageEvent>.Continuation] = [:]
        var endedStreams = 0
        var pageGate: Gate?
        var pageFails = false
        var nextPage: Page?
        var generation = 0
    }

    private let state: Mutex<State>

    init(_ site: Site) { state = Mutex(State(current: site)) }

    /// Reads or changes the state.
    func with<Value: Sendable>(_ body: (inout sending State) -> sending Value) -> Value { state.withLock(body) }

    struct Broken: Error {}

    func page(isBrowser: Bool) async throws -> Page {
        try state.withLock { state in
            if state.pageFails { throw Broken() }
            let number = state.pages.count + 1
            let page = state.nextPage ?? Page(id: "page-\(number)", token: "token-\(number)", site: state.current)
            state.pages[page.id] = page.site
            state.tokens.insert(page.token)
            return page
        }
    }

    var generation: Int { state.withLock { $0.generation } }

    func site(ofPage page: String?) -> Site {
        state.withLock { state in page.flatMap { state.pages[$0] } ?? state.current }
    }

    func site(named name: String) async throws -> Site? {
        try state.withLock { state in
            if name == "v0.0.1-broken" { throw Broken() }
            return state.versions[name]
        }
    }

    func clients() async throws -> [String] { state.withLock { $0.versions.keys.sorted() } }

    func call(_ method: String, token: String, body: JSONObject) async throws -> JSONObject {
        try state.withLock { state in
            state.calls.append((method, token, body))
            guard state.tokens.contains(token) else {
                throw CallRefusal(status: 403, code: "staleLaunch", message: "this page is not the one that is shown")
            }
            if method == "fail" { throw Broken() }
            return ["method": .string(method), "body": .object(body)]
        }
    }

    func events(token: String) async throws -> AsyncStream<PageEvent> {
        guard state.withLock({ $0.tokens.contains(token) }) else {
            throw CallRefusal(status: 403, code: "staleLaunch", message: "this page is not the one that is shown")
        }
        let (stream, continuation) = AsyncStream.makeStream(of: PageEvent.self, bufferingPolicy: .bufferingNewest(16))
        continuation.onTermination = { [weak self] _ in self?.state.withLock { $0.endedStreams += 1 } }
        state.withLock { $0.streams[token] = continuation }
        return stream
    }
}
