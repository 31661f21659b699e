import BundleCore
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import MeteorTesting
import Testing

/// Disks, folders and processes in a bad way, and what is shown all the same: the program as it is started on devices.
@Suite(.ownThread) struct NeverDarkTests {
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

    /// Runs a script in which `mount` works; its arguments are the program, a folder, the seed, the feed and the trusted key.
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

    // MARK: The seed in place

    @Test(.enabled(if: PrivateMounts.command != nil))
    func `a disk that was read-only before anything was launched shows the seed in place`() throws {
        let (ending, _) = try mounting(
            Self.install + "install; mount -o remount,bind,ro \"$mount\" || exit 92; launch")
        let launched = ending.succeeded()
        #expect(launched.string("version") == "embedded")
        #expect(launched["inPlace"] == .bool(true))
        #expect(launched.string("servingRoot") == seed)
    }

    @Test(.enabled(if: PrivateMounts.command != nil))
    func `a full disk shows the seed with its WebAppLocalServer, and says so once`() throws {
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
        #expect(errors.split(separator: "\n").count <= 4, "\(errors)")
    }

    // MARK: Recovery

    @Test(.enabled(if: PrivateMounts.command != nil))
    func `a mount point among the leftovers stops nothing`() throws {
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

    /// The call of a run that reads `path`, made to fail.
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
    func `what cannot be read stops no launch`(call: String, path: String) throws {
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
    func `a store whose folder is something else shows the seed in place`(name: String) throws {
        try installedGood()
        let path = "\(site.store)/\(name)"
        try Clientctl.stock(["rm", "-rf", path])
        let elsewhere = try site.folder.makeFolder("elsewhere")
        try #require(symlink(elsewhere, path) == 0)
        let launched = try Clientctl.run(launch).succeeded()
        #expect(launched.string("servingRoot") == seed, "\(launched.errors)")
        #expect(launched.errors.contains(path), "\(launched.errors)")
    }

    @Test func `a store that everybody may write to shows the seed in place`() throws {
        try installedGood()
        try #require(chmod("\(site.store)/downloads", 0o777) == 0)
        let launched = try Clientctl.run(launch).succeeded()
        #expect(launched.string("servingRoot") == seed)
        #expect(launched.errors.contains("chmod o-w"))
    }

    /// Waits until the page of `serve` has `words`. The server of the seed ends before that of the shell begins.
    private func shows(_ words: String, _ serve: ServeRun) throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while (try? serve.ask("GET /", ["Accept: text/html"]).text.contains(words)) != true {
            let said = try serve.program.printed().errors
            try #require(ContinuousClock.now < deadline, "\(words): \(said)")
            poll(nil, 0, 50)
        }
    }

    private func said(_ words: String, _ serve: ServeRun) throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while try !serve.program.printed().errors.contains(words) {
            try #require(ContinuousClock.now < deadline, "nothing of \(words)")
            poll(nil, 0, 50)
        }
    }

    @Test func `serve shows the seed while a folder of the store is something else, and goes on after`() throws {
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
    func `a lock hides the seed of a store that cannot be had, and is found`(isLocked: Bool) throws {
        try installedGood()
        let path = "\(site.store)/downloads"
        try Clientctl.stock(["rm", "-rf", path])
        try #require(symlink(try site.folder.makeFolder("elsewhere"), path) == 0)
        if isLocked { try Clientctl.run(["lock", "--store", site.store]).succeeded() }
        let serve = try ServeRun(["--store", site.store, "--shell-version", "1.5.0", "--seed", seed])
        var before: String?
        if !isLocked {
            try shows("<title>seed</title>", serve)
            before = try serve.loadPage()
            #expect(try serve.ask("GET /app.js").text == "seed()")
            try Clientctl.run(["lock", "--store", site.store]).succeeded()
        }
        try shows("data-state=\"locked\"", serve)
        #expect(try serve.ask("GET /app.js").status == 404)
        try Clientctl.run(["unlock", "--store", site.store]).succeeded()
        try shows("<title>seed</title>", serve)
        if let before { #expect(try serve.call("getCurrentVersion", token: before).status == 403) }
        #expect(try serve.call("getCurrentVersion", token: serve.loadPage()).text.contains("embedded"))
        #expect(try serve.ask("GET /", ["Accept: text/html"])["Clear-Site-Data"] == nil)
        let token = try site.folder.write(bytes("t0ken\n"), to: "token")
        try Clientctl.run(["login", "--store", site.store, "--token-file", token]).succeeded()
        try Clientctl.run(["logout", "--store", site.store]).succeeded()
        let deadline = ContinuousClock.now + .seconds(60)
        // What the session left is not for whoever comes.
        while try serve.ask("GET /", ["Accept: text/html"])["Clear-Site-Data"] == nil {
            try #require(ContinuousClock.now < deadline)
            poll(nil, 0, 50)
        }
        try serve.stop()
    }

    @Test(arguments: [false, true])
    func `a store that becomes something else meanwhile is told, and keeps the seed on the screen`(
        isStoppedAtOnce: Bool
    ) throws {
        let late = try LateStore(in: site.folder)
        let store = late.path
        let serve = try ServeRun(["--store", store, "--shell-version", "1.5.0", "--seed", seed])
        try shows("<title>seed</title>", serve)
        try late.come(from: try site.folder.writeTree(["readme": bytes("not ours")], to: "other"))
        try said("is not a store", serve)
        try shows("<title>seed</title>", serve)
        try #require(unlink("\(store)/readme") == 0)
        let deadline = ContinuousClock.now + .seconds(60)
        while access("\(store)/clients", F_OK) != 0 {
            let said = try serve.program.printed().errors
            try #require(ContinuousClock.now < deadline, "\(said)")
            poll(nil, 0, 1)
        }
        // Whoever ends it while the shell takes the place of the seed is heard.
        if !isStoppedAtOnce { try shows("<title>seed</title>", serve) }
        try serve.stop()
    }

    @Test func `a seed that comes later than serve is shown without a store, too`() throws {
        let (store, late) = (try site.folder.write(bytes("a file"), to: "other"), site.folder.file("late"))
        let serve = try ServeRun(["--store", store, "--shell-version", "1.5.0", "--seed", late])
        try shows("data-state=\"failure\"", serve)
        #expect(try serve.program.printed().errors.contains(store))
        try Clientctl.stock(["cp", "-r", seed, "\(late).new"])
        try #require(rename("\(late).new", late) == 0)
        try shows("<title>seed</title>", serve)
        #expect(try serve.ask("GET /app.js").text == "seed()")
        let said = try serve.program.printed().errors
        #expect(said.split(separator: "\n").count { $0.contains("Until then the seed is shown") } == 1, "\(said)")
        try serve.stop()
    }

    @Test func `a Meteor client whose store comes late is said to be on another port than its own`() throws {
        let push = try PushSite()
        try push.serve(.version2)
        try push.install().succeeded("installed")
        try push.launch().succeeded()
        let store = try LateStore(in: push.folder)
        let serve = try ServeRun(
            ["--store", store.path] + push.pushing(["--seed", push.folder.file("late")]), port: [])
        try shows("data-state=\"failure\"", serve)
        try store.come(from: push.store)
        try said("the client's own port is 12", serve)
        try serve.stop()
    }

    /// What is a file until it becomes a store, in one step, so that no other store is made in between.
    private struct LateStore {
        let path: String
        private let next: String

        init(in folder: TemporaryFolder) throws {
            (path, next) = (folder.file("late-store"), folder.file("next-store"))
            try #require(symlink(try folder.write(bytes("a file"), to: "no-store"), path) == 0)
        }

        func come(from store: String) throws { try #require(symlink(store, next) == 0 && rename(next, path) == 0) }
    }

    @Test func `a rollback runs its hook in a store that came late, too`() throws {
        try installedGood()
        try site.publish("1.1.0")
        try site.install().succeeded("installed")
        let (store, told) = (try LateStore(in: site.folder), site.folder.file("told"))
        let hook = "sh -c 'echo \"$ROLLBACK_FROM $ROLLBACK_TO\" >\(told).new; mv \(told).new \(told)'"
        let serve = try ServeRun([
            "--store", store.path, "--shell-version", "1.5.0", "--seed", seed, "--on-rollback", hook,
        ])
        try shows("<title>seed</title>", serve)
        try store.come(from: site.store)
        try shows("<title>1.1.0</title>", serve)
        let failed = try serve.call("startupDidFail", token: serve.loadPage(), body: "{\"reason\":\"no screen\"}")
        #expect(failed.status == 200, "\(failed.text)")
        let deadline = ContinuousClock.now + .seconds(60)
        while access(told, F_OK) != 0, ContinuousClock.now < deadline { poll(nil, 0, 10) }
        #expect(try String(decoding: contents(ofFile: told), as: UTF8.self) == "v1.1.0 v1.0.0\n")
        try serve.stop()
    }

    @Test func `no metrics stay when the shell cannot be shown once its store is there`() throws {
        let (store, metrics) = (try LateStore(in: site.folder), site.folder.file("serve.prom"))
        let serve = try ServeRun([
            "--store", store.path, "--shell-version", "1.5.0", "--seed", site.folder.file("late"), "--metrics-file",
            metrics,
        ])
        let deadline = ContinuousClock.now + .seconds(60)
        while access(metrics, F_OK) != 0, ContinuousClock.now < deadline { poll(nil, 0, 10) }
        try #require(access(metrics, F_OK) == 0)
        // Without a feed, a client and a seed there is nothing to wait for.
        try store.come(from: site.folder.makeFolder("empty-store"))
        let ending = try serve.program.wait()
        #expect(ending.status == 78, "\(ending.errors)")
        #expect(access(metrics, F_OK) != 0)
    }

    @Test func `a key that cannot be read keeps no other source from being asked`() throws {
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

    @Test func `a key that cannot be read keeps no client from the screen, and is read when it is there`() throws {
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
        // That a check goes on after twenty seconds is an answer, too.
        repeat { answer = try serve.call("checkForUpdates", token: token).text } while answer.contains("\"checking\"")
        #expect(answer.contains("updateAvailable"))
        try serve.stop()
    }

    @Test(arguments: ["fifo", "link", "gone", "foreign"])
    func `a ledger that is lost or no file is told by the one before it`(kind: String) throws {
        try installedGood()
        try site.publish("1.1.0")
        try site.install().succeeded("installed")
        // A start that failed is tried once more, after the client before.
        for version in ["1.1.0", "1.0.0", "1.1.0"] {
            let launched = try Clientctl.run(launch).succeeded()
            #expect(launched.string("version") == version)
            if version == "1.0.0" { continue }
            try Clientctl.run([
                "fail", "--store", site.store, "--version", version, "--token", launched.string("token") ?? "",
                "--json",
            ]).succeeded("failed")
        }
        // The last change is another one.
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

    @Test func `status says that the ledger is the one before`() throws {
        try installedGood()
        _ = try site.folder.write(bytes("{"), to: "store/ledger.json")
        for command in ["status", "list"] {
            let told = try Clientctl.run([command, "--store", site.store])
            #expect(told.status == 0)
            #expect(told.errors.contains("The previous ledger is used"), "\(told.errors)")
        }
    }

    @Test func `a device without a seed whose client is blocked gets the next one by itself`() throws {
        try site.install().succeeded("installed")
        let place = ["--store", site.store, "--shell-version", "1.5.0"]
        for _ in 0..<2 {
            let launched = try Clientctl.run(["launch", "--json"] + place).succeeded()
            try Clientctl.run([
                "fail", "--store", site.store, "--version", "1.0.0", "--token", launched.string("token") ?? "",
                "--json",
            ]).succeeded("failed")
        }
        let refused = try Clientctl.run(["launch", "--json"] + place).failed(78, "configInvalid")
        #expect(refused.errors.contains("blocked is v1.0.0"), "\(refused.errors)")
        try site.publish("2.0.0")
        let serve = try ServeRun(
            place + ["--manifest", "\(site.feed)/manifest.json", "--trust", site.trust, "--check-interval", "1s"])
        let deadline = ContinuousClock.now + .seconds(60)
        while try !serve.ask("GET /", ["Accept: text/html"]).text.contains("<title>2.0.0</title>") {
            let said = try serve.program.printed().errors
            try #require(ContinuousClock.now < deadline, "\(said)")
            poll(nil, 0, 50)
        }
        try serve.stop()
    }

    /// Gives the store to a user without rights, who can reach it then: tests work in folders that are root's alone.
    private func giveStoreAway() throws {
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

    @Test(.enabled(if: geteuid() == 0, "only root becomes somebody else"))
    func `a store that its owner may not write to shows the client that has proved itself`() throws {
        try installedGood()
        try site.publish("1.1.0")
        try Clientctl.run(site.arguments("install", "\(site.feed)/manifest.json")).succeeded()
        try giveStoreAway()
        try Clientctl.stock(["chmod", "500", site.store])
        let launched = try asOwner(launch).succeeded()
        // The newer one is on trial, and no start of it could be counted.
        #expect(launched.string("version") == "1.0.0", "\(launched.errors)")
        #expect(launched.errors.contains("without a record of this launch"), "\(launched.errors)")
        try Clientctl.stock(["chmod", "700", site.store])
        #expect(try asOwner(launch).succeeded().string("version") == "1.1.0")
    }

    @Test(.enabled(if: geteuid() == 0, "only root makes what somebody else may not read"))
    func
        `a ledger that its owner may not read is told by the one before it, and a store that cannot be made by the seed`()
        throws
    {
        try installedGood()
        // The change that is lost is another one than the confirmation.
        try Clientctl.run(launch).succeeded()
        try giveStoreAway()
        let path = "\(site.store)/ledger.json"
        try Clientctl.stock(["chown", "0", path])
        try Clientctl.stock(["chmod", "600", path])
        let launched = try asOwner(launch).succeeded()
        #expect(launched.string("version") == "1.0.0", "\(launched.errors)")
        #expect(launched.errors.contains("The previous ledger is used"), "\(launched.errors)")
        // Whoever may read the one before a damaged one finds what it says.
        let before = "\(site.store)/ledger.before.json"
        try Clientctl.stock([
            "sh", "-c", "echo x > \(path); chown 4321 \(path); chown 0 \(before); chmod 600 \(before)",
        ])
        #expect(try asOwner(launch).succeeded().string("version") == "embedded")
        #expect(access(before, F_OK) == 0)
        let nowhere = launch.map { $0 == site.store ? "\(site.folder.path)/new/store" : $0 }
        let shown = try asOwner(nowhere).succeeded()
        #expect(shown.string("servingRoot") == seed, "\(shown.errors)")
        // A store that is another user's alone, whose session nobody can read.
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
    func `a file system that cannot refuse to replace is as good under the store's lock`(error: String) throws {
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

    @Test func `descriptors that are closed at the start are nobody else's`() throws {
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

    @Test(.enabled(if: geteuid() == 0, "only root becomes somebody with a limit"))
    func `a process that may start no threads says so`() throws {
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
