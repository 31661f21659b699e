import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// Pictures of a screen, from a real browser through `serve` to the roster of a host.
@Suite(.serialized, .ownThread, .needsBrowser) struct PictureTests {
    private let kiosk: Kiosk
    private let folder: TemporaryFolder

    init() throws {
        kiosk = try Kiosk()
        folder = try TemporaryFolder()
        try kiosk.install(.good("1.0.0", "red", atOnce: true))
    }

    private var database: String { kiosk.folder.file("roster.db") }

    /// Starts a host with a roster that keeps pictures.
    private func host() throws -> Serving {
        let operators = try kiosk.folder.write(bytes("operator\n"), to: "operators")
        chmod(operators, 0o600)
        return try Serving(
            try kiosk.start([
                "feed", "serve", kiosk.folder.file("feed"), "--roster", database, "--roster-token-file", operators,
                "--roster-pictures",
            ]))
    }

    private func browser() throws -> [String] {
        ["--browser", try Browser.command(in: folder.path).map { "'\($0)'" }.joined(separator: " ")]
    }

    private func serve(_ roster: String, timeout: String = "60s", _ more: [String]) throws -> Serving {
        try kiosk.serve(
            timeout: timeout,
            ["--roster", "\(roster)/roster", "--name", "Lobby", "--device-id", "lobby", "--picture"] + more)
    }

    private func wait(_ trouble: @autoclosure () throws -> String, _ isMet: () throws -> Bool) throws {
        let deadline = ContinuousClock.now + Browser.patience
        while try !isMet() {
            if ContinuousClock.now > deadline { Issue.record("\(try trouble())") }
            try #require(ContinuousClock.now < deadline)
            poll(nil, 0, 50)
        }
    }

    /// Waits until the roster has a picture, and returns its bytes.
    private func picture(_ flag: String, _ serving: Serving) throws -> [UInt8] {
        let file = kiosk.folder.file("picture")
        try wait("no picture: \(serving.program.printed().errors)") {
            try kiosk.start(["fleet", "show", "Lobby", "--roster", database, flag, file]).wait().status == 0
        }
        return try contents(ofFile: file)
    }

    /// Returns the width and the height of a JPEG.
    private func size(_ picture: [UInt8]) throws -> (Int, Int) {
        let start = try #require(
            picture.indices.dropLast(9).first {
                picture[$0] == 0xFF && [0xC0, 0xC2].contains(picture[$0 + 1]) && picture[$0 + 4] == 8
            })
        func number(_ offset: Int) -> Int { Int(picture[start + offset]) << 8 | Int(picture[start + offset + 1]) }
        return (number(7), number(5))
    }

    private func end(_ program: Program) throws {
        program.send(SIGTERM)
        #expect(try program.wait(within: Browser.patience)?.status == 0)
    }

    @Test func `serve sends a picture of its browser after a confirmed start, and fleet forget removes it`() throws {
        let host = try host()
        let serving = try serve(host.root, browser())
        let picture = try picture("--save-picture", serving)
        #expect(picture.starts(with: [0xFF, 0xD8, 0xFF]) && picture.count <= 48 << 10)
        let (width, height) = try size(picture)
        #expect(max(width, height) == 480 && min(width, height) > 240, "\(width) x \(height)")
        let log = try serving.program.printed().errors
        #expect(
            log.contains(
                "pictures of the screen are sent to \(host.root)/roster, at least every 15m, never while a session of a user is open"
            ))
        // The page of the host shows it, to operators only.
        let shown = try kiosk.run(["fleet", "show", "Lobby", "--roster", database, "--json"])
        let row = try #require(try JSONScanner.parse(shown.output, maximumBytes: 1 << 20).objectValue)
        let path = "/roster/\(row["device"]?.stringValue ?? "")/picture"
        #expect(row["picture"]?.stringValue != nil && row["failedPicture"] == .null)
        #expect(try host.ask("GET \(path)").status == 401)
        let answer = try host.ask("GET \(path)", ["Authorization": "Bearer operator"])
        #expect(answer.status == 200 && answer.body == picture && answer["content-type"] == "image/jpeg")
        try end(serving.program)
        try kiosk.run(["fleet", "forget", "Lobby", "--roster", database])
        #expect(try host.ask("GET \(path)", ["Authorization": "Bearer operator"]).status == 404)
    }

    @Test func `serve sends a picture of the start that failed`() throws {
        let host = try host()
        let serving = try serve(
            host.root, timeout: "\(BusyMachine.seconds(8))s", browser() + ["--check-interval", "10h"])
        try kiosk.wait(until: "v1.0.0", is: "good")
        try kiosk.install(.doing("2.0.0", "", "blue"))
        try kiosk.wait(until: "v2.0.0", is: "failed")
        let failed = try picture("--save-failed-picture", serving)
        #expect(failed.starts(with: [0xFF, 0xD8, 0xFF]))
        try end(serving.program)
    }

    @Test(arguments: [false, true])
    func `serve sends no picture while a session of a user is open, unless the operator permits it`(isPermitted: Bool)
        throws
    {
        try kiosk.login()
        let roster = try LoopbackServer { _ in Route(bytes("{}")) }
        let serving = try serve(
            "http://127.0.0.1:\(roster.port)",
            browser() + ["--picture-interval", "10s"] + (isPermitted ? ["--picture-sessions"] : []))
        func pictures() -> [LoopbackServer.Request] { roster.requests.filter { $0.target == "/roster/picture" } }
        try kiosk.wait(until: "v1.0.0", is: "good")
        if isPermitted {
            try wait("no picture: \(serving.program.printed().errors)") { !pictures().isEmpty }
        } else {
            // A picture is due 5 seconds after the start and again 10 seconds later.
            let deadline = ContinuousClock.now + .seconds(17)
            while ContinuousClock.now < deadline {
                #expect(pictures().isEmpty)
                poll(nil, 0, 200)
            }
            #expect(roster.requests.contains { $0.target == "/roster" })
            let end = Timestamp.now
            try kiosk.on("session logout")
            // The page of guests is on the screen.
            try wait("no picture: \(serving.program.printed().errors)") { !pictures().isEmpty }
            let post = try PicturePost(parsing: try #require(pictures().first).body)
            #expect(post.taken >= end)
        }
        try end(serving.program)
    }

    @Test(arguments: ["Chromium", "a command"])
    func `kiosk takes the picture of its browser and gives it to serve`(way: String) throws {
        let host = try host()
        let serving = try serve(host.root, [])
        let png = try kiosk.folder.write(Self.png, to: "screen.png")
        let more = way == "Chromium" ? [] : ["--picture-command", "cat '\(png)'"]
        let program = try kiosk.start(["kiosk", "--port", "\(serving.port)", "--picture"] + browser() + more)
        let picture = try picture("--save-picture", serving)
        #expect(way == "Chromium" ? picture.starts(with: [0xFF, 0xD8, 0xFF]) : picture == Self.png)
        // A program without the token of an order gives no picture.
        let forged = try serving.ask(
            "POST /__clientctl/v1/picture", ["Authorization": "Bearer guessed"], body: String(repeating: "x", count: 9))
        #expect(forged.status == 403)
        try end(program)
        try end(serving.program)
    }

    private static let png: [UInt8] = [
        0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 0x0D, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 1, 0, 0, 0, 1,
        8,
        0, 0, 0, 0, 0x3A, 0x7E, 0x9B, 0x55, 0, 0, 0, 0, 0x49, 0x45, 0x4E, 0x44, 0xAE, 0x42, 0x60, 0x82,
    ]

    @Test(arguments: ["head -c 70000 /dev/zero", "echo no picture", "sh -c 'exit 3'"])
    func `serve names a command that prints no picture, and sends nothing`(command: String) throws {
        let roster = try LoopbackServer { _ in Route(bytes("{}")) }
        let serving = try serve("http://127.0.0.1:\(roster.port)", browser() + ["--picture-command", command])
        let words =
            command.contains("exit")
            ? "The command of --picture-command ended with status 3." : "printed no JPEG or PNG of at most 48"
        try wait("the log lacks the command: \(serving.program.printed().errors)") {
            try serving.program.printed().errors.contains(words)
        }
        #expect(!roster.requests.contains { $0.target == "/roster/picture" })
        try end(serving.program)
    }

    @Test func `serve refuses flags of pictures without a receiver or a way`() throws {
        let start = ["serve", "--store", kiosk.store, "--shell-version", "1.5.0", "--seed", kiosk.seed]
        let roster = ["--roster", "http://127.0.0.1:9/roster"]
        for (flags, words) in [
            (["--picture"], "--picture needs --roster"),
            (["--picture-command", "true"], "--picture-command needs --picture"),
            (["--picture-sessions"], "--picture-sessions needs --picture"),
            (roster + ["--picture", "--browser", "true {url}"], "Only Chromium takes a picture itself"),
            (roster + ["--picture", "--picture-interval", "1s"], "--picture-interval takes 10s or more"),
        ] as [([String], String)] {
            #expect(try kiosk.run(start + flags, expecting: 64).errors.contains(words), "\(flags)")
        }
    }
}
