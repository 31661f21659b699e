import ArgumentParser
import BundleCore
import BundleDisk
import Glibc

@main
enum Main {
    static func main() async {
        do {
            try prepareProcess()
            var command = try Clientctl.parseAsRoot()
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

    /// What every command relies on, before anything else.
    private static func prepareProcess() throws {
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

    private static func end(with error: any Error, wantsJSON: Bool) -> Never {
        if Clientctl.exitCode(for: error) == .success { Clientctl.exit(withError: error) }
        if isUsage(error) {
            let message = Clientctl.message(for: error)
            if wantsJSON { Answer.failure(UpdateFailure(.usage, subject: "arguments", message)) }
            Answer.say(Clientctl.fullMessage(for: error))
            exit(FailureCode.usage.exitStatus)
        }
        let failure = UpdateFailure(error)
        if wantsJSON { Answer.failure(failure, beside: (error as? AnsweredFailure)?.members ?? [:]) }
        Log.note(LogLine(failure))
        exit(failure.code.exitStatus)
    }

    /// What ArgumentParser throws is about the arguments; everything of ours is classified or a fault.
    private static func isUsage(_ error: any Error) -> Bool {
        if error is UpdateFailure || error is any ClassifiedFailure { return false }
        return Clientctl.exitCode(for: error) == .validationFailure
    }
}
