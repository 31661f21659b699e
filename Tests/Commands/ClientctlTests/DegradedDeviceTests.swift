import BundleCore
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import MeteorTesting
import Testing

/// Damaged disks, folders and processes, and the client that the program shows in spite of them.
@Suite(.ownThread) struct DegradedDeviceTests {
    private let site: Site
    private let seed: String

    init() throws {
        site = try Site()
        let page = bytes("<!doctype html><head></head><title>seed</title>")
        seed = try site.folder.writeTree(["index.html": page, "app.js": bytes("seed()")], to: "seed")
        try site.publish("1.0.0")
    }

    private var launch: [String] {
        ["launch", "--store", site.store, "--shell-version", "1.5.0", "--seed", seed, "--json"]
    }

    /// Runs a script in which `mount` works. Its arguments are the program, a folder, the seed, the feed and the
    /// trusted key.
    private func mounting(_ script: String) throws -> (ending: Outcome, folder: String) {
        let folder = try site.folder.makeFolder("mount")
        let ending = try Program.run(
            try #require(PrivateMounts.command) + [
                "bash", "-c", "program=$0 mount=$1 seed=$2 feed=$3 key=$4; \(script)", Clientctl.path, folder, seed,
                site.feed, site.trust,
            ], environment: Clientctl.environment())
        return (Outcome(ending), folder)
    }

    private static let install = """
        install() {
            "$program" install --manifest "$feed/manifest.json" --trust "$key" --store "$mount/store" \\
                --shell-version 1.5.0 "$@" > /dev/null || exit 91
        }
        launch() { "$program" launch --store "$mount/store" --shell-version 1.5.0 --seed "$seed" --json; }
        mount -t tmpfs -o size=4m,mode=700 tmpfs "$mount" || exit 90

        """

    // MARK: A server that is away

    @Test func `status shows since when checks fail, until one succeeds`() throws {
        var server: LoopbackServer? = try LoopbackServer(folder: site.feed)
        let port = try #require(server?.port)
        server = nil
        let serving = try ServeRun([
            "--store", site.store, "--shell-version", "1.5.0", "--seed", seed, "--trust", site.trust,
            "--manifest", "http://127.0.0.1:\(port)/manifest.json", "--check-interval", "10s",
        ])
        func status() throws -> Outcome { try Clientctl.run(["status", "--store", site.store]).succeeded() }
        func wait(until isMet: (String) -> Bool) throws -> String {
            let deadline = ContinuousClock.now + .seconds(60)
            while true {
                let text = try status().text
                if isMet(text) { return text }
                try #require(ContinuousClock.now < deadline, "\(text)")
                poll(nil, 0, 100)
            }
        }
        let failing = try wait { $0.contains("! checks fail since ") }
        let line = /! checks fail since [-0-9T:]+Z \([0-9]+ seconds? ago\): .*127\.0\.0\.1/
        #expect(failing.contains(line), "\(failing)")
        let json = try Clientctl.run(["status", "--store", site.store, "--json"]).succeeded()
        #expect(json["failedCheck"]?.objectValue?["code"] == .string("networkUnavailable"))
        server = try LoopbackServer(folder: site.feed, port: port)
        _ = try wait { !$0.contains("checks fail") && $0.contains("v1.0.0") }
        #expect(try Clientctl.run(["status", "--store", site.store, "--json"]).succeeded()["failedCheck"] == .null)
        try serving.stop()
        withExtendedLifetime(server) {}
    }

    // MARK: The seed in place

    @Test(.enabled(if: PrivateMounts.command != nil))
    func `launch shows the seed in place on a read-only disk without a record`() throws {
        let (ending, _) = try mounting(
            Self.install + "install; mount -o remount,bind,ro \"$mount\" || exit 92; launch")
        let launched = ending.succeeded()
        #expect(launched.string("version") == "embedded")
        #expect(launched["inPlace"] == .bool(true))
        #expect(launched.string("servingRoot") == seed)
    }

    @Test(.enabled(if: PrivateMounts.command != nil))
    func `serve shows the seed with its WebAppLocalServer on a full disk and reports it once`() throws {
        let script = """
            install
            mkdir "$seed.out"
            cat /dev/zero > "$mount/filler" 2> /dev/null
            "$program" serve --store "$mount/store" --shell-version 1.5.0 --seed "$seed" --port 0 \\
                > "$seed.out/url" 2> "$seed.out/errors" &
            server=$!
            for try in $(seq 300); do [ -s "$seed.out/url" ] && break; sleep 0.1; done
            url=$(cat "$seed.out/url")
            curl -s --max-time 60 -H 'Accept: text/html' "$url" > "$seed.out/page"
            curl -s --max-time 60 "${url}app.js" > "$seed.out/script"
            kill $server
            wait $server
            """
        let (ending, _) = try mounting(Self.install + script)
        func text(_ name: String) throws -> String {
            String(decoding: try contents(ofFile: "\(seed).out/\(name)"), as: UTF8.self)
        }
        let errors = try text("errors")
        #expect(ending.status == 0, "\(errors)")
        let page = try text("page")
        #expect(page.contains("<title>seed</title>") && page.contains("WebAppLocalServer"), "\(page) \(errors)")
        #expect(try text("script") == "seed()")
        #expect(errors.split(separator: "\n").count { !$0.hasPrefix("clientctl: ") } <= 4, "\(errors)")
    }

    // MARK: Recovery

    @Test(.enabled(if: PrivateMounts.command != nil))
    func `install and launch work when a leftover folder is a mount point`() throws {
        let (ending, _) = try mounting(
            Self.install + """
                install
                mkdir -p "$mount/store/staging/attempt-1123456789abcdef"
                mount -t tmpfs none "$mount/store/staging/attempt-1123456789abcdef" || exit 92
                install
                launch
                """)
        let launched = ending.succeeded()
        #expect(launched.string("version") == "1.0.0")
        #expect(launched.errors.contains("could not be cleaned up"))
    }

    /// Runs `launch` while the system call that reads `path` fails.
    private func launch(failing call: String, of path: String) throws -> Outcome {
        Outcome(
            try Program.run(
                [
                    "strace", "-f", "-qq", "-o", "/dev/null", "-P", "\(site.store)/\(path)", "-e", "trace=\(call)",
                    "-e",
                    "inject=\(call):error=EIO", Clientctl.path,
                ] + launch, environment: Clientctl.environment()))
    }

    @Test(
        .enabled(if: Strace.works, "no strace, or it may not trace"),
        arguments: [
            ("pread64", "clients/previousVersion"), ("pread64", "ledger.json"), ("getdents64", "staging"),
            ("getdents64", "downloads"), ("getdents64", "meteor"), ("getdents64", "receipts"),
        ])
    func `launch shows the client when a file or folder of the store cannot be read`(call: String, path: String) throws
    {
        try site.install().succeeded("installed")
        let launched = try Clientctl.run(launch).succeeded()
        try Clientctl.run([
            "confirm", "--store", site.store, "--version", "1.0.0", "--token", launched.string("token") ?? "",
        ]).succeeded()
        let outcome = try self.launch(failing: call, of: path)
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(outcome.string("version") == "1.0.0", "\(outcome.errors)")
    }

    private func installedGood() throws {
        try site.install().succeeded("installed")
        let launched = try Clientctl.run(launch).succeeded()
        try Clientctl.run([
            "confirm", "--store", site.store, "--version", "1.0.0", "--token", launched.string("token") ?? "",
        ]).succeeded()
    }

    @Test(arguments: ["serving", "staging", "downloads", "meteor", "receipts", "clients"])
    func `launch shows the seed in place when a folder of the store is a link`(name: String) throws {
        try installedGood()
        let path = "\(site.store)/\(name)"
        try Clientctl.stock(["rm", "-rf", path])
        let elsewhere = try site.folder.makeFolder("elsewhere")
        try #require(symlink(elsewhere, path) == 0)
        let launched = try Clientctl.run(launch).succeeded()
        #expect(launched.string("servingRoot") == seed, "\(launched.errors)")
        #expect(launched.errors.contains(path), "\(launched.errors)")
    }

    @Test func `launch shows the seed in place when other users may write to the store`() throws {
        try installedGood()
        try #require(chmod("\(site.store)/downloads", 0o777) == 0)
        let launched = try Clientctl.run(launch).succeeded()
        #expect(launched.string("servingRoot") == seed)
        #expect(launched.errors.contains("chmod o-w"))
    }

    /// Waits until the page of `serve` has `words`. Between the servers of the seed and of the shell, requests may
    /// fail.
    private func shows(_ words: String, _ serve: ServeRun) throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while (try? serve.ask("GET /", ["Accept: text/html"]).text.contains(words)) != true {
            let log = try serve.program.printed().errors
            try #require(ContinuousClock.now < deadline, "\(words): \(log)")
            poll(nil, 0, 50)
        }
    }

    private func waitForLog(_ words: String, _ serve: ServeRun) throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while try !serve.program.printed().errors.contains(words) {
            try #require(ContinuousClock.now < deadline, "the log lacks \(words)")
            poll(nil, 0, 50)
        }
    }

    @Test func `serve shows the seed until a damaged store is mended`() throws {
        try installedGood()
        let path = "\(site.store)/downloads"
        try Clientctl.stock(["rm", "-rf", path])
        try #require(symlink(try site.folder.makeFolder("elsewhere"), path) == 0)
        let serve = try ServeRun(["--store", site.store, "--shell-version", "1.5.0", "--seed", seed])
        try shows("<title>seed</title>", serve)
        try #require(unlink(path) == 0)
        try shows("<title>1.0.0</title>", serve)
        try serve.stop()
    }

    @Test(arguments: [true, false])
    func `serve hides the seed of a damaged store while the device is locked`(isLocked: Bool) throws {
        try installedGood()
        let path = "\(site.store)/downloads"
        try Clientctl.stock(["rm", "-rf", path])
        try #require(symlink(try site.folder.makeFolder("elsewhere"), path) == 0)
        if isLocked { try Clientctl.run(["screen", "lock", "--store", site.store]).succeeded() }
        let serve = try ServeRun(["--store", site.store, "--shell-version", "1.5.0", "--seed", seed])
        var before: String?
        if !isLocked {
            try shows("<title>seed</title>", serve)
            before = try serve.loadPage()
            #expect(try serve.ask("GET /app.js").text == "seed()")
            try Clientctl.run(["screen", "lock", "--store", site.store]).succeeded()
        }
        try shows("data-state=\"locked\"", serve)
        #expect(try serve.ask("GET /app.js").status == 404)
        try Clientctl.run(["screen", "unlock", "--store", site.store]).succeeded()
        try shows("<title>seed</title>", serve)
        if let before { #expect(try serve.call("getCurrentVersion", token: before).status == 403) }
        #expect(try serve.call("getCurrentVersion", token: serve.loadPage()).text.contains("embedded"))
        #expect(try serve.ask("GET /", ["Accept: text/html"])["Clear-Site-Data"] == nil)
        let token = try site.folder.write(bytes("t0ken\n"), to: "token")
        try Clientctl.run(["session", "login", "--store", site.store, "--token-file", token]).succeeded()
        try Clientctl.run(["session", "logout", "--store", site.store]).succeeded()
        let deadline = ContinuousClock.now + .seconds(60)
        // The data that the session left is cleared for the next user.
        while try serve.ask("GET /", ["Accept: text/html"])["Clear-Site-Data"] == nil {
            try #require(ContinuousClock.now < deadline)
            poll(nil, 0, 50)
        }
        try serve.stop()
    }

    @Test(arguments: [false, true])
    func `serve keeps the seed on the screen when another folder replaces the store`(
        isStoppedAtOnce: Bool
    ) throws {
        let late = try LateStore(in: site.folder)
        let store = late.path
        let serve = try ServeRun(["--store", store, "--shell-version", "1.5.0", "--seed", seed])
        try shows("<title>seed</title>", serve)
        try late.appear(from: try site.folder.writeTree(["readme": bytes("not ours")], to: "other"))
        try waitForLog("is not a store", serve)
        try shows("<title>seed</title>", serve)
        try #require(unlink("\(store)/readme") == 0)
        let deadline = ContinuousClock.now + .seconds(60)
        while access("\(store)/clients", F_OK) != 0 {
            let log = try serve.program.printed().errors
            try #require(ContinuousClock.now < deadline, "\(log)")
            poll(nil, 0, 1)
        }
        // `serve` ends also while the shell replaces the server of the seed.
        if !isStoppedAtOnce { try shows("<title>seed</title>", serve) }
        try serve.stop()
    }

    @Test func `serve shows a seed that appears after its start, without a store`() throws {
        let (store, late) = (try site.folder.write(bytes("a file"), to: "other"), site.folder.file("late"))
        let serve = try ServeRun(["--store", store, "--shell-version", "1.5.0", "--seed", late])
        try shows("data-state=\"failure\"", serve)
        #expect(try serve.program.printed().errors.contains(store))
        try Clientctl.stock(["cp", "-r", seed, "\(late).new"])
        try #require(rename("\(late).new", late) == 0)
        try shows("<title>seed</title>", serve)
        #expect(try serve.ask("GET /app.js").text == "seed()")
        let log = try serve.program.printed().errors
        #expect(log.split(separator: "\n").count { $0.contains("Until then the seed is shown") } == 1, "\(log)")
        try serve.stop()
    }

    @Test func `serve warns that a Meteor client with a late store has another port`() throws {
        let push = try PushSite()
        try push.serve(.version2)
        try push.install().succeeded("installed")
        try push.launch().succeeded()
        let store = try LateStore(in: push.folder)
        let serve = try ServeRun(
            ["--store", store.path] + push.pushing(["--seed", push.folder.file("late")]), port: [])
        try shows("data-state=\"failure\"", serve)
        try store.appear(from: push.store)
        try waitForLog("the client's own port is 12", serve)
        try serve.stop()
    }

    /// A file that a store replaces in one step, so that `serve` cannot create another store in between.
    private struct LateStore {
        let path: String
        private let next: String

        init(in folder: TemporaryFolder) throws {
            (path, next) = (folder.file("late-store"), folder.file("next-store"))
            try #require(symlink(try folder.write(bytes("a file"), to: "no-store"), path) == 0)
        }

        func appear(from store: String) throws { try #require(symlink(store, next) == 0 && rename(next, path) == 0) }
    }

    @Test func `serve runs the rollback hook in a store that appeared after its start`() throws {
        try installedGood()
        try site.publish("1.1.0")
        try site.install().succeeded("installed")
        let (store, record) = (try LateStore(in: site.folder), site.folder.file("record"))
        let hook =
            "sh -c 'echo \"$CLIENTCTL_PASSPHRASE$ROLLBACK_FROM $ROLLBACK_TO\" >\(record).new; mv \(record).new \(record)'"
        let serve = try ServeRun(
            ["--store", store.path, "--shell-version", "1.5.0", "--seed", seed, "--on-rollback", hook],
            environment: ["CLIENTCTL_PASSPHRASE": "horse"])
        try shows("<title>seed</title>", serve)
        try store.appear(from: site.store)
        try shows("<title>1.1.0</title>", serve)
        let failed = try serve.call("startupDidFail", token: serve.loadPage(), body: "{\"reason\":\"no screen\"}")
        #expect(failed.status == 200, "\(failed.text)")
        let deadline = ContinuousClock.now + .seconds(60)
        while access(record, F_OK) != 0, ContinuousClock.now < deadline { poll(nil, 0, 10) }
        #expect(try String(decoding: contents(ofFile: record), as: UTF8.self) == "v1.1.0 v1.0.0\n")
        try serve.stop()
    }

    @Test func `serve names the missing client of a late store, waits, and removes its metrics at its end`() throws {
        let (store, metrics) = (try LateStore(in: site.folder), site.folder.file("serve.prom"))
        let serve = try ServeRun([
            "--store", store.path, "--shell-version", "1.5.0", "--seed", site.folder.file("late"), "--metrics-file",
            metrics,
        ])
        func wait(until isMet: () throws -> Bool) throws {
            let deadline = ContinuousClock.now + .seconds(60)
            while try !isMet() {
                let errors = try serve.program.printed().errors
                try #require(ContinuousClock.now < deadline, "\(errors)")
                poll(nil, 0, 10)
            }
        }
        try wait { access(metrics, F_OK) == 0 }
        try store.appear(from: site.folder.makeFolder("empty-store"))
        try wait { try serve.program.printed().errors.contains("There is nothing to launch") }
        try serve.stop()
        #expect(access(metrics, F_OK) != 0)
    }

    @Test func `serve checks other sources when a key cannot be read`() throws {
        try installedGood()
        let meteor = try LoopbackServer()
        let serve = try ServeRun([
            "--store", site.store, "--shell-version", "1.5.0", "--seed", seed, "--manifest",
            "\(site.feed)/manifest.json", "--trust", site.folder.file("nowhere.pem"), "--meteor",
            meteor.url("/").display,
        ])
        try shows("<title>1.0.0</title>", serve)
        _ = try serve.call("checkForUpdates", token: serve.loadPage())
        #expect(meteor.requests.contains { $0.target.hasPrefix("/__cordova/manifest.json") })
        try serve.stop()
    }

    @Test func `serve shows the client without a key and reads the key when it appears`() throws {
        try installedGood()
        try site.publish("1.1.0")
        let key = site.folder.file("late.pem")
        let serve = try ServeRun([
            "--store", site.store, "--shell-version", "1.5.0", "--seed", seed, "--manifest",
            "\(site.feed)/manifest.json", "--trust", key,
        ])
        try shows("<title>1.0.0</title>", serve)
        #expect(try serve.program.printed().errors.contains("late.pem does not exist"))
        let token = try serve.loadPage()
        #expect(try serve.call("checkForUpdates", token: token).text.contains("late.pem does not exist"))
        try Clientctl.stock(["cp", site.trust, key])
        var answer = ""
        // The response "checking" after twenty seconds is valid as well.
        repeat { answer = try serve.call("checkForUpdates", token: token).text } while answer.contains("\"checking\"")
        #expect(answer.contains("updateAvailable"))
        try serve.stop()
    }

    @Test(arguments: ["fifo", "link", "gone", "foreign"])
    func `launch reads the previous ledger when the ledger is lost or not a file`(kind: String) throws {
        try installedGood()
        try site.publish("1.1.0")
        try site.install().succeeded("installed")
        // A failed start is tried once more, after the client before it.
        for version in ["1.1.0", "1.0.0", "1.1.0"] {
            let launched = try Clientctl.run(launch).succeeded()
            #expect(launched.string("version") == version)
            if version == "1.0.0" { continue }
            try Clientctl.run([
                "fail", "--store", site.store, "--version", version, "--token", launched.string("token") ?? "",
                "--json",
            ]).succeeded("failed")
        }
        // The last change of the ledger is a launch.
        #expect(try Clientctl.run(launch).succeeded().string("version") == "1.0.0")
        let path = "\(site.store)/ledger.json"
        try #require(unlink(path) == 0)
        switch kind {
        case "fifo": try #require(mkfifo(path, 0o600) == 0)
        case "link": try #require(symlink("nowhere", path) == 0)
        case "foreign": try Clientctl.stock(["mkdir", path])
        default: break
        }
        let launched = try Clientctl.run(launch).succeeded()
        #expect(launched.errors.contains("The previous ledger is used"), "\(launched.errors)")
        #expect(launched.string("version") == "1.0.0", "\(launched.errors)")
        #expect(try !Clientctl.run(launch).succeeded().errors.contains("ledger"))
    }

    @Test func `status reports that it read the previous ledger`() throws {
        try installedGood()
        _ = try site.folder.write(bytes("{"), to: "store/ledger.json")
        for command in ["status", "list"] {
            let outcome = try Clientctl.run([command, "--store", site.store])
            #expect(outcome.status == 0)
            #expect(outcome.errors.contains("The previous ledger is used"), "\(outcome.errors)")
        }
    }

    @Test func `serve installs the next release when its only client is blocked`() throws {
        try site.install().succeeded("installed")
        let place = ["--store", site.store, "--shell-version", "1.5.0"]
        for _ in 0..<2 {
            let launched = try Clientctl.run(["launch", "--json"] + place).succeeded()
            try Clientctl.run([
                "fail", "--store", site.store, "--version", "1.0.0", "--token", launched.string("token") ?? "",
                "--json",
            ]).succeeded("failed")
        }
        let refused = try Clientctl.run(["launch", "--json"] + place).failed(41, "versionBlocked")
        #expect(refused.errors.contains("blocked is v1.0.0"), "\(refused.errors)")
        try site.publish("2.0.0")
        let serve = try ServeRun(
            place + ["--manifest", "\(site.feed)/manifest.json", "--trust", site.trust, "--check-interval", "1s"])
        let deadline = ContinuousClock.now + .seconds(60)
        while try !serve.ask("GET /", ["Accept: text/html"]).text.contains("<title>2.0.0</title>") {
            let log = try serve.program.printed().errors
            try #require(ContinuousClock.now < deadline, "\(log)")
            poll(nil, 0, 50)
        }
        try serve.stop()
    }

    /// Gives the store to a user without privileges, and makes it reachable: the folders of tests belong to root.
    private func changeStoreOwner() throws {
        try Clientctl.stock(["cp", Clientctl.path, site.folder.file("clientctl")])
        try Clientctl.stock(["chmod", "a+rx", "\(site.folder.path)/.."])
        try Clientctl.stock(["chmod", "-R", "a+rX", site.folder.path])
        try Clientctl.stock(["chown", "-R", "4321", site.store])
    }

    private func asOwner(_ arguments: [String]) throws -> Outcome {
        Outcome(
            try Program.run(
                ["setpriv", "--reuid", "4321", "--clear-groups", site.folder.file("clientctl")] + arguments,
                environment: Clientctl.environment()))
    }

    @Test(.enabled(if: geteuid() == 0, "only root can run as another user"))
    func `launch shows the confirmed client when its user may not write to the store`() throws {
        try installedGood()
        try site.publish("1.1.0")
        try Clientctl.run(site.arguments("install", "\(site.feed)/manifest.json")).succeeded()
        try changeStoreOwner()
        try Clientctl.stock(["chmod", "500", site.store])
        let launched = try asOwner(launch).succeeded()
        // The newer client is on trial, and its start could not be recorded.
        #expect(launched.string("version") == "1.0.0", "\(launched.errors)")
        #expect(launched.errors.contains("without a record of this launch"), "\(launched.errors)")
        try Clientctl.stock(["chmod", "700", site.store])
        #expect(try asOwner(launch).succeeded().string("version") == "1.1.0")
    }

    @Test(.enabled(if: geteuid() == 0, "only root can create files of another user"))
    func
        `launch reads the previous ledger without access to the ledger, and shows the seed without a store`()
        throws
    {
        try installedGood()
        // The lost change is not the confirmation.
        try Clientctl.run(launch).succeeded()
        try changeStoreOwner()
        let path = "\(site.store)/ledger.json"
        try Clientctl.stock(["chown", "0", path])
        try Clientctl.stock(["chmod", "600", path])
        let launched = try asOwner(launch).succeeded()
        #expect(launched.string("version") == "1.0.0", "\(launched.errors)")
        #expect(launched.errors.contains("The previous ledger is used"), "\(launched.errors)")
        // Without access to the previous ledger, a damaged ledger counts as lost, and the file is kept.
        let before = "\(site.store)/ledger.before.json"
        try Clientctl.stock([
            "sh", "-c", "echo x > \(path); chown 4321 \(path); chown 0 \(before); chmod 600 \(before)",
        ])
        #expect(try asOwner(launch).succeeded().string("version") == "embedded")
        #expect(access(before, F_OK) == 0)
        let nowhere = launch.map { $0 == site.store ? "\(site.folder.path)/new/store" : $0 }
        let shown = try asOwner(nowhere).succeeded()
        #expect(shown.string("servingRoot") == seed, "\(shown.errors)")
        // Another user owns the store, so its session cannot be read.
        try Clientctl.stock(["chown", "-R", "0", site.store])
        try Clientctl.stock(["chmod", "700", site.store])
        let serve = try ServeRun(
            ["--store", site.store, "--shell-version", "1.5.0", "--seed", seed],
            wrapper: ["setpriv", "--reuid", "4321", "--clear-groups"])
        #expect(try serve.ask("GET /", ["Accept: text/html"]).text.contains("<title>seed</title>"))
        try serve.stop()
    }

    // MARK: File systems

    @Test(
        .enabled(if: Strace.works, "no strace, or it may not trace"), arguments: ["EINVAL", "ENOSYS", "EPERM"])
    func `install works on a file system without RENAME_NOREPLACE`(error: String) throws {
        func traced(_ arguments: [String]) throws -> Outcome {
            Outcome(
                try Program.run(
                    [
                        "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2", "-e",
                        "inject=renameat2:error=\(error)", Clientctl.path,
                    ] + arguments, environment: Clientctl.environment()))
        }
        let install = site.arguments("install", "\(site.feed)/manifest.json")
        #expect(try traced(install).status == 0)
        let launched = try traced(launch).succeeded()
        #expect(launched.string("version") == "1.0.0")
        try site.publish("1.1.0")
        #expect(try traced(install).status == 0)
        #expect(try site.installed("1.1.0") == Site.client("1.1.0"))
        try Clientctl.run(["verify", "--store", site.store]).succeeded()
    }

    // MARK: Processes

    @Test func `serve opens /dev/null for closed standard descriptors`() throws {
        let ending = try Program.run(
            [
                "bash", "-c",
                "\"$0\" serve --store \"$1\" --shell-version 1.5.0 --seed \"$2\" --port 0 <&- >&- 2>&- & "
                    + "for try in $(seq 300); do [ -d \"$1/serving\" ] && break; sleep 0.1; done; "
                    + "readlink /proc/$!/fd/0 /proc/$!/fd/1 /proc/$!/fd/2; kill $!; wait $!",
                Clientctl.path, site.store, seed,
            ], environment: Clientctl.environment())
        #expect(ending.text == "/dev/null\n/dev/null\n/dev/null\n", "\(ending.errors)")
    }

    @Test(.enabled(if: geteuid() == 0, "only root can run as another user"))
    func `a process that may not start threads fails with resourcesExhausted`() throws {
        let ending = try Program.run(
            [
                "setpriv", "--reuid", "4321", "--clear-groups", "prlimit", "--nproc=3", Clientctl.path, "list",
                "--store", "/x",
            ],
            environment: Clientctl.environment())
        #expect(ending.status == 34)
        #expect(ending.errors.contains("raise the limit on processes"), "\(ending.errors)")
    }
}
