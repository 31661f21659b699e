import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `clientctl fleet watch`, with a real roster and host.
@Suite(.ownThread) struct FleetWatchTests {
    private let site: ChannelSite
    private let operators: String

    init() throws {
        site = try ChannelSite()
        try site.publish("1.0.0").succeeded("published")
        operators = try site.folder.write(bytes("operator-token\n"), to: "operators")
        chmod(operators, 0o600)
    }

    private var database: String { site.folder.file("roster.db") }
    private var news: String { site.folder.file("news") }

    private func host(port: Int = 0) throws -> Hosting {
        try Hosting(site.feed, ["--roster", database, "--roster-token-file", operators], port: port)
    }

    private func install(_ name: String, at host: Hosting) throws {
        try site.install(name, ["--roster", host.url + "roster", "--name", name]).succeeded("installed")
    }

    private func change(_ words: String) throws {
        try Clientctl.stock(["sqlite3", database, ".timeout 5000", "UPDATE devices SET \(words)"])
    }

    /// Starts a watch whose command writes one line for each message.
    private func watch(_ more: [String], hook: String? = nil) throws -> Program {
        let write = hook ?? "sh -c 'echo \"$ALERT_KIND $ALERT_STATE $ALERT_COUNT $ALERT_TEXT\" >>\(news)'"
        return try Program(
            [Clientctl.path, "fleet", "watch", "--check-interval", "1s", "--alert-pause", "1s", "--on-alert", write]
                + more,
            environment: Clientctl.environment())
    }

    /// Waits for `count` lines of the command, and returns all of them.
    private func lines(_ count: Int, of program: Program) throws -> [String] {
        let deadline = ContinuousClock.now + .seconds(60)
        while true {
            let text = (try? contents(ofFile: news)).map { String(decoding: $0, as: UTF8.self) } ?? ""
            let lines = text.split(separator: "\n").map(String.init)
            if lines.count >= count { return lines }
            try #require(ContinuousClock.now < deadline, "\(lines)")
            if let ending = try program.wait(within: .milliseconds(50)) {
                Issue.record("the watch ended: \(ending.errors)")
                return lines
            }
        }
    }

    private func stop(_ program: Program, by signal: Int32 = SIGTERM) throws {
        program.send(signal)
        let ending = try #require(try program.wait(within: .seconds(60)))
        #expect(ending.status == 0, "\(ending.errors)")
    }

    @Test func `one message for each change of a device, a release and a channel`() throws {
        let host = try host()
        try install("Lobby", at: host)
        try install("Hall", at: host)
        let watch = try watch([
            "--roster", database, "--feed", site.feed, "--channel", "stable", "--trust", site.pinned,
            "--expires-within", "3d",
        ])
        try change("seen = seen - 100000 WHERE name = 'Lobby'")
        #expect(try lines(1, of: watch).last == "silent began 1 1 device became silent: Lobby.")
        try change("seen = seen + 100000 WHERE name = 'Lobby'")
        #expect(try lines(2, of: watch).last == "silent ended 0 1 device is no longer silent: Lobby.")
        try change("blocked = '1.5.0', runs = '1.0.0', state = 'good', next = NULL WHERE name = 'Hall'")
        #expect(try lines(3, of: watch).last == "blocked began 1 Devices blocked 1 release: 1.5.0 on 1 device.")
        try change("conflict = seen, conflicts = 1 WHERE name = 'Hall'")
        #expect(try lines(4, of: watch).last == "conflict began 1 Another key signs for 1 device: Hall.")
        try site.channel("renew", "--expires-in", "1d").succeeded("changed")
        #expect(
            try lines(5, of: watch).last?.hasPrefix("expires began 1 1 channel must be signed again: stable") == true)
        try site.channel("renew").succeeded("changed")
        #expect(try lines(6, of: watch).last == "expires ended 0 1 channel was signed again: stable.")
        try stop(watch)
        #expect(try lines(6, of: watch).count == 6)
    }

    @Test func `a host that is away is one message and a recovery`() throws {
        let host = try host()
        try install("Lobby", at: host)
        let watch = try watch(["--roster", host.url + "roster", "--roster-token-file", operators, "--json"])
        let port = host.port
        try host.stop()
        #expect(try lines(1, of: watch).last?.hasPrefix("roster began 1 The roster cannot be read: ") == true)
        let again = try self.host(port: port)
        #expect(try lines(2, of: watch).last == "roster ended 0 The roster can be read again.")
        try stop(watch, by: SIGINT)
        let printed = try watch.printed().output.split(separator: "\n").map { line in
            try #require(try JSONScanner.parse(bytes(String(line)), maximumBytes: 1 << 16).objectValue)
        }
        #expect(printed.map { $0["state"]?.stringValue } == ["began", "ended"])
        for object in printed { AnswerSchema.expect(object, to: ["fleet", "watch"]) }
        try again.stop()
    }

    @Test func `a signal ends the watch and its command`() throws {
        let host = try host()
        try install("Lobby", at: host)
        try change("seen = seen - 100000")
        let watch = try watch(["--roster", database], hook: "sh -c 'echo $$ >>\(news); exec sleep 600'")
        let process = try #require(Int32(try lines(1, of: watch)[0]))
        try stop(watch)
        let deadline = ContinuousClock.now + .seconds(60)
        while kill(process, 0) == 0 { try #require(ContinuousClock.now < deadline, "the command still runs") }
    }

    @Test func `a command that fails is a warning, and runs again after the quiet time`() throws {
        let host = try host()
        try install("Lobby", at: host)
        try change("seen = seen - 100000")
        let watch = try watch(["--roster", database], hook: "sh -c 'echo x >>\(news); exit 3'")
        _ = try lines(2, of: watch)
        try stop(watch)
        #expect(try watch.printed().errors.contains("the command of --on-alert ended with status 3"))
    }

    @Test func `wrong flags are refused at the start`() throws {
        for (more, words) in [
            (["--roster", database, "--on-alert", "no-such-program"], "was not found"),
            (["--roster", database, "--check-interval", "0s"], "check-interval"),
            (["--roster", database, "--feed", site.feed], "--channel"), ([], "--roster"),
            (["--roster", "/nowhere/roster.db"], "/nowhere/roster.db"),
        ] as [([String], String)] {
            let ending = try Clientctl.run(["fleet", "watch"] + more)
            #expect([64, 74, 78].contains(ending.status) && ending.errors.contains(words), "\(more): \(ending.errors)")
        }
    }
}
