import ArgumentParser
import BundleDisk
import BundleValues

/// The command line. Each subcommand parses its flags, calls one function and prints the outcome.
struct Clientctl: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clientctl",
        abstract: "Publish web clients as signed archives, and install them on devices.",
        discussion: """
            A release engineer:
              clientctl init
              clientctl publish dist --version 1.5.0
            A device:
              clientctl install --trust release.pub.pem \\
                --manifest https://updates.example.com/manifest.json \\
                --store /var/lib/clientctl
              clientctl list --store /var/lib/clientctl

            Each flag can also be set in the environment, as CLIENTCTL_STORE and
            CLIENTCTL_CHECK_INTERVAL, or in a JSON file, as in
            {"store": "/var/lib/clientctl", "check-interval": "5m"}. --config names the
            file. Without it, commands that publish read clientctl.json in the working
            folder, which `clientctl init` writes. Otherwise, the file is
            /etc/clientctl.json, then $XDG_CONFIG_HOME/clientctl.json.
            Flags override the environment, and the environment overrides the file. A
            variable or key that is not a flag is an error. `clientctl --version` prints
            the version of this program, and `clientctl help exit-statuses` its exit
            statuses. `clientctl help diskFull` explains that error code.
            """,
        subcommands: [Demo.self, Completion.self, VersionCommand.self],
        groupedSubcommands: [
            CommandGroup(
                name: "Publish",
                subcommands: [
                    Publish.self, ReleaseCommand.self, ChannelCommand.self, Keys.self, TrustCommand.self, Inspect.self,
                    Verify.self,
                    Initialize.self,
                ]),
            CommandGroup(name: "Operate", subcommands: [FeedCommand.self, Fleet.self, Console.self]),
            CommandGroup(
                name: "Device",
                subcommands: [
                    CheckCommand.self, Install.self, Activate.self, Serve.self, RunCommand.self, KioskCommand.self,
                    StatusCommand.self,
                    Doctor.self,
                    List.self,
                    Rollback.self,
                    Unblock.self, Repair.self, Prune.self, SessionCommand.self, ScreenCommand.self,
                ]),
            CommandGroup(
                name: "Shell",
                subcommands: [LaunchCommand.self, Confirm.self, Fail.self, Events.self, ReportCommand.self]),
        ])
}

/// `clientctl completion`.
struct Completion: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "completion",
        abstract: "Print the completion script for a shell.",
        discussion: """
            The Debian package installs these scripts. Without the package:

            Examples:
              clientctl completion bash \\
                >~/.local/share/bash-completion/completions/clientctl
              clientctl completion zsh >/usr/local/share/zsh/site-functions/_clientctl
              clientctl completion fish >~/.config/fish/completions/clientctl.fish
            """)

    @Argument(help: "(required) The shell: bash, zsh or fish.", completion: .list(["bash", "zsh", "fish"]))
    var shell: String

    @OptionGroup var common: CommonOptions

    func run() throws {
        guard let known = CompletionShell(rawValue: shell) else {
            throw ValidationError("Unknown shell '\(shell)'. Give bash, zsh or fish.")
        }
        let script = Clientctl.completionScript(for: known)
        Output.give(
            json: common.json, ["shell": .string(shell), "script": .string(script)],
            lines: script.split(separator: "\n", omittingEmptySubsequences: false).map(String.init))
    }
}

/// `clientctl version`.
struct VersionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "version",
        abstract: "Print the version of this program, as --version does.",
        discussion: """
            Example:
              clientctl version --json
            """)

    @OptionGroup var common: CommonOptions

    func run() { Product.print(json: common.json) }
}

/// The version of this program, and the name that it sends to servers.
enum Product {
    static let version = "1.0.0-rc.1"
    static let userAgent = "clientctl/\(version)"

    /// Prints the version; with `json`, also those of the libraries.
    static func print(json: Bool) {
        var libraries = JSONObject()
        for (name, version) in LinkedPackages.versions { libraries[name] = .string(version) }
        Output.give(json: json, ["version": .string(version), "libraries": .object(libraries)], lines: [version])
    }
}

/// The words that name commands.
enum CommandName {
    /// Returns the words of `command`, such as `trust add-key`; nil if `group` does not contain it.
    static func words(
        of command: any ParsableCommand.Type, below group: any ParsableCommand.Type = Clientctl.self
    ) -> [String]? {
        if command == group { return [] }
        for next in group.configuration.subcommands {
            if let words = words(of: command, below: next) { return [next._commandName] + words }
        }
        return nil
    }

    /// Returns the fault in the first words, and the last group that they name; nil if each word names a command or a group.
    static func problem(_ arguments: some Sequence<String>) -> (message: String, group: any ParsableCommand.Type)? {
        var group: any ParsableCommand.Type = Clientctl.self
        for word in arguments {
            let below = group.configuration.subcommands
            if below.isEmpty || word.hasPrefix("-") { return nil }
            if word == "help" { continue }
            guard let next = below.first(where: { $0._commandName == word }) else {
                let names = below.map { $0._commandName }
                let elsewhere = synonyms[word].map(names.contains) == true ? [] : commands(named: word)
                let advice =
                    intentions[word]
                    ?? (elsewhere.isEmpty
                        ? meant(by: word, among: names).map { "Did you mean \($0)?" }
                            ?? "Give one of \(names.joined(separator: ", "))."
                        : "Did you mean \(elsewhere.joined(separator: " or "))?")
                return ("Unknown command \(UntrustedName.display(word)). \(advice)", group)
            }
            group = next
        }
        return nil
    }

    /// Returns the command that the first words name, and the number of these words; nil if they do not name a command.
    static func command(_ arguments: [String]) -> (command: any ParsableCommand.Type, words: Int)? {
        var group: any ParsableCommand.Type = Clientctl.self
        for (index, word) in arguments.enumerated() {
            let below = group.configuration.subcommands
            if below.isEmpty { return (group, index) }
            guard let next = below.first(where: { $0._commandName == word }) else { return nil }
            group = next
        }
        return group.configuration.subcommands.isEmpty ? (group, arguments.count) : nil
    }

    /// Names of commands in other tools, with the names here.
    private static let synonyms = [
        "ls": "list", "gc": "prune", "rm": "withdraw", "remove": "withdraw", "unpublish": "withdraw",
        "revoke": "recall",
        "yank": "recall", "rollback": "recall", "unpause": "resume",
    ]

    /// The advice for names of commands in other tools without a single command here.
    private static let intentions = {
        let update = "`clientctl install` updates a device, and `clientctl publish` publishes an update."
        let remove =
            "`clientctl rollback` goes back to another client, `clientctl prune` removes old ones, and removing the "
            + "store removes all."
        return ["update": update, "upgrade": update, "uninstall": remove]
    }()

    /// Returns the name that `word` is a synonym of, or that is similar to it.
    private static func meant(by word: String, among names: [String]) -> String? {
        if let synonym = synonyms[word], names.contains(synonym) { return synonym }
        return SimilarWord.closest(to: word, in: names)
    }

    /// Returns the command lines of the commands named `word` in all groups.
    private static func commands(named word: String) -> [String] {
        Clientctl.configuration.subcommands.flatMap { command in
            let name = command._commandName
            let isOwn = name == word && command.configuration.subcommands.isEmpty
            let below = command.configuration.subcommands.filter { $0._commandName == word }
            return (isOwn ? ["`clientctl \(name)`"] : []) + below.map { _ in "`clientctl \(name) \(word)`" }
        }
    }
}
