import BundleCore
import BundleValues
import BundleTesting
import Glibc
import Testing

/// A running `clientctl serve` that receives requests like those of a page or another program.
final class ServeRun {
    let program: Program
    let port: Int

    /// Starts `serve` in `wrapper`, which may prepare its environment, and waits for its address.
    init(
        _ arguments: [String], port: [String] = ["--port", "0"], environment: [String: String] = [:],
        wrapper: [String] = []
    ) throws {
        program = try Program(
            wrapper + [Clientctl.path, "serve"] + port + arguments,
            environment: Clientctl.environment(environment))
        let deadline = ContinuousClock.now + .seconds(60)
        while true {
            if let address = try program.printed().output.firstMatch(of: /http:\/\/127\.0\.0\.1:([0-9]+)/),
                let port = Int(address.output.1)
            {
                self.port = port
                return
            }
            if let ending = try program.wait(within: .milliseconds(10)) { throw Ended(errors: ending.errors) }
            try #require(ContinuousClock.now < deadline, "serve gives no address")
        }
    }

    /// `serve` ended before it listened.
    struct Ended: Error { let errors: String }

    func ask(_ line: String, _ fields: [String] = [], body: String? = nil) throws -> RawResponse {
        let connection = try RawConnection(port: port)
        let content = body.map { ["Content-Type: application/json", "Content-Length: \($0.utf8.count)"] } ?? []
        connection.send(
            "\(line) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\n"
                + (fields + content).map { $0 + "\r\n" }.joined() + "\r\n" + (body ?? ""))
        return try connection.receiveAnswer()
    }

    /// Loads the page as a browser does. Returns its token.
    func loadPage() throws -> String {
        let page = try ask("GET /", ["Accept: text/html"]).text
        let token = try #require(page.firstMatch(of: /name="clientctl-token" content="([^"]+)"/), "no page: \(page)")
        return String(token.output.1)
    }

    /// Makes a call as the page with `token`.
    @discardableResult
    func call(_ method: String, token: String, body: String = "{}") throws -> RawResponse {
        try ask(
            "POST /__clientctl/v1/\(method)", ["X-Client-Token: \(token)", "Origin: http://127.0.0.1:\(port)"],
            body: body)
    }

    /// The metrics by name and labels.
    func metrics() throws -> [String: Double] {
        let answer = try ask("GET /__clientctl/v1/metrics")
        try #require(answer.status == 200)
        return Self.samples(in: answer.text)
    }

    static func samples(in text: String) -> [String: Double] {
        var samples: [String: Double] = [:]
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            guard let space = line.lastIndex(of: " "), let value = Double(line[line.index(after: space)...]) else {
                Issue.record("no sample: \(line)")
                continue
            }
            #expect(samples[String(line[..<space])] == nil, "twice: \(line)")
            samples[String(line[..<space])] = value
        }
        return samples
    }

    /// Waits until the metrics meet the condition.
    func wait(
        for what: Comment, sourceLocation: SourceLocation = #_sourceLocation,
        _ isMet: ([String: Double]) -> Bool
    ) throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while true {
            let samples = try metrics()
            if isMet(samples) { return }
            let log = try program.printed().errors
            try #require(
                ContinuousClock.now < deadline, "\(what): \(samples) \(log)", sourceLocation: sourceLocation)
            poll(nil, 0, 20)
        }
    }

    /// Waits until the log contains `text`.
    func wait(untilLogged text: String, sourceLocation: SourceLocation = #_sourceLocation) throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while true {
            let log = try program.printed().errors
            if log.contains(text) { return }
            try #require(ContinuousClock.now < deadline, "\(text) is not in: \(log)", sourceLocation: sourceLocation)
            poll(nil, 0, 20)
        }
    }

    /// Ends `serve` with SIGTERM and returns its output.
    @discardableResult
    func stop() throws -> Program.Ending {
        program.send(SIGTERM)
        let ending = try #require(try program.wait(within: .seconds(60)), "it does not end")
        #expect(ending.status == 0, "signal \(ending.signal ?? 0): \(ending.errors)")
        return ending
    }
}
