import BundleCore
import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// Login, logout, lock and unlock, and the requests that carry the token.
@Suite(.ownThread) struct SessionTests {
    private static let secret = "s3cret.t0ken-of/the+feed="

    private let site: Site
    private let token: String

    init() throws {
        site = try Site()
        token = try site.folder.write(bytes(Self.secret + "\n"), to: "token")
    }

    /// Runs a command on the store. Expects its output not to contain the token.
    @discardableResult
    private func run(_ arguments: [String], sourceLocation: SourceLocation = #_sourceLocation) throws -> Outcome {
        let outcome = try Clientctl.run(arguments + ["--store", site.store, "--json"])
        expectNoSecret(outcome, sourceLocation: sourceLocation)
        return outcome
    }

    private func expectNoSecret(_ outcome: Outcome, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(!(outcome.text + outcome.errors).contains("s3cret"), sourceLocation: sourceLocation)
    }

    @discardableResult
    private func login(_ more: [String] = [], sourceLocation: SourceLocation = #_sourceLocation) throws -> Outcome {
        try run(["session", "login", "--token-file", token, "--create"] + more, sourceLocation: sourceLocation)
            .succeeded("loggedIn", sourceLocation: sourceLocation)
    }

    private func session(_ outcome: Outcome) -> JSONObject { outcome["session"]?.objectValue ?? [:] }

    @Test func `lock and login reject a path without a store unless --create is given`() throws {
        for command in [
            ["screen", "lock"], ["screen", "unlock"], ["session", "logout"],
            ["session", "login", "--token-file", token],
        ] {
            let refused = try run(command).failed(78, "configInvalid")
            #expect(refused.subject == site.store)
            #expect(refused.errors.contains("No store found at \(site.store): check the path"))
            #expect(access(site.store, F_OK) != 0)
        }
        try run(["screen", "lock", "--create"]).succeeded("locked")
        try run(["screen", "unlock"]).succeeded("unlocked")
        try Clientctl.stock(["rm", "-r", site.store])
        try login()
        try run(["screen", "lock"]).succeeded("locked")
    }

    @Test func `login --renew changes the expiry and keeps the token`() throws {
        try run(["session", "login", "--renew"]).failed(64, "usage")
        try login()
        try run(["session", "login", "--renew", "--expires", "2099-01-31T00:00:00Z"]).succeeded("renewed")
        #expect(try status()["expires"] == .string("2099-01-31T00:00:00Z"))
        #expect(try file().contains(Self.secret))
        try run(["session", "login", "--renew", "--expires", "1h", "--token-file", token]).failed(64, "usage")
        try run(["session", "logout"]).succeeded()
        try run(["session", "login", "--renew", "--expires", "1h"]).failed(45, "loginRequired")
    }

    @Test func `launch shows no client on a locked device and only the seed to guests`() throws {
        let seed = try site.folder.writeTree(["index.html": bytes("<title>seed</title>")], to: "guests-seed")
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        let launch = ["launch", "--shell-version", "1.5.0"]
        try run(["screen", "lock"]).succeeded()
        #expect(try run(launch).failed(44, "deviceLocked").errors.contains("clientctl screen unlock"))
        try run(["screen", "lock", "--maintenance"]).succeeded()
        try run(launch + ["--seed", seed]).failed(44, "deviceLocked")
        try run(["screen", "unlock"]).succeeded()
        let shown = try run(launch).succeeded()
        #expect(shown.string("version") == "1.0.0")
        try run(["confirm", "--version", "1.0.0", "--token", try #require(shown.string("token"))]).succeeded(
            "confirmed")
        try login()
        #expect(try run(launch).succeeded()["version"] == .string("1.0.0"))
        try run(["session", "logout"]).succeeded()
        #expect(try run(launch).failed(45, "loginRequired").errors.contains("clientctl session login"))
        let guests = try run(launch + ["--seed", seed]).succeeded()
        #expect(guests["version"] == .string("embedded") && guests["trial"] == .bool(false))
        try run(["session", "logout", "--forget"]).succeeded()
        #expect(try run(launch + ["--seed", seed]).succeeded()["version"] == .string("1.0.0"))
    }

    private func status() throws -> JSONObject { session(try run(["status"]).succeeded()) }

    /// Returns the content of the session file.
    private func file() throws -> String {
        String(decoding: try #require(try site.stored().files["session.json"]), as: UTF8.self)
    }

    private func state() throws -> String? { try status()["state"]?.stringValue }

    // MARK: Commands

    @Test func `a device without logins needs no session and stores no file`() throws {
        #expect(try status() == ["state": .string("none"), "required": .bool(false)])
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        #expect(try status() == ["state": .string("none"), "required": .bool(false)])
        #expect(try site.stored().files["session.json"] == nil)
    }

    @Test func `status shows login, lock, unlock and logout`() throws {
        #expect(session(try login())["state"] == .string("active"))
        let active = try status()
        #expect(active["required"] == .bool(true))
        #expect(active["since"]?.stringValue != nil)
        #expect(active["expires"] == .null)

        for lock in [["screen", "lock"], ["screen", "lock"], ["screen", "lock", "--maintenance"]] {
            let state = session(try run(lock).succeeded("locked"))["state"]
            #expect(state == .string(lock.count == 2 ? "locked" : "maintenance"))
        }
        // The device is still locked after a login.
        #expect(session(try login())["state"] == .string("maintenance"))
        #expect(session(try run(["screen", "unlock"]).succeeded("unlocked"))["state"] == .string("active"))

        #expect(session(try run(["session", "logout"]).succeeded("loggedOut"))["state"] == .string("signedOut"))
        #expect(try state() == "signedOut")
        #expect(try status()["required"] == .bool(true))
        try run(["session", "logout"]).succeeded("loggedOut")
        #expect(try !file().contains("s3cret"))
        #expect(session(try run(["session", "logout", "--forget"]).succeeded("loggedOut"))["required"] == .bool(false))
        #expect(try !file().contains("\"at\""))
    }

    @Test func `session commands print sentences without the token`() throws {
        func output(_ arguments: [String]) throws -> String {
            let outcome = try Clientctl.run(arguments + ["--store", site.store])
            #expect(outcome.status == 0, "\(outcome.errors)")
            expectNoSecret(outcome)
            return outcome.text
        }
        #expect(try !output(["status"]).contains("session"))
        #expect(
            try output(["session", "login", "--token-file", token, "--create", "--expires", "2099-01-31T00:00:00Z"])
                == "logged in until 2099-01-31T00:00:00Z\n")
        #expect(try output(["status"]).contains("session: logged in until 2099-01-31T00:00:00Z"))
        #expect(try output(["screen", "lock"]) == "locked\n")
        #expect(try output(["status"]).contains("session: the device is locked"))
        #expect(try output(["screen", "unlock"]) == "unlocked\n")
        #expect(try output(["session", "logout"]) == "logged out\n")
        #expect(try output(["status"]).contains("session: logged out"))
    }

    @Test func `unlock reopens a device that was only locked`() throws {
        #expect(session(try run(["screen", "lock", "--create"]).succeeded())["required"] == .bool(false))
        #expect(try state() == "locked")
        try run(["screen", "unlock"]).succeeded()
        #expect(try state() == "none")
    }

    @Test func `a session ends at its expiry`() throws {
        try login(["--expires", "1s"])
        usleep(2_100_000)
        #expect(try state() == "expired")
        // `status` does not write.
        #expect(try file().contains("s3cret"))
        let end = try #require(session(try login(["--expires", "12h"]))["expires"]?.stringValue)
        let seconds = try Timestamp(parsing: end).secondsSinceEpoch - Timestamp.now.secondsSinceEpoch
        #expect((43_100...43_200).contains(seconds))
    }

    @Test(arguments: ["0s", "soon", "12", "2020-01-01T00:00:00Z", "2099-01-01", "2099-02-30T00:00:00Z", "-1h", ""])
    func `login rejects an expiry that is not in the future`(text: String) throws {
        try run(["session", "login", "--token-file", token, "--expires=\(text)"]).failed(64, "usage")
        #expect(try state() == "none")
    }

    @Test(arguments: [("", "empty"), ("s3cret token", "character"), ("s3cret\nx: y", "character"), ("ä", "character")])
    func `login rejects a file without a valid token`(text: String, word: String) throws {
        try site.folder.write(bytes(text), to: "token")
        let refused = try run(["session", "login", "--token-file", token]).failed(78, "configInvalid")
        #expect(refused.errors.contains(word))
        #expect(refused.subject == token)
        #expect(try state() == "none")
    }

    @Test func `login reads a token from a pipe`() throws {
        try site.publish("1.0.0")
        let own = try LoopbackServer(folder: site.feed)
        let line = """
            "$0" session login --create --token-file <(cat "$1") --store "$2" --json && cat "$1" | "$0" session login --token-file - --store "$2" --json
            cat "$1" | "$0" install --token-file /dev/stdin --manifest "$3" --trust "$4" --store "$5" --shell-version 1.0.0
            """
        let ending = try Program.run(
            [
                "bash", "-c", line, Clientctl.path, token, site.store, own.url("/manifest.json").display, site.trust,
                site.folder.file("other"),
            ], environment: Clientctl.environment())
        expectNoSecret(Outcome(ending))
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(try state() == "active")
        #expect(own.requests.map { $0["Authorization"] } == ["Bearer \(Self.secret)", "Bearer \(Self.secret)"])
    }

    @Test func `login waits for a token from a non-blocking pipe`() throws {
        let program = """
            import os, subprocess, sys, time
            read, write = os.pipe()
            os.set_blocking(read, False)
            login = subprocess.Popen(sys.argv[2:], stdin=read)
            os.close(read)
            time.sleep(0.5)
            os.write(write, open(sys.argv[1], "rb").read())
            os.close(write)
            sys.exit(login.wait())
            """
        let ending = try Program.run(
            [
                "python3", "-c", program, token, Clientctl.path, "session", "login", "--create", "--token-file", "-",
                "--store",
                site.store,
                "--json",
            ], environment: Clientctl.environment())
        Outcome(ending).succeeded("loggedIn")
        #expect(try state() == "active")
    }

    @Test func `login reads a token from a socket`() throws {
        var route = Route([])
        route.takeover = { connection in
            _ = connection.write(bytes(Self.secret + "\n"))
            connection.close()
        }
        let server = try LoopbackServer(["/token": route])
        let line = """
            exec 3<>"/dev/tcp/127.0.0.1/$1"; printf 'GET /token HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3
            while read -r -u 3 field && test "${#field}" -gt 1; do :; done
            exec timeout 300 "$0" session login --create --token-file - --store "$2" --json <&3
            """
        let ending = try Program.run(
            ["bash", "-c", line, Clientctl.path, "\(server.port)", site.store], environment: Clientctl.environment())
        Outcome(ending).succeeded("loggedIn")
        #expect(try state() == "active")
    }

    @Test func `login rejects a token that is too long`() throws {
        try site.folder.write([UInt8](repeating: 0x61, count: 8193), to: "token")
        try run(["session", "login", "--token-file", token]).failed(78, "configInvalid")
        try site.folder.write([UInt8](repeating: 0x61, count: 8192), to: "token")
        try login()
    }

    @Test(arguments: [0o604, 0o640, 0o660, 0o602] as [mode_t])
    func `login rejects a token file that other users can access`(mode: mode_t) throws {
        chmod(token, mode)
        let refused = try run(["session", "login", "--token-file", token]).failed(31, "permissionDenied")
        #expect(refused.subject == token)
        #expect(try state() == "none")
    }

    @Test func `login requires an existing token file`() throws {
        try run(["session", "login"]).failed(64, "usage")
        try run(["session", "login", "--token-file", site.folder.file("none")]).failed(78, "configInvalid")
    }

    // MARK: The file

    @Test func `the session file is private, and prune and recovery keep it`() throws {
        try login()
        try site.publish("1.0.0")
        try site.publish("1.1.0")
        try site.install().succeeded("installed")
        let written = try #require(try site.stored().entries["session.json"])
        #expect(written.mode & 0o7777 == 0o600)
        try Clientctl.stock(["rm", "\(site.store)/ledger.json"])
        try site.install().succeeded()
        try run(["prune", "--keep", "1"]).succeeded()
        try Clientctl.run(["verify", "--store", site.store, "--json"]).succeeded()
        #expect(try site.stored().entries["session.json"] == written)
        #expect(try state() == "active")
    }

    @Test func `status reports an unusable session file, updates continue, and a login replaces it`()
        throws
    {
        try login()
        let file = "\(site.store)/session.json"
        chmod(file, 0o644)
        #expect(try state() == "unreadable")
        try run(["session", "login", "--token-file", token]).failed(31, "permissionDenied")
        chmod(file, 0o600)
        try Clientctl.stock(["truncate", "-s", "20", file])
        let damaged = try run(["status"])
        #expect(session(damaged)["state"] == .string("unreadable"))
        #expect(session(damaged)["reason"]?.stringValue?.contains(file) == true)
        try run(["screen", "lock"]).failed(33, "storeDamaged")
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        try login()
        #expect(try state() == "active")
    }

    // MARK: The feed

    @Test func `sends the session token only to the feed's origin`() throws {
        try site.publish("1.0.0")
        try login()
        let archive = "/releases/v1.0.0/client-v1.0.0.tar.zst"
        let elsewhere = try LoopbackServer(folder: site.feed)
        let own = try LoopbackServer(folder: site.feed)
        own.set(archive, .redirect(to: try elsewhere.url(archive).display))
        let installed = try site.install(own.url("/manifest.json").display).succeeded("installed")
        expectNoSecret(installed)
        #expect(own.requests.map { $0["Authorization"] } == ["Bearer \(Self.secret)", "Bearer \(Self.secret)"])
        #expect(elsewhere.requests.map(\.target) == [archive])
        #expect(elsewhere.requests.map { $0["Authorization"] } == [nil])

        // The manifest's `url` is not signed.
        var manifest = try site.object(site.manifest)
        manifest["url"] = .string(try elsewhere.url(archive).display)
        own.set("/manifest.json", Route(JSONWriter.bytes(of: .object(manifest))))
        try Clientctl.stock([
            "rm", "-r", "\(site.store)/clients", "\(site.store)/receipts", "\(site.store)/ledger.json",
        ])
        expectNoSecret(try site.install(own.url("/manifest.json").display).succeeded("installed"))
        #expect(elsewhere.requests.map { $0["Authorization"] } == [nil, nil])
    }

    @Test func `--token-file overrides the session token, and a device without a session sends none`() throws {
        try site.publish("1.0.0")
        let own = try LoopbackServer(folder: site.feed)
        try site.check(own.url("/manifest.json").display).succeeded()
        try login()
        let other = try site.folder.write(bytes("other"), to: "other-token")
        try site.check(own.url("/manifest.json").display, ["--token-file", other]).succeeded()
        try run(["session", "logout"]).succeeded()
        try site.check(own.url("/manifest.json").display).succeeded()
        #expect(own.requests.map { $0["Authorization"] } == [nil, "Bearer other", nil])
    }

    /// Records in the session that the feed rejected its token twice in the last minutes.
    private func noteRejections() throws {
        let now = Timestamp.now.secondsSinceEpoch
        let (first, last) = (Timestamp(clamping: now - 600), Timestamp(clamping: now - 60))
        let rejections = #""rejections": {"count": 2, "first": "\#(first)", "last": "\#(last)"}, "session":"#
        try bytes(file().replacing(#""session":"#, with: rejections)).withUnsafeBytes { text in
            let descriptor = open("\(site.store)/session.json", O_WRONLY | O_TRUNC)
            defer { close(descriptor) }
            try #require(write(descriptor, text.baseAddress, text.count) == text.count)
        }
    }

    @Test func `the third response 401 within minutes ends the session`() throws {
        try site.publish("1.0.0")
        try login()
        let own = try LoopbackServer(folder: site.feed)
        own.set("/manifest.json", Route(bytes("no"), status: 401))
        let first = try site.install(own.url("/manifest.json").display).failed(11, "httpStatus")
        #expect(first.errors.contains("refuses the token of this device's session"))
        #expect(try state() == "active")
        try login()
        try noteRejections()
        let refused = try site.install(own.url("/manifest.json").display).failed(11, "httpStatus")
        expectNoSecret(refused)
        #expect(refused.errors.contains("Log in again"))
        let ended = try status()
        #expect(ended["state"] == .string("expired"))
        #expect(ended["ended"]?.objectValue?["cause"] == .string("rejected"))
        #expect(try !file().contains("s3cret"))
        // The token is not sent again.
        try site.install(own.url("/manifest.json").display).failed(11, "httpStatus")
        #expect(own.requests.map { $0["Authorization"] } == ["Bearer \(Self.secret)", "Bearer \(Self.secret)", nil])
        try login()
        own.set("/manifest.json", Route(try contents(ofFile: site.manifest)))
        try site.install(own.url("/manifest.json").display).succeeded("installed")
    }

    @Test(arguments: [403, 404, 500]) func `an error status other than 401 keeps the session`(status: Int) throws {
        try login()
        let own = try LoopbackServer(["/manifest.json": Route(bytes("no"), status: status)])
        expectNoSecret(try site.install(own.url("/manifest.json").display).failed(11, "httpStatus"))
        #expect(try state() == "active")
    }

    @Test func `sends no token over http except to this machine`() throws {
        let refused = try {
            try login()
            return try site.install("http://192.0.2.1/manifest.json").failed(78, "configInvalid")
        }()
        #expect(refused.errors.contains("https"))
        expectNoSecret(refused)
        try run(["session", "logout", "--forget"]).succeeded()
        try site.install("http://192.0.2.1/manifest.json", ["--token-file", token]).failed(78, "configInvalid")
        // A feed in a folder needs no token.
        try login()
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
    }

    @Test func `serve shows an address inside the client again after unlock`() throws {
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        let run = try ServeRun(["--store", site.store, "--shell-version", "1.5.0"])
        let navigation = [
            "Accept: text/html", "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document",
        ]
        func page() throws -> String { try run.ask("GET /orders/17?tab=2", navigation).text }
        #expect(try page().contains("<title>1.0.0</title>"))
        try Clientctl.run(["screen", "lock", "--store", site.store, "--json"]).succeeded("locked")
        try run.wait(for: "it is locked") { $0["clientctl_screen_state{state=\"locked\"}"] == 1 }
        #expect(try !page().contains("<title>1.0.0</title>"))
        try Clientctl.run(["screen", "unlock", "--store", site.store, "--json"]).succeeded("unlocked")
        try run.wait(for: "it is open") { $0["clientctl_screen_state{state=\"starting\"}"] == 1 }
        #expect(try page().contains("<title>1.0.0</title>"))
        try run.stop()
    }

    @Test func `session commands accept every flag from environment and file`() throws {
        let outcome = try Clientctl.run(
            ["session", "login"],
            environment: [
                "CLIENTCTL_STORE": site.store, "CLIENTCTL_TOKEN_FILE": token, "CLIENTCTL_EXPIRES": "1h",
                "CLIENTCTL_CREATE": "1",
                "CLIENTCTL_JSON": "1",
            ])
        outcome.succeeded("loggedIn")
        let file = try site.folder.write(
            bytes("{\"store\": \"\(site.store)\", \"maintenance\": true, \"forget\": true, \"json\": true}"),
            to: "config.json")
        #expect(session(try Clientctl.run(["screen", "lock", "--config", file]))["state"] == .string("maintenance"))
        try Clientctl.run(["screen", "unlock", "--config", file]).succeeded("unlocked")
        #expect(session(try Clientctl.run(["session", "logout", "--config", file]))["state"] == .string("none"))
    }
}
