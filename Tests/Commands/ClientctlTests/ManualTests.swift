import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Synchronization
import Testing

/// The manual page and the shell completions that `Scripts/lib/manual` generates from the built program.
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

    /// Returns the words of every command that is not a group.
    private func commands() throws -> [[String]] {
        let dump = try Clientctl.run(["--experimental-dump-help"])
        let root = try #require(dump["command"]?.objectValue)
        func leaves(_ command: JSONObject, _ path: [String]) -> [[String]] {
            let path = path + [command["commandName"]?.stringValue ?? "?"]
            let below = command["subcommands"]?.arrayValue?.compactMap(\.objectValue) ?? []
            return below.isEmpty ? [path] : below.flatMap { leaves($0, path) }
        }
        return leaves(root, []).map { Array($0.dropFirst()) }.filter { $0 != ["help"] }
    }

    /// Returns the text as the page escapes it.
    private func written(_ text: String) -> String { text.replacing("-", with: "\\-") }

    @Test func `the manual page and the completions contain every command`() throws {
        let commands = try commands()
        for known in [
            ["serve"], ["feed", "serve"], ["install"], ["keys", "generate"], ["trust", "remove-key"],
            ["screen", "lock"],
        ] {
            #expect(commands.contains(known))
        }
        let page = try made("clientctl.1")
        let (bash, zsh, fish) = (try made("clientctl.bash"), try made("_clientctl"), try made("clientctl.fish"))
        for words in commands {
            let name = (["clientctl"] + words).joined(separator: " ")
            #expect(page.contains("\n.SS \"\(written(name))\"\n"), "\(name)")
            let function = (["clientctl"] + words).joined(separator: "_")
            for completions in [bash, zsh] { #expect(completions.contains("_\(function)()"), "\(name)") }
            #expect(fish.contains("'\(words.last ?? "")'"), "\(name)")
        }
    }

    @Test func `completions prints the completions of a shell`() throws {
        for (shell, file) in [("bash", "clientctl.bash"), ("zsh", "_clientctl"), ("fish", "clientctl.fish")] {
            let answer = try Clientctl.run(["completion", shell, "--json"])
            let script = try #require(answer["script"]?.stringValue)
            #expect(try made(file).hasPrefix(script))
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

    @Test func `the manual page has its sections in order`() throws {
        let page = try made("clientctl.1")
        let sections = page.split(separator: "\n").filter { $0.hasPrefix(".SH ") }.map { $0.dropFirst(4) }
        #expect(
            sections == [
                "NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES",
                "EXAMPLES", "SEE ALSO",
            ])
        for flag in ["--metrics-file <file>", "--log-format <form>", "--json", "--config <file>", "-h, --help"] {
            #expect(page.contains("\n.B \"\(written(flag))\"\n"), "\(flag)")
        }
    }

    @Test func `the manual page lists every error code beside its exit status`() throws {
        let page = try made("clientctl.1")
        for code in FailureCode.allCases {
            let row = try #require(
                page.firstMatch(of: try Regex("\\n\\.TP\\n\\.B \(code.exitStatus)\\n([^\\n]*)\\n")), "\(code)")
            #expect(String(row[1].substring ?? "").contains(code.rawValue), "\(code)")
        }
    }

    @Test(.enabled(if: isInstalled("groff"), "no groff")) func `groff reports no problem in the manual page`() throws {
        let ending = try Program.run(
            ["groff", "-man", "-ww", "-z", "\(out)/clientctl.1"], environment: Clientctl.environment())
        #expect(ending.status == 0)
        #expect(ending.errors == "")
    }

    @Test(.enabled(if: isInstalled("mandoc"), "no mandoc")) func `mandoc warns of nothing in the manual page`() throws {
        let ending = try Program.run(
            ["mandoc", "-Tlint", "-W", "warning", "\(out)/clientctl.1"], environment: Clientctl.environment())
        #expect(ending.status == 0)
        #expect(ending.text == "")
    }

    @Test func `bash completes commands and flags`() throws {
        try Clientctl.stock(["bash", "-n", "\(out)/clientctl.bash"])
        for (line, found) in [
            (["tru"], ["trust"]), (["trust", "re"], ["remove-key", "renew"]), (["fle"], ["fleet"]),
            (["serve", "--metr"], ["--metrics-file"]), (["feed", "serve", "--log-f"], ["--log-format"]),
            (["publish", "--key", "\(out)/clientctl.f"], ["\(out)/clientctl.fish"]),
            (["keys", "show", "\(out)/_cl"], ["\(out)/_clientctl"]),
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
    }

    @Test func `the script for the manual rejects a program other than clientctl`() throws {
        let ending = try Program.run(
            [Self.script, folder.file("none"), "--clientctl", "/bin/false"], environment: Clientctl.environment())
        #expect(ending.status == 1)
        #expect(ending.errors.hasPrefix("manual: "))
        #expect(access(folder.file("none"), F_OK) != 0)
    }
}
