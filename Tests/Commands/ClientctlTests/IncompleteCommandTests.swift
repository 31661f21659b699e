import BundleCore
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// Commands with missing or mistyped arguments.
@Suite(.ownThread) struct IncompleteCommandTests {
    private static let publish = ["--feed", "feed", "--key", "release.key.pem", "--min-shell", "1.0.0"]
    private static let channel = ["--feed", "feed", "--channel", "stable", "--channel-key", "release.key.pem"]

    /// Command lines in which a script's variable was empty. Each one names a version.
    private static let incomplete: [[String]] = [
        ["publish", "--version", "1.0.0"] + publish,
        ["publish", "--version", "1.0.0", "--bogus"] + publish,
        ["publish", "web"] + publish,
        ["release", "recall", "--version", "1.0.0"] + channel,
        ["release", "recall", "--version", "--reason", "x"] + channel,
        ["release", "recall", "--reason", "x"] + channel,
        ["release", "rollout", "--version", "1.0.0"] + channel,
        ["release", "rollout", "10%"] + channel,
        ["release", "rollout", "--version", "1.0.0", "--every", "1d"] + channel,
        ["release", "rollout", "10%", "--ramp", "1%,10%", "--version", "1.0.0"] + channel,
        ["release", "rollout", "--ramp", "10%,1%", "--version", "1.0.0"] + channel,
        ["release", "rollout", "--ramp", "", "--version", "1.0.0"] + channel,
        ["release", "target", "--version", "1.0.0"] + channel,
        ["release", "target", "qa", "--undo", "--version", "1.0.0"] + channel,
        ["release", "target", "qa,,eu", "--version", "1.0.0"] + channel,
        ["release", "set", "--urgent"] + channel, ["release", "set", "--version", "1.0.0"] + channel,
        ["release", "set", "--urgent", "--no-urgent", "--version", "1.0.0"] + channel, ["release", "retry"] + channel,
        ["channel", "set"] + channel, ["channel", "set", "--busy", "61m"] + channel,
        ["channel", "set", "--busy", "1.5s"] + channel,
        ["channel", "set", "--busy", "1m", "--jitter", "1s"] + channel,
        ["release", "pause"] + channel,
        ["release", "promote", "--version", "1.0.0"] + channel,
        ["unblock", "--store", "store"],
        ["unblock", "--store", "store", "--version"],
        ["unblock", "1.0.0", "--store", "store"],
        ["rollback", "--store", "store", "--version"],
        ["rollback", "--store", "store", "--to", "1.0.0"],
        ["confirm", "--store", "store", "--token", "x"],
        ["keys", "generate"], ["trust", "init"],
        ["help", "publsih"], ["help", "release", "recal"],
        ["install", "--manifest", "", "--trust", "t", "--store", "store", "--shell-version", "1.0.0"],
        ["serve", "--channel", "", "--store", "store", "--shell-version", "1.0.0"],
        ["serve", "--trust", "release.pub.pem", "--store", "store", "--shell-version", "1.0.0"],
        // Only the program itself has --version.
        ["install", "--version"], ["list", "--version"], ["release", "--version"], ["--version", "install"],
        ["--version", "--bogus"],
        // A group is not a command.
        [], ["release"], ["trust"], ["keys"],
    ]

    @Test(arguments: incomplete) func `rejects an incomplete command as a usage error and changes nothing`(
        arguments: [String]
    ) throws {
        let site = try Site()
        try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        let before = try TreeSnapshot(of: site.folder.path)
        try Clientctl.run(arguments + ["--json"], in: site.folder.path).failed(64, "usage")
        let plain = try Clientctl.run(arguments, in: site.folder.path)
        #expect(plain.status == 64)
        #expect(plain.text.isEmpty)
        #expect(try TreeSnapshot(of: site.folder.path).changes(since: before) == [])
    }

    @Test func `lists the commands by group in ten lines when none is given`() throws {
        let refused = try Clientctl.run([])
        let lines = refused.errors.split(separator: "\n")
        #expect(lines.count <= 10)
        for group in [
            "Publish: publish, release", "Operate: feed, fleet", "Device: check, install", "Shell: launch, confirm",
        ] {
            #expect(lines.contains { $0.contains(group) }, "\(group)")
        }
    }

    @Test(arguments: [
        (["publsih", "web"], "Unknown command publsih. Did you mean publish?"),
        (["release", "recal", "--version", "1.0.0"], "Unknown command recal. Did you mean recall?"),
        (["keys", "frobnicate"], "Give one of generate, show, passwd."),
        (["feed", "frobnicate"], "Give one of serve, check, copy, export, offer, page-module, prune."),
        (["channel", "ls"], "Did you mean list?"),
        (["uninstall"], "`clientctl rollback` goes back to another client"),
        (["update"], "`clientctl install` updates a device, and `clientctl publish` publishes an update."),
        (["release", "unpause"], "Did you mean resume?"),
        (["unistall"], "Unknown command unistall. Give one of"),
        (["publish", "web", "--deltas"], "Unknown option '--deltas'. `clientctl publish --help` lists the options."),
        (["publish", "web", "--no-urgent"], "`clientctl publish --help` lists the options."),
        (["publish", "web", "--rollout", "10%"], "--rollout needs --channel"),
        (["publish", "web", "--expires-in=30"], "--expires-in needs --channel"),
        (["publish", "web", "--sequence", "2", "--create"], "--create needs --channel"),
        (["recall", "--version", "1.0.0"], "Did you mean `clientctl release recall`?"),
        (["release", "rollback", "--version", "1.0.0"], "Did you mean recall?"),
        (["release", "list"], "`clientctl channel list`"),
        (["release", "yank", "--version", "1.0.0"], "Did you mean recall?"),
        (["release", "rollout", "5%", "--key", "x"], "Unknown option '--key'. Did you mean '--channel-key'?"),
        (["release", "rollout", "5%", "--to", "x"], "Unknown option '--to'. `clientctl release rollout --help` lists"),
        (["release", "pause", "1.1.0"], "Unexpected argument '1.1.0'. Did you mean '--version 1.1.0'?"),
        (["list", "store"], "Unexpected argument 'store'. Did you mean '--store store'?"),
        (["feed", "check", "--feed", "f"], "Give the feed as an argument: `clientctl feed check FEED`."),
        (["publish", "web", "--version", "1.0.0", "--channel", "none"], "A channel cannot be named none."),
        (["install", "--store", "s", "--key", "key.pub.pem"], "Unknown option '--key'. Did you mean '--trust'?"),
        (["publish", "dist", "--verison", "1"], "Unknown option '--verison'. Did you mean '--version'?"),
        (
            ["keys", "generate", "--out", "a.key.pem"],
            "--out takes the beginning of both names: give a, not a.key.pem."
        ),
        (["publish", "web", "--version", "1"], "See 'clientctl publish --help' for more information."),
        (["trust", "add-key", "x.json"], "See 'clientctl trust add-key --help'"),
        (["install", "--bogus"], "clientctl install"),
    ]) func `suggests the closest command and the help to read`(arguments: [String], expected: String) throws {
        let refused = try Clientctl.run(arguments)
        #expect(refused.status == 64)
        #expect(refused.errors.contains(expected), "\(refused.errors)")
        if expected.hasPrefix("See") { #expect(!refused.errors.contains("See 'clientctl --help'")) }
    }

    private static func flags(_ text: String) -> [String] {
        text.split { !($0.isLetter || $0 == "-") }.map(String.init).filter { $0.hasPrefix("--") }
    }

    /// Returns the flags of a usage line outside brackets.
    private static func needed(_ usage: String) -> [String] { flags(usage.replacing(/\[[^\]]*\]/, with: "")) }

    /// Returns the flags that an error calls missing.
    private static func missing(_ errors: String) -> [String] {
        flags(String(errors.prefix { $0 != ":" } + (errors.split(separator: ": ").dropFirst().first ?? "")))
    }

    private static func variable(_ flag: String) -> String {
        "CLIENTCTL_" + flag.dropFirst(2).uppercased().replacing("-", with: "_")
    }

    @Test(arguments: EveryFlagTests.commands)
    func `shows every flag that its own help calls required in the usage line`(command: EveryFlagTests.Command) throws {
        let help = try Clientctl.run(command.words + ["--help"]).text
        let usage = try #require(help.split(separator: "\n").first { $0.hasPrefix("USAGE: ") })
        // Options with a condition, such as "(required with --roster)", depend on other arguments.
        let required = help.matches(of: /\n  (--[a-z-]+)(?: <[^>]*>)?\s+\(required(?:\)|, or )/).map { String($0.1) }
        for flag in required {
            #expect(Self.needed(String(usage)).contains(flag), "\(flag): \(usage)")
        }
    }

    @Test(arguments: EveryFlagTests.commands)
    func `names all missing flags that the usage line of the command requires`(command: EveryFlagTests.Command) throws {
        let help = try Clientctl.run(command.words + ["--help"])
        #expect(help.status == 0)
        let usage = try #require(help.text.split(separator: "\n").first { $0.hasPrefix("USAGE: ") })
        let needed = Self.needed(String(usage))
        // `channel delete` first explains why it needs --yes.
        if needed.isEmpty || command.words == ["channel", "delete"] { return }
        let site = try Site()
        let operand =
            switch command.words.joined(separator: " ") {
            case "publish": "."
            case "release rollout": "10%"
            case "release target": "qa"
            case "feed offer": "1.0.0"
            case "channel delete": "stable"
            default: site.trust
            }
        let hasOperand = usage.contains(try Regex("clientctl \(command.words.joined(separator: " ")) \\[?<"))
        let operands = hasOperand ? [operand] : []
        let refused = try Clientctl.run(command.words + operands, in: site.folder.path)
        #expect(refused.status == 64, "\(refused.errors)")
        let named = Set(Self.missing(refused.errors))
        #expect(named.isSuperset(of: needed), "\(usage)\n\(refused.errors)")
        // A flag that the command requires and does not declare would be named here, or after the others are given.
        #expect(named.isSubset(of: Self.flags(String(usage))), "\(usage)\n\(refused.errors)")
        let given = try Clientctl.run(
            command.words + operands,
            environment: Dictionary(uniqueKeysWithValues: named.map { (Self.variable($0), "/dev/null/x") }),
            in: site.folder.path)
        #expect(!given.errors.contains("Missing --"), "\(given.errors)")
    }

    @Test func `names a single missing flag with its variable`() throws {
        let refused = try Clientctl.run(["unblock", "--version", "1.0.0"])
        #expect(refused.errors.contains("Missing --store: give the flag, set CLIENTCTL_STORE, or put \"store\" into"))
        let given = try Clientctl.run(["unblock", "--version", "1.0.0"], environment: ["CLIENTCTL_STORE": "/nowhere"])
        #expect(!given.errors.contains("Missing"))
    }

    @Test func `fails for a channel, store or recall that does not exist`() throws {
        let site = try ChannelSite(withRoot: false)
        try site.publish("1.0.0").succeeded("published")
        try site.release("recall", "--undo", "--version", "7.7.7").failed(78, "configInvalid")
        try Clientctl.run(["channel", "log", "--feed", site.feed, "--channel", "stabel", "--json"])
            .failed(78, "configInvalid")
        let other = try site.folder.writeTree(["clients/acme/f": [1]], to: "other")
        for command in ["status", "list"] {
            try Clientctl.run([command, "--store", other, "--json"]).failed(78, "configInvalid")
        }
        #expect(try Clientctl.run(["help", "release", "recall"]).status == 0)
        let nameless = try Clientctl.run([
            "publish", "", "--version", "1.0.0", "--feed", site.feed, "--key", site.key("release"), "--min-shell",
            "1.0.0",
        ])
        #expect(nameless.errors.contains("path is empty"), "\(nameless.errors)")
    }

    @Test func `accepts --version in every command that names a version`() throws {
        let site = try ChannelSite(withRoot: false)
        try site.publish("1.0.0").succeeded("published")
        for (command, more) in [
            ("rollout", ["2.5%"]), ("pause", []), ("resume", []), ("promote", ["--to", "beta", "--create"]),
            ("recall", ["--reason", "white screen"]), ("recall", ["--undo"]), ("withdraw", []),
        ] {
            try Clientctl.run(
                ["release", command, "--version", "1.0.0"] + more
                    + [
                        "--feed", site.feed, "--channel", "stable", "--channel-key", site.key("channel"), "--json",
                    ]
            ).succeeded("changed", "\(command)")
        }
        let device = try Site()
        for version in ["1.0.0", "1.1.0"] {
            try device.publish(version)
            try device.install().succeeded("installed")
        }
        func run(_ command: String...) throws -> Outcome {
            try Clientctl.run(command + ["--version", "1.0.0", "--store", device.store, "--json"])
        }
        try run("rollback").succeeded("rolledBack")
        try run("unblock").succeeded("notBlocked")
    }

    /// Runs `clientctl` without /proc. AddressSanitizer, whose options `Scripts/test` sets, aborts a program that has no /proc.
    @Test(
        .enabled(if: PrivateMounts.command != nil, "no private mounts"),
        .disabled(if: getenv("ASAN_OPTIONS") != nil, "AddressSanitizer requires /proc"))
    func `refuses to run without /proc, and reads arguments after a library moved the environment`() throws {
        let mounts = try #require(PrivateMounts.command)
        let site = try Site()
        try site.publish("1.0.0")
        func run(_ script: String, _ command: [String]) throws -> Outcome {
            Outcome(
                try Program.run(
                    mounts + ["sh", "-c", script, "sh", Clientctl.path] + command, environment: Clientctl.environment())
            )
        }
        let bare = "mount -t tmpfs tmpfs /proc || exit 90; exec \"$@\""
        #expect(try run(bare, ["--version"]).text == "1.0.0-rc.1\n")
        let refused = try run(bare, site.arguments("check"))
        #expect(refused.status == 78)
        #expect(
            refused.errors.contains("clientctl needs /proc, which is not mounted here. Run `mount -t proc proc /proc`"))
        let code =
            "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { setenv(\"MOVED\", \"1\", 1); }\n"
        let source = try site.folder.write(bytes(code), to: "moved.c")
        let library = site.folder.file("moved.so")
        try Clientctl.stock(["clang", "-shared", "-fPIC", "-o", library, source])
        try run("LD_PRELOAD='\(library)' exec \"$@\"", site.arguments("check")).succeeded("available")
    }
}

/// Folders and addresses that a command rejects before it changes anything in them.
@Suite(.ownThread) struct WrongLocationTests {
    private static let foreign = [
        "clients/acme/crm.txt", "downloads/report.pdf", "staging/prod/site.conf", "receipts/2026.txt",
        "serving/menu.txt", "meteor/app/server.js",
    ]

    private let site: Site

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
        let files = Dictionary(uniqueKeysWithValues: Self.foreign.map { ($0, bytes($0)) })
        _ = try site.folder.writeTree(files, to: "store")
    }

    @Test(arguments: [
        "install", "launch", "prune", "confirm", "fail", "rollback", "unblock", "serve", "screen lock",
        "session logout", "session login",
    ])
    func `rejects a foreign folder as a store and leaves it unchanged`(command: String) throws {
        let token = try site.folder.write(bytes("secret\n"), to: "token")
        let more: [String] =
            switch command {
            case "install": ["--manifest", site.manifest, "--trust", site.trust, "--shell-version", "1.5.0"]
            case "launch", "serve": ["--shell-version", "1.5.0"]
            case "confirm", "fail": ["--version", "1.0.0", "--token", "x"]
            case "unblock": ["--version", "1.0.0"]
            case "session login": ["--token-file", token]
            default: []
            }
        try site.leavingStoreAlone {
            let refused = try Clientctl.run(
                command.split(separator: " ").map(String.init) + ["--store", site.store, "--json"] + more
            )
            .failed(78, "configInvalid")
            #expect(refused.subject == site.store)
            #expect(refused.errors.contains("is not a store"))
        }
    }

    @Test func `rejects a folder with a foreign file as a store`() throws {
        try Clientctl.stock(["rm", "-r", site.store])
        _ = try site.folder.writeTree(["notes.txt": bytes("mine")], to: "store")
        try site.leavingStoreAlone { try site.install().failed(78, "configInvalid") }
    }

    @Test func `accepts an empty folder and an unfinished store`() throws {
        try Clientctl.stock(["rm", "-r", site.store])
        try site.folder.makeFolder("store")
        try site.install().succeeded("installed")
        // The folders that a first run creates before its ledger.
        try Clientctl.stock(["rm", "-r", site.store])
        for name in ["clients", "meteor", "receipts", "staging", "downloads", "serving"] {
            try site.folder.makeFolder("store/\(name)")
        }
        try site.install().succeeded("installed")
    }

    @Test(arguments: [
        "azure://bucket/feed", "https://updates.example.com/", "http://127.0.0.1/feed", "gs://b", "file:///tmp/feed",
        "S3://bucket", "sftp://h/f",
    ])
    func `rejects a feed that cannot be written by its URL`(feed: String) throws {
        let before = try TreeSnapshot(of: site.folder.path)
        let source = try site.folder.writeTree(Site.client("2.0.0"), to: "web")
        let made = try TreeSnapshot(of: site.folder.path)
        #expect(made.changes(since: before) != [])
        let place = ["--feed", feed, "--json"]
        // A feed on a web server or in a folder can be read by its URL.
        let canBeRead = ["http:", "https:", "file:"].contains { feed.hasPrefix($0) }
        for arguments in [
            ["publish", source, "--version", "2.0.0", "--key", site.key, "--min-shell", "1.0.0"],
            ["channel", "renew", "--channel", "stable", "--channel-key", site.key],
            [
                "release", "promote", "--version", "1.0.0", "--channel", "stable", "--to", "beta", "--channel-key",
                site.key,
            ],
            ["trust", "publish", site.trust],
        ] + (canBeRead ? [] : [["channel", "list", "--channel", "stable"]]) {
            let refused = try Clientctl.run(arguments + place, in: site.folder.path).failed(64, "usage")
            #expect(refused.errors.contains("--feed takes a folder"), "\(arguments)")
        }
        // `host` rejects a bucket, too, because it serves only folders.
        for hosted in [feed, "s3://bucket/feed"] {
            try Clientctl.run(["feed", "serve", hosted, "--json"], in: site.folder.path).failed(64, "usage")
        }
        #expect(try TreeSnapshot(of: site.folder.path).changes(since: made) == [])
    }
}
