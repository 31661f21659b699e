import ArgumentParser
import BundleDisk
import BundleValues
import CLibrary
import Dispatch
import Synchronization

@main
enum Main {
    private static let arguments = ProcessArguments.bytes.map { String(decoding: $0, as: UTF8.self) }
    /// The folders that were created for the command. Empty ones are removed if it fails.
    nonisolated static let made = Mutex<[String]>([])

    /// The mode bits that new files did not get before this program set its own mask.
    nonisolated(unsafe) static var inheritedMask: mode_t = 0o022

    static func main() {
        do {
            try prepareProcess()
            // Only as the first argument, because `--version` of commands is the version of a client.
            if arguments == ["--version"] || arguments == ["--version", "--json"] {
                return Product.print(json: arguments.count > 1)
            }
            if arguments == ExitTable.arguments {
                Output.give(json: false, [:], lines: ExitTable.lines)
                return
            }
            if let explanation = ExitTable.explanation(of: arguments) {
                return Output.give(json: false, [:], lines: explanation)
            }
            let command = try command()
            try requireProc()
            if ProjectFile.isUsed { Output.say("settings from \(ProjectFile.name)") }
            Task.detached { await run(command) }
            dispatchMain()
        } catch {
            end(with: error)
        }
    }

    /// Returns the confined command of the arguments. Call this while the process has one thread, because Landlock does not confine threads
    /// that already run.
    nonisolated private static func command() throws -> sending any ParsableCommand {
        if let (message, group) = CommandName.problem(arguments) {
            end(with: ValidationError(message), of: group)
        }
        let command = try Clientctl.parseAsRoot(withSettings())
        do {
            try requireCommand(command)
            if let confined = command as? any ConfinedCommand { try confined.confine() }
        } catch {
            end(with: error, of: type(of: command))
        }
        return command
    }

    /// Returns the arguments with the flags that the environment and the configuration file set.
    nonisolated private static func withSettings() throws -> [String] {
        guard let (command, count) = CommandName.command(arguments) else { return arguments }
        // The settings are those of the program that it starts, which may be newer and have other flags.
        if command == RunCommand.self { return arguments }
        do {
            return try arguments[..<count] + Settings.arguments(of: command) + arguments[count...]
        } catch {
            // Help, and errors of the parser, do not need the settings.
            var parsed = try Clientctl.parseAsRoot(arguments)
            // With --help, the parser returns a command of its own that prints the help.
            if type(of: parsed) != command { try parsed.run() }
            end(with: error, of: command)
        }
    }

    nonisolated private static func run(_ command: any ParsableCommand) async -> Never {
        do {
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                var command = command
                try command.run()
            }
        } catch {
            end(with: error, of: type(of: command))
        }
        exit(0)
    }

    /// Throws `ValidationError` if `command` is a group of commands.
    nonisolated private static func requireCommand(_ command: any ParsableCommand) throws {
        let configuration = type(of: command).configuration
        func names(_ commands: [any ParsableCommand.Type]) -> String {
            commands.map { $0._commandName }.joined(separator: ", ")
        }
        if configuration.subcommands.isEmpty { return }
        let groups = configuration.groupedSubcommands.map { "\n  \($0.name): \(names($0.subcommands))" }
        throw ValidationError(
            "Missing subcommand: give one of "
                + (groups.isEmpty ? "\(names(configuration.subcommands))." : "these.\(groups.joined())"))
    }

    /// Prepares the process for any command.
    private static func prepareProcess() throws {
        fillStandardDescriptors()
        // Swift would repair such an argument, and a path would then name another file.
        for (argument, bytes) in zip(arguments, ProcessArguments.bytes)
        where String(validating: bytes, as: UTF8.self) == nil {
            let shown = UntrustedName.display(argument)
            throw UpdateFailure(
                .usage, subject: shown,
                "The argument \(shown) is not UTF-8 text. Rename the file, or create a link to it.")
        }
        OwnVariables.take()
        // Libraries would write the keys of TLS sessions to this file.
        unsetenv("SSLKEYLOGFILE")
        // libarchive reads names in the process's character set, and Swift starts in "C".
        if !CharacterSet.useUTF8() {
            throw UpdateFailure(
                .configInvalid, subject: "C.UTF-8",
                "The system has no UTF-8 character set (C.UTF-8 or en_US.UTF-8). Install its locales.")
        }
        inheritedMask = umask(0o022)
        Heaps.limit(to: 2)
        Log.begin()
        signal(SIGPIPE, SIG_IGN)
        signal(SIGXFSZ, SIG_IGN)
        // With an inherited SIG_IGN, the exit statuses of started programs would be lost.
        signal(SIGCHLD, SIG_DFL)
        try requireThreads()
    }

    /// Opens `/dev/null` for each closed standard descriptor. Otherwise, the next opened file would get its number and the output.
    private static func fillStandardDescriptors() {
        for descriptor in Int32(0)...2 where fcntl(descriptor, F_GETFD) < 0 { _ = open("/dev/null", O_RDWR) }
    }

    /// Throws `UpdateFailure` if the process cannot start threads, for which Swift's thread pool would wait forever.
    private static func requireThreads() throws {
        let gate = DispatchSemaphore(value: 0)
        do {
            // The threads wait until all have started, so that they exist at the same time.
            let threads = try (0..<4).map { _ in try BlockingThread { gate.wait() } }
            for _ in threads { gate.signal() }
            for thread in threads { thread.join() }
        } catch let failure as ThreadFailure {
            throw UpdateFailure(.resourcesExhausted, subject: "threads", "clientctl cannot run: \(failure).")
        }
    }

    /// Throws `UpdateFailure` without `/proc`. Dispatch counts the threads there, and crashes at random times without it.
    private static func requireProc() throws {
        if access("/proc/self/task", R_OK) == 0 { return }
        throw UpdateFailure(
            .configInvalid, subject: "/proc",
            "clientctl needs /proc, which is not mounted here. Run `mount -t proc proc /proc`, then run clientctl again."
        )
    }

    nonisolated private static func end(with error: any Error, of running: (any ParsableCommand.Type)? = nil) -> Never {
        for folder in made.withLock({ $0 }) { rmdir(folder) }
        if let status = error as? ExitCode { exit(status.rawValue) }
        let kind = kind(of: error, of: running)
        if case .help = kind {
            let help = HelpText.usualFirst(RequiredFlags.showingUsage(in: Clientctl.fullMessage(for: error)))
            Output.give(
                json: false, [:], lines: help.split(separator: "\n", omittingEmptySubsequences: false).map(String.init))
            exit(0)
        }
        let wantsJSON = Settings.asksForJSON
        if case .usage(let text) = kind {
            let message = SimilarFlag.correct(text, of: arguments)
            if wantsJSON { Output.failure(UpdateFailure(.usage, subject: "arguments", message)) }
            // The parser adds the usage to its own errors, but not to errors of a command.
            let words = running.flatMap { CommandName.words(of: $0) }
            Log.usage(
                words.map {
                    "\(Self.usageLead)\(message)\n  See 'clientctl \(($0 + ["--help"]).joined(separator: " "))' for more information."
                }
                    ?? RequiredFlags.showingUsage(
                        in: SimilarFlag.correct(Clientctl.fullMessage(for: error), of: arguments)
                    ).replacing("Error: ", with: Self.usageLead, maxReplacements: 1))
            exit(FailureCode.usage.exitStatus)
        }
        let failure = UpdateFailure(error)
        if wantsJSON { Output.failure(failure, beside: (error as? FailureWithOutput)?.members ?? [:]) }
        Log.note(LogLine(failure))
        exit(failure.code.exitStatus)
    }

    /// The prefix of a usage error.
    nonisolated private static let usageLead = "error[\(FailureCode.usage.rawValue)]: "

    private enum Kind {
        case help
        /// The arguments are wrong.
        case usage(message: String)
        /// The command failed.
        case failure
    }

    /// Returns the kind of `error`. Asks the parser only about its own errors, because it reads every flag of every command each time.
    nonisolated private static func kind(of error: any Error, of running: (any ParsableCommand.Type)?) -> Kind {
        if error is UpdateFailure || error is any ClassifiedFailure { return .failure }
        if let missing = error as? MissingFlag {
            let settings = Settings.readable
            return .usage(
                message: RequiredFlags.message(missing, of: running) { name in
                    CommandLineFlags.contain(name)
                        || (try? settings.values(of: name, isRepeatable: true))?.contains { !$0.isEmpty } == true
                })
        }
        if let error = error as? ValidationError { return .usage(message: error.message) }
        return switch Clientctl.exitCode(for: error) {
        case .success: .help
        case .validationFailure: .usage(message: Clientctl.message(for: error))
        default: .failure
        }
    }
}

/// A command that enters a sandbox, which its flags define, before it runs.
protocol ConfinedCommand: ParsableCommand {
    /// Returns the files that the command changes, and whether it starts programs.
    func needs() throws -> (confinement: Confinement, startsPrograms: Bool)
}

extension ConfinedCommand {
    /// Enters the sandbox. Without Landlock, the command runs unconfined, which `clientctl status` reports.
    func confine() throws {
        let (confinement, startsPrograms) = try needs()
        if startsPrograms { try SpawnThread.start() }
        do {
            let made = try confinement.enforce()
            Main.made.withLock { $0 = made }
        } catch {
            Output.warn("running without the Landlock sandbox: \(error)")
        }
    }
}

/// The help of a command.
private enum HelpText {
    /// Returns `text`, a help of the parser, with the flags that have no title before the sections with one.
    static func usualFirst(_ text: String) -> String {
        let end = text.lastIndex { $0 != "\n" }.map(text.index(after:)) ?? text.endIndex
        var sections = text[..<end].split(separator: "\n\n", omittingEmptySubsequences: false)
        guard let usage = sections.firstIndex(where: { $0.hasPrefix("USAGE: ") }),
            let options = sections.lastIndex(where: { $0.hasPrefix("OPTIONS:\n") }), options > usage
        else { return text }
        let usual = sections.remove(at: options)
        let arguments = sections.firstIndex { $0.hasPrefix("ARGUMENTS:\n") }
        sections.insert(usual, at: (arguments ?? usage) + 1)
        return sections.joined(separator: "\n\n")
    }
}

/// Suggests a flag of the command for an unknown one. The parser suggests any flag with some similar letters, such as `--every` for `--key`
/// and `--json` for `--to`.
private enum SimilarFlag {
    /// Names that people give to the public key of a release, which devices have in `--trust`.
    private static let publisherKeys: Set = ["key", "public-key", "release-key"]

    /// Returns a message about an operand that a flag must name; nil for other messages.
    private static func operandHint(_ text: String, _ command: any ParsableCommand.Type) -> String? {
        guard let start = text.firstRange(of: "Unexpected argument '"),
            let end = text[start.upperBound...].firstRange(of: "'")
        else { return nil }
        let operand = String(text[start.upperBound..<end.lowerBound])
        let isVersion = (try? SemanticVersion(parsingArgument: operand)) != nil
        let flag = isVersion ? "version" : "store"
        guard isVersion || !operand.contains("://"), !CommandLineFlags.contain(flag),
            FlagNames.flags(of: command.init()).contains(flag)
        else { return nil }
        return "\(text[..<end.upperBound]). Did you mean '--\(flag) \(operand)'?\(text[end.upperBound...])"
    }

    /// Returns `text`, a message of the parser about `arguments`, with another suggestion: a flag that ends with the unknown name, a similar
    /// flag, or the help.
    static func correct(_ text: String, of arguments: [String]) -> String {
        guard let (command, words) = CommandName.command(arguments).map({ ($0.command, arguments.prefix($0.words)) })
        else { return text }
        if let hint = operandHint(text, command) { return hint }
        guard let start = text.firstRange(of: "Unknown option '--") else { return text }
        let name = text[start.upperBound...].prefix { $0 != "'" }
        let flags = FlagNames.flags(of: command.init()).sorted()
        let better =
            publisherKeys.contains(String(name)) && flags.contains("trust") && !flags.contains("channel-key")
            ? "trust"
            : flags.first { $0.hasSuffix("-\(name)") && !SimilarWord.isOpposite($0, of: String(name)) }
                ?? FlagNames.similar(to: String(name), in: flags)
        var rest = text[name.endIndex...].dropFirst()
        if rest.hasPrefix(". Did you mean '--"), let end = rest.firstRange(of: "'?") { rest = rest[end.upperBound...] }
        let advice =
            better.map { "Did you mean '--\($0)'?" }
            ?? "`clientctl \(words.joined(separator: " ")) --help` lists the options."
        if name == "feed", ["feed check", "feed serve"].contains(words.joined(separator: " ")) {
            return
                "\(text[..<name.endIndex])'. Give the feed as an argument: `clientctl \(words.joined(separator: " ")) FEED`.\(rest)"
        }
        return "\(text[..<name.endIndex])'. \(advice)\(rest)"
    }
}
