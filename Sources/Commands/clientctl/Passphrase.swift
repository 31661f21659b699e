import ArgumentParser
import BundleValues
import BundleDisk
import Glibc

/// Where a passphrase comes from: a file, the environment, or the terminal; never an argument.
struct PassphraseOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "File or pipe whose first line is the key's passphrase; else CLIENTCTL_PASSPHRASE, else the terminal.",
            valueName: "file"))
    var passphraseFile: String?

    /// The passphrase, if the file or the environment gives one.
    func read(_ settings: Settings) throws -> [UInt8]? {
        if let path = try settings.optional("passphrase-file", passphraseFile) {
            let bytes = try File.contents(ofArgument: path, maximumBytes: 64 * 1024)
            let line = Array(bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") })
            if line.isEmpty {
                throw UpdateFailure(
                    .configInvalid, subject: path, "The passphrase file \(path) starts with an empty line.")
            }
            return line
        }
        guard let value = getenv(Passphrase.variable).map({ Array(String(cString: $0).utf8) }), !value.isEmpty else {
            return nil
        }
        return value
    }

    /// The passphrase of an encrypted key.
    func require(_ settings: Settings, for path: String) throws -> [UInt8] {
        if let given = try read(settings) { return given }
        return try Passphrase.ask("Passphrase for \(path): ")
    }
}

/// Asks at the terminal without echo.
enum Passphrase {
    /// The variable that holds one.
    static let variable = "CLIENTCTL_PASSPHRASE"

    static func ask(_ prompt: String) throws -> [UInt8] {
        guard isatty(0) == 1, let terminal = Terminal() else {
            throw UpdateFailure(
                .configInvalid, subject: "passphrase",
                "The key is encrypted: give --passphrase-file, or set CLIENTCTL_PASSPHRASE.")
        }
        guard let typed = terminal.ask(prompt) else {
            throw UpdateFailure(.configInvalid, subject: "passphrase", "No passphrase was typed.")
        }
        return typed
    }

    static func askTwice() throws -> [UInt8] {
        let first = try ask("Passphrase for the key: ")
        guard try ask("The same again: ") == first, !first.isEmpty else {
            throw UpdateFailure(.configInvalid, subject: "passphrase", "The two passphrases differ or are empty.")
        }
        return first
    }
}
