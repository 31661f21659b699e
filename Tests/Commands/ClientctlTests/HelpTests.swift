import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Synchronization
import Testing

/// The help of commands: its examples, its sections, and the demonstration.
@Suite(.ownThread) struct HelpTests {
    /// A command line in a help text.
    struct Example: CustomTestStringConvertible, Sendable {
        /// The words of the command that the help is about; empty for the program.
        let help: String
        let line: String
        /// The flags that every use of the command needs.
        let required: [String]

        var testDescription: String { line }
    }

    static let examples: [Example] = {
        guard let dump = try? Clientctl.run(["--experimental-dump-help"]), let root = dump["command"]?.objectValue
        else { return [] }
        var required: [String: [String]] = [:]
        var lines: [(help: String, line: String)] = []
        func read(_ command: JSONObject, _ path: [String]) {
            let name = path.dropFirst().joined(separator: " ")
            let text = (command["discussion"]?.stringValue ?? "").replacing(#/ \\\n +/#, with: " ")
            lines += text.split(separator: "\n").filter { $0.hasPrefix("  ") }.map {
                (name, String($0.drop { $0 == " " }))
            }
            required[name] = (command["arguments"]?.arrayValue ?? []).compactMap(\.objectValue).compactMap { argument in
                let isRequired = argument["abstract"]?.stringValue?.hasPrefix("(required) ") == true
                return isRequired ? argument["preferredName"]?.objectValue?["name"]?.stringValue : nil
            }
            for below in command["subcommands"]?.arrayValue?.compactMap(\.objectValue) ?? [] {
                read(below, path + [below["commandName"]?.stringValue ?? ""])
            }
        }
        read(root, ["clientctl"])
        return lines.map { help, line in
            let words = Array(line.split(separator: " ").drop { $0 != "clientctl" }.dropFirst().prefix(2)).map(
                String.init)
            let name = required[words.joined(separator: " ")] == nil ? words.first ?? "" : words.joined(separator: " ")
            return Example(help: help, line: line, required: required[name] ?? [])
        }
    }()

    private static func environment(_ more: [String: String] = [:]) -> [String: String] {
        let path = Clientctl.path.split(separator: "/").dropLast().joined(separator: "/")
        let own = Clientctl.environment()
        // Each copy of the prepared folder has its own state.
        let set = ["PATH": "/\(path):\(own["PATH"] ?? "")", "CLIENTCTL_PUBLISHER_STATE": "state"]
        return own.merging(set) { $1 }.merging(more) { $1 }
    }

    @Test func `the help texts have examples`() { #expect(Self.examples.count > 150) }

    @Test(arguments: examples) func `each example has the flags of its command, and all required ones`(
        example: Example
    ) throws {
        let folder = try TemporaryFolder()
        let line = example.line.prefix { $0 != ">" }.replacing("sudo -u kiosk ", with: "")
        // The arguments are parsed before the missing configuration is reported.
        let ended = try Program.run(
            ["bash", "-c", String(line)],
            environment: Self.environment(["CLIENTCTL_CONFIG": folder.file("none.json")]), in: folder.path)
        // `run` reads no settings, and its program does not exist here.
        let isRun = example.line.hasPrefix("clientctl run ")
        let refusal = (ended.status == 78 || isRun) && !ended.errors.contains("error[usage]")
        #expect(refusal, "\(ended.errors)")
        // These use the project file; one names a configuration.
        let usesProject =
            example.help.isEmpty && example.line.contains(" publish ") || example.line == "clientctl console"
        if usesProject || example.line.contains(" --config ") { return }
        let words = example.line.split(separator: " ")
        #expect(example.required.filter { !words.contains("--\($0)") } == [])
    }

    /// Makes everything that the examples of publishers name.
    private static let preparation = """
        set -e
        mkdir dist www
        page() {
            echo "<script>WebAppLocalServer.startupDidComplete()</script>$1" >dist/index.html
            cp dist/index.html www
        }
        for key in root1 root2 root3 release release1 release2 channel; do clientctl keys generate --out $key; done
        (umask 077; printf secret >secret.txt; cp secret.txt old.txt; cp secret.txt new.txt)
        edit="--feed feed --channel stable --channel-key channel.key.pem"
        publish() {
            page $1
            clientctl publish dist --version $1 --key release.key.pem --app-id com.example.kiosk $edit $2
        }
        publish 1.2.0; publish 1.4.0; publish 1.5.1 --rollout=1%; publish 1.5.0 --rollout=10%
        for to in beta stabel; do clientctl release promote --version 1.5.0 --to $to --create $edit; done
        clientctl trust init --out trust.json --app-id com.example.kiosk --root-key root1.pub.pem \\
            --root-key root2.pub.pem --root-key root3.pub.pem --root-threshold 2 --release-key release.pub.pem \\
            --release-key release1.pub.pem --channel-key channel.pub.pem --sign-key root1.key.pem --sign-key root2.key.pem
        cp trust.json next.json
        cp feed/releases/v1.5.0/client-v1.5.0.tar.zst .
        """
    /// What the examples of a help begin without.
    private static let removed = [
        "": "feed release.* trust.json", "publish": "feed", "keys generate": "release.*", "trust": "trust.json",
        "trust init": "trust.json", "trust add-key": "next.json",
    ]
    /// The examples that need a terminal, a token, another key, or the end of a person's work.
    private static let excluded = [
        "--prompt", "pkcs11-tool", "sign-with-token", "new.key.pem --trust", "--copy 17", "0f4b…", "feed serve",
        "feed offer", "--previous", "release approve",
    ]
    private static let made = Mutex<TemporaryFolder?>(nil)

    private static func prepared() throws -> TemporaryFolder {
        try made.withLock { made in
            if let made { return made }
            let folder = try TemporaryFolder()
            let ended = try Program.run(["bash", "-c", preparation], environment: environment(), in: folder.path)
            try #require(ended.status == 0, "\(ended.errors)")
            atexit { HelpTests.made.withLock { $0 = nil } }
            made = folder
            return folder
        }
    }

    /// The helps whose examples work in one folder, in order.
    static let published: [String] = {
        let groups = [
            "publish", "release", "channel", "keys", "trust", "inspect", "verify", "feed export", "feed prune",
        ]
        var helps = ["", "init", "fleet page"]
        for help in examples.map(\.help) where !helps.contains(help) {
            if groups.contains(where: { help == $0 || help.hasPrefix("\($0) ") }) { helps.append(help) }
        }
        return helps
    }()

    @Test(arguments: published) func `the examples of publishers succeed`(help: String) throws {
        let source = try Self.prepared()
        let folder = try TemporaryFolder()
        let work = folder.file("work")
        try Clientctl.stock(["cp", "-a", source.path, work])
        if let names = Self.removed[help] { try Clientctl.stock(["sh", "-c", "rm -r \(names)"], in: work) }
        let elsewhere = ["://", "/var/", "/media/", "/srv/", "clientctl install", "clientctl list"]
        for example in Self.examples where example.help == help {
            if (elsewhere + Self.excluded).contains(where: example.line.contains) { continue }
            // Each pair of keys has a folder of its own, and `init` asks at a terminal.
            if help == "keys generate" { try Clientctl.stock(["sh", "-c", "rm -f release.*"], in: work) }
            let line = example.line == "clientctl init" ? "clientctl init --yes" : example.line
            let ended = try Program.run(["bash", "-c", line], environment: Self.environment(), in: work)
            #expect(ended.status == 0, "\(line): \(ended.errors)")
        }
    }

    @Test func `the commands of README publish, install and update a client`() throws {
        let text = String(decoding: try contents(ofFile: "\(Checkout.root)/README.md"), as: UTF8.self)
        let lines = text.replacing(#/ \\\n +/#, with: " ").split(separator: "\n").filter { $0.hasPrefix("clientctl ") }
            .map { $0.replacing(#/ +# .*/#, with: "") }
        let folder = try TemporaryFolder()
        let page = try #require(text.split(separator: "\n").first { $0.hasPrefix("<script>") })
        func run(_ start: String, _ more: [String: String] = [:]) throws -> Program {
            let line = try #require(lines.first { $0.hasPrefix("clientctl \(start)") })
            let port = start == "serve --manifest feed" ? " --port 0" : ""
            return try Program(
                ["bash", "-c", "exec \(line)\(port)"], environment: Self.environment(more), in: folder.path)
        }
        func publish(_ version: String) throws {
            try folder.writeTree(["index.html": bytes("\(page)\(version)")], to: "dist")
            let ended = try run("publish dist --version \(version)").wait()
            #expect(ended.status == 0, "\(ended.errors)")
        }
        #expect(try run("keys").wait().status == 0)
        try publish("1.0.0")
        let serve = try run("serve --manifest feed")
        func waitForClient(_ version: String) throws {
            let list = ["list", "--store", folder.file("store"), "--json"]
            while try Clientctl.run(list).strings("versions")?.contains(version) != true {
                let ending = try serve.wait(within: .milliseconds(200))
                try #require(ending == nil, "serve has ended")
            }
        }
        try waitForClient("v1.0.0")
        try publish("1.1.0")
        try waitForClient("v1.1.0")
        serve.send(SIGTERM)
        _ = try serve.wait()
        for start in ["serve --manifest https", "serve --meteor"] {
            let ended = try run(start, ["CLIENTCTL_CONFIG": folder.file("none.json")]).wait()
            #expect(ended.status == 78, "\(ended.errors)")
        }
    }

    @Test func `help lists usual flags first, then sections`() throws {
        let help = try Clientctl.stock([Clientctl.path, "install", "--help"])
        let headings = help.split(separator: "\n").filter {
            $0.hasSuffix(":") && $0 == $0.uppercased() && !$0.hasPrefix(" ")
        }
        #expect(headings == ["OPTIONS:", "NETWORK:", "DOWNLOADS:", "LIMITS:", "REPORTS:"])
        let publish = try Clientctl.stock([Clientctl.path, "publish", "--help"])
        let starts = try ["ARGUMENTS:", "OPTIONS:", "SIGNING:", "CHANNEL:", "BUCKET:", "LIMITS:"].map {
            try #require(publish.firstRange(of: "\n\($0)\n")).lowerBound
        }
        #expect(starts == starts.sorted())
    }

    @Test func `words have colors only where they are wanted`() throws {
        let folder = try TemporaryFolder()
        let wrong = ["rollback", "--store", folder.file("none")]
        func errors(_ more: [String: String]) throws -> String { try Clientctl.run(wrong, environment: more).errors }
        #expect(try errors([:]).hasPrefix("error[configInvalid]: "))
        #expect(try errors(["CLICOLOR_FORCE": "1"]).hasPrefix("\u{1B}[31merror[configInvalid]:\u{1B}[0m "))
        #expect(try errors(["CLICOLOR_FORCE": "1", "NO_COLOR": "1"]).hasPrefix("error[configInvalid]: "))
        #expect(try errors(["CLICOLOR_FORCE": "0"]).hasPrefix("error[configInvalid]: "))
        let json = try Clientctl.run(wrong + ["--json"], environment: ["CLICOLOR_FORCE": "1"])
        #expect(!json.text.contains("\u{1B}"))
        let doctor = try Clientctl.run(
            ["doctor", "--store", folder.file("none")], environment: ["CLICOLOR_FORCE": "1"])
        #expect(doctor.text.contains("\u{1B}[33mwarning \u{1B}[0m"), "\(doctor.text)")
    }

    @Test func `version prints the version, as --version does`() throws {
        #expect(try Clientctl.run(["version"]).text == Clientctl.run(["--version"]).text)
        let answer = try Clientctl.run(["version", "--json"]).succeeded()
        #expect(try answer.text == Clientctl.stock([Clientctl.path, "--version", "--json"]))
        #expect(try Clientctl.run(["help"]).text.contains("PUBLISH SUBCOMMANDS:"))
    }

    @Test func `demo shows an update and a rollback, and leaves nothing`() throws {
        let folder = try TemporaryFolder()
        let shown = try Clientctl.run(
            ["demo", "--yes"], environment: ["TMPDIR": folder.path, "CLIENTCTL_STORE": "/none"])
        #expect(shown.status == 0, "\(shown.errors)\(shown.text)")
        for line in [
            "$ clientctl publish dist --version 1.0.0 --feed feed --key release.key.pem", "published 1.2.0 to feed",
            "It shows 1.1.0.", "It shows 1.2.0.", "$ clientctl status --store store",
        ] {
            #expect(shown.text.contains("\(line)\n"), "\(line): \(shown.text)")
        }
        let state = shown.text.components(after: "$ clientctl status")
        #expect(state.contains("next: v1.1.0") && state.contains("blocked"), "\(state)")
        #expect(try TreeSnapshot(of: folder.path).paths == [])
    }

    @Test(arguments: [SIGINT, SIGTERM]) func `a signal ends demo and its server, and removes the folder`(signal: Int32)
        throws
    {
        let folder = try TemporaryFolder()
        try Clientctl.run(["demo", "--json"]).failed(64, "usage")
        let terminal = try PseudoTerminal()
        defer { withExtendedLifetime(terminal) {} }
        let demo = try Program(
            ["sh", "-c", #"exec "$@" <"$0""#, terminal.path, Clientctl.path, "demo"],
            environment: Clientctl.environment(["TMPDIR": folder.path]), in: folder.path)
        while try !demo.printed().output.contains("Then press Enter for an update.") {
            let ending = try demo.wait(within: .milliseconds(50))
            try #require(ending == nil, "the demo has ended")
        }
        let children = try demo.threads().map {
            String(decoding: try contents(ofFile: "\($0)/children"), as: UTF8.self)
        }
        let server = try #require(children.flatMap { $0.split(separator: " ") }.compactMap { pid_t($0) }.first)
        demo.send(signal)
        #expect(try demo.wait().signal == signal)
        #expect(kill(server, 0) != 0)
        #expect(try TreeSnapshot(of: folder.path).paths == [])
    }
}

extension String {
    /// Returns the text after the last `mark`.
    fileprivate func components(after mark: String) -> Substring {
        ranges(of: mark).last.map { self[$0.upperBound...] } ?? ""
    }
}
