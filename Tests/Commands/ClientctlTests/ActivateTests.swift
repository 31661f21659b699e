import BundleCore
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `activate` and `serve` on one store. The test sends the requests that a page would send.
@Suite(.ownThread) struct ActivateTests {
    private let site: Site

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
    }

    /// Returns a day of the week that is neither today nor tomorrow in any time zone.
    private var otherDay: String {
        let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
        return days[(time(nil) / 86_400 + 3) % 7]
    }

    /// Starts a device that shows no other client by itself, on which 1.0.0 runs and 1.1.0 is ready.
    private func serve(timeout: String = "60s") throws -> ServeRun {
        let serve = try ServeRun([
            "--store", site.store, "--shell-version", "1.5.0", "--activation-window", "\(otherDay) 03:00-03:01",
            "--startup-timeout", timeout,
        ])
        try serve.call("startupDidComplete", token: serve.loadPage())
        try site.publish("1.1.0")
        try site.install().succeeded("installed")
        return serve
    }

    private func activate(_ more: [String] = []) throws -> Program {
        try Clientctl.start(["activate", "--store", site.store, "--json"] + more)
    }

    /// Loads the page until it is that of `version`, as a browser does after a reload event. Returns its token.
    private func page(of version: String, on serve: ServeRun) throws -> String {
        let deadline = ContinuousClock.now + .seconds(60)
        while true {
            let page = try serve.ask("GET /", ["Accept: text/html"]).text
            if page.contains("<title>\(version)<"),
                let token = page.firstMatch(of: /name="clientctl-token" content="([^"]+)"/)
            {
                return String(token.output.1)
            }
            try #require(ContinuousClock.now < deadline, "\(version) is not shown: \(page)")
            poll(nil, 0, 50)
        }
    }

    private func outcome(_ program: Program) throws -> Outcome {
        let outcome = Outcome(try #require(try program.wait(within: .seconds(60)), "activate does not end"))
        AnswerSchema.expect(outcome.json, to: ["activate"])
        return outcome
    }

    @Test func `shows the client that is ready outside its windows and ends when its page confirms`() throws {
        let serve = try serve()
        #expect(try serve.ask("GET /", ["Accept: text/html"]).text.contains("<title>1.0.0<"))
        let activation = try activate(["--version", "1.1.0"])
        let token = try page(of: "1.1.0", on: serve)
        #expect(try activation.wait(within: .milliseconds(500)) == nil, "it does not wait for the verdict")
        try serve.call("startupDidComplete", token: token)
        let outcome = try outcome(activation)
        #expect(outcome.succeeded("confirmed").string("version") == "1.1.0")
        #expect(
            try Clientctl.run(["activate", "--store", site.store, "--version", "1.1.0", "--json"]).outcome
                == "confirmed")
        let nothing = try Clientctl.run(["activate", "--store", site.store, "--json"])
        #expect(nothing.status == 3 && nothing.outcome == "nothingReady")
        try serve.stop()
    }

    @Test func `ends with 40 and the words of the page when the client is rolled back`() throws {
        let serve = try serve()
        let activation = try activate()
        let token = try page(of: "1.1.0", on: serve)
        try serve.call("startupDidFail", token: token, body: #"{"reason":"no printer"}"#)
        let outcome = try outcome(activation)
        outcome.failed(40, "healthFailed")
        #expect(
            outcome.outcome == "rolledBack" && outcome.errors.contains("the page said: no printer"), "\(outcome.errors)"
        )
        try serve.call("startupDidComplete", token: try page(of: "1.0.0", on: serve))
        // The updater's own rollback leaves the client that works.
        let rollback = try Clientctl.run(["rollback", "--store", site.store, "--of", "1.1.0", "--json"])
        #expect(rollback.succeeded("rolledBack").string("version") == "1.0.0")
        #expect(rollback.strings("blocked")?.contains { $0.contains("1.0.0") } == false)
        try serve.stop()
    }

    @Test func `blocks a client that is rolled back if it is to be discarded`() throws {
        let serve = try serve()
        let activation = try activate(["--or-discard"])
        let token = try page(of: "1.1.0", on: serve)
        try serve.call("startupDidFail", token: token, body: #"{"reason":"no printer"}"#)
        let outcome = try outcome(activation)
        outcome.failed(40, "healthFailed")
        #expect(outcome["discarded"] == .bool(true))
        #expect(
            outcome.errors.contains("is blocked until `clientctl unblock`, and v1.0.0 is next"), "\(outcome.errors)")
        try serve.call("startupDidComplete", token: try page(of: "1.0.0", on: serve))
        try serve.stop()
        let again = try ServeRun(["--store", site.store, "--shell-version", "1.5.0"])
        try again.call("startupDidComplete", token: page(of: "1.0.0", on: again))
        #expect(try Clientctl.run(["status", "--store", site.store, "--json"]).string("next") == "v1.0.0")
        try again.stop()
    }

    @Test func `blocks a client without a verdict if it is to be discarded`() throws {
        let serve = try serve()
        try serve.call("busy", token: page(of: "1.0.0", on: serve), body: #"{"busy":true,"page":"a","number":1}"#)
        let waiting = try outcome(try activate(["--or-discard", "--wait", "1s"]))
        #expect(waiting.status == 3 && waiting.outcome == "waiting" && waiting["discarded"] == .bool(true))
        #expect(try Clientctl.run(["status", "--store", site.store, "--json"]).string("next") == "v1.0.0")
        let nothing = try outcome(try activate(["--or-discard"]))
        #expect(nothing.status == 3 && nothing["discarded"] == .bool(false))
        try serve.stop()
    }

    @Test func `a deployment that fails leaves a release that is not shown again`() throws {
        let serve = try serve()
        try site.publish("1.2.0")
        let kit = site.folder.file("kit")
        try Clientctl.run(["feed", "export", "--feed", site.feed, "--to", kit, "--json"]).succeeded()
        try site.folder.write(
            bytes("CLIENTCTL_STORE=\(site.store)\nCLIENTCTL_TRUST=\(site.trust)\nCLIENTCTL_SHELL_VERSION=1.5.0\n"),
            to: "device.env")
        let folder = Clientctl.path.split(separator: "/").dropLast().joined(separator: "/")
        let deployment = try Program(
            ["sh", "\(Checkout.root)/Integrations/deploy", "install", kit],
            environment: Clientctl.environment([
                "SWAP_CLIENTS_SETTINGS": site.folder.file("device.env"),
                "PATH": "/\(folder):/usr/bin:/bin:/usr/sbin:/sbin",
            ]))
        let token = try page(of: "1.2.0", on: serve)
        try serve.call("startupDidFail", token: token, body: #"{"reason":"no printer"}"#)
        let ending = try #require(try deployment.wait(within: .seconds(60)), "the deployment does not end")
        #expect(ending.status == 40 && ending.errors.contains("no printer"), "\(ending.errors)")
        let status = try Clientctl.run(["status", "--store", site.store, "--json"])
        #expect(status.string("next") != "v1.2.0")
        try serve.stop()
    }

    @Test func `a request ends with its process`() throws {
        let serve = try serve()
        try serve.call("busy", token: page(of: "1.0.0", on: serve), body: #"{"busy":true,"page":"a","number":1}"#)
        let first = try activate()
        let file = "\(site.store)/activation.json"
        let deadline = ContinuousClock.now + .seconds(60)
        while access(file, F_OK) != 0 {
            try #require(ContinuousClock.now < deadline, "there is no request")
            poll(nil, 0, 20)
        }
        try Clientctl.run(["activate", "--store", site.store, "--json"]).failed(32, "storeLocked")
        first.send(SIGKILL)
        _ = try first.wait(within: .seconds(60))
        let busy = try outcome(try activate(["--wait", "1s"]))
        #expect(busy.status == 3 && busy.outcome == "waiting")
        let now = try activate(["--now"])
        try serve.call("startupDidComplete", token: try page(of: "1.1.0", on: serve))
        try outcome(now).succeeded("confirmed")
        try serve.stop()
    }

    @Test func `waits for a serve that starts again`() throws {
        try serve().stop()
        let activation = try activate()
        let serve = try ServeRun(["--store", site.store, "--shell-version", "1.5.0"])
        let token = try page(of: "1.1.0", on: serve)
        try serve.call("visibility", token: token, body: #"{"page":"a","number":0}"#)
        serve.program.send(SIGKILL)
        _ = try serve.program.wait(within: .seconds(60))
        // The interrupted start is not a verdict.
        let next = try ServeRun(["--store", site.store, "--shell-version", "1.5.0"])
        try next.call("startupDidComplete", token: try page(of: "1.0.0", on: next))
        try next.call("startupDidComplete", token: try page(of: "1.1.0", on: next))
        try outcome(activation).succeeded("confirmed")
        try next.stop()
    }

    @Test func `ends with 41 for a blocked client and 3 for one that is not installed`() throws {
        let serve = try serve()
        try Clientctl.run(["rollback", "--store", site.store, "--of", "1.1.0", "--json"]).succeeded("rolledBack")
        let arguments = ["activate", "--store", site.store, "--json", "--version"]
        try Clientctl.run(arguments + ["1.1.0"]).failed(41, "versionBlocked")
        let missing = try Clientctl.run(arguments + ["9.0.0"])
        #expect(missing.status == 3 && missing.outcome == "nothingReady")
        try serve.stop()
    }
}
