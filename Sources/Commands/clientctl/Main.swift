import ArgumentParser
import BundleValues
import BundleDisk
import BundleThreads
import Glibc
import Synchronization

@main
enum Main {
    static func main() async {
        do {
            try prepareProcess()
            // Alone: in commands the flag names the version of a client, and a flag of the parser's own would win over theirs.
            if CommandLine.arguments.dropFirst() == ["--version"] {
                Output.give(json: false, [:], [Product.version])
                return
            }
            var command = try Clientctl.parseAsRoot()
            try requireCommand(command)
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch let status as ExitCode {
            exit(status.rawValue)
        } catch {
            end(with: error, wantsJSON: Settings.askForJSON(CommandLine.arguments))
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
        fillStandardDescriptors()
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
        try requireThreads()
    }

    /// Whatever is opened next would take the place of one that is closed, and the answer would be written into it.
    private static func fillStandardDescriptors() {
        for descriptor in Int32(0)...2 where fcntl(descriptor, F_GETFD) < 0 { _ = open("/dev/null", O_RDWR) }
    }

    /// Swift's own pool waits for ever for threads that it does not get.
    private static func requireThreads() throws {
        let gate = Mutex(())
        do {
            // Held shut until all have started, so that they live at one time.
            let threads = try gate.withLock { _ in
                try (0..<4).map { _ in try BlockingThread { gate.withLock { _ in } } }
            }
            for thread in threads { thread.join() }
        } catch let failure as ThreadFailure {
            throw UpdateFailure(.configInvalid, subject: "threads", "clientctl cannot run: \(failure).")
        }
    }

    private static func end(with error: any Error, wantsJSON: Bool) -> Never {
        if Clientctl.exitCode(for: error) == .success { Clientctl.exit(withError: error) }
        if isUsage(error) {
            let message = Clientctl.message(for: error)
            if wantsJSON { Output.failure(UpdateFailure(.usage, subject: "arguments", message)) }
            Output.say(Clientctl.fullMessage(for: error))
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
