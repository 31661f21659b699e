import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Synchronization
import Testing

/// The manual pages and the shell completions that `Scripts/lib/manual` generates from the built program.
@Suite(.ownThread) struct ManualTests {
    private static let script = "\(Checkout.root)/Scripts/lib/manual"

    /// The output of the script, generated once for all tests and removed when they end.
    private static let made = Mutex<TemporaryFolder?>(nil)

    private static func makeOnce() throws -> TemporaryFolder {
        try made.withLock { made in
            if let made { return made }
            let folder = try TemporaryFolder()
            try Clientctl.stock([Self.script, folder.file("out"), "--clientctl", Clientctl.path])
            atexit { ManualTests.made.withLock { $0 = nil } }
            made = folder
            return folder
        }
    }

    private let folder: TemporaryFolder
    private let out: String

    init() throws {
        folder = try TemporaryFolder()
        out = try Self.makeOnce().file("out")
    }

    private func made(_ name: String) throws -> String {
        String(decoding: try contents(ofFile: "\(out)/\(name)"), as: UTF8.self)
    }

    private static func isInstalled(_ program: String) -> Bool {
        (try? Program.run(["sh", "-c", "command -v \(program)"], environment: Clientctl.environment()))?.status == 0
    }

    /// Returns the words of every command, such as `["feed", "serve"]`, and of every group.
    private func commands() throws -> (commands: [[String]], groups: [[String]]) {
        let dump = try Clientctl.run(["--experimental-dump-help"])
        var (commands, groups): ([[String]], [[String]]) = ([], [])
        func add(_ command: JSONObject, _ path: [String]) {
            let below = command["subcommands"]?.arrayValue?.compactMap(\.objectValue) ?? []
            if below.isEmpty { commands.append(path) } else { groups.append(path) }
            for child in below {
                let name = child["commandName"]?.stringValue ?? "?"
                if name != "help" { add(child, path + [name]) }
            }
        }
        add(try #require(dump["command"]?.objectValue), [])
        return (commands, groups)
    }

    /// Returns the names of all manual pages.
    private func pages() throws -> [String] {
        let (commands, groups) = try commands()
        return (commands + groups).map { (["clientctl"] + $0).joined(separator: "-") + ".1" }
    }

    private static func headings(of page: String) -> [String] {
        page.split(separator: "\n").filter { $0.hasPrefix(".SH ") }.map { String($0.dropFirst(4)) }
    }

    /// Returns the text as the page escapes it.
    private func written(_ text: String) -> String { text.replacing("-", with: "\\-") }

    @Test func `each command and group has a manual page, and each command has completions`() throws {
        let (commands, groups) = try commands()
        for known in [
            ["serve"], ["feed", "serve"], ["install"], ["keys", "generate"], ["trust", "remove-key"],
            ["screen", "lock"],
        ] {
            #expect(commands.contains(known))
        }
        let overview = try made("clientctl.1")
        let (bash, zsh, fish) = (try made("clientctl.bash"), try made("_clientctl"), try made("clientctl.fish"))
        for words in commands {
            let name = "clientctl-" + words.joined(separator: "-")
            #expect(try made("\(name).1").contains("\n.SH NAME\n\(written(name)) \\- "), "\(name)")
            #expect(overview.contains("\n.TP\n.BR \(written(name)) (1)\n"), "\(name)")
            let function = (["clientctl"] + words).joined(separator: "_")
            for completions in [bash, zsh] { #expect(completions.contains("_\(function)()"), "\(name)") }
            #expect(fish.contains("'\(words.last ?? "")'"), "\(name)")
        }
        for group in groups.dropFirst() {
            let page = try made("clientctl-\(group.joined(separator: "-")).1")
            for words in commands where words.starts(with: group) {
                #expect(page.contains(".BR \(written("clientctl-" + words.joined(separator: "-"))) (1)"), "\(words)")
            }
        }
    }

    @Test func `completion prints a script that its shell reads`() throws {
        for (shell, file) in [("bash", "clientctl.bash"), ("zsh", "_clientctl"), ("fish", "clientctl.fish")] {
            let answer = try Clientctl.run(["completion", shell, "--json"])
            let script = try #require(answer["script"]?.stringValue)
            #expect(try made(file).hasPrefix(script))
            let printed = try Clientctl.stock([Clientctl.path, "completion", shell])
            #expect(printed == script + "\n")
            if Self.isInstalled(shell) {
                try folder.write(bytes(printed), to: shell)
                try Clientctl.stock([shell, "-n", folder.file(shell)])
            }
        }
        let refused = try Program.run(
            [Clientctl.path, "completion", "csh"], environment: Clientctl.environment())
        #expect(refused.status == 64)
        #expect(refused.errors.contains("Give bash, zsh or fish"))
    }

    @Test func `help fits into 80 columns`() throws {
        let dump = try Clientctl.run(["--experimental-dump-help"])
        func long(_ command: JSONObject) -> [String] {
            let lines = (command["discussion"]?.stringValue ?? "").split(separator: "\n").map(String.init)
            let below = command["subcommands"]?.arrayValue?.compactMap(\.objectValue) ?? []
            return lines.filter { $0.count > 79 } + below.flatMap(long)
        }
        #expect(long(try #require(dump["command"]?.objectValue)) == [])
    }

    @Test func `manual pages have their sections in order`() throws {
        #expect(
            Self.headings(of: try made("clientctl.1")) == [
                "NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES",
                "EXAMPLES", "SEE ALSO",
            ])
        let serve = try made("clientctl-serve.1")
        #expect(
            Self.headings(of: serve) == [
                "NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO",
            ])
        #expect(
            Self.headings(of: try made("clientctl-feed.1")).filter { $0 != "EXAMPLES" } == [
                "NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "SEE ALSO",
            ])
        for flag in ["--metrics-file <file>", "--log-format <form>", "--json", "--config <file>", "-h, --help"] {
            #expect(serve.contains("\n.B \"\(written(flag))\"\n"), "\(flag)")
        }
        #expect(
            try made("clientctl-publish.1").contains(
                "\n\(written("<directory> --version <version> --feed <place> [options]"))\n"))
    }

    @Test func `the manual page of a command lists its exit statuses`() throws {
        let page = try made("clientctl-fleet-guard.1")
        for (status, words) in [(0, "success"), (10, "networkUnavailable"), (60, "stopped"), (64, "usage")] {
            #expect(page.contains("\n.TP\n.B \(status)\n\(words)"), "\(status)")
        }
        #expect(try !made("clientctl-list.1").contains("networkUnavailable"))
    }

    @Test func `the manual page of clientctl lists every error code beside its exit status`() throws {
        let page = try made("clientctl.1")
        for code in FailureCode.allCases {
            let row = try #require(
                page.firstMatch(of: try Regex("\\n\\.TP\\n\\.B \(code.exitStatus)\\n([^\\n]*)\\n")), "\(code)")
            #expect(String(row[1].substring ?? "").contains(code.rawValue), "\(code)")
        }
    }

    @Test(.enabled(if: isInstalled("groff"), "no groff")) func `groff reports no problem in a manual page`() throws {
        let ending = try Program.run(
            ["groff", "-man", "-ww", "-z"] + pages().map { "\(out)/\($0)" }, environment: Clientctl.environment())
        #expect(ending.status == 0)
        #expect(ending.errors == "")
    }

    @Test(.enabled(if: isInstalled("mandoc"), "no mandoc"))
    func `mandoc warns of nothing in a manual page, and shows it in 80 columns`() throws {
        let ending = try Program.run(
            ["mandoc", "-Tlint", "-W", "warning"] + pages().map { "\(out)/\($0)" },
            environment: Clientctl.environment())
        #expect(ending.status == 0)
        #expect(ending.text == "")
        for page in try pages() {
            // Without the overstrikes of bold text.
            let shown = try Clientctl.stock(["mandoc", "-Tascii", "-O", "width=80", "\(out)/\(page)"])
                .replacing(#/.\u{8}/#, with: "")
            #expect(shown.split(separator: "\n").filter { $0.count > 80 } == [], "\(page)")
        }
    }

    @Test func `bash completes commands and flags`() throws {
        try Clientctl.stock(["bash", "-n", "\(out)/clientctl.bash"])
        for (line, found) in [
            (["tru"], ["trust"]), (["trust", "re"], ["remove-key", "renew"]), (["fle"], ["fleet"]),
            (["serve", "--metr"], ["--metrics-file"]), (["feed", "serve", "--log-f"], ["--log-format"]),
            (["publish", "--key", "\(out)/clientctl.f"], ["\(out)/clientctl.fish"]),
            (["keys", "show", "\(out)/_cl"], ["\(out)/_clientctl"]),
            (["install", "--deltas", ""], ["prefer", "only", "never"]),
            (["channel", "set", "--deltas", "d"], ["default"]),
            (["publish", "--format", "z"], ["zip"]), (["keys", "generate", "--algorithm", "r"], ["rsa-pss"]),
        ] as [([String], [String])] {
            let words = ["clientctl"] + line
            let answer = try Clientctl.stock(
                [
                    "bash", "-c",
                    """
                    source "$1"; shift
                    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMPREPLY=()
                    _clientctl clientctl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
                    printf '%s\\n' "${COMPREPLY[@]}"
                    """, "bash", "\(out)/clientctl.bash",
                ] + words)
            #expect(answer.split(separator: "\n").map(String.init) == found, "\(words)")
        }
    }

    @Test(.enabled(if: isInstalled("zsh"), "no zsh")) func `zsh reads its completions`() throws {
        try Clientctl.stock(["zsh", "-n", "\(out)/_clientctl"])
        #expect(
            try made("_clientctl").contains(
                "--key[(required, or --sign-command) The private key (PEM). Repeat it if several keys must sign.]:file:_files"
            ))
    }

    @Test(.enabled(if: isInstalled("fish"), "no fish")) func `fish completes commands and flags`() throws {
        let answer = try Clientctl.stock(
            ["env", "HOME=\(folder.path)", "fish", "-c", "source \(out)/clientctl.fish; complete -C 'clientctl trus'"])
        #expect(answer.split(separator: "\t").first == "trust")
        let values = try Clientctl.stock([
            "env", "HOME=\(folder.path)", "fish", "-c",
            "source \(out)/clientctl.fish; complete -C 'clientctl install --deltas '",
        ])
        #expect(values.split(separator: "\n").map { $0.prefix { $0 != "\t" } }.sorted() == ["never", "only", "prefer"])
    }

    @Test func `each option whose help lists its words completes them`() throws {
        let word = "[a-z][a-z0-9.-]*(?: \\([^)]*\\))?"
        let list = try Regex(
            "(?:: |\\bis )((?:\(word), )*\(word),? or (?!such)[a-z][a-z0-9.-]*)(?=[.,]| \\(|$| for | as | the )")
        var found: [String: [String]] = [:]
        func look(_ command: JSONObject) {
            for argument in command["arguments"]?.arrayValue?.compactMap(\.objectValue) ?? []
            where argument["kind"] != .string("flag") {
                let name = (argument["preferredName"]?.objectValue ?? argument)["name"] ?? argument["valueName"]
                guard let name = name?.stringValue, let help = argument["abstract"]?.stringValue,
                    help.firstMatch(of: list) != nil
                else { continue }
                let kind = argument["completionKind"]?.objectValue?["list"]?.objectValue?["values"]
                found[name] = kind?.arrayValue?.compactMap(\.stringValue) ?? []
            }
            for below in command["subcommands"]?.arrayValue ?? [] { look(below.objectValue ?? [:]) }
        }
        look(try #require(try Clientctl.run(["--experimental-dump-help"])["command"]?.objectValue))
        #expect(found["metered"] == ["auto", "yes", "no"])
        #expect(found["log-format"] == ["text", "json"])
        #expect(found["on-failure"] == ["pause", "recall"])
        #expect(found["cross-origin"] == ["separate", "popups", "isolated"])
        #expect(found["state"]?.contains("blocked") == true)
        #expect(found.filter { $0.value.isEmpty } == [:])
    }

    @Test func `the script for the manual rejects a program other than clientctl`() throws {
        let ending = try Program.run(
            [Self.script, folder.file("none"), "--clientctl", "/bin/false"], environment: Clientctl.environment())
        #expect(ending.status == 1)
        #expect(ending.errors.hasPrefix("manual: "))
        #expect(access(folder.file("none"), F_OK) != 0)
    }
}
