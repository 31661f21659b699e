import BundleDisk
import BundleServe
import BundleTesting
import Glibc

/// A running server with a small client, and requests to it.
struct Fixture {
    let folder: TemporaryFolder
    let host: MemoryHost
    let server: PageServer

    static let files: [String: [UInt8]] = [
        "index.html": Array("not this one".utf8),
        "app.js": Array("let a = 1;\n".utf8),
        "assets/style.css": Array("a{}".utf8),
        "assets/app.0123456789abcdef.js": Array("hashed".utf8),
        "sub/index.html": Array("<p>nested</p>".utf8),
        "page.html": Array("<script>page()</script>".utf8),
        "plain": Array("no extension".utf8),
        "digits.txt": Array("0123456789".utf8),
        "empty.txt": [],
        "large.bin": noise(200_000),
        "%2e%2e%2fx.js": Array("escaped name".utf8),
        "-rf": Array("option".utf8),
        "😀.txt": Array("emoji".utf8),
        "a b.txt": Array("blank".utf8),
        "ü.txt": Array("umlaut".utf8),
        "..x.txt": Array("dots".utf8),
        "a..b.txt": Array("more dots".utf8),
    ]

    static let index = IndexPage(
        before: Array("<html><head>".utf8), after: Array("</head>app</html>".utf8),
        scriptSources: ["'sha256-inline='", "'sha256-two' ; script-src *"])
    static let bridge = ServerConfiguration.Bridge(script: Array("bridge()".utf8), scriptSource: "'sha256-bridge='")

    init(_ change: (inout ServerConfiguration) -> Void = { _ in }) async throws {
        folder = try TemporaryFolder()
        try folder.write(Array("secret".utf8), to: "secret")
        let www = try folder.writeTree(Self.files, to: "www")
        // Links are not files of a client. The one below the root refers to a file of the client.
        symlink("app.js", www + "/link.js")
        symlink("..", www + "/out")
        host = MemoryHost(try Site(root: try Directory.open(www), index: Self.index))
        var configuration = ServerConfiguration(port: .fixed(0), bridge: Self.bridge)
        change(&configuration)
        server = try await PageServer.start(configuration, host: host)
    }

    /// Creates a client whose files all differ from the first one's.
    func anotherSite(_ text: String) throws -> Site {
        let page = IndexPage(before: Array("<html>\(text)".utf8), after: Array("</html>".utf8), scriptSources: [])
        let files = ["app.js": Array("let a = '\(text)';".utf8), "large.bin": [UInt8](repeating: 7, count: 300_000)]
        return try Site(root: try Directory.open(try folder.writeTree(files, to: text)), index: page)
    }

    func connect(patience: Int = 60_000, receiveBuffer: Int32? = nil) throws -> RawConnection {
        try RawConnection(port: server.port, patience: patience, receiveBuffer: receiveBuffer)
    }

    var hostField: String { "Host: 127.0.0.1:\(server.port)\r\n" }

    /// Returns a request as a program writes it.
    func request(_ target: String, method: String = "GET", _ fields: [String] = []) -> String {
        "\(method) \(target) HTTP/1.1\r\n\(hostField)\(fields.map { $0 + "\r\n" }.joined())\r\n"
    }

    /// Sends one request over a new connection and returns its response.
    func ask(_ target: String, method: String = "GET", _ fields: [String] = []) throws -> RawResponse {
        let connection = try connect()
        connection.send(request(target, method: method, fields))
        return try connection.receiveAnswer(toHead: method == "HEAD")
    }

    /// Sends a call of the page as its script does. `change` modifies its fields.
    func call(_ method: String, token: String, body: String, _ change: (inout [String]) -> Void = { _ in }) throws
        -> RawResponse
    {
        var fields = [
            "Origin: http://127.0.0.1:\(server.port)", "Content-Type: application/json", "X-Client-Token: \(token)",
            "Content-Length: \(body.utf8.count)",
        ]
        change(&fields)
        let connection = try connect()
        connection.send(request("/__clientctl/v1/\(method)", method: "POST", fields) + body)
        return try connection.receiveAnswer()
    }
}

/// The fields of a browser's request when a user navigates to a page.
let navigation = ["Accept: text/html,application/xhtml+xml", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"]
