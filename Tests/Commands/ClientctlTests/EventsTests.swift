import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `clientctl events`, read by a monitor.
@Suite(.ownThread) struct EventsTests {
    private let site: Site

    init() throws { site = try Site() }

    /// Returns the complete lines so far.
    private func lines(_ program: Program) throws -> [JSONObject] {
        try program.printed().output.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map { line in
            let object = try #require(
                try JSONScanner.parse(Array(line.utf8), maximumBytes: 1 << 20).objectValue, "\(line)")
            AnswerSchema.expect(object, to: ["events"])
            return object
        }
    }

    private func text(_ line: JSONObject) -> String {
        ["event", "name", "next"].compactMap { line[$0]?.stringValue }.joined(separator: " ")
    }

    /// Returns the lines after the first `count` as soon as the last of them is `last`.
    private func next(_ program: Program, after count: inout Int, until last: String) throws -> [String] {
        let deadline = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < deadline {
            let said = try lines(program).map(text)
            if said.count > count, said.last == last {
                defer { count = said.count }
                return Array(said.dropFirst(count))
            }
            poll(nil, 0, 10)
        }
        throw Expected("\(last) after \(try program.printed())")
    }

    private struct Expected: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    private func run(_ command: String, _ more: [String]) throws -> Outcome {
        try Clientctl.run(
            command.split(separator: " ").map(String.init) + ["--store", site.store, "--json"] + more
        ).succeeded()
    }

    private func launch() throws -> [String] {
        let launched = try run("launch", ["--shell-version", "1.5.0"])
        return ["--version", launched.string("version") ?? "", "--token", launched.string("token") ?? ""]
    }

    @Test func `events prints each step of a client, also when the store does not exist yet`() throws {
        let program = try Clientctl.start(["events", "--store", site.store])
        var count = 0
        #expect(try next(program, after: &count, until: "state embedded") == ["state embedded"])
        #expect(try program.printed().errors.contains("there is no store at \(site.store)"))
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        #expect(try next(program, after: &count, until: "selected v1.0.0") == ["installed v1.0.0", "selected v1.0.0"])
        let first = try launch()
        #expect(try next(program, after: &count, until: "launched v1.0.0") == ["launched v1.0.0"])
        #expect(try lines(program).last?["detail"]?.stringValue == "trial")
        _ = try run("confirm", first)
        #expect(try next(program, after: &count, until: "confirmed v1.0.0") == ["confirmed v1.0.0"])
        try site.publish("1.1.0")
        try site.install().succeeded("installed")
        #expect(try next(program, after: &count, until: "selected v1.1.0") == ["installed v1.1.0", "selected v1.1.0"])
        let second = try launch()
        #expect(try next(program, after: &count, until: "launched v1.1.0") == ["launched v1.1.0"])
        _ = try run("fail", second + ["--reason", "white screen"])
        #expect(try next(program, after: &count, until: "selected v1.0.0") == ["failed v1.1.0", "selected v1.0.0"])
        #expect(
            try lines(program).first { text($0) == "failed v1.1.0" }?["detail"]?.stringValue?.contains("white") == true)
        program.send(SIGTERM)
        #expect(try program.wait().signal == SIGTERM)
    }

    @Test func `events prints a block and the client selected after it`() throws {
        for version in ["1.0.0", "1.1.0"] {
            try site.publish(version)
            try site.install().succeeded("installed")
        }
        let program = try Clientctl.start(["events", "--store", site.store])
        var count = 0
        #expect(try next(program, after: &count, until: "state v1.1.0") == ["state v1.1.0"])
        _ = try run("rollback", ["--version", "1.0.0"])
        #expect(try next(program, after: &count, until: "selected v1.0.0") == ["blocked v1.1.0", "selected v1.0.0"])
        _ = try run("unblock", ["--version", "1.1.0"])
        #expect(try next(program, after: &count, until: "selected v1.1.0") == ["unblocked v1.1.0", "selected v1.1.0"])
    }

    @Test func `events ends when its reader closes the pipe or no store can exist at the path`() throws {
        let outcome = try Clientctl.run(["events", "--store", "/dev/null/store"])
        #expect(outcome.status != 0 && outcome.text == "")
        #expect(outcome.errors.contains("/dev/null"))
        let ending = try Program.run(
            ["sh", "-c", "\"$0\" events --store \"$1\" | head -n 1", Clientctl.path, site.store],
            environment: Clientctl.environment())
        #expect(ending.text.contains("\"state\""))
    }

    @Test func `events prints locks, logins and sessions that end`() throws {
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        let program = try Clientctl.start(["events", "--store", site.store])
        var count = 0
        _ = try next(program, after: &count, until: "state v1.0.0")
        let token = try site.folder.write(bytes("secret\n"), to: "token")
        try Clientctl.stock(["chmod", "600", token])
        for (command, more, event, detail) in [
            ("screen lock", [], "locked", "locked"), ("screen lock", ["--maintenance"], "locked", "maintenance"),
            ("screen unlock", [], "unlocked", nil), ("session login", ["--token-file", token], "loggedIn", nil),
            ("session logout", [], "loggedOut", "signedOut"),
            ("session login", ["--token-file", token, "--expires", "2s"], "loggedIn", nil),
        ] as [(String, [String], String, String?)] {
            _ = try run(command, more)
            #expect(try next(program, after: &count, until: event) == [event])
            #expect(try lines(program).last?["detail"]?.stringValue == detail)
        }
        // The session expires without a command.
        #expect(try next(program, after: &count, until: "loggedOut") == ["loggedOut"])
        #expect(try lines(program).last?["detail"] == .string("expired"))
    }
}
