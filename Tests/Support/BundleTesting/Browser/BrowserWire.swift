import BundleValues
import Glibc
import Synchronization

/// The DevTools protocol over two descriptors: JSON texts with a final NUL byte, and numbered calls.
///
/// One thread reads, and it has ended when `deinit` returns.
final class BrowserWire: Sendable {
    private struct State {
        var nextNumber = 1
        var answers: [Int: JSONObject] = [:]
        var abandoned: Set<Int> = []
        var records: [String: PageRecord] = [:]
        var end: BrowserError?
    }

    /// The received messages. They are separate so that the reading thread does not retain the wire.
    private final class Inbox: Sendable {
        let state = Mutex(State())

        func readAll(_ process: BrowserProcess) {
            var pending: [UInt8] = []
            var chunk = [UInt8](repeating: 0, count: 1 << 18)
            var end: BrowserError?
            while end == nil {
                let count = read(process.messages, &chunk, chunk.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { break }
                var start = 0
                while let nul = chunk[start..<count].firstIndex(of: 0) {
                    pending += chunk[start..<nul]
                    start = nul + 1
                    do { take(try BrowserMessage.parse(pending)) } catch { end = .unreadable("\(error)") }
                    pending.removeAll(keepingCapacity: true)
                }
                pending += chunk[start..<count]
            }
            let reason = end ?? .ended(process.lastLines)
            state.withLock { $0.end = reason }
        }

        private func take(_ message: JSONObject) {
            state.withLock { state in
                if let number = message["id"]?.integerValue {
                    if state.abandoned.remove(number) == nil { state.answers[number] = message }
                } else if let session = message["sessionId"]?.stringValue {
                    state.records[session, default: PageRecord()].take(message.text("method"), message.object("params"))
                }
            }
        }
    }

    private let inbox = Inbox()
    private let process: BrowserProcess
    private let reader: pthread_t

    init(_ process: BrowserProcess) throws {
        self.process = process
        reader = try PosixThread.start { [inbox] in inbox.readAll(process) }
    }

    deinit {
        process.stop()
        pthread_join(reader, nil)
    }

    /// Sends a command and returns the `result` of its response.
    func call(
        _ method: String, _ parameters: JSONObject = [:], session: String? = nil, within limit: Duration
    ) throws -> JSONObject {
        let deadline = ContinuousClock.now + limit
        let number = try post(method, parameters, session: session)
        let answer = try wait("\(method) within \(limit)", until: deadline) {
            inbox.state.withLock { $0.answers.removeValue(forKey: number) }
        } orAbandon: {
            inbox.state.withLock { if $0.answers.removeValue(forKey: number) == nil { $0.abandoned.insert(number) } }
        }
        if let refusal = answer["error"]?.objectValue {
            throw BrowserError.refused(method: method, message: refusal.text("message"))
        }
        return answer.object("result")
    }

    /// Sends a command without waiting for its response.
    func send(_ method: String, _ parameters: JSONObject = [:], session: String? = nil) {
        guard let number = try? post(method, parameters, session: session) else { return }
        inbox.state.withLock { if $0.answers.removeValue(forKey: number) == nil { $0.abandoned.insert(number) } }
    }

    /// Returns the record of a session.
    func record(of session: String) -> PageRecord { inbox.state.withLock { $0.records[session] ?? PageRecord() } }

    /// Removes the record of a session.
    func forget(_ session: String) { inbox.state.withLock { $0.records[session] = nil } }

    /// Evaluates `condition` repeatedly. Throws if the browser ended or the time limit is reached.
    func wait<Value>(
        _ what: String, until deadline: ContinuousClock.Instant, _ condition: () throws -> Value?,
        orAbandon abandon: () -> Void = {}
    ) throws -> Value {
        while true {
            if let value = try condition() { return value }
            if let end = inbox.state.withLock({ $0.end }) { throw end }
            guard ContinuousClock.now < deadline else {
                abandon()
                throw BrowserError.timedOut(what)
            }
            poll(nil, 0, 2)
        }
    }

    private func post(_ method: String, _ parameters: JSONObject, session: String?) throws -> Int {
        try inbox.state.withLock { state in
            let number = state.nextNumber
            state.nextNumber += 1
            var message: JSONObject = ["id": .integer(number), "method": .string(method)]
            message["params"] = .object(parameters)
            message["sessionId"] = session.map { .string($0) }
            try write(JSONWriter.bytes(of: .object(message)) + [0], of: method)
            return number
        }
    }

    private func write(_ bytes: [UInt8], of method: String) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                let rest = UnsafeRawBufferPointer(rebasing: buffer[sent...])
                return Glibc.send(
                    process.commands, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
            }
            if count >= 0 {
                sent += count
                continue
            }
            guard errno == EAGAIN || errno == EINTR else { throw BrowserError.ended(process.lastLines) }
            var entry = pollfd(fd: process.commands, events: Int16(POLLOUT), revents: 0)
            guard poll(&entry, 1, 5000) > 0 else { throw BrowserError.timedOut("it does not take \(method)") }
        }
    }
}
