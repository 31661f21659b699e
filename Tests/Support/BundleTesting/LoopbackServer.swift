package import BundleValues
import Glibc
import Synchronization

/// An HTTP/1.1 server on a free port of 127.0.0.1 that can misbehave.
///
/// One thread accepts connections, and at most 64 threads serve them. All have ended when `stop` or `deinit` returns.
package final class LoopbackServer: Sendable {
    /// A request as received.
    package struct Request: Sendable {
        package let method: String
        /// The request target: a path, or a URL if the server is used as a proxy.
        package let target: String
        /// The header lines in order.
        package let headers: [(name: String, value: String)]
        /// The number of the connection, from 1.
        package let connection: Int
        /// The body, with the length of Content-Length.
        package internal(set) var body: [UInt8] = []

        /// The target without its query.
        package var path: String { String(target.prefix { $0 != "?" }) }

        /// The first value of a header in any case.
        package subscript(_ name: String) -> String? {
            headers.first { $0.name.lowercased() == name.lowercased() }?.value
        }
    }

    fileprivate struct State {
        var routes: [String: Route] = [:]
        var folder: String?
        var requests: [Request] = []
        var connections: [Int: Int32] = [:]
        var threads: [pthread_t] = []
        var finished: [pthread_t] = []
        var answer: (@Sendable (Request) -> Route)?
        var accepted = 0
        var isStopping = false
    }

    private let service: Service

    package let port: Int

    /// Starts a server with routes by path, on `port`, or a free one for 0. Other paths are files in `folder`, or 404.
    package init(_ routes: [String: Route] = [:], folder: String? = nil, port: Int = 0) throws {
        let listener = try Socket.listening(on: port)
        self.port = try listener.port()
        service = Service(listener, State(routes: routes, folder: folder))
        try service.start()
    }

    /// Starts a server on `port`, or a free one for 0, that responds with the result of `answer`. Several threads call
    /// it.
    package init(port: Int = 0, answer: @escaping @Sendable (Request) -> Route) throws {
        let listener = try Socket.listening(on: port)
        self.port = try listener.port()
        service = Service(listener, State(answer: answer))
        try service.start()
    }

    deinit { service.stop() }

    /// Returns the URL of a path, which starts with a slash.
    package func url(_ path: String) throws -> FetchURL { try FetchURL(parsing: "http://127.0.0.1:\(port)\(path)") }

    package var requests: [Request] { service.state.withLock { $0.requests } }

    /// Waits until `target`, or that path with a query, is requested. Returns false after a minute.
    package func wait(for target: String) -> Bool {
        for _ in 0..<12_000 {
            if requests.contains(where: { [$0.target, $0.path].contains(target) }) { return true }
            poll(nil, 0, 5)
        }
        return false
    }

    /// The number of accepted connections.
    package var connectionCount: Int { service.state.withLock { $0.accepted } }

    package func set(_ path: String, _ route: Route) { service.state.withLock { $0.routes[path] = route } }

    /// Closes all connections and waits for all threads. A second call does nothing.
    package func stop() { service.stop() }
}

/// The state of the threads. It is separate so that the threads do not retain the server.
private final class Service: Sendable {
    private typealias Request = LoopbackServer.Request

    private static let maximumConnections = 64

    let state: Mutex<LoopbackServer.State>
    private let listener: Socket
    /// Keeps the port of a stopped server, so that no other server uses it.
    private let closed = Mutex<Socket?>(nil)

    init(_ listener: Socket, _ state: LoopbackServer.State) {
        self.listener = listener
        self.state = Mutex(state)
    }

    func start() throws {
        let thread = try PosixThread.start { [self] in acceptAll() }
        state.withLock { $0.threads.append(thread) }
    }

    func stop() {
        state.withLock { state in
            state.isStopping = true
            for descriptor in state.connections.values { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
        let port = try? listener.port()
        listener.shutDown()
        closed.withLock { $0 = $0 ?? port.flatMap { try? Socket.closed(port: $0) } }
        while let thread = state.withLock({ $0.threads.popLast() }) { pthread_join(thread, nil) }
    }

    /// A thread keeps its stack until it is joined, and a server can have many.
    private func joinFinished() {
        let finished = state.withLock { state in
            defer { state.finished = [] }
            state.threads.removeAll { thread in state.finished.contains { pthread_equal($0, thread) != 0 } }
            return state.finished
        }
        for thread in finished { pthread_join(thread, nil) }
    }

    private func acceptAll() {
        while let socket = listener.accept() {
            joinFinished()
            let number = state.withLock { state -> Int? in
                guard !state.isStopping, state.connections.count < Self.maximumConnections else { return nil }
                state.accepted += 1
                state.connections[state.accepted] = socket.descriptor
                return state.accepted
            }
            guard let number else { continue }
            // Under the lock, so that a thread is added to `threads` before it can be in `finished`.
            state.withLock { state in
                if let thread = try? PosixThread.start({ [self] in serve(socket, number: number) }) {
                    state.threads.append(thread)
                } else {
                    state.connections[number] = nil
                }
            }
        }
    }

    private func serve(_ socket: Socket, number: Int) {
        while let block = socket.readHeaderBlock(), var request = Self.parse(block, connection: number) {
            guard let body = socket.read(Int(request["Content-Length"] ?? "0") ?? 0) else { break }
            request.body = body
            let (handler, route) = state.withLock { [request] state in
                state.requests.append(request)
                return (state.answer, state.routes[request.target] ?? state.routes[request.path])
            }
            let answer = (handler?(request) ?? route ?? fileRoute(request.target)).answering(request)
            guard Answering(socket: socket, route: answer).send() else { break }
        }
        socket.shutDown()
        state.withLock { state in
            state.connections[number] = nil
            if !state.isStopping { state.finished.append(pthread_self()) }
        }
    }

    private func fileRoute(_ target: String) -> Route {
        guard let folder = state.withLock({ $0.folder }), !target.contains(".."),
            let bytes = Self.contents(of: folder + target)
        else { return Route(Array("nothing here".utf8), status: 404) }
        return .resource(
            bytes, entityTag: "\"\(bytes.count)-\(bytes.reduce(5381 as UInt32) { $0 &* 33 &+ UInt32($1) })\"")
    }

    private static func contents(of path: String) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65536)
        while true {
            let count = read(descriptor, &chunk, chunk.count)
            guard count > 0 else { return count == 0 ? bytes : nil }
            bytes += chunk[..<count]
        }
    }

    private static func parse(_ block: [UInt8], connection: Int) -> Request? {
        let lines = String(decoding: block, as: UTF8.self).split(separator: "\r\n")
        let words = lines.first?.split(separator: " ") ?? []
        guard words.count == 3 else { return nil }
        let headers = lines.dropFirst().compactMap { line -> (name: String, value: String)? in
            guard let colon = line.firstIndex(of: ":") else { return nil }
            return (String(line[..<colon]), String(line[line.index(after: colon)...].drop { $0 == " " }))
        }
        return Request(method: String(words[0]), target: String(words[1]), headers: headers, connection: connection)
    }
}
