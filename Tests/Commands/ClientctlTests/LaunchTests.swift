import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// Launches and verdicts, run as a shell script runs them.
@Suite(.ownThread) struct LaunchTests {
    private let site: Site
    private let seed: String

    init() throws {
        site = try Site()
        seed = try site.folder.writeTree(["index.html": bytes("<!doctype html><title>seed</title>\n")], to: "seed")
    }

    private func run(_ command: String, _ more: [String] = [], environment: [String: String] = [:]) throws -> Outcome {
        try Clientctl.run(
            command.split(separator: " ").map(String.init) + ["--store", site.store, "--json"] + more,
            environment: environment)
    }

    private func launch(shell: String = "1.5.0", _ more: [String] = []) throws -> Outcome {
        try run("launch", ["--shell-version", shell, "--seed", seed] + more)
    }

    /// Returns the flags of a verdict for `launched`.
    private func verdict(_ launched: Outcome) -> [String] {
        ["--version", launched.string("version") ?? "", "--token", launched.string("token") ?? ""]
    }

    private func install(_ versions: String...) throws {
        for version in versions {
            try site.publish(version)
            try site.install().succeeded("installed")
        }
    }

    private func launchAndConfirm() throws {
        try run("confirm", verdict(try launch().succeeded())).succeeded("confirmed")
    }

    // MARK: Usage

    @Test(arguments: [
        ["--port", "99999"], ["--csp", "nonsense"], ["--cross-origin", "x"], ["--capacitor-platform", "X"],
        ["--fallback", "x"],
        ["--permissions", "x"],
    ])
    func `serve keeps a pending verdict after a usage error`(flags: [String]) throws {
        try install("1.0.0")
        let launched = try launch().succeeded()
        let place = ["serve", "--store", site.store, "--shell-version", "1.5.0", "--seed", seed, "--json"]
        try site.leavingStoreAlone { try Clientctl.run(place + flags).failed(64, "usage") }
        try run("confirm", verdict(launched)).succeeded("confirmed")
    }

    @Test func `launch rejects an invalid value for --json before it records a launch`() throws {
        try install("1.0.0")
        try site.leavingStoreAlone {
            let place = ["launch", "--store", site.store, "--shell-version", "1.5.0", "--seed", seed]
            let refused = try Clientctl.run(place, environment: ["CLIENTCTL_JSON": "maybe"])
            #expect(refused.status == 64)
        }
    }

    @Test func `status names the time at which a failed start began`() throws {
        try install("1.0.0")
        let launched = try launch().succeeded()
        let started = try #require(
            try run("status").succeeded()["launch"]?.objectValue?["at"]?.stringValue)
        poll(nil, 0, 1100)
        try run("fail", verdict(launched)).succeeded("failed")
        let text = try Clientctl.run(["status", "--store", site.store]).text
        #expect(text.contains("its start at \(started) was reported as failed"), "\(text)")
    }

    // MARK: Manual rollback

    @Test func `rollback keeps the confirmed client after the failed one was rolled back automatically`() throws {
        try install("1.0.0")
        try launchAndConfirm()
        try install("1.1.0")
        try run("fail", verdict(try launch().succeeded())).succeeded("failed")
        try launchAndConfirm()
        let plain = try run("rollback")
        #expect(plain.status == 3)
        #expect(plain.outcome == "alreadyRolledBack")
        #expect(try run("rollback", ["--of", "1.1.0"]).succeeded("rolledBack").strings("blocked") == ["v1.1.0"])
        #expect(try run("rollback", ["--of", "1.1.0"]).succeeded("notShown").strings("blocked") == [])
        #expect(try launch().succeeded().string("version") == "1.0.0")
        #expect(try run("rollback", ["--of", "1.0.0"]).succeeded("rolledBack").string("version") == "embedded")
    }

    // MARK: Launches

    @Test func `launch prints exactly the members that a shell needs`() throws {
        try install("1.0.0")
        let launched = try launch().succeeded()
        #expect(
            Set(launched.json.members.map(\.name)) == [
                "version", "source", "servingRoot", "token", "inPlace", "trial", "reason", "requiredEndpoints",
            ])
        #expect(launched.string("version") == "1.0.0")
        #expect(launched.string("source") == "archive")
        #expect(launched["trial"] == .bool(true))
        #expect(launched.string("reason") == "the newest usable client")
        #expect(launched.string("token")?.count == 64)
        #expect(launched.errors == "")
        let root = try #require(launched.string("servingRoot"))
        #expect(root == "\(site.store)/serving/archive-1.0.0")
        let page = String(decoding: try contents(ofFile: "\(root)/index.html"), as: UTF8.self)
        #expect(page.contains("<title>1.0.0</title>"))
        #expect(page.contains("WebAppLocalServer"))
        #expect(try contents(ofFile: "\(root)/app/main.1.0.0.js") == bytes("console.log('1.0.0')\n"))
        // The attempt is stored, but its token is not.
        let ledger = String(decoding: try contents(ofFile: "\(site.store)/ledger.json"), as: UTF8.self)
        #expect(!ledger.contains(launched.string("token") ?? "-"))
        let status = try run("status").succeeded()
        let written = try #require(status["launch"]?.objectValue)
        #expect(Set(written.members.map(\.name)) == ["name", "at", "trial", "verdict"])
        #expect(written["name"] == .string("v1.0.0"))
        #expect(written["trial"] == .bool(true))
        #expect(written["verdict"] == .null)
        #expect(status.string("current") == "v1.0.0")
    }

    @Test func `every command uses the name embedded for the seed`() throws {
        let launched = try launch().succeeded()
        #expect(launched.string("version") == "embedded")
        #expect(launched.string("source") == "embedded")
        #expect(launched["trial"] == .bool(false))
        let confirmed = try run("confirm", verdict(launched)).succeeded("confirmed")
        #expect(confirmed.string("version") == "embedded")
        #expect(try run("status").string("lastKnownGood") == "embedded")
        #expect(try run("status").string("next") == "embedded")
        #expect(try run("list").strings("versions") == ["embedded"])
    }

    @Test func `launch prints three lines for plain`() throws {
        try install("1.0.0")
        let outcome = try Clientctl.run(
            ["launch", "--store", "store", "--shell-version", "1.5.0", "--seed", "seed"], in: site.folder.path)
        #expect(outcome.status == 0)
        let lines = outcome.text.split(separator: "\n").map(String.init)
        #expect(lines.count == 3)
        #expect(lines.first == "v1.0.0, on trial: the newest usable client")
        #expect(lines.dropFirst().first == "  root   \(site.store)/serving/archive-1.0.0")
        #expect(lines.last?.hasPrefix("  token  ") == true)
    }

    @Test func `status distinguishes the running client from the next one`() throws {
        func states() throws -> [String] {
            let status = try run("status")
            let rows = status["clients"]?.arrayValue?.compactMap(\.objectValue) ?? []
            let next = rows.filter { $0["next"]?.boolValue == true }.compactMap { $0["name"]?.stringValue }
            #expect(next == [status.string("next") ?? ""])
            let text = try Clientctl.run(["status", "--store", site.store]).text
            let line = (text.split(separator: "\n").first.map(String.init) ?? "")
                .replacing(#/ \([0-9]+ seconds? ago\)/#, with: "")
            return [status.string("running") ?? "null", status.string("next") ?? "null", line]
        }
        try install("1.0.0")
        #expect(try states() == ["null", "v1.0.0", "running: nothing yet; next: v1.0.0"])
        let first = try launch().succeeded()
        try install("2.0.0")
        let at = try #require(try run("status")["launch"]?.objectValue?["at"]?.stringValue)
        #expect(try states() == ["v1.0.0", "v2.0.0", "running: v1.0.0, launched at \(at); next: v2.0.0"])
        let reasons = try Clientctl.run(["status", "--store", site.store]).text
        #expect(reasons.contains("* v2.0.0") && !reasons.contains("v2.0.0 runs"))
        try run("confirm", verdict(first)).succeeded()
        try Clientctl.run(["screen", "lock", "--store", site.store, "--json"]).succeeded("locked")
        #expect(try states() == ["null", "v2.0.0", "running: nothing (the device is locked); next: v2.0.0"])
        try Clientctl.run(["screen", "unlock", "--store", site.store, "--json"]).succeeded("unlocked")
        let token = try site.folder.write(bytes("token"), to: "token")
        try Clientctl.run(["session", "login", "--store", site.store, "--token-file", token, "--json"]).succeeded()
        try Clientctl.run(["session", "logout", "--store", site.store, "--json"]).succeeded()
        #expect(try states() == ["embedded", "v2.0.0", "running: the seed (for guests); next: v2.0.0"])
    }

    @Test func `a failed start falls back, is tried once more and is then blocked`() throws {
        try install("1.0.0")
        try launchAndConfirm()
        try install("1.1.0")
        let first = try launch().succeeded()
        #expect(first.string("version") == "1.1.0")
        let failed = try run("fail", verdict(first) + ["--reason", "white\nscreen"]).succeeded("failed")
        #expect(Set(failed.json.members.map(\.name)) == ["outcome", "version", "failures", "blocked", "next"])
        #expect(failed["failures"] == .integer(1))
        #expect(failed["blocked"] == .bool(false))
        #expect(failed.string("next") == "v1.0.0")
        let again = try run("fail", verdict(first)).succeeded("alreadyFailed")
        #expect(again["failures"] == .integer(1))
        try run("confirm", verdict(first)).failed(40, "healthFailed")
        let rows = try run("status")["clients"]?.arrayValue?.compactMap(\.objectValue) ?? []
        let row = try #require(rows.last)
        #expect(
            Set(row.members.map(\.name)) == [
                "name", "next", "state", "reason", "failures", "route", "routeReason", "complaints", "routeDetail",
            ])
        #expect(row["state"] == .string("failed"))
        let evidence = try #require(row["failures"]?.arrayValue?.first?.objectValue)
        #expect(evidence["cause"] == .string("reported"))
        #expect(evidence["detail"]?.stringValue?.contains("screen") == true)
        #expect(evidence["detail"]?.stringValue?.contains("\n") == false)

        let fallback = try launch().succeeded()
        #expect(fallback.string("version") == "1.0.0")
        #expect(fallback["trial"] == .bool(false))
        #expect(fallback.string("reason") == "the last known good client, because v1.1.0 failed")
        let waiting = try site.check()
        #expect(waiting.status == 3 && waiting.outcome == "waiting")
        #expect(waiting.string("waiting") == "trial")
        #expect(waiting.string("waitingDetail")?.contains("white") == true)
        let retry = try launch().succeeded()
        #expect(retry.string("version") == "1.1.0")
        #expect(retry.string("reason")?.contains("a second trial") == true)
        // This shell ends without a verdict.
        #expect(try launch().succeeded().string("version") == "1.0.0")
        let status = try run("status").succeeded()
        let block = try #require(status["blocked"]?.arrayValue?.first?.objectValue)
        #expect(Set(block.members.map(\.name)) == ["name", "version", "cause", "reason", "count", "since"])
        #expect(block["name"] == .string("v1.1.0"))
        #expect(block["cause"] == .string("failedStarts"))
        #expect(block["count"] == .integer(2))
        try site.install().failed(41, "versionBlocked")
        try run("unblock", ["--version", "1.1.0"]).succeeded("unblocked")
        try run("unblock", ["--version", "v1.1.0"]).succeeded("notBlocked")
        #expect(try launch().succeeded().string("version") == "1.1.0")
    }

    @Test func `confirm reads the token from the environment`() throws {
        try install("1.0.0")
        let launched = try launch().succeeded()
        let environment = ["CLIENTCTL_TOKEN": launched.string("token") ?? ""]
        let flags = ["--version", "v1.0.0", "--keep", "1"]
        let confirmed = try run("confirm", flags, environment: environment).succeeded("confirmed")
        #expect(Set(confirmed.json.members.map(\.name)) == ["outcome", "version", "removed"])
        #expect(confirmed.strings("removed") == [])
        try run("confirm", flags, environment: environment).succeeded("alreadyConfirmed")
        try run("fail", ["--version", "1.0.0"], environment: environment).failed(27, "versionMismatch")
        // A flag overrides the environment.
        try run("confirm", flags + ["--token", "x"], environment: environment).failed(27, "versionMismatch")
    }

    @Test func `confirm and prune remove old clients and keep those that have a role`() throws {
        try install("1.0.0")
        try launchAndConfirm()
        try install("1.1.0", "1.2.0", "1.3.0")
        let launched = try launch().succeeded()
        let confirmed = try run("confirm", verdict(launched) + ["--keep", "2"]).succeeded("confirmed")
        #expect(confirmed.strings("removed") == ["v1.2.0"])
        #expect(try run("list").strings("versions") == ["embedded", "v1.0.0", "v1.3.0"])
        let plan = try run("prune", ["--keep", "1", "--dry-run"]).succeeded("dryRun")
        #expect(plan.strings("retained") == ["v1.0.0", "v1.3.0"])
        #expect(try run("prune", ["--keep", "1"]).succeeded("unchanged").strings("removed") == [])
    }

    @Test func `rollback takes effect at the next launch and remains after an install`() throws {
        try install("1.0.0", "1.1.0", "1.2.0")
        _ = try launch()
        let result = try run("rollback", ["--version", "v1.0.0"]).succeeded("rolledBack")
        #expect(Set(result.json.members.map(\.name)) == ["outcome", "version", "blocked"])
        #expect(result.string("version") == "1.0.0")
        #expect(result.strings("blocked") == ["v1.1.0", "v1.2.0"])
        #expect(try run("status").string("next") == "v1.0.0")
        #expect(try launch().succeeded().string("version") == "1.0.0")
        try site.install().failed(41, "versionBlocked")
        #expect(try run("rollback", ["--version", "embedded"]).succeeded().string("version") == "embedded")
        #expect(try launch().succeeded().string("version") == "embedded")
        try run("rollback", ["--version", "1.2.0"]).failed(41, "versionBlocked")
        #expect(try run("rollback").status == 3)
    }

    @Test func `--verify-on-launch compares a store with its receipts before a launch`() throws {
        try install("1.0.0", "1.1.0")
        #expect(try run("verify").succeeded("verified").strings("versions") == ["v1.0.0", "v1.1.0"])
        try site.folder.write(bytes("evil"), to: "store/clients/v1.1.0/app/main.1.1.0.js")
        let failure = try run("verify").failed(33, "storeDamaged")
        #expect(failure.subject?.contains("app/main.1.1.0.js") == true)
        let launched = try launch(["--verify-on-launch"]).succeeded()
        #expect(launched.string("version") == "1.0.0")
        #expect(launched.errors.contains("v1.1.0"))
        try run("verify").succeeded("verified")
        try site.install().succeeded("installed")
        #expect(try run("verify").succeeded("verified").strings("versions") == ["v1.0.0", "v1.1.0"])
    }

    // MARK: Rejected input

    @Test(
        arguments: [
            (["launch", "--shell-version", "one"], 64, "usage", "--shell-version"),
            (["launch", "--shell-version", "1.0.0"], 78, "configInvalid", "no seed was named"),
            (["launch", "--shell-version", "1.0.0", "--seed", "/nonexistent"], 78, "configInvalid", "cannot be shown"),
            (["confirm", "--version", "1.0.0"], 64, "usage", "--token"),
            (["confirm", "--version", "one", "--token", "x"], 64, "usage", "--version"),
            (["confirm", "--token", "x"], 64, "usage", "--version"),
            (["confirm", "--version", "1.0.0", "--token", "x"], 27, "versionMismatch", "last launch: none"),
            (["confirm", "--version", "1.0.0", "--token", "x", "--keep", "0"], 64, "usage", "--keep"),
            (["fail", "--version", "1.0.0", "--token", "x"], 27, "versionMismatch", "last launch: none"),
            (["rollback", "--version", "latest"], 64, "usage", "--version"),
            (["rollback", "--version", "3.0.0"], 64, "usage", "not installed"),
            (["unblock", "--version", "one"], 64, "usage", "--version"),
        ] as [([String], Int32, String, String)])
    func `commands reject bad input with one sentence and change nothing`(
        arguments: [String], status: Int32, code: String, part: String
    ) throws {
        _ = try run("prune")
        try site.publish("1.0.0", nil, ["--min-shell", "9.0.0"])
        try site.install(shell: "9.0.0").succeeded("installed")
        // No shell can run this client, so the ledger has no launch.
        try site.leavingStoreAlone {
            let outcome = try run(arguments[0], Array(arguments.dropFirst()))
            outcome.failed(status, code, "\(arguments)")
            let message = outcome.error["message"]?.stringValue ?? ""
            #expect(message.contains(part), "\(message)")
            #expect(!message.contains("\n"), "\(message)")
        }
    }

    @Test func `rollback ends with 3 when there is no older client`() throws {
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        try site.leavingStoreAlone {
            let outcome = try run("rollback")
            #expect(outcome.status == 3 && outcome.outcome == "nothingBelow", "\(outcome.errors)\(outcome.text)")
            #expect(outcome.string("version") == "1.0.0" && outcome.strings("blocked") == [])
            let plain = try Clientctl.run(["rollback", "--store", site.store])
            #expect(plain.status == 3 && plain.text.contains("is the only client"), "\(plain.text)")
        }
        let unknown = try Clientctl.run(["unblock", "--version", "9.9.9", "--store", site.store])
        #expect(unknown.text.contains("neither installed nor blocked"), "\(unknown.text)")
    }

    @Test func `store commands reject a path without a store`() throws {
        for command in ["confirm", "fail"] {
            try run(command, ["--version", "1.0.0", "--token", "x"]).failed(78, "configInvalid")
        }
        for command in [["rollback"], ["unblock", "--version", "1.0.0"]] {
            try run(command[0], Array(command.dropFirst())).failed(78, "configInvalid")
        }
        for command in [["prune"], ["prune", "--dry-run"], ["verify"], ["launch", "--shell-version", "1.5.0"]] {
            let refused = try run(command[0], Array(command.dropFirst())).failed(78, "configInvalid")
            #expect(refused.errors.contains("No store found at \(site.store)"), "\(command): \(refused.errors)")
        }
        #expect(access(site.store, F_OK) != 0)
        try run("screen lock", ["--create"]).succeeded("locked")
        try site.publish("1.0.0", nil, ["--min-shell", "9.0.0"])
        try site.install(shell: "1.5.0").failed(42, "incompatibleShell")
        #expect(try Clientctl.run(["verify", "--store", site.store]).text == "no clients to verify\n")
    }

    @Test func `install prints no previous client when it is the current one`() throws {
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        let token = verdict(try launch().succeeded())
        try run("confirm", token).succeeded("confirmed")
        try site.publish("1.1.0")
        let states = try Clientctl.run([
            "install", "--manifest", site.manifest, "--trust", site.trust, "--store", site.store, "--shell-version",
            "1.5.0",
        ])
        #expect(states.text.contains("current v1.0.0, next v1.1.0\n"), "\(states.text)")
    }

    // MARK: Killed launches

    @Test func `a killed launch leaves a store that launches`() throws {
        try install("1.0.0")
        try launchAndConfirm()
        try install("1.1.0")
        var generator = SeededGenerator(seed: 11)
        let clock = SuspendingClock()
        let begin = clock.now
        _ = try launch().succeeded()
        let whole = max(4, Int(begin.duration(to: clock.now) / .milliseconds(1)))
        var (killed, round, span) = (0, 0, Double(whole))
        // The first launch may have been much slower than the others.
        while round < 24 || killed < 6 && round < 96 {
            round += 1
            let moment = Int.random(in: 0...Int(span), using: &generator)
            let comment: Comment = "round \(round), killed after \(moment) of \(Int(span)) ms"
            // Every third round, the launch has to create the serving root again.
            if round % 3 == 0 { try Clientctl.stock(["rm", "-rf", "\(site.store)/serving/archive-1.1.0"]) }
            let running = try Clientctl.start([
                "launch", "--store", site.store, "--shell-version", "1.5.0", "--seed", seed, "--json",
            ])
            poll(nil, 0, Int32(moment))
            running.send(SIGKILL)
            let hit = try running.wait().signal == SIGKILL
            if hit { killed += 1 }
            span = max(4, span * (hit ? 1.04 : 0.8))
            let next = try launch().succeeded(nil, comment)
            let root = try #require(next.string("servingRoot"), comment)
            let page = String(decoding: try contents(ofFile: "\(root)/index.html"), as: UTF8.self)
            #expect(page.contains("<title>\(next.string("version") ?? "-")</title>"), comment)
            #expect(page.contains("WebAppLocalServer"), comment)
            #expect(["1.0.0", "1.1.0"].contains(next.string("version")), comment)
            try run("verify").succeeded("verified", comment)
            // Two killed trials in a row block the version.
            try run("unblock", ["--version", "1.1.0"]).succeeded(nil, comment)
        }
        print("launch kill test: \(killed) of \(round) runs were killed before their end, one takes \(whole) ms")
        #expect(killed >= 6)
    }
}
