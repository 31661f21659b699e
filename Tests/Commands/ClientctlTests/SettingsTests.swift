import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// Flags from the environment and from configuration files.
@Suite(.ownThread) struct SettingsTests {
    private let site: Site

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
    }

    private func config(_ text: String, to name: String = "clientctl.json") throws -> String {
        try site.folder.write(bytes(text), to: name)
    }

    private var whole: String {
        """
        {"manifest": "\(site.manifest)", "trust": "\(site.trust)", "store": "\(site.store)", "shell-version": "1.5.0", \
        "json": true, "keep": 2}
        """
    }

    @Test func `--config reads a file of variables like systemd`() throws {
        let folder = try TemporaryFolder()
        try folder.write(
            bytes(
                """
                # The device.
                CLIENTCTL_STORE="\(folder.path)/the \\"store\\""
                  CLIENTCTL_SHELL_VERSION='1.5'\\
                .0   \u{20}
                ; Of the service.
                HTTP_PROXY=http://proxy
                CLIENTCTL_JSON=true
                """), to: "device.env")
        let refused = try Clientctl.run(["launch", "--config", folder.file("device.env")])
        #expect(refused.failed(78, "configInvalid").errors.contains("\(folder.path)/the \"store\""))
        try folder.write(bytes("CLIENTCTL_STROE=x\n"), to: "device.env")
        let unknown = try Clientctl.run(["list", "--config", folder.file("device.env"), "--json"])
        #expect(unknown.failed(78, "configInvalid").errors.contains("CLIENTCTL_STROE"))
    }

    @Test(arguments: ["export CLIENTCTL_STORE=/x\n", "CLIENTCTL_STORE /x\n", "CLIENTCTL_JSON=true\nCLIENTCTL_STORE"])
    func `names a line in a file of variables that the service manager ignores`(text: String) throws {
        let folder = try TemporaryFolder()
        try folder.write(bytes("export PATH=/bin\n" + text), to: "device.env")
        let refused = try Clientctl.run(["list", "--config", folder.file("device.env"), "--json"])
        let errors = refused.failed(78, "configInvalid").errors
        #expect(errors.contains("CLIENTCTL_STORE") && errors.contains("the service manager ignores"), "\(errors)")
    }

    @Test func `an empty name of a configuration file is an error, and help needs no configuration`() throws {
        let empty = ["CLIENTCTL_CONFIG": ""]
        let refused = try Clientctl.run(["list", "--json"], environment: empty).failed(78, "configInvalid")
        #expect(refused.errors.contains("CLIENTCTL_CONFIG is empty"), "\(refused.errors)")
        for command in [["list", "--help"], ["release", "rollout", "-h"], ["help", "publish"], ["--help"]] {
            let help = try Clientctl.run(command, environment: empty)
            #expect(help.status == 0 && help.text.contains("USAGE: clientctl"), "\(command): \(help.errors)")
        }
    }

    @Test func `a file of variables may begin with the mark of a Windows editor, and its first line is checked`() throws
    {
        let folder = try TemporaryFolder()
        let file = folder.file("device.env")
        func list(_ text: String, _ mark: [UInt8] = [0xEF, 0xBB, 0xBF]) throws -> Outcome {
            try folder.write(mark + bytes(text), to: "device.env")
            return try Clientctl.run(["launch", "--config", file, "--json"])
        }
        let store = "CLIENTCTL_STORE=\(folder.path)/store\r\n"
        #expect(try list(store).failed(78, "configInvalid").errors.contains("\(folder.path)/store:"))
        let unknown = try list("CLIENTCTL_STROE=x\n" + store).failed(78, "configInvalid")
        #expect(unknown.errors.contains("Did you mean CLIENTCTL_STORE?"), "\(unknown.errors)")
        try folder.write(bytes(#"{"stroe": "x"}"#), to: "settings.json")
        let key = try Clientctl.run(["list", "--config", folder.file("settings.json"), "--json"])
        #expect(key.failed(78, "configInvalid").errors.contains("Did you mean store?"), "\(key.errors)")
        let wide = try list(String(store.flatMap { [$0, "\0"] }), [0xFF, 0xFE]).failed(78, "configInvalid")
        #expect(wide.errors.contains("UTF-16") && wide.subject == file, "\(wide.errors)")
        let unmarked = try list(String(store.flatMap { [$0, "\0"] }), []).failed(78, "configInvalid")
        #expect(unmarked.errors.contains("UTF-16"), "\(unmarked.errors)")
        let variable = try Clientctl.run(["list", "--json"], environment: ["CLIENTCTL_STROE": "x"])
        #expect(variable.failed(78, "configInvalid").errors.contains("Did you mean CLIENTCTL_STORE?"))
    }

    @Test(arguments: [[0xEF, 0xBB, 0xBF], [0xFF, 0xFE]])
    func `files that people edit may have the mark of UTF-8, and UTF-16 is named`(mark: [UInt8]) throws {
        let isNarrow = mark.count == 3
        func marked(_ path: String, _ name: String) throws -> String {
            let content = try contents(ofFile: path)
            let made = try site.folder.write(mark + (isNarrow ? content : content.flatMap { [$0, 0] }), to: name)
            chmod(made, 0o600)
            return made
        }
        func expect(_ outcome: Outcome, _ what: String) {
            if isNarrow {
                outcome.succeeded(nil, "\(what)")
            } else {
                outcome.failed(78, "configInvalid", "\(what)")
                #expect(outcome.errors.contains("UTF-16"), "\(what): \(outcome.errors)")
            }
        }
        let key = try marked(site.key, "marked.key.pem")
        expect(try Clientctl.run(["keys", "show", key, "--json"]), "a private key")
        let trust = try marked(site.trust, "marked.pem")
        expect(try Clientctl.run(["keys", "show", trust, "--json"]), "a public key")
        expect(try site.check(nil, ["--trust", trust]), "a trusted key")
        let folder = try site.folder.makeFolder("keys")
        try Clientctl.stock(["cp", trust, folder])
        expect(try site.check(nil, ["--trust", folder]), "a folder of trusted keys")
        let words = try site.folder.write(bytes("battery staple\n"), to: "words")
        let made = site.folder.file("made")
        let passphrase = ["--passphrase-file", try marked(words, "passphrase")]
        expect(try Clientctl.run(["keys", "generate", "--out", made, "--json"] + passphrase), "a passphrase")
        if isNarrow {
            let typed = ["CLIENTCTL_PASSPHRASE": "battery staple"]
            try Clientctl.run(["keys", "show", "\(made).key.pem", "--json"], environment: typed).succeeded()
        }
        let notes = ["--notes", try marked(words, "notes")]
        let web = try site.folder.writeTree(Site.client("3.0.0"), to: "web-3.0.0")
        let publish = ["publish", web, "--version", "3.0.0", "--feed", site.folder.file("other"), "--key", site.key]
        expect(try Clientctl.run(publish + ["--json"] + notes), "release notes")
        let token = try site.folder.write(bytes("token\n"), to: "token")
        let store = ["--store", site.folder.file("sessions"), "--create", "--json"]
        expect(try Clientctl.run(["session", "login", "--token-file", try marked(token, "marked")] + store), "a token")
        let project = try site.folder.write(bytes("{\"json\": true}"), to: "plain.json")
        expect(
            try Clientctl.run(["keys", "show", site.trust, "--config", try marked(project, "marked.json"), "--json"]),
            "settings")
        // libcurl reads this file itself.
        let authorities = try site.folder.write(bytes("-----BEGIN CERTIFICATE-----\n"), to: "ca.pem")
        let named = try site.check("https://127.0.0.1:1/", ["--ca-file", try marked(authorities, "marked-ca.pem")])
        let word = isNarrow ? "byte order mark" : "UTF-16"
        #expect(named.failed(78, "configInvalid").errors.contains(word), "\(named.errors)")
    }

    @Test func `--config none reads no file`() throws {
        let config = try site.folder.makeFolder("config")
        try site.folder.write(bytes("{\"store\": \"/none\"}"), to: "config/clientctl.json")
        let home = ["XDG_CONFIG_HOME": config]
        let found = try Clientctl.run(["launch", "--json"], environment: home).failed(78, "configInvalid")
        #expect(found.errors.contains("/none:"), "\(found.errors)")
        try Clientctl.run(["launch", "--config", "none", "--json"], environment: home).failed(64, "usage")
    }

    /// Returns the settings in the guide's command for a kiosk, or those of the package, all in use.
    private static func printed(inPackage: Bool) throws -> String {
        let name = inPackage ? "Scripts/package.d/clientctl/device.env" : "Guide/guides/kiosk.md"
        let text = String(decoding: try contents(ofFile: "\(Checkout.root)/\(name)"), as: UTF8.self)
        if inPackage { return text.replacing("#CLIENTCTL_", with: "CLIENTCTL_") }
        let begin = try #require(text.firstRange(of: "device.env <<'END'\n")).upperBound
        return String(text[begin...].prefix(upTo: try #require(text.firstRange(of: "\nEND\n")).lowerBound))
    }

    @Test(arguments: [true, false])
    func `printed settings of a kiosk suit all its commands, show updates and detect a silent page`(inPackage: Bool)
        throws
    {
        let device = ["--min-shell", "0.0.0"]
        try site.publish("2.0.0", nil, device)
        try site.folder.writeTree(Site.client("seed"), to: "seed")
        let lines = try Self.printed(inPackage: inPackage).split(separator: "\n")
            .filter { !$0.hasPrefix("CLIENTCTL_CHANNEL=") }
        let own = [
            "/usr/share/kiosk/www": site.folder.file("seed"), "/var/lib/clientctl": site.store,
            "https://updates.example.com/manifest.json": site.manifest, "/etc/clientctl/release.pub.pem": site.trust,
            "CLIENTCTL_PORT=12000": "CLIENTCTL_PORT=0",
        ]
        let text = own.reduce(lines.joined(separator: "\n")) { $0.replacing($1.key, with: $1.value) }
        let settings = ["--config", try config(text + "\n", to: "device.env")]
        try Clientctl.run(["install", "--json"] + settings).succeeded("installed")
        for command in ["doctor", "status"] { try Clientctl.run([command, "--json"] + settings).succeeded() }
        let check = try Clientctl.run(["check", "--json"] + settings)
        #expect(check.status == 3, "\(check.text)\(check.errors)")
        let serving = try ServeRun(settings, port: inPackage ? ["--port", "0"] : [])
        let page = try serving.ask("GET /", ["Accept: text/html"]).text
        #expect(page.contains(#"<meta name="clientctl-heartbeat" content="15000">"#), "\(page)")
        let token = try #require(page.firstMatch(of: /name="clientctl-token" content="([^"]+)"/)?.output.1)
        #expect(try serving.call("startupDidComplete", token: String(token)).status == 200)
        try serving.wait(for: "it is confirmed") { $0["clientctl_start_duration_seconds_count"] == 1 }
        try site.publish("2.1.0", nil, device)
        try Clientctl.run(["install", "--json"] + settings).succeeded("installed")
        try serving.wait(untilLogged: "v2.1.0 is ready; it is shown in an activation window")
        try serving.stop()
    }

    @Test func `commands name a file of the wrong kind and the flag for it`() throws {
        let device = ["--store", site.store, "--shell-version", "1.5.0", "--json"]
        let trust = ["--trust", site.trust]
        let rows: [([String], Int32, String)] = [
            (
                ["install", "--manifest", site.feed] + trust + device, 78,
                "is a folder. Give a file, such as \(site.manifest)"
            ),
            (["install", "--channel", site.manifest] + trust + device, 78, "is a manifest. Use --manifest"),
            (
                ["install", "--manifest", site.manifest, "--trust", site.manifest] + device, 78,
                "is a manifest, not a key or trust root"
            ),
            (["trust", "show", site.feed, "--json"], 78, "is a folder. Give the file"),
            (["status", "--store", site.feed, "--json"], 78, "is not a store"),
            (["list", "--store", site.feed, "--json"], 78, "is not a store"),
            (["inspect", "\(site.folder.path)/web-1.0.0/index.html", "--json"], 25, "does not recognize"),
            (["release", "foo"], 64, "clientctl release --help"),
            (
                ["publish", site.feed, "--version", "v1", "--feed", "f", "--key", site.key, "--min-shell", "1.0.0"], 64,
                "\"v1\""
            ),
        ]
        for (arguments, status, part) in rows {
            let refused = try Clientctl.run(arguments)
            #expect(refused.status == status, "\(arguments): \(refused.errors)")
            #expect(refused.errors.contains(part), "\(arguments): \(refused.errors)")
        }
    }

    @Test func `accepts every flag of install from a file`() throws {
        try Clientctl.run(["install", "--config", try config(whole)]).succeeded("installed")
        #expect(try site.installed("1.0.0") == Site.client("1.0.0"))
    }

    @Test func `reads the configuration file that the environment names or the user's own`() throws {
        let file = try config(whole)
        try Clientctl.run(["check"], environment: ["CLIENTCTL_CONFIG": file]).succeeded("available")
        try Clientctl.run(["check"], environment: ["XDG_CONFIG_HOME": site.folder.path]).succeeded("available")
    }

    @Test func `accepts every flag of install from the environment`() throws {
        let outcome = try Clientctl.run(
            ["install"],
            environment: [
                "CLIENTCTL_MANIFEST": site.manifest, "CLIENTCTL_TRUST": site.trust, "CLIENTCTL_STORE": site.store,
                "CLIENTCTL_SHELL_VERSION": "1.5.0", "CLIENTCTL_JSON": "1",
            ])
        outcome.succeeded("installed")
    }

    @Test func `resolves relative paths of a configuration file in its folder`() throws {
        let text =
            #"{"manifest": "../feed/manifest.json", "trust": "../release.pub.pem", "store": "../store-c", "shell-version": "1.5.0"}"#
        try site.folder.makeFolder("conf")
        try site.folder.write(bytes(text), to: "conf/device.json")
        for (config, folder) in [(site.folder.file("conf/device.json"), nil), ("conf/device.json", site.folder.path)] {
            let outcome = try Clientctl.run(["install", "--config", config, "--json"], in: folder)
            #expect(outcome.status == 0, "\(outcome.errors)")
        }
        #expect(try Clientctl.stock(["ls", site.folder.file("store-c")]).contains("clients"))
        let given = try Clientctl.run(
            ["install", "--config", site.folder.file("conf/device.json"), "--store", "store-d", "--json"],
            in: site.folder.path)
        given.succeeded("installed")
        #expect(try Clientctl.stock(["ls", site.folder.file("store-d")]).contains("clients"))
    }

    @Test func `resolves every flag with a path in the folder of the configuration file`() throws {
        let dump = try Clientctl.run(["--experimental-dump-help"])
        var found: Set<String> = []
        func collect(_ command: JSONObject) {
            for argument in (command["arguments"]?.arrayValue ?? []).compactMap(\.objectValue) {
                let kind = argument["completionKind"]?.objectValue ?? [:]
                guard argument["kind"]?.stringValue == "option", kind["file"] != nil || kind["directory"] != nil,
                    let name = argument["preferredName"]?.objectValue?["name"]?.stringValue
                else { continue }
                found.insert(name)
            }
            for below in (command["subcommands"]?.arrayValue ?? []).compactMap(\.objectValue) { collect(below) }
        }
        collect(try #require(dump["command"]?.objectValue))
        found.remove("config")
        // Those of `PathFlags`.
        let known: Set = [
            "access-log", "archive-maps", "ca-file", "cache", "channel", "channel-key", "channel-sign-public-key",
            "client-cert", "client-key", "delta-from", "expect", "feed", "guard-key", "guard-sign-public-key",
            "header-file", "key", "manifest", "metrics-file", "mirror-token-file", "new", "new-passphrase-file",
            "notes", "old", "out", "passphrase-file", "phone-key", "previous", "program-key", "public-key",
            "publisher-state", "rebuild", "release-key", "reports", "root-key", "roster", "roster-token-file",
            "save-failed-picture", "save-picture", "seed", "sign-key", "sign-public-key", "starts", "store", "style",
            "texts", "to", "token-file", "trust", "upstream-token-file",
        ]
        #expect(found == known)
    }

    /// The project in `folder`, with the commands that `init` prints.
    private func initialize(_ more: [String] = []) throws -> (folder: String, next: [[String]]) {
        let folder = try site.folder.makeFolder("project")
        try site.folder.writeTree(Site.client("1.0.0"), to: "project/dist")
        let made = try Clientctl.run(["init", "--yes", "--app-id", "com.example.kiosk", "--json"] + more, in: folder)
        made.succeeded("created")
        return (folder, (made.strings("next") ?? []).map { $0.split(separator: " ").dropFirst().map(String.init) })
    }

    @Test func `init writes a project file and a key, and the commands that it prints work`() throws {
        let (folder, next) = try initialize()
        #expect(next.count == 2)
        #expect(try site.object("\(folder)/clientctl.json")["channel"] == .string("stable"))
        #expect(access("\(folder)/release.key.pem", F_OK) == 0)
        try Clientctl.run(next[0] + ["--json"], in: folder).succeeded("published")
        // `serve` does not end, and installs with the same flags.
        #expect(next[1].first == "serve")
        try Clientctl.run(["install"] + next[1].dropFirst() + ["--json"], in: folder).succeeded("installed")
        try Clientctl.run(["release", "rollout", "50%", "--version", "1.0.0", "--json"], in: folder).succeeded(
            "changed")
        // A flag overrides the project file.
        try Clientctl.run(["channel", "list", "--channel", "beta", "--json"], in: folder).failed(78, "configInvalid")
        try Clientctl.run(["init", "--yes", "--json"], in: folder).failed(78, "configInvalid")
    }

    @Test func `init keeps an existing key and asks only at a terminal`() throws {
        let refused = try Clientctl.run(["init", "--json"], in: site.folder.path).failed(64, "usage")
        #expect(refused.errors.contains("--yes"))
        let before = try contents(ofFile: site.key)
        let made = try Clientctl.run(["init", "--yes", "--channel", "none", "--json"], in: site.folder.path)
        #expect(made.succeeded("created")["keyCreated"] == .bool(false))
        #expect(try contents(ofFile: site.key) == before)
        try Clientctl.run(["publish", "web-1.0.0", "--version", "1.2.0", "--json"], in: site.folder.path)
            .succeeded("published")
    }

    @Test func `init prints a public address for a feed in a bucket`() throws {
        let (_, next) = try initialize(["--feed", "s3://bucket/kiosk"])
        #expect(next[1].contains("https://YOUR-ADDRESS/channels/stable.json"), "\(next)")
    }

    @Test func `trust init in a project folder does not add the private key of the project file`() throws {
        let (folder, _) = try initialize()
        for name in ["root", "channel"] {
            try Clientctl.run(["keys", "generate", "--out", name], in: folder).succeeded()
        }
        try Clientctl.run(
            [
                "trust", "init", "--out", "trust.json", "--root-key", "root.pub.pem", "--release-key",
                "release.pub.pem", "--json",
            ], in: folder
        ).succeeded("created")
        let root = try Clientctl.run(["trust", "show", "trust.json"], in: folder).text
        #expect(root.contains("com.example.kiosk"), "\(root)")
        try Clientctl.run(["trust", "sign", "trust.json", "--json"], in: folder).failed(64, "usage")
        try Clientctl.run(["trust", "sign", "trust.json", "--key", "root.key.pem", "--json"], in: folder)
            .succeeded("signed")
    }

    @Test func `a missing flag of a project command names the project file`() throws {
        let refused = try Clientctl.run(["publish", "dist", "--version", "1.0.0"], in: site.folder.path)
        #expect(
            refused.errors.contains("The working folder has no clientctl.json: run the command in the project's folder")
        )
        let (folder, _) = try initialize()
        let named = try Clientctl.run(["publish", "dist"], in: folder)
        #expect(named.status == 64 && !named.errors.contains("The working folder"), "\(named.errors)")
    }

    /// Runs `command` in `folder` at a terminal, and types each answer after its question.
    private func atTerminal(_ command: [String], in folder: String, _ answers: [(question: String, answer: String)])
        throws
        -> String
    {
        let script = """
            import os, pty, sys
            count = int(sys.argv[1]); words = sys.argv[2:]
            answers = list(zip(words[:count], words[count:2 * count])); command = words[2 * count:]
            pid, terminal = pty.fork()
            if pid == 0: os.execvp(command[0], command)
            text = shown = b""
            while True:
                try: part = os.read(terminal, 4096)
                except OSError: break
                if not part: break
                shown += part; text += part
                while answers and answers[0][0].encode() in text:
                    text = text.split(answers[0][0].encode(), 1)[1]
                    os.write(terminal, answers.pop(0)[1].encode() + b"\\n")
            sys.stdout.buffer.write(shown)
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            """
        return try Clientctl.stock(
            [
                "env", "CLIENTCTL_PUBLISHER_STATE=\(folder)/state", "timeout", "60", "python3", "-c", script,
                "\(answers.count)",
            ] + answers.map(\.question)
                + answers.map(\.answer) + [Clientctl.path] + command, in: folder)
    }

    @Test func `asks for the passphrase of a new key, and then once for each key`() throws {
        let folder = try site.folder.makeFolder("project")
        try site.folder.writeTree(Site.client("1.0.0"), to: "project/dist")
        let made = try atTerminal(
            ["init"], in: folder,
            [
                ("Application", ""), ("Feed", ""), ("Channel", ""), ("Private key", ""),
                ("Passphrase for release.key.pem, empty for none: ", "horse"), ("Repeat the passphrase: ", "horse"),
            ])
        #expect(!made.contains("not encrypted"), "\(made)")
        let published = try atTerminal(
            ["publish", "dist", "--version", "1.0.0", "--create"], in: folder,
            [("Passphrase for release.key.pem: ", "horse")])
        #expect(published.contains("published 1.0.0"), "\(published)")
        #expect(published.ranges(of: "Passphrase for").count == 1, "\(published)")
    }

    @Test func `help with an error code explains the code`() throws {
        let help = try Clientctl.run(["help", "diskFull"])
        #expect(help.status == 0)
        #expect(help.text.hasPrefix("diskFull (exit status ") && help.text.contains("clientctl prune --keep 1"))
    }

    @Test func `help exit-statuses lists the exit statuses, and the help of the program does not`() throws {
        let table = try Clientctl.run(["help", "exit-statuses"])
        #expect(table.status == 0 && table.errors.isEmpty)
        #expect(table.text.contains("  64  usage\n") && table.text.contains("  62  doctor: found a failure\n"))
        let help = try Clientctl.run(["--help"])
        #expect(help.text.contains("clientctl help exit-statuses") && !help.text.contains("doctor: found a failure"))
    }

    @Test func `a flag overrides the environment, and the environment the file`() throws {
        let file = try config(whole)
        func shell(_ flag: [String], _ environment: [String: String]) throws -> Int32? {
            try Clientctl.run(["check", "--config", file] + flag, environment: environment).status
        }
        // Shell 0.1.0 is too old for the release, and the shell 1.5.0 of the file is not.
        #expect(try shell([], [:]) == 0)
        #expect(try shell([], ["CLIENTCTL_SHELL_VERSION": "0.1.0"]) == 3)
        #expect(try shell(["--shell-version", "1.0.0"], ["CLIENTCTL_SHELL_VERSION": "0.1.0"]) == 0)
        #expect(try shell(["--shell-version", "0.1.0"], ["CLIENTCTL_SHELL_VERSION": "1.0.0"]) == 3)
    }

    @Test(arguments: [
        "{\"shop\": \"x\"}", "{\"Store\": \"x\"}", "{\"store\": \"x\", \"store\": \"y\"}", "[]", "{", "",
        "{\"store\": [\"x\"]}", "{\"passphrase\": \"x\"}",
    ])
    func `rejects an invalid configuration file`(text: String) throws {
        let file = try config(text)
        let refused = try Clientctl.run(["list", "--json", "--config", file]).failed(78, "configInvalid")
        #expect(refused.subject?.hasPrefix(file) == true)
    }

    @Test func `rejects a missing configuration file`() throws {
        try Clientctl.run(["list", "--json", "--config", site.folder.file("nothing")]).failed(78, "configInvalid")
    }

    @Test func `prints errors as JSON when the file requests JSON`() throws {
        try site.folder.write(bytes("{}"), to: "feed/manifest.json")
        try Clientctl.run(["install", "--config", try config(whole)]).failed(25, "manifestMalformed")
        try Clientctl.run(["install", "--config", try config("{\"json\": true}")]).failed(64, "usage")
    }

    @Test(arguments: [
        ["install"], ["install", "--nonsense"], ["nonsense"], ["install", "--keep"], ["keys", "show"],
        ["list", "surplus"], ["prune", "--store", "/nonexistent", "--keep", "0"],
        ["prune", "--store", "/nonexistent", "--keep", "many"],
        ["status", "--store", "/nonexistent", "--shell-version", "one"],
    ])
    func `prints a usage error as JSON and as text`(arguments: [String]) throws {
        try Clientctl.run(arguments + ["--json"]).failed(64, "usage")
        let plain = try Clientctl.run(arguments)
        #expect(plain.status == 64)
        #expect(plain.text.isEmpty)
        #expect(!plain.errors.isEmpty)
    }

    @Test(arguments: [
        [], ["keys"], ["keys", "generate"], ["keys", "show"], ["publish"], ["inspect"], ["verify"], ["check"],
        ["install"], ["list"], ["status"], ["prune"], ["trust"], ["trust", "init"], ["trust", "show"],
        ["trust", "add-key"],
        ["trust", "remove-key"], ["trust", "rotate"], ["trust", "renew"], ["trust", "sign"], ["trust", "publish"],
        ["trust", "update"], ["release"], ["channel", "list"], ["release", "rollout"], ["release", "pause"],
        ["release", "resume"], ["release", "recall"], ["release", "promote"], ["release", "withdraw"],
        ["channel", "renew"], ["session", "login"], ["session", "logout"], ["screen", "lock"], ["screen", "unlock"],
        ["serve"], ["feed", "serve"],
    ])
    func `every command has help with an example`(command: [String]) throws {
        let help = try Clientctl.run(command + ["--help"])
        #expect(help.status == 0)
        #expect(help.errors.isEmpty)
        if command != ["keys"] { #expect(help.text.contains("clientctl \(command.joined(separator: " "))")) }
    }

    @Test func `--version prints a semantic version`() throws {
        let version = try Clientctl.run(["--version"])
        #expect(version.status == 0)
        #expect(throws: Never.self) { try SemanticVersion(parsing: String(version.text.dropLast())) }
    }

    @Test func `--version --json prints the version and the packages of the libraries inside`() throws {
        let answer = Outcome(try Clientctl.start(["--version", "--json"]).wait())
        #expect(answer.status == 0)
        #expect(answer.string("version") == String(try Clientctl.run(["--version"]).text.dropLast()))
        // Only the portable program contains libraries.
        let libraries = try #require(answer["libraries"]?.objectValue)
        #expect(libraries.members.isEmpty || libraries["libssl-dev"]?.stringValue?.isEmpty == false)
    }
}
