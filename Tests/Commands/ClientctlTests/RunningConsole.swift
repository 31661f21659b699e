import BundleTesting
import BundleValues
import Glibc
import Testing

/// A running console, to whose first page a browser has gone.
final class RunningConsole {
    let program: Program
    let port: Int
    let code: String
    private(set) var cookie = ""

    var root: String { "http://127.0.0.1:\(port)" }
    var session: [String] { ["Cookie: \(cookie)"] }

    init(_ arguments: [String]) throws {
        program = try Program(
            [Clientctl.path, "console", "--no-open"] + arguments, environment: Clientctl.environment())
        let deadline = ContinuousClock.now + .seconds(60)
        var address: (String, String)?
        while address == nil {
            address = try program.printed().output.firstMatch(
                of: /http:\/\/127\.0\.0\.1:([0-9]+)\/\?code=([0-9a-f]+)\n/
            )
            .map { (String($0.output.1), String($0.output.2)) }
            if address != nil { break }
            if let ending = try program.wait(within: .milliseconds(10)) { throw Ended(errors: ending.errors) }
            try #require(ContinuousClock.now < deadline, "the console gives no address")
        }
        port = Int(address?.0 ?? "") ?? 0
        code = address?.1 ?? ""
        let answer = try ask("GET", "/?code=\(code)")
        let field = try #require(answer.fields.first { $0.name == "Set-Cookie" }?.value, "\(answer.text)")
        #expect(field.contains("HttpOnly") && field.contains("SameSite=Strict"))
        cookie = String(field.prefix { $0 != ";" })
    }

    struct Ended: Error { let errors: String }

    func ask(
        _ method: String, _ target: String, _ fields: [String] = [], host: String? = nil, body: String = ""
    ) throws -> RawResponse {
        try begin(method, target, fields, host: host, body: body).receiveAnswer()
    }

    private func begin(
        _ method: String, _ target: String, _ fields: [String], host: String? = nil, body: String = ""
    ) throws -> RawConnection {
        let connection = try RawConnection(port: port)
        let length = method == "POST" ? "Content-Length: \(body.utf8.count)\r\n" : ""
        connection.send(
            "\(method) \(target) HTTP/1.1\r\nHost: \(host ?? "127.0.0.1:\(port)")\r\nConnection: close\r\n\(length)"
                + fields.map { $0 + "\r\n" }.joined() + "\r\n" + body)
        return connection
    }

    func get(_ target: String) throws -> RawResponse { try ask("GET", target, session) }

    /// Returns the token in the forms of a page.
    func token() throws -> String {
        let page = try get("/").text
        return String(page.firstMatch(of: /name="token" value="([0-9a-f]+)"/)?.output.1 ?? "none")
    }

    func post(_ target: String, _ fields: [String: String]) throws -> RawResponse {
        try begin(target, fields).receiveAnswer()
    }

    func begin(_ target: String, _ fields: [String: String]) throws -> RawConnection {
        let fields = fields.merging(["token": try token()]) { $1 }
        return try begin(
            "POST", target, ["Content-Type: application/x-www-form-urlencoded", "Origin: \(root)"] + session,
            body: Self.encoded(fields))
    }

    static func encoded(_ fields: [String: String]) -> String {
        fields.map { name, value in
            let text = PercentEncoding.encode(path: Array(value.utf8)).replacing("/", with: "%2F")
            return "\(name)=\(text)"
        }.joined(separator: "&")
    }

    func stop() throws -> (output: String, errors: String) {
        program.send(SIGTERM)
        let ending = try #require(try program.wait(within: .seconds(60)))
        #expect(ending.status == 0, "\(ending.errors)")
        return (ending.text, ending.errors)
    }

    deinit { program.send(SIGKILL) }
}
