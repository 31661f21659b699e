import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// The start and the end of `clientctl serve`, and its errors.
@Suite(.ownThread) struct ServeProcessTests {
    let kiosk: Kiosk

    init() throws { kiosk = try Kiosk() }

    /// Returns the only line on standard error.
    private func line(_ ending: Program.Ending) throws -> String {
        let lines = ending.errors.split(separator: "\n")
        #expect(lines.count == 1, "\(ending.errors)")
        return String(try #require(lines.first))
    }

    private func refused(_ arguments: [String], _ status: Int32) throws -> String {
        try line(try kiosk.run(["serve", "--shell-version", "1.5.0"] + arguments, expecting: status))
    }

    @Test(.enabled(if: Browser.isInstalled, "no Chromium"), arguments: [SIGTERM, SIGINT])
    func `serve ends with 0 while a page is connected`(signal: Int32) throws {
        let serving = try kiosk.serve()
        let page = try Browser.forAllTests().open(serving.root + "/")
        try page.wait(until: "window.version === 'embedded'")
        try page.wait(for: "it listens") { $0.sentMessages.contains { $0.contains("\"listen\"") } }
        serving.program.send(signal)
        let ending = try #require(try serving.program.wait(within: .seconds(60)), "it does not end")
        #expect(ending.status == 0)
    }

    @Test func `serve ends with 0 on a signal right after it prints its address`() throws {
        for _ in 0..<5 {
            let serving = try kiosk.serve()
            serving.program.send(SIGTERM)
            let ending = try #require(try serving.program.wait(within: .seconds(60)), "it does not end")
            #expect(ending.status == 0, "signal \(ending.signal ?? 0)")
        }
    }

    @Test(arguments: ["--manifest": "/manifest.json", "--channel": "/channels/stable.json"])
    func `serve ends with 0 while a check for updates hangs`(option: String, path: String) throws {
        let gate = try Gate()
        let silence = Route(bytes("x")).with { $0.pace = .held(after: 0, gate) }
        let silent = try LoopbackServer([path: silence])
        let serving = try kiosk.serve([
            option, "http://127.0.0.1:\(silent.port)\(path)", "--trust", kiosk.trust, "--check-interval", "1s",
        ])
        #expect(silent.wait(for: path))
        serving.program.send(SIGTERM)
        // The check itself times out after 30 seconds.
        let ending = try #require(try serving.program.wait(within: .seconds(20)), "it does not end")
        #expect(ending.status == 0)
    }

    @Test func `a second serve on the same store fails with storeLocked`() throws {
        let serving = try kiosk.serve()
        let message = try refused(["--store", kiosk.store, "--seed", kiosk.seed, "--port", "0"], 32)
        #expect(message.contains("Another shell runs on the store \(kiosk.store)"))
        let json = try kiosk.run(
            ["serve", "--shell-version", "1.5.0", "--store", kiosk.store, "--seed", kiosk.seed, "--json"],
            expecting: 32)
        #expect(
            try JSONScanner.parse(json.output, maximumBytes: 4096).objectValue?["error"]?.objectValue?["code"]
                == .string("storeLocked"))
        withExtendedLifetime(serving) {}
    }

    @Test func `serve rejects a --port in use, and uses the next one for an application's port with a warning`() throws
    {
        let serving = try kiosk.serve()
        let message = try refused(
            ["--store", kiosk.folder.file("other"), "--seed", kiosk.seed, "--port", "\(serving.port)"], 78)
        #expect(message.contains("port \(serving.port) is in use"))

        // Another test may have the port of this application.
        let arguments = { (store: String) in
            [
                "serve", "--shell-version", "1.5.0", "--store", store, "--seed", kiosk.seed, "--app-id",
                "serve\(getpid())",
            ]
        }
        let first = try Serving(try kiosk.start(arguments(kiosk.folder.file("first"))))
        let second = try Serving(try kiosk.start(arguments(kiosk.folder.file("second"))))
        #expect(second.port != first.port)
        let warning = try second.program.printed().errors.split(separator: "\n").filter { $0.hasPrefix("warning: ") }
        #expect(warning.count == 1)
        #expect(warning.first?.contains("is in use, so serve listens on \(second.port)") == true)
    }

    @Test func `serve names a missing client, seed or store`() throws {
        let missing = kiosk.folder.file("missing")
        let message = try refused(["--store", missing, "--port", "0"], 78)
        #expect(message.contains("There is nothing to launch") && message.contains("--seed"))
        let noSeed = try kiosk.run(
            ["serve", "--shell-version", "1.5.0", "--store", missing, "--seed", kiosk.folder.file("none")],
            expecting: 78)
        #expect(noSeed.errors.contains("seed cannot be opened") && noSeed.errors.contains("nothing to launch"))
        let noStore = try kiosk.run(["serve", "--shell-version", "1.5.0"], expecting: 64)
        #expect(noStore.errors.contains("--store"))
    }

    @Test func `serve shows the installed client when the seed is missing`() throws {
        try kiosk.install(.good("1.0.0"))
        let lost = ["serve", "--store", kiosk.store, "--shell-version", "1.5.0", "--seed", kiosk.folder.file("none")]
        for feed in [[], ["--manifest", kiosk.manifest, "--trust", kiosk.trust]] {
            let serving = try Serving(try kiosk.start(lost + ["--port", "0"] + feed))
            #expect(try serving.ask("GET /", ["Accept": "text/html"]).text.contains("1.0.0"))
            #expect(try serving.program.printed().errors.contains("The seed cannot be opened"))
            serving.program.send(SIGTERM)
            _ = try serving.program.wait(within: .seconds(60))
            // A trial that ended with its shell counts as a failed start. This removes it.
            try kiosk.run(["unblock", "--version", "1.0.0", "--store", kiosk.store])
        }
    }

    @Test func `serve --json prints exactly one object`() throws {
        let serving = try kiosk.serve(["--json"])
        _ = try serving.ask("GET /", ["Accept": "text/html"])
        serving.program.send(SIGTERM)
        let ending = try #require(try serving.program.wait(within: .seconds(60)), "it does not end")
        let object = try #require(try JSONScanner.parse(ending.output, maximumBytes: 4096).objectValue)
        #expect(object["url"] == .string(serving.root + "/"))
        #expect(object["port"] == .integer(serving.port))
        #expect(object["next"] == .string("embedded"))
        #expect(object["versions"] == .array([.string("embedded")]))
    }
}
