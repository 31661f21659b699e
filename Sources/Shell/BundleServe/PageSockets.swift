import BundleSockets
import BundleTransport
import BundleValues
import NIOCore
import Synchronization

/// The WebSockets of pages. A page sends its calls and receives its events over one of them. A browser opens six connections
/// to a server for requests, and a page with films occupies all of them. It does not count WebSockets.
final class PageSockets: Sendable {
    /// The name of the protocol. The token and the name of the page load follow it in the request.
    private static let protocolName = "clientctl"
    private static let field = "sec-websocket-protocol"
    /// A call that takes seconds. The others are carried out in the order of their arrival.
    private static let slowCall = "checkForUpdates"
    private static let rule = UpgradeRule(path: "/__clientctl/v1/socket", allowsPages: true)
    /// Enough for the longest call.
    private static let longestMessage = 96 << 10

    /// The page that opens a socket.
    private struct Caller {
        let token: String
        let name: String

        /// Returns nil for a request that names no page.
        init?(_ request: Request) {
            let words = request.allFields.filter { $0.name.lowercased() == PageSockets.field }
                .flatMap { $0.value.split(separator: ",") }.map { $0.trimmingPrefix(" ") }
            guard words.count == 3, words[0] == PageSockets.protocolName,
                words[1...].allSatisfy({ Page.isWord(String($0)) })
            else { return nil }
            (token, name) = (String(words[1]), String(words[2]))
        }
    }

    private struct OpenSocket {
        let number: Int
        let page: String
        let task: Task<Void, Never>
    }

    /// The open sockets, the oldest first.
    private struct Sockets {
        var open: [OpenSocket] = []
        var last = 0
    }

    private let host: any PageHost
    private let limit: Int
    private let sockets = Mutex(Sockets())

    init(_ host: any PageHost, limit: Int) {
        self.host = host
        self.limit = limit
    }

    /// Ends every socket.
    func close() {
        let all = sockets.withLock { sockets in
            defer { sockets.open = [] }
            return sockets.open
        }
        for socket in all { socket.task.cancel() }
    }

    /// Returns the response to a request for a socket, whose origin was checked.
    nonisolated(nonsending) func response(to request: Request) async -> Response {
        let caller = Caller(request)
        var limits = SocketLimits()
        limits.message = Self.longestMessage
        let upgrade = WebSocketUpgrade(Self.rule, limits: limits) { [self] socket, _ in
            if let caller { begin(socket, caller) }
        }
        // A page that occupies all connections keeps its socket, which is therefore not counted as one.
        return await .opening(
            upgrade, for: request, isValid: caller != nil,
            extra: "Sec-WebSocket-Protocol: \(Self.protocolName)\r\n", isCounted: false)
    }

    /// Adds a socket. Ends the page's former one, and the oldest one if there are too many.
    private func begin(_ socket: any SyncTransport, _ caller: Caller) {
        let surplus = sockets.withLock { sockets in
            sockets.last += 1
            let number = sockets.last
            let task = Task(priority: .high) {
                let isKnown = await self.serve(socket, caller)
                let isOurs = self.remove(number)
                if isKnown { self.host.disconnect(caller.name, token: caller.token, isOurs: isOurs) }
            }
            let former = sockets.open.filter { $0.page == caller.name }
            sockets.open.removeAll { $0.page == caller.name }
            sockets.open.append(OpenSocket(number: number, page: caller.name, task: task))
            let oldest = sockets.open.prefix(max(0, sockets.open.count - limit))
            sockets.open.removeFirst(oldest.count)
            return former + oldest
        }
        for socket in surplus { socket.task.cancel() }
    }

    /// Removes a socket. Returns true if the server had ended it.
    private func remove(_ number: Int) -> Bool {
        sockets.withLock { sockets in
            let count = sockets.open.count
            sockets.open.removeAll { $0.number == number }
            return sockets.open.count == count
        }
    }

    // MARK: Messages

    /// Carries out the calls of a page until its socket ends. Returns false if the host does not accept the page.
    private func serve(_ socket: any SyncTransport, _ caller: Caller) async -> Bool {
        do {
            try host.connect(caller.name, token: caller.token)
        } catch {
            try? await socket.sendText(Self.text(Self.members(of: CallRefusal(of: error))))
            await socket.close()
            return false
        }
        var events: Task<Void, Never>?
        await withDiscardingTaskGroup { group in
            while let message = try? await socket.receive() {
                // Another message, or a message without a number, is not from the bridge.
                guard case .text(let text) = message,
                    let call = try? JSONScanner.parse(Array(text.utf8), maximumBytes: text.utf8.count).objectValue,
                    let id = call["id"]?.integerValue, let method = call["method"]?.stringValue
                else { break }
                let body = call["body"]?.objectValue ?? [:]
                switch method {
                case "listen", "unlisten":
                    events?.cancel()
                    events = nil
                    var answer: JSONObject = ["result": .object([:])]
                    if method == "listen" {
                        do {
                            let stream = try await host.events(token: caller.token)
                            events = Task(priority: .high) { await Self.send(stream, to: socket) }
                        } catch {
                            answer = Self.members(of: CallRefusal(of: error))
                        }
                    }
                    await Self.send(answer, id, to: socket)
                case Self.slowCall:
                    group.addTask { [self] in await answer(method, body, id, of: caller, on: socket) }
                default: await answer(method, body, id, of: caller, on: socket)
                }
            }
            events?.cancel()
            group.cancelAll()
        }
        await socket.close()
        return true
    }

    private func answer(
        _ method: String, _ body: JSONObject, _ id: Int, of caller: Caller, on socket: any SyncTransport
    ) async {
        let answer: JSONObject
        do {
            answer = ["result": .object(try await host.call(method, token: caller.token, body: body))]
        } catch {
            answer = Self.members(of: CallRefusal(of: error))
        }
        await Self.send(answer, id, to: socket)
    }

    /// Sends the events of a page, each when the kernel has accepted the one before, and that they have ended.
    private static func send(_ events: AsyncStream<PageEvent>, to socket: any SyncTransport) async {
        for await event in events {
            var message: JSONObject = ["event": .string(event.name), "data": .object(event.data)]
            if let id = event.id { message["number"] = .integer(id) }
            do { try await socket.sendText(text(message)) } catch { return }
        }
        try? await socket.sendText(text(["event": .string("end")]))
    }

    private static func send(_ answer: JSONObject, _ id: Int, to socket: any SyncTransport) async {
        var answer = answer
        answer["id"] = .integer(id)
        try? await socket.sendText(text(answer))
    }

    private static func members(of refusal: CallRefusal) -> JSONObject {
        ["status": .integer(refusal.status), "error": .object(refusal.members)]
    }

    private static func text(_ message: JSONObject) -> String {
        String(decoding: JSONWriter.bytes(of: .object(message)), as: UTF8.self)
    }
}
