import BundleFetch
import BundleTesting
import BundleValues
import Synchronization
import Testing

@testable import BundlePublish

/// An object store that can misbehave. It does not verify signatures.
final class Store: Sendable {
    typealias Request = LoopbackServer.Request

    enum Fault: Sendable {
        /// Responds with the status and does nothing.
        case refuse(Int, String = "")
        /// Closes the connection and does nothing.
        case drop
        /// Does the work and closes the connection without a response.
        case forget
        /// Does the work and responds with the status.
        case deny(Int)
        /// Does the work and ignores conditions.
        case ignoreConditions
        /// Responds with the status and does nothing.
        case answer(Route)
        /// Compares entity tags without their quotes, as radosgw does.
        case wantBareTags
    }

    private struct State {
        var objects: [String: (bytes: [UInt8], tag: Int)] = [:]
        var count = 0
        var log: [Request] = []
    }

    private let server: LoopbackServer
    private let box: Box

    /// `fault` decides the failure of a request; the first request has number 1.
    init(_ fault: @escaping @Sendable (Request, Int) -> Fault? = { _, _ in nil }) throws {
        let box = Box()
        server = try LoopbackServer { box.answer($0, fault) }
        self.box = box
    }

    func object(_ name: String) -> [UInt8]? { box.state.withLock { $0.objects["/feeds/x/\(name)"]?.bytes } }
    var names: [String] {
        box.state.withLock { $0.objects.keys.map { String($0.dropFirst("/feeds/x/".count)) } }
            .filter { !$0.hasPrefix(".") }.sorted()
    }
    var puts: [Request] { box.state.withLock { $0.log.filter { $0.method == "PUT" } } }
    func puts(_ name: String) -> [Request] {
        box.state.withLock { $0.log.filter { $0.method == "PUT" && $0.target == "/feeds/x/\(name)" } }
    }
    func set(_ name: String, _ bytes: [UInt8]) { box.set("/feeds/x/\(name)", bytes) }

    /// The objects by name.
    var objects: [String: [UInt8]] { Dictionary(uniqueKeysWithValues: names.map { ($0, object($0) ?? []) }) }

    /// Replaces all objects.
    func load(_ objects: [String: [UInt8]]) {
        box.state.withLock { $0.objects = [:] }
        for (name, bytes) in objects { set(name, bytes) }
    }

    func location(isSingleWriter: Bool = false, attempts: Int = 5) throws -> BucketLocation {
        var terms = BucketTerms()
        terms.attempts = attempts
        terms.isSingleWriter = isSingleWriter
        terms.firstPause = .milliseconds(1)
        let client = ObjectClient(
            bucket: try server.url("/feeds"), region: "us-east-1",
            keys: try #require(AccessKeys(id: "id", secret: "very-secret", sessionToken: "token-secret")),
            options: FetchOptions(userAgent: "test"))
        return BucketLocation(try #require(BucketAddress(parsing: "s3://feeds/x")), client: client, terms: terms)
    }

    /// The state that the server's threads share.
    private final class Box: Sendable {
        let state = Mutex(State())

        func set(_ path: String, _ bytes: [UInt8]) {
            state.withLock { state in
                state.count += 1
                state.objects[path] = (bytes, state.count)
            }
        }

        func answer(_ request: Request, _ fault: (Request, Int) -> Fault?) -> Route {
            let number = state.withLock { state in
                state.log.append(request)
                return state.log.count { $0.method == request.method && $0.target == request.target }
            }
            switch fault(request, number) {
            case .refuse(let status, let code)?:
                return Route(Array("<Error><Code>\(code)</Code></Error>".utf8), status: status)
            case .answer(let route)?: return route
            case .drop?: return Route().with { $0.raw = [] }
            case .forget?:
                _ = act(request)
                return Route().with { $0.raw = [] }
            case .deny(let status)?:
                _ = act(request)
                return Route(Array("<Error><Code>InternalError</Code></Error>".utf8), status: status)
            case .ignoreConditions?: return act(request, obeys: false)
            case .wantBareTags?: return act(request, bare: true)
            case nil: return act(request)
            }
        }

        private static func listing(_ objects: [String: (bytes: [UInt8], tag: Int)]) -> [UInt8] {
            let contents = objects.sorted { $0.key < $1.key }.map { path, object in
                "<Contents><Key>\(path.dropFirst("/feeds/".count))</Key><Size>\(object.bytes.count)</Size></Contents>"
            }
            return Array("<ListBucketResult>\(contents.joined())</ListBucketResult>".utf8)
        }

        private func act(_ request: Request, obeys: Bool = true, bare: Bool = false) -> Route {
            state.withLock { state in
                let present = state.objects[request.target]
                let tag = present.map { "\"\($0.tag)\"" }
                switch request.method {
                case "PUT":
                    if obeys, request["If-None-Match"] == "*", tag != nil { return Route(status: 412) }
                    if obeys, let wanted = request["If-Match"], wanted != (bare ? present.map { "\($0.tag)" } : tag) {
                        return Route(status: tag == nil ? 404 : 412)
                    }
                    state.count += 1
                    state.objects[request.target] = (request.body, state.count)
                    return Route()
                case "DELETE":
                    state.objects[request.target] = nil
                    return Route(status: 204).with { $0.framing = .none }
                default:
                    if request.target.contains("list-type=2") { return Route(Self.listing(state.objects)) }
                    guard let present, let tag else { return Route(Array("<Code>NoSuchKey</Code>".utf8), status: 404) }
                    return Route(present.bytes).with { $0.headers = [("ETag", tag)] }
                }
            }
        }
    }
}
