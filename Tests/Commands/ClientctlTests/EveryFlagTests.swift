import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Synchronization
import Testing

/// Every flag of every command has the same effect from the environment and the configuration file as on the command
/// line.
@Suite(.ownThread) struct EveryFlagTests {
    /// A command, read from `--experimental-dump-help`.
    struct Command: CustomTestStringConvertible, Sendable {
        let words: [String]
        /// Flags without dashes, each with whether it has a value.
        let flags: [(name: String, takesValue: Bool)]

        var testDescription: String { words.joined(separator: " ") }
    }

    static let commands: [Command] = {
        guard let dump = try? Clientctl.run(["--experimental-dump-help"]), let root = dump["command"]?.objectValue
        else {
            return []
        }
        func leaves(_ command: JSONObject, _ path: [String]) -> [Command] {
            let path = path + [command["commandName"]?.stringValue ?? "?"]
            let below = (command["subcommands"]?.arrayValue ?? []).compactMap(\.objectValue)
            if !below.isEmpty { return below.flatMap { leaves($0, path) } }
            let flags = (command["arguments"]?.arrayValue ?? []).compactMap(\.objectValue).compactMap { argument in
                let kind = argument["kind"]?.stringValue
                let name = argument["preferredName"]?.objectValue?["name"]?.stringValue
                return kind == "positional" ? nil : name.map { ($0, kind == "option") }
            }
            return [
                Command(words: Array(path.dropFirst()), flags: flags.filter { !["help", "config"].contains($0.0) })
            ]
        }
        // The settings of `run` are those of the program that it starts.
        return leaves(root, []).filter { !["help", "run"].contains($0.words.first) }
    }()

    /// `commands` in parts of a few flags each. A single test for every command would take as long as all other tests
    /// together.
    static let parts: [Command] = commands.flatMap { command in
        stride(from: 0, to: command.flags.count, by: 6).map { start in
            Command(words: command.words, flags: Array(command.flags[start..<min(start + 6, command.flags.count)]))
        }
    }

    /// Returns the arguments that a command needs before it evaluates the flag. Files are in its working folder.
    private static func base(of words: [String]) -> [String] {
        let device = ["--store", "store", "--shell-version", "1.5.0"]
        let channel = ["--feed", "feed", "--channel", "stable", "--channel-key", "release.key.pem"]
        let version = ["--version", "1.0.0"]
        switch words.joined(separator: " ") {
        case "completion": return ["bash"]
        case "init", "demo": return ["--yes"]
        // With a store, `events` does not end.
        case "events": return []
        case "keys generate": return ["--out", "made"]
        case "keys show": return ["release.key.pem"]
        case "keys passwd": return ["release.key.pem", "--no-passphrase"]
        case "trust init":
            return [
                "--out", "made.json", "--root-key", "release.pub.pem", "--release-key", "release.pub.pem", "--sign-key",
                "release.key.pem",
            ]
        case "trust show", "trust renew": return ["trust.json"]
        case "trust publish": return ["trust.json", "--feed", "feed"]
        case "trust update": return ["trust.json", "--feed", "rooted"]
        case "trust sign": return ["trust.json", "--key", "other.key.pem"]
        case "trust add-key": return ["trust.json", "--role", "release", "--public-key", "other.pub.pem"]
        case "trust remove-key": return ["trust.json", "--role", "all", "--public-key", "spare.pub.pem"]
        case "trust label": return ["trust.json", "--public-key", "spare.pub.pem", "--label", "Spare"]
        case "trust rotate": return ["trust.json", "--old", "spare.pub.pem", "--new", "other.pub.pem"]
        case "publish":
            // Without --channel, `publish` rejects a feed that has the channel stable.
            return ["web", "--version", "2.0.0", "--feed", "plain", "--key", "release.key.pem", "--min-shell", "1.0.0"]
        case "console": return ["--no-open"] + channel
        case "feed check": return ["file:///none"]
        case "feed copy": return ["feed", "copy"]
        case "fleet list", "fleet watch": return ["--roster", "http://127.0.0.1:1/roster"]
        case "fleet show", "fleet forget": return ["Lobby", "--roster", "http://127.0.0.1:1/roster"]
        case "feed page-module": return ["module.mjs", "--trust", "release.pub.pem"]
        case "feed export": return ["--feed", "feed", "--to", "kit"]
        case "feed prune": return ["--feed", "feed", "--json"]
        case "channel prune": return ["--keep", "5"] + channel
        case "channel delete": return ["stable", "--feed", "feed"]
        case "channel list", "channel log": return ["--feed", "feed", "--channel", "stable"]
        case "channel renew", "channel restore": return channel
        case "feed offer": return ["0.9.0", "--feed", "plain"]
        case "release set": return ["--urgent"] + version + channel
        case "release delta": return version + ["--feed", "feed", "--key", "release.key.pem"]
        case "release resume": return version + channel.map { $0 == "stable" ? "beta" : $0 }
        case "release rollout": return ["5%"] + version + channel
        case "release target": return ["qa"] + version + channel
        case "release proposals": return ["--feed", "feed"]
        case "release approve": return ["2-0"] + channel
        case "release promote": return version + ["--to", "later", "--create"] + channel
        case "channel set": return ["--poll", "5m"] + channel
        case "release recall": return version + ["--reason", "bad"] + channel
        case "fleet page": return ["--out", "page.html", "--feed", "feed", "--prometheus", "http://127.0.0.1:1/"]
        case "fleet insights":
            return version + ["--feed", "feed", "--channel", "stable", "--prometheus", "http://127.0.0.1:1/"]
        case "fleet guard":
            return version + ["--prometheus", "http://127.0.0.1:1/", "--trust-reports"] + channel
        case let words where words.hasPrefix("release "): return version + channel
        case "inspect": return ["feed/manifest.json"]
        case "verify": return ["feed/manifest.json", "--trust", "release.pub.pem"]
        case "check", "install", "serve":
            return ["--manifest", "feed/manifest.json", "--trust", "release.pub.pem"] + device
        // Other tests may use the default port.
        case "doctor":
            return ["--manifest", "feed/manifest.json", "--trust", "release.pub.pem", "--port", "0"] + device
        case "launch": return device
        case "kiosk": return ["--browser", "no-such-browser {profile}"]
        case "repair": return ["--store", "damaged", "--manifest", "feed/manifest.json"]
        case "report":
            return ["--store", "store", "--report", "http://127.0.0.1:1/report", "--manifest", "feed/manifest.json"]
        case "confirm", "fail": return version + ["--store", "store", "--token", "x"]
        case "rollback", "activate", "unblock", "list", "status", "prune", "session login", "session logout",
            "screen lock",
            "screen unlock":
            return ["--store", "store"] + (words == ["prune"] ? ["--json"] : [])
                + (words == ["session", "login"] ? ["--token-file", "token"] : [])
                + (words == ["unblock"] ? version : []) + (words == ["activate"] ? ["--wait", "0s"] : [])
        default: return []
        }
    }

    /// Returns these arguments with changes for a `flag` that requires other flags, or that other flags override.
    private static func base(of words: [String], for flag: String) -> [String] {
        var arguments = base(of: words)
        func useChannel() { arguments = arguments.map { $0 == "plain" ? "feed" : $0 } + ["--channel", "beta"] }
        func drop(_ names: String...) {
            for name in names {
                if let index = arguments.firstIndex(of: name) { arguments.removeSubrange(index...index + 1) }
            }
        }
        switch (words.first ?? "", flag) {
        case ("report", "off"): drop("--report")
        case ("release", "roster-token-file"), ("release", "ca-file"), ("release", "proxy"), ("release", "client-cert"),
            ("release", "client-key"):
            arguments += ["--roster", "http://127.0.0.1:1/roster"]
        case ("fleet", "expires-within"),
            ("fleet", "trust") where words.last == "watch":
            arguments += ["--feed", "feed", "--channel", "stable"]
        case ("fleet", "feed") where words.last == "watch": arguments += ["--channel", "stable"]
        case (_, "report-within"): arguments += ["--report", "http://127.0.0.1:1/report"]
        case ("check", "explain"):
            drop("--manifest")
            arguments += ["--channel", "feed/channels/stable.json"]
        case ("check", "channel"), ("install", "channel"), ("serve", "channel"), ("check", "meteor"),
            ("install", "meteor"),
            ("serve", "meteor"), ("repair", "channel"), ("report", "channel"), ("doctor", "channel"),
            ("doctor", "meteor"):
            drop("--manifest")
        case ("doctor", "app-id"): drop("--port")
        case ("check", "platform"), ("install", "platform"), ("check", "verify-assets"), ("install", "verify-assets"),
            ("doctor", "platform"), ("doctor", "verify-assets"):
            drop("--manifest", "--trust")
            arguments += ["--meteor", "http://127.0.0.1:1/"]
        case ("inspect", "credential-command"), ("verify", "credential-command"):
            arguments = arguments.map { $0 == "feed/manifest.json" ? "s3://bucket/manifest.json" : $0 }
        case ("feed", "channel") where words.last == "serve", ("feed", "ca-file") where words.last == "serve",
            ("feed", "proxy") where words.last == "serve", ("feed", "upstream-token-file"),
            ("feed", "cache"):
            arguments = ["--upstream", "http://127.0.0.1:1/"]
        case ("feed", "cache-size"): arguments = ["--upstream", "http://127.0.0.1:1/", "--cache", "cache"]
        case ("feed", "token-file") where words.last == "serve": break
        case ("feed", "trust") where words.last == "serve", ("feed", "public-url") where words.last == "serve":
            arguments = ["feed", "--phones", "--trust", "release.pub.pem", "--public-url", "https://u.example/"]
        case ("feed", "document-max-age") where words == ["feed", "copy"],
            ("feed", "single-writer") where words == ["feed", "copy"]:
            arguments = ["feed", "s3://bucket"]
        case ("feed", "credential-command") where words == ["feed", "check"]: arguments += ["--origin", "s3://bucket"]
        case ("feed", "ca-file"), ("feed", "proxy"), ("feed", "token-file"): arguments = ["http://127.0.0.1:1/"]
        case (_, "credential-command"), (_, "document-max-age"), (_, "single-writer"):
            arguments = arguments.map { $0 == "feed" || $0 == "plain" ? "s3://bucket" : $0 }
        case (_, let flag)
        where words == ["channel", "list"]
            && ["ca-file", "proxy", "token-file", "header-file", "client-cert", "client-key"].contains(flag):
            arguments = arguments.map { $0 == "feed" ? "http://127.0.0.1:1/" : $0 }
        case ("publish", "channel-key"), ("publish", "expires-in"): useChannel()
        case ("publish", "channel-sign-command"):
            useChannel()
            arguments += ["--channel-sign-public-key", "release.pub.pem"]
        case ("publish", "channel-sign-public-key"):
            useChannel()
            arguments += ["--channel-sign-command", "exit 3"]
        case (_, "sign-command"):
            drop("--key", "--channel-key")
            arguments += ["--sign-public-key", "release.pub.pem"]
        case ("activate", "wait"): drop("--wait")
        case ("release", "no-urgent"): arguments.removeFirst()
        case ("fleet", "silent") where words.last == "forget": arguments.removeFirst()
        case ("fleet", "trust-reports"): arguments.removeAll { $0 == "--trust-reports" }
        case ("fleet", "guard-key"): drop("--channel-key")
        case ("fleet", "guard-sign-command"):
            drop("--channel-key")
            arguments += ["--guard-sign-public-key", "release.pub.pem"]
        case ("fleet", "guard-sign-public-key"):
            drop("--channel-key")
            arguments += ["--guard-sign-command", "exit 3"]
        case (_, "sign-public-key"):
            drop("--key", "--channel-key")
            arguments += ["--sign-command", "exit 3"]
        case ("release", "ramp") where words.last == "rollout": arguments.removeFirst()
        case ("release", "every"), ("release", "start"): arguments[0...0] = ["--ramp", "1%,10%"]
        // Only an encrypted key asks for a passphrase.
        case (_, "passphrase-file"): arguments = arguments.map { $0 == "release.key.pem" ? "other.key.pem" : $0 }
        default: break
        }
        // Without this flag, the command would not end.
        let endsItself = words.first != "serve" || ["once", "startup-timeout"].contains(flag)
        return arguments + (endsItself ? [] : ["--once", "--startup-timeout", "100ms"])
    }

    /// Returns a value that the flag rejects, or one that changes the result.
    private static func value(of flag: String, _ words: [String]) -> String {
        switch flag {
        case "version": "one"
        case "reason": words == ["fail"] ? "seen" : "worse"
        case "to": words == ["release", "promote"] ? "A/B" : words == ["feed", "export"] ? "web" : "x"
        case "out": "elsewhere/none/file"
        case "channel" where ["release", "channel", "fleet", "publish", "feed"].contains(words.first): "A/B"
        case "notes", "texts", "style", "key", "public-key", "sign-public-key", "channel-key",
            "channel-sign-public-key", "trust",
            "token-file", "mirror-token-file", "ca-file", "seed",
            "upstream-token-file", "roster-token-file", "client-cert", "header-file", "expect",
            "passphrase-file", "new-passphrase-file", "root-key", "release-key", "guard-key", "guard-sign-public-key",
            "sign-key", "rebuild", "manifest", "phone-key",
            "channel", "access-log",
            "old", "new", "previous":
            "nowhere/at/all"
        case "sign-command", "channel-sign-command", "guard-sign-command", "credential-command": "exit 3"
        case "store": "/dev/null/store"
        case "feed", "origin": "s3://bucket"
        case "meteor": "file:///meteor"
        case "device-id": "\u{7F}"
        case "group": "QA"
        case "metrics-file": "wrong.txt"
        case "push", "prometheus", "report", "roster", "upstream": "ftp://h"
        case "name": String(repeating: "n", count: 65)
        case "key-id": String(repeating: "0", count: 64)
        case "token": ""
        case "app-id" where words.first == "publish" || words.first == "trust": "other"
        case "app-id": "com.example.other"
        case "expect-sequence": "9"
        case "csp": "nothing"
        case "serve-user": "no-such-user"
        case "capacitor-platform": "Electron"
        case "proxy": "nowhere"
        case "browser", "on-rollback", "health-command", "login-command", "picture-command", "after-publish",
            "on-decision", "on-alert":
            "a 'b"
        case "exclude", "allow": "a//b"
        case "archive-maps": "/dev/null/maps"
        case "cache": "/dev/null/cache"
        case "delta-from": "no/folder"
        default: "many"
        }
    }

    /// The files of every command, created once and removed when the tests end.
    private static let site = Mutex<TemporaryFolder?>(nil)

    private static func madeSite() throws -> TemporaryFolder {
        try site.withLock { site in
            if let site { return site }
            let made = try makeSite()
            atexit { EveryFlagTests.site.withLock { $0 = nil } }
            site = made
            return made
        }
    }

    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        try Clientctl.stock(["cp", "-a", Self.madeSite().file("site"), folder.file("site")])
    }

    /// The publisher's state is part of the site.
    private static let publisher = ["CLIENTCTL_PUBLISHER_STATE": "publisher-state"]

    private static func makeSite() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        _ = try folder.writeTree(Site.client("2.0.0"), to: "site/web")
        let site = folder.file("site")
        func run(_ arguments: String...) throws {
            let outcome = try Clientctl.run(arguments + ["--json"], environment: publisher, in: site)
            try #require(outcome.status == 0, "\(arguments): \(outcome.errors)")
        }
        for name in ["release", "other", "spare"] { try run("keys", "generate", "--out", name) }
        try Clientctl.encrypt("\(site)/other.key.pem", passphrase: "horse")
        try run(
            "publish", "web", "--version", "0.9.0", "--feed", "feed", "--key", "release.key.pem", "--min-shell",
            "1.0.0",
            "--level", "1", "--channel", "stable", "--create")
        try run(
            "publish", "web", "--version", "1.0.0", "--feed", "feed", "--key", "release.key.pem", "--min-shell",
            "1.0.0",
            "--level", "1", "--channel", "stable")
        try Clientctl.stock(["cp", "-a", "feed", "plain"], in: site)
        try Clientctl.stock(["rm", "-r", "plain/channels"], in: site)
        try run(
            "release", "promote", "--version", "1.0.0", "--feed", "feed", "--channel", "stable", "--to", "beta",
            "--create",
            "--channel-key", "release.key.pem")
        try run(
            "release", "pause", "--version", "1.0.0", "--feed", "feed", "--channel", "beta", "--channel-key",
            "release.key.pem")
        try run(
            "trust", "init", "--out", "trust.json", "--root-key", "release.pub.pem", "--release-key", "release.pub.pem",
            "--channel-key", "release.pub.pem", "--channel-key", "spare.pub.pem", "--sign-key", "release.key.pem")
        try run("trust", "publish", "trust.json", "--feed", "rooted")
        try run(
            "install", "--manifest", "feed/manifest.json", "--trust", "release.pub.pem", "--store", "store",
            "--shell-version", "1.5.0")
        try Clientctl.stock(["cp", "-a", "store", "damaged"], in: site)
        try Clientctl.stock(["rm", "damaged/clients/v1.0.0/app/shared.js"], in: site)
        try folder.write(bytes("secret\n"), to: "site/token")
        try run("session", "login", "--store", "store", "--token-file", "token")
        return folder
    }

    private enum Place { case arguments, environment, file, nowhere }

    /// Returns the result of `command` in a copy of the site, with `flag` given in one place.
    private func outcome(
        _ command: Command, _ flag: (name: String, takesValue: Bool), in place: Place
    ) throws -> String {
        var arguments = Self.base(of: command.words, for: flag.name)
        var object: JSONObject?
        var environment = ["SOURCE_DATE_EPOCH": "\(time(nil) / 3600 * 3600)", "CLIENTCTL_PASSPHRASE": "horse"]
            .merging(Self.publisher) { $1 }
        if place != .nowhere || !flag.takesValue {
            // On a command line, a repeated flag is rejected. A file has only its last value.
            if let index = arguments.firstIndex(of: "--\(flag.name)") {
                arguments.removeSubrange(index...(flag.takesValue ? index + 1 : index))
            }
            let value = flag.takesValue ? Self.value(of: flag.name, command.words) : "true"
            switch place {
            case .nowhere: break
            case .arguments: arguments += ["--\(flag.name)"] + (flag.takesValue ? [value] : [])
            case .environment:
                environment["CLIENTCTL_" + flag.name.uppercased().replacing("-", with: "_")] = value
            case .file:
                object = [flag.name: flag.takesValue ? .string(value) : .bool(true)]
                arguments += ["--config", "config.json"]
            }
        }
        let copy = try TemporaryFolder()
        try Clientctl.stock(["cp", "-a", folder.file("site"), copy.file("copy")])
        if let object { try copy.write(JSONWriter.bytes(of: .object(object)), to: "copy/config.json") }
        let ending = try Program.run(
            ["timeout", "60", Clientctl.path] + command.words + arguments,
            environment: Clientctl.environment(environment), in: copy.file("copy"))
        // Paths, IDs, times and durations differ between runs.
        let said = "\(ending.status ?? -1)\n\(ending.text)\n\(ending.errors)".replacing(copy.path, with: "/")
        return said.replacing(/[0-9a-f]{16,}/, with: "#").replacing(/\d{4}-\d\d-\d\dT[\d:]+Z/, with: "@")
            .replacing(/\d+ seconds? ago/, with: "@ ago")
            .replacing(/"\w+Milliseconds": \d+/, with: "").replacing(/after \d+ ms/, with: "")
            .replacing(/[\d.]+ \w*B are free/, with: "").replacing(/\d+ more files/, with: "")
    }

    /// Flags without a visible effect here, where there is no terminal, no old feed and no bucket.
    private static let unseen: Set<String> = [
        "prompt", "verify-on-launch", "json", "device-id", "accept-clock", "devices-trust-new-key", "single-writer",
        // `PublisherStateTests` covers this flag.
        "publisher-state",
        // `OutputDetailTests` covers these flags: a command without a request or a result prints the same.
        "verbose", "quiet",
    ]
    /// Flags of single commands without a visible effect: a rejected token hides them, or a guard without an engine
    /// edits nothing.
    private static let unseenHere: Set<[String]> = [
        ["fail", "reason"], ["inspect", "token-file"], ["inspect", "ca-file"], ["inspect", "proxy"],
        ["fleet guard", "query"], ["fleet guard", "expect-sequence"], ["fleet guard", "dry-run"],
        // No report is pending here. `ReportTests` covers this flag.
        ["report", "manifest"], ["report", "channel"],
        // `HistoryCommandTests` covers this flag.
        ["channel restore", "dry-run"],
        // `RosterTests` covers this flag.
        ["fleet list", "version"], ["fleet list", "attention"], ["fleet list", "waits"], ["fleet list", "behind"],
        ["fleet list", "never-seen"], ["fleet forget", "dry-run"], ["fleet show", "save-picture"],
        ["fleet show", "save-failed-picture"],
        // `PictureTests` covers this flag.
        ["kiosk", "picture"],
        // No page is open here. `ActivateTests` covers this flag.
        ["activate", "now"], ["activate", "or-discard"],
        // `ProgramTests` covers this flag.
        ["install", "starts"],
        // `KioskCommandTests` covers this flag.
        ["kiosk", "serve-user"],
        // Standard input of the tests is empty, so the demo does not wait either.
        ["demo", "yes"],
    ]
    /// A device may have its store in the configuration and still verify a manifest, so the result differs.
    /// As an argument without a channel, `--accept-clock` is a usage error; as a setting, it is for other runs.
    private static let different: Set<[String]> = [["verify", "store"], ["publish", "accept-clock"]]

    /// Returns whether `flag` is tested with `command`. Only the first command that has it is, because all commands
    /// share the code that reads environment and file. `EVERY_FLAG=everywhere` tests every flag of every command, as
    /// `Scripts/check --all` does.
    private static func isTested(_ flag: String, with command: Command) -> Bool {
        if getenv("EVERY_FLAG") != nil { return true }
        return commands.first { $0.flags.contains { $0.name == flag } }?.words == command.words
    }

    @Test(arguments: parts)
    func `accepts the flags of a command from the environment and the configuration file`(command: Command) throws {
        let isServer = ["serve", "console", "watch"].contains(command.words.last)
        #expect(!command.flags.isEmpty)
        var withoutFlag: [[String]: String] = [:]
        for flag in command.flags where Self.isTested(flag.name, with: command) {
            // A running server has no result to compare, so only flags with invalid values are compared for servers.
            let isTaken = !flag.takesValue || flag.name == "device-id"
            if isServer && isTaken || Self.different.contains([command.testDescription, flag.name]) { continue }
            let given = try outcome(command, flag, in: .arguments)
            for place in [Place.environment, .file] {
                let elsewhere = try outcome(command, flag, in: place)
                #expect(elsewhere == given, "--\(flag.name) from the \(place)")
            }
            if !isServer && !Self.unseen.contains(flag.name)
                && !Self.unseenHere.contains([command.testDescription, flag.name])
            {
                let base = flag.takesValue ? Self.base(of: command.words, for: flag.name) : ["--\(flag.name)"]
                let without = try withoutFlag[base] ?? outcome(command, flag, in: .nowhere)
                withoutFlag[base] = without
                #expect(given != without, "--\(flag.name) makes no difference, so nothing was tried")
            }
        }
    }

    /// The flags that a project file sets without the user's consent.
    private static let harmless: Set = [
        "app-id", "archive-maps", "budget", "channel", "channel-key", "copies", "delta-from", "document-max-age",
        "drop", "exclude", "expires-in", "feed", "format", "if-expires-within", "json", "keep", "key", "level",
        "max-shell", "min-shell", "no-deltas", "notes", "rollout", "trust", "urgent", "window-log",
        // The environment of the tests sets it, so the file does not count.
        "publisher-state",
    ]

    @Test(arguments: ["publish", "release", "channel", "feed", "fleet", "trust", "keys"])
    func `a found project file sets only harmless flags of a command`(group: String) throws {
        var seen: Set<String> = []
        for command in Self.commands where command.words.first == group {
            for flag in command.flags where seen.insert(flag.name).inserted && !Self.harmless.contains(flag.name) {
                let value = flag.takesValue ? JSONValue.string(Self.value(of: flag.name, command.words)) : .bool(true)
                try folder.write(JSONWriter.bytes(of: .object([flag.name: value])), to: "site/clientctl.json")
                var arguments = Self.base(of: command.words, for: flag.name)
                if let index = arguments.firstIndex(of: "--\(flag.name)") {
                    arguments.removeSubrange(index...(flag.takesValue ? index + 1 : index))
                }
                let refused = try Clientctl.run(
                    command.words + arguments.filter { $0 != "--json" } + ["--json"], environment: Self.publisher,
                    in: folder.file("site"))
                #expect(refused.failed(78, "configInvalid", "\(flag)").subject == "clientctl.json: \(flag.name)")
            }
        }
        #expect(!seen.isEmpty)
    }

    @Test func `lists all commands with their flags`() {
        #expect(Self.commands.count > 35)
        #expect(Set(Self.commands.flatMap { $0.flags.map(\.name) }).count > 75)
    }

    @Test(arguments: ["1", "true", "TRUE", "yes", "on"]) func `CLIENTCTL_DRY_RUN makes publish write nothing`(
        value: String
    ) throws {
        let before = try TreeSnapshot(of: folder.file("site"))
        let outcome = try Clientctl.run(
            ["publish", "web", "--json"] + Self.base(of: ["publish"]).dropFirst(),
            environment: ["CLIENTCTL_DRY_RUN": value, "CLIENTCTL_PASSPHRASE": "horse"], in: folder.file("site"))
        outcome.succeeded("dryRun")
        #expect(try TreeSnapshot(of: folder.file("site")).changes(since: before) == [])
    }

    @Test func `rejects unknown variables and switches other than true and false`() throws {
        let site = folder.file("site")
        let list = ["list", "--store", "store", "--json"]
        for name in ["CLIENTCTL_DRY_RUM", "CLIENTCTL_", "CLIENTCTL_store"] {
            let refused = try Clientctl.run(list, environment: [name: "1"], in: site).failed(78, "configInvalid")
            #expect(refused.subject == name)
        }
        try Clientctl.run(list, environment: ["CLIENTCTL_PASSPHRASE": "x", "CLIENTCTL_CONFIG": "/dev/null"], in: site)
            .failed(78, "configInvalid")
        let publish = ["publish"] + Self.base(of: ["publish"]) + ["--json"]
        try Clientctl.run(
            publish, environment: ["CLIENTCTL_DRY_RUN": "maybe", "CLIENTCTL_PASSPHRASE": "horse"], in: site
        ).failed(64, "usage")
        try Clientctl.run(publish, environment: ["CLIENTCTL_DRY_RUN": "no", "CLIENTCTL_PASSPHRASE": "horse"], in: site)
            .succeeded("published")
    }
}
