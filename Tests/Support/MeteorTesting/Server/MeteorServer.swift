package import BundleValues
import BundleTesting
import Synchronization

/// A Meteor server on a port of 127.0.0.1 that serves bundles in the server layout, logs requests and misbehaves on
/// request.
package final class MeteorServer: Sendable {
    /// The `ETag` of assets.
    package enum EntityTags: Sendable {
        /// The manifest's `hash` in quotes, with the other headers of a real server.
        case manifestHash
        /// The SHA-1 of the bytes in quotes, without cache headers, as from the mock server of the Cordova plugin's
        /// suite.
        case contentDigest
    }

    package let port: Int
    private let site: Site
    private let server: LoopbackServer

    /// Serves the versions in `folders`: each folder is a version by its name, or contains such folders.
    ///
    /// No version is served before the first `serve(version:)`. `rootPath` is the path in ROOT_URL, such as `/sub`.
    /// `onRequest` is called for every request with the status of its response, on a thread of the server. With
    /// `talksDDP`, clients that open a socket at `/websocket` receive the served version; otherwise there is no socket,
    /// as behind many proxies. Socket requests are not logged.
    package init(
        _ folders: [String], port: Int = 0, tags: EntityTags = .manifestHash, rootPath: String = "",
        prefix: String = "/__cordova", talksDDP: Bool = false,
        onRequest: (@Sendable (MeteorRequest, Int) -> Void)? = nil
    ) throws {
        let rules = ServerRules(rootPath: rootPath, prefix: prefix, tags: tags)
        let site = Site(rules, try VersionFolders.find(folders), talksDDP ? DDPService() : nil, onRequest)
        server = try LoopbackServer(port: port) { site.answer($0) }
        self.port = server.port
        self.site = site
    }

    /// The ROOT_URL with a trailing slash.
    package var rootURL: String { "http://127.0.0.1:\(port)\(site.rules.rootPath)/" }

    /// Returns the URL of a path below the prefix, such as `/manifest.json`.
    package func url(_ path: String) throws -> FetchURL {
        try server.url(site.rules.rootPath + site.rules.prefix + path)
    }

    /// The names of all versions, sorted.
    package var versions: [String] { site.state.withLock { $0.folders.keys.sorted() } }

    /// The name of the served version; nil before the first.
    package var servedVersion: String? { site.state.withLock { $0.served?.name } }

    /// Adds or replaces a version. A served version does not change until it is served again.
    package func add(_ version: String, folder: String) { site.state.withLock { $0.folders[version] = folder } }

    /// Serves another version from the next request on and clears `requests`.
    package func serve(version: String) throws {
        let served = try site.load(version)
        site.state.withLock { state in
            state.served = served
            state.next = nil
            state.cleared = state.log.count
            state.switched = state.log.count
        }
        site.sockets?.serve(served.version)
    }

    /// The number of clients that subscribe to versions.
    package var subscriberCount: Int { site.sockets?.count ?? 0 }

    /// Breaks every socket.
    package func cutSockets() { site.sockets?.cut() }

    /// Serves another version from the n-th request on, counted from 1: a deployment during a download. It does not clear
    /// the log.
    package func serve(version: String, fromRequest number: Int) throws {
        let served = try site.load(version)
        site.state.withLock { $0.next = ($0.log.count + number, served) }
    }

    /// Adds a fault to the responses of a path below the prefix, including `/` and `/manifest.json`. `*` applies to all
    /// paths without faults. The faults of a path apply in turn, each for `times` requests, or permanently for nil.
    package func fault(_ path: String, _ fault: Fault, times: Int? = nil) {
        site.state.withLock { $0.faults[path, default: FaultQueue()].append(fault, times: times) }
    }

    /// Removes the faults of a path, or of all paths for nil.
    package func heal(_ path: String? = nil) {
        site.state.withLock { state in
            if let path { state.faults[path] = nil } else { state.faults = [:] }
        }
    }

    /// The requests since the last `serve(version:)`, in order.
    package var requests: [MeteorRequest] { site.state.withLock { Array($0.log[$0.cleared...]) } }

    /// The requests since the last change of the version, by `serve(version:)` or during a download.
    package var requestsSinceLastSwitch: [MeteorRequest] { site.state.withLock { Array($0.log[$0.switched...]) } }

    /// The requests since the start.
    package var allRequests: [MeteorRequest] { site.state.withLock { $0.log } }

    /// The number of accepted connections since the start.
    package var connectionCount: Int { server.connectionCount }

    /// Clears `requests` without changing the version.
    package func clearRequests() { site.state.withLock { $0.cleared = $0.log.count } }

    /// Waits until a path below the prefix is requested after the last `serve(version:)`. Returns false after a minute.
    package func wait(for path: String) -> Bool {
        let prefix = site.rules.prefix
        return Patience.wait { requests.contains { $0.path.hasSuffix(prefix + path) } }
    }

    /// Closes the server. A second call does nothing.
    package func stop() { server.stop() }
}

/// The state of the server's threads.
private final class Site: Sendable {
    struct State {
        var folders: [String: String]
        var served: ServedVersion?
        var next: (at: Int, version: ServedVersion)?
        var log: [MeteorRequest] = []
        var cleared = 0
        var switched = 0
        var faults: [String: FaultQueue] = [:]
    }

    let rules: ServerRules
    let state: Mutex<State>
    let sockets: DDPService?
    private let onRequest: (@Sendable (MeteorRequest, Int) -> Void)?

    init(
        _ rules: ServerRules, _ folders: [String: String], _ sockets: DDPService?,
        _ onRequest: (@Sendable (MeteorRequest, Int) -> Void)?
    ) {
        self.rules = rules
        self.sockets = sockets
        state = Mutex(State(folders: folders))
        self.onRequest = onRequest
    }

    /// Reads the manifest again, because a test can have changed it.
    func load(_ name: String) throws -> ServedVersion {
        guard let folder = state.withLock({ $0.folders[name] }) else {
            throw BundleFolderError(
                message: "there is no version \"\(UntrustedName.display(name))\" to serve; add it first")
        }
        return try ServedVersion(name, folder: folder)
    }

    func answer(_ request: LoopbackServer.Request) -> Route {
        if request.target == rules.rootPath + "/websocket", request["Upgrade"] != nil { return socket(request) }
        let (entry, version, fault) = record(request)
        var route: Route
        do {
            route = try rules.answer(entry, from: version)
        } catch {
            route = Route(Array("\(error)\n".utf8), status: 500)
        }
        fault?.apply(to: &route)
        route.isHeadOnly = request.method == "HEAD"
        onRequest?(entry, route.raw == nil ? route.status : 0)
        return route
    }

    private func socket(_ request: LoopbackServer.Request) -> Route {
        guard let sockets else { return Route(Array("no sockets here\n".utf8), status: 404) }
        return (try? SocketPeer.answer(request, sockets.serve)) ?? Route(status: 400)
    }

    private func record(_ request: LoopbackServer.Request) -> (MeteorRequest, ServedVersion?, Fault?) {
        let parts = request.target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false).map(
            String.init)
        let key = rules.faultKey(of: parts[0])
        return state.withLock { state in
            if let next = state.next, state.log.count + 1 >= next.at {
                state.served = next.version
                state.switched = state.log.count
                state.next = nil
            }
            let entry = MeteorRequest(
                method: request.method, path: parts[0], query: parts.count > 1 ? parts[1] : "",
                headers: request.headers,
                number: state.log.count, version: state.served?.name ?? "")
            state.log.append(entry)
            return (entry, state.served, state.faults[key]?.next() ?? state.faults["*"]?.next())
        }
    }
}
