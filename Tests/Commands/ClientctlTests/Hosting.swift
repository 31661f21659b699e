import ArchiveSource
import BundleValues
import BundleFetch
import BundleTransport
import BundleSockets
import BundleTesting
import Glibc
import Testing

/// A running `clientctl feed serve`.
final class Hosting {
    let program: Program
    let port: Int
    /// The address with a trailing slash.
    let url: String

    /// Starts a host of a feed and waits for its address.
    convenience init(_ feed: String, _ more: [String] = [], port: Int = 0, wrapper: [String] = []) throws {
        try self.init(arguments: [feed] + more, port: port, wrapper: wrapper)
    }

    /// Starts a relay of the feed at `upstream` and waits for its address.
    convenience init(relaying upstream: String, _ more: [String] = [], port: Int = 0) throws {
        try self.init(arguments: ["--upstream", upstream] + more, port: port)
    }

    private init(arguments: [String], port: Int, wrapper: [String] = []) throws {
        program = try Program(
            wrapper + [Clientctl.path, "feed", "serve", "--port", "\(port)", "--json"] + arguments,
            environment: Clientctl.environment())
        let deadline = ContinuousClock.now + .seconds(60)
        var object: JSONObject?
        while object == nil {
            object = (try? JSONScanner.parse(bytes(try program.printed().output), maximumBytes: 4096))?.objectValue
            if object != nil { break }
            if let ending = try program.wait(within: .milliseconds(10)) { throw Ended(errors: ending.errors) }
            try #require(ContinuousClock.now < deadline, "host gives no address")
        }
        AnswerSchema.expect(object ?? [:], to: ["feed", "serve"])
        self.port = try #require(object?["port"]?.integerValue)
        url = try #require(object?["url"]?.stringValue)
    }

    /// The host ended before it listened.
    struct Ended: Error { let errors: String }

    /// Sends a request over a new connection and returns the response.
    func ask(_ target: String, method: String = "GET", _ fields: [String] = []) throws -> RawResponse {
        let connection = try RawConnection(port: port)
        connection.send(
            "\(method) \(target) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\n"
                + fields.map { $0 + "\r\n" }.joined() + "\r\n")
        return try connection.receiveAnswer(toHead: method == "HEAD")
    }

    /// Ends the host with a signal and returns its output.
    @discardableResult
    func stop(_ signal: Int32 = SIGTERM) throws -> Program.Ending {
        program.send(signal)
        let ending = try #require(try program.wait(within: .seconds(60)), "it does not end")
        #expect(ending.status == 0, "signal \(ending.signal ?? 0): \(ending.errors)")
        return ending
    }

    // MARK: Push

    /// Opens a WebSocket to the push endpoint.
    func listen(token: String? = nil, for channel: String? = nil) async throws -> any SyncTransport {
        let query = channel.map { "?channel=\($0)" } ?? ""
        return try await Self.connector(token).connect(try SocketURL(parsing: "\(url)push\(query)"))
    }

    /// Waits until the log contains this text that many times.
    func wait(until text: String, times: Int = 1) throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while try program.printed().errors.ranges(of: text).count < times {
            let log = try program.printed().errors
            try #require(ContinuousClock.now < deadline, "\"\(text)\" is not log: \(log)")
            poll(nil, 0, 20)
        }
    }

    static func connector(_ token: String? = nil) -> SocketConnector {
        var configuration = SocketConnector.Configuration(userAgent: "test/1")
        configuration.limits.handshake = .seconds(60)
        if let token { configuration.fields = [("Authorization", "Bearer \(token)")] }
        return SocketConnector(
            configuration, over: CurlStreamConnector(options: FetchOptions(userAgent: "test/1")))
    }
}

extension SyncTransport {
    /// Returns the next message. Throws if none arrives within a timeout that is shorter than the interval between
    /// polls.
    func next() async throws -> SyncMessage? {
        try await withThrowingTaskGroup(of: SyncMessage?.self) { group in
            group.addTask {
                guard case .text(let text)? = try await self.receive() else { return nil }
                return try SyncMessage(parsing: text)
            }
            group.addTask {
                try await Task.sleep(for: .seconds(25))
                throw NoMessage()
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
    }
}

/// No message arrived.
struct NoMessage: Error {}
