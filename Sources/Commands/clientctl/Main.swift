import ArgumentParser
import BundleValues
import BundleDisk
import Glibc

@main
enum Main {
    static func main() async {
        var running: (any ParsableCommand.Type)?
        do {
            try prepareProcess()
            // Alone: in commands the flag names the version of a client, and a flag of the parser's own would win over theirs.
            if CommandLine.arguments.dropFirst() == ["--version"] {
                Output.give(json: false, [:], [Product.version])
                return
            }
            if let problem = CommandName.problem(CommandLine.arguments.dropFirst()) { throw ValidationError(problem) }
            var command = try Clientctl.parseAsRoot()
            running = type(of: command)
            try requireCommand(command)
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch let status as ExitCode {
            exit(status.rawValue)
        } catch {
            end(with: error, of: running, wantsJSON: Settings.askForJSON(CommandLine.arguments))
        }
    }

    /// A group of commands does nothing by itself.
    private static func requireCommand(_ command: any ParsableCommand) throws {
        let names = type(of: command).configuration.subcommands.map { $0._commandName }
        if names.isEmpty { return }
        throw ValidationError("Missing subcommand: give one of \(names.joined(separator: ", ")).")
    }

    /// What every command relies on, before anything else.
    private static func prepareProcess() throws {
        // Swift reads the arguments out of /proc; none at all would be taken for a question for help, and answered with 0.
        if CommandLine.arguments.isEmpty {
            throw UpdateFailure(
                .configInvalid, subject: "/proc",
                "The arguments cannot be read, so nothing was done: mount /proc where clientctl runs.")
        }
        // libarchive reads names in the process's character set, and Swift starts in "C".
        if !CharacterSet.useUTF8() {
            throw UpdateFailure(
                .configInvalid, subject: "C.UTF-8",
                "The system has no UTF-8 character set (C.UTF-8 or en_US.UTF-8): install its locales.")
        }
        umask(0o022)
        Heaps.limit(to: 2)
        Log.begin()
        signal(SIGPIPE, SIG_IGN)
        signal(SIGXFSZ, SIG_IGN)
    }

    private static func end(with error: any Error, of running: (any ParsableCommand.Type)?, wantsJSON: Bool) -> Never {
        if Clientctl.exitCode(for: error) == .success { Clientctl.exit(withError: error) }
        if isUsage(error) {
            let message = Clientctl.message(for: error)
            if wantsJSON { Output.failure(UpdateFailure(.usage, subject: "arguments", message)) }
            // The parser knows which command's words it did not take; of what the command itself refuses it does not.
            let words = running.flatMap { CommandName.words(of: $0) }
            Output.say(
                words.map {
                    "Error: \(message)\n  See 'clientctl \(($0 + ["--help"]).joined(separator: " "))' for more information."
                }
                    ?? Clientctl.fullMessage(for: error))
            exit(FailureCode.usage.exitStatus)
        }
        let failure = UpdateFailure(error)
        if wantsJSON { Output.failure(failure, beside: (error as? FailureWithOutput)?.members ?? [:]) }
        Log.note(LogLine(failure))
        exit(failure.code.exitStatus)
    }

    /// What ArgumentParser throws is about the arguments; everything of ours is classified or a fault.
    private static func isUsage(_ error: any Error) -> Bool {
        if error is UpdateFailure || error is any ClassifiedFailure { return false }
        return Clientctl.exitCode(for: error) == .validationFailure
    }
}
