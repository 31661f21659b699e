import BundleCore
import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// The log of the built program.
@Suite(.ownThread) struct LogTests {
    private let site: Site

    init() throws {
        site = try Site()
        try site.folder.writeTree(Site.client("seed"), to: "seed")
    }

    private var place: [String] {
        ["--store", site.store, "--shell-version", "1.5.0", "--seed", site.folder.file("seed")]
    }

    /// The first line of a `serve` without a feed.
    private static let noFeed = "clientctl: no feed is named, so only clients that `clientctl install` adds are shown\n"
    /// The last line of a `serve` that ends by SIGTERM.
    private static let stop = "clientctl: SIGTERM: the program stops\n"

    /// A command that runs the program with the journal as its standard error.
    private static let inJournal = [
        "sh", "-c", "JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec \"$@\"", "sh",
    ]

    private func objects(_ text: String) throws -> [JSONObject] {
        try text.split(separator: "\n").map { line in
            try #require(try JSONScanner.parse(bytes(String(line)), maximumBytes: 1 << 16).objectValue, "\(line)")
        }
    }

    /// Shows 1.0.0 and confirms it. Returns the log.
    private func life(_ more: [String], wrapper: [String] = []) throws -> String {
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        let serving = try ServeRun(place + more, wrapper: wrapper)
        let token = try serving.loadPage()
        #expect(try serving.call("startupDidComplete", token: token).status == 200)
        try serving.wait(for: "it is confirmed") { $0["clientctl_start_duration_seconds_count"] == 1 }
        let ending = try serving.stop()
        #expect(!ending.errors.contains(token))
        return ending.errors
    }

    @Test func `serve logs sentences by default`() throws {
        let log = try life([])
        #expect(
            log == Self.noFeed + "clientctl: v1.0.0 is shown, on trial\nclientctl: v1.0.0 confirmed its start\n"
                + Self.stop)
    }

    @Test func `errors name their code, usage errors the usage, and warnings are marked`() throws {
        let missing = try Clientctl.run(["verify", "--store", site.folder.file("dist/none")])
        #expect(missing.errors.hasPrefix("error[configInvalid]: "), "\(missing.errors)")
        let command = try Clientctl.run(["list"])
        #expect(command.errors.hasPrefix("error[usage]: Missing --store"), "\(command.errors)")
        let parser = try Clientctl.run(["list", "--nonsense"])
        #expect(parser.errors.hasPrefix("error[usage]: Unknown option '--nonsense'"), "\(parser.errors)")
        let keys = try Clientctl.run(["keys", "generate", "--out", site.folder.file("plain")]).succeeded()
        #expect(keys.errors.hasPrefix("warning: the key is not encrypted"), "\(keys.errors)")
        #expect(access("\(Checkout.root)/Guide/reference/errors/configInvalid.md", F_OK) == 0)
    }

    @Test func `log lines for the journal have priorities`() throws {
        let log = try life([], wrapper: Self.inJournal)
        #expect(
            log == "<6>" + Self.noFeed
                + "<6>clientctl: v1.0.0 is shown, on trial\n<6>clientctl: v1.0.0 confirmed its start\n<6>" + Self.stop)
    }

    @Test func `log lines for other streams have no priorities`() throws {
        let other = ["env", "JOURNAL_STREAM=1:2"]
        #expect(try life([], wrapper: other).hasPrefix("clientctl: "))
    }

    @Test func `--log-format json logs one object per line`() throws {
        let objects = try objects(try life(["--log-format", "json"], wrapper: Self.inJournal))
        #expect(
            objects.map { $0["event"] }
                == [.string("noFeed"), .string("launched"), .string("confirmed"), .string("stopping")])
        for object in objects.dropFirst().dropLast() {
            #expect(object.members.map(\.name) == ["time", "level", "event", "message", "version"])
            #expect(throws: Never.self) { try Timestamp(parsing: object["time"]?.stringValue ?? "") }
            #expect(object["level"] == .string("info"))
            #expect(object["version"] == .string("1.0.0"))
        }
        #expect(objects.dropFirst().first?["message"] == .string("v1.0.0 is shown, on trial"))
    }

    @Test func `--log-format json logs a failure with its reason, also as the last line`() throws {
        let refused = try Clientctl.run([
            "serve", "--store", site.folder.file("none"), "--shell-version", "1.5.0", "--log-format", "json",
        ])
        #expect(refused.status == 78)
        let object = try #require(try objects(refused.errors).last)
        #expect(object["level"] == .string("error"))
        #expect(object["event"] == .string("failed"))
        #expect(object["code"] == .string("configInvalid"))
        let host = try Clientctl.run(["feed", "serve", site.folder.file("nowhere"), "--log-format", "json"])
        #expect(try objects(host.errors).map { $0["code"] } == [.string("configInvalid")])
    }

    @Test func `a usage error of several lines has a priority on each line`() throws {
        let ending = try Program.run(
            Self.inJournal + [Clientctl.path, "serve", "--nonsense"], environment: Clientctl.environment())
        #expect(ending.status == 64)
        let lines = ending.errors.split(separator: "\n")
        #expect(lines.count > 1)
        #expect(lines.allSatisfy { $0.hasPrefix("<4>") })
    }

    @Test func `accepts --log-format from the configuration and rejects unknown formats`() throws {
        let refused = try Clientctl.run(["serve", "--log-format", "xml", "--json"] + place)
        refused.failed(64, "usage")
        let serving = try ServeRun(place, environment: ["CLIENTCTL_LOG_FORMAT": "json"])
        _ = try serving.loadPage()
        #expect(
            try objects(try serving.stop().errors).map { $0["event"] }
                == [.string("noFeed"), .string("launched"), .string("stopping")])
    }

    @Test func `logs contain no token`() throws {
        let token = "s3cret-Token-of-the-fleet"
        let server = try LoopbackServer(["/manifest.json": Route(bytes("no"), status: 401)])
        let path = try site.folder.write(bytes(token), to: "token")
        try site.publish("1.0.0")
        let serving = try ServeRun(
            place + [
                "--manifest", "http://127.0.0.1:\(server.port)/manifest.json", "--trust", site.trust, "--token-file",
                path, "--check-interval", "1s", "--log-format", "json",
            ])
        let deadline = ContinuousClock.now + .seconds(60)
        while try !serving.program.printed().errors.contains("httpStatus"), ContinuousClock.now < deadline {
            poll(nil, 0, 10)
        }
        let metrics = try serving.ask("GET /__clientctl/v1/metrics").text
        let log = try serving.stop().errors
        #expect(server.requests.contains { $0["Authorization"] == "Bearer \(token)" })
        #expect(try objects(log).contains { $0["code"] == .string("httpStatus") && $0["level"] == .string("warning") })
        for text in [log, metrics] { #expect(!text.contains(token)) }
    }

    @Test func `serve logs that it shows the seed, and when a new client is shown`() throws {
        let serving = try ServeRun(
            place + ["--manifest", site.manifest, "--trust", site.trust, "--check-interval", "1s"])
        _ = try serving.loadPage()
        try site.publish("1.0.0")
        let deadline = ContinuousClock.now + .seconds(60)
        while try !serving.program.printed().errors.contains("is ready"), ContinuousClock.now < deadline {
            poll(nil, 0, 10)
        }
        let log = try serving.stop().errors
        #expect(
            log.contains("clientctl: the seed is shown\n") && log.contains("clientctl: v1.0.0 is installed ("), "\(log)"
        )
        #expect(log.contains(" downloaded for "))
        #expect(
            log.contains(
                "v1.0.0 is ready; it is shown when the page loads again, or by itself with --activation-window"))
    }

    @Test func `kiosk reports once that serve does not answer`() throws {
        let kiosk = try Program(
            [Clientctl.path, "kiosk", "--port", "1", "--browser", "true {url}"], environment: Clientctl.environment())
        let deadline = ContinuousClock.now + .seconds(60)
        while try !kiosk.printed().errors.contains("serve does not answer"), ContinuousClock.now < deadline {
            poll(nil, 0, 10)
        }
        kiosk.send(SIGTERM)
        let log = try #require(try kiosk.wait(within: .seconds(60))).errors
        #expect(log.contains("warning: serve does not answer at http://127.0.0.1:1/: check CLIENTCTL_PORT"), "\(log)")
        #expect(log.ranges(of: "does not answer").count == 1)
    }

    @Test func `the access log of host keeps its own format`() throws {
        try site.publish("1.0.0")
        let host = try Hosting(site.feed, ["--log-format", "json"])
        #expect(try host.ask("/manifest.json").status == 200)
        let log = try host.stop().errors
        let line = log.split(separator: "\n").first { $0.contains(" GET /manifest.json 200 ") }
        #expect(line?.contains("{") == false, "\(log)")
    }
}
