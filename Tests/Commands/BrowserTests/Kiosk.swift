import BundleCore
import BundleValues
import BundleTesting
import Glibc
import Testing

/// One publisher and one device in a folder, with the built program.
final class Kiosk {
    let folder: TemporaryFolder

    var store: String { folder.file("store") }
    var seed: String { folder.file("seed") }

    /// Creates a key pair and a seed.
    init() throws {
        folder = try TemporaryFolder()
        try run(["keys", "generate", "--out", folder.file("release")])
        try folder.writeTree(DemoClient("embedded").files, to: "seed")
    }

    /// Starts the program with only the given settings.
    func start(_ arguments: [String]) throws -> Program {
        let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
        return try Program(
            [Built.clientctl] + arguments,
            environment: [
                "PATH": path, "HOME": folder.file("home"), "XDG_STATE_HOME": folder.file("state"), "LC_ALL": "C.UTF-8",
            ])
    }

    /// Runs the program to its end, expects `status` and returns the output.
    @discardableResult
    func run(_ arguments: [String], expecting status: Int32 = 0) throws -> Program.Ending {
        let ending = try #require(try start(arguments).wait(within: .seconds(60)), "\(arguments) does not end")
        try #require(ending.status == status, "\(arguments): \(ending.errors)\(ending.text)")
        return ending
    }

    // MARK: Publishing and installing

    var manifest: String { folder.file("feed/manifest.json") }
    var trust: String { folder.file("release.pub.pem") }

    /// Publishes a folder as `version`, with further flags.
    func publish(_ source: String, as version: String, more: [String] = []) throws {
        try run(
            [
                "publish", source, "--allow", "missingScript", "--version", version, "--feed", folder.file("feed"),
                "--key",
                folder.file("release.key.pem"), "--min-shell", "1.0.0", "--level", "1",
            ] + more)
    }

    /// Installs the published release.
    func install() throws {
        try run(["install", "--manifest", manifest, "--trust", trust, "--store", store, "--shell-version", "1.5.0"])
    }

    /// Publishes and installs a client.
    func install(_ client: DemoClient) throws {
        try publish(try folder.writeTree(client.files, to: "web-\(client.version)"), as: client.version)
        try install()
    }

    // MARK: Serving

    /// Starts `serve` and waits until it listens. Without a port, `serve` uses the one of the application.
    func serve(port: Int? = 0, timeout: String = "60s", _ more: [String] = []) throws -> Serving {
        let choice = port.map { ["--port", "\($0)"] } ?? []
        return try Serving(
            try start(
                ["serve", "--store", store, "--shell-version", "1.5.0", "--seed", seed, "--startup-timeout", timeout]
                    + choice + more))
    }

    // MARK: State

    func status() throws -> JSONObject {
        let ending = try run(["status", "--store", store, "--json"])
        return try #require(try JSONScanner.parse(ending.output, maximumBytes: 1 << 20).objectValue)
    }

    /// Returns the state and failures of one client from `status`.
    func status(of name: String) throws -> (state: String, failures: [JSONObject]) {
        let row = try #require(try row(of: name), "\(name) is not there")
        let failures = row["failures"]?.arrayValue?.compactMap(\.objectValue) ?? []
        return (row["state"]?.stringValue ?? "", failures)
    }

    private func row(of name: String) throws -> JSONObject? {
        let rows = try status()["clients"]?.arrayValue?.compactMap(\.objectValue) ?? []
        return rows.first { $0["name"]?.stringValue == name }
    }

    /// Waits until `status` reports this state for a client.
    func wait(until name: String, is state: String) throws {
        let deadline = ContinuousClock.now + Browser.patience
        while true {
            let found = try row(of: name)?["state"]?.stringValue ?? "not there"
            if found == state { return }
            try #require(ContinuousClock.now < deadline, "\(name) is \(found), not \(state)")
            poll(nil, 0, 20)
        }
    }
}

/// A running `clientctl serve`.
final class Serving {
    let program: Program
    let port: Int
    /// The address without a path.
    let root: String

    /// Waits for the address on standard output.
    init(_ program: Program) throws {
        self.program = program
        let deadline = ContinuousClock.now + Browser.patience
        var address: Substring?
        while address == nil {
            address = try program.printed().output.firstMatch(of: /http:\/\/127\.0\.0\.1:[0-9]+/)?.output
            if address != nil { break }
            if let ending = try program.wait(within: .milliseconds(20)) {
                throw Ended(errors: "\(ending.status ?? -1): \(ending.errors)")
            }
            try #require(ContinuousClock.now < deadline, "serve gives no address")
        }
        root = String(address ?? "")
        port = root.split(separator: ":").last.flatMap { Int($0) } ?? 0
    }

    /// `serve` ended before it listened.
    struct Ended: Error { let errors: String }

    /// Sends one request with the server's own `Host` and returns the response.
    func ask(_ line: String, _ fields: [String: String] = [:], body: String? = nil) throws -> RawResponse {
        let connection = try RawConnection(port: port)
        var text = "\(line) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\n"
        for (name, value) in fields { text += "\(name): \(value)\r\n" }
        if let body { text += "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n" }
        connection.send(text + "\r\n" + (body ?? ""))
        return try connection.receiveAnswer()
    }

    /// Makes a call as the page with `token`.
    func call(_ method: String, token: String) throws -> RawResponse {
        try ask("POST /__clientctl/v1/\(method)", ["X-Client-Token": token, "Origin": root], body: "{}")
    }
}
