package import BundleValues
import BundleTesting
import Synchronization

/// A Meteor server on a port of 127.0.0.1 that serves bundles in the server layout, keeps a log and misbehaves on request.
package final class MeteorServer: Sendable {
    /// What stands in the `ETag` of an asset.
    package enum EntityTags: Sendable {
        /// The manifest's `hash`, quoted, with the other headers of a real server.
        case manifestHash
        /// The SHA-1 of the bytes, quoted, without cache headers: the mock server of the Cordova plugin's suite.
        case contentDigest
    }

    /// The port.
    package let port: Int
    private let site: Site
    private let server: LoopbackServer

    /// Serves the folders at `folders`: each one a version by the folder's name, or a folder of such folders.
    ///
    /// Nothing is served before the first `serve(version:)`. `rootPath` is the path of a ROOT_URL with one, as `/sub`.
    /// `onRequest` is called for every request, with the status of its answer, on a thread of the server. With `talksDDP` clients
    /// that ask for a socket at `/websocket` are told the version that is served; without, there is none, as behind many proxies.
    /// These requests are in no log.
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

    /// The ROOT_URL: scheme, host, port and path, with a slash at its end.
    package var rootURL: String { "http://127.0.0.1:\(port)\(site.rules.rootPath)/" }

    /// The URL of a path below the prefix; `/manifest.json` for instance.
    package func url(_ path: String) throws -> FetchURL {
        try server.url(site.rules.rootPath + site.rules.prefix + path)
    }

    /// The versions that can be served, by name, sorted.
    package var versions: [String] { site.state.withLock { $0.folders.keys.sorted() } }

    /// The name of the version that is served now; nil before the first.
    package var servedVersion: String? { site.state.withLock { $0.served?.name } }

    /// Adds a version, or replaces it; one that is being served stays as it is until it is served again.
    package func add(_ version: String, folder: String) { site.state.withLock { $0.folders[version] = folder } }

    /// Serves another version from the next request on, and clears `requests`.
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

    /// How many clients are told of versions at this moment.
    package var subscriberCount: Int { site.sockets?.count ?? 0 }

    /// Breaks every socket.
    package func cutSockets() { site.sockets?.cut() }

    /// Serves another version from the n-th request from now on, counted from 1: a deployment in the middle of a download.
    /// The log stays.
    package func serve(version: String, fromRequest number: Int) throws {
        let served = try site.load(version)
        site.state.withLock { $0.next = ($0.log.count + number, served) }
    }

    /// Does something wrong with the answers for a path below the prefix, `/` and `/manifest.json` too; `*` is every path
    /// without faults of its own. Faults of a path take turns: each for its number of requests, nil being for ever.
    package func fault(_ path: String, _ fault: Fault, times: Int? = nil) {
        site.state.withLock { $0.faults[path, default: FaultQueue()].append(fault, times: times) }
    }

    /// Takes away the faults of a path, of all paths for nil.
    package func heal(_ path: String? = nil) {
        site.state.withLock { state in
            if let path { state.faults[path] = nil } else { state.faults = [:] }
        }
    }

    /// The requests since the last `serve(version:)`, in order.
    package var requests: [MeteorRequest] { site.state.withLock { Array($0.log[$0.cleared...]) } }

    /// The requests since the version changed last, by `serve(version:)` or in the middle of a download.
    package var requestsSinceLastSwitch: [MeteorRequest] { site.state.withLock { Array($0.log[$0.switched...]) } }

    /// The requests since the start.
    package var allRequests: [MeteorRequest] { site.state.withLock { $0.log } }

    /// How many connections were accepted since the start.
    package var connectionCount: Int { server.connectionCount }

    /// Clears `requests`; the version stays.
    package func clearRequests() { site.state.withLock { $0.cleared = $0.log.count } }

    /// Waits until a path below the prefix was asked for since the last `serve(version:)`; false after a minute without.
    package func wait(for path: String) -> Bool {
        let prefix = site.rules.prefix
        return Patience.wait { requests.contains { $0.path.hasSuffix(prefix + path) } }
    }

    /// Closes everything; a second call does nothing.
    package func stop() { server.stop() }
}

/// What the threads of a server share.
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

    /// Reads the manifest anew: a test may have changed it.
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
        return (try? SocketPeer.answer(request, sockets.talk)) ?? Route(status: 400)
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
