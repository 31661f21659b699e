import ArgumentParser
import BundleDisk
import BundleValues
import Glibc
import Synchronization

/// The terminal of this process, for a question whose answer is not shown. The keys that end a program end this one.
struct Terminal: ~Copyable {
    /// Those that end a program, or stop it.
    private static let signals = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP]

    private let descriptor: Int32

    /// nil where there is none.
    init?() {
        descriptor = open("/dev/tty", O_RDWR | O_CLOEXEC)
        if descriptor < 0 { return nil }
    }

    deinit { close(descriptor) }

    /// The line that is typed, without its end; nil where the input ends instead.
    func ask(_ question: String) -> [UInt8]? {
        var shown = termios()
        guard tcgetattr(descriptor, &shown) == 0 else { return nil }
        var hidden = shown
        hidden.c_lflag &= ~tcflag_t(ECHO)
        // What ends the program must not leave its terminal dumb.
        return HeldSignals.holding(Self.signals) { signals in
            tcsetattr(descriptor, TCSAFLUSH, &hidden)
            write(PrintableText.line(question))
            let line = readLine(until: signals)
            tcsetattr(descriptor, TCSAFLUSH, &shown)
            write("\n")
            return line
        }
    }

    private func readLine(until signals: HeldSignals) -> [UInt8]? {
        var line: [UInt8] = []
        while !signals.arePending {
            // Another thread may be the one that is interrupted.
            var polled = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            if poll(&polled, 1, 100) <= 0 { continue }
            var byte: UInt8 = 0
            let count = Glibc.read(descriptor, &byte, 1)
            if count < 0 && errno == EINTR { continue }
            if count <= 0 { return nil }
            if byte == UInt8(ascii: "\n") { return line }
            if line.count < 4096 { line.append(byte) }
        }
        return nil
    }

    private func write(_ text: String) {
        let bytes = Array(text.utf8)
        _ = Glibc.write(descriptor, bytes, bytes.count)
    }
}

/// Where a passphrase comes from: a file, the environment, or the terminal; never an argument.
struct PassphraseOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "File or pipe whose first line is the key's passphrase; else CLIENTCTL_PASSPHRASE, else the terminal.",
            valueName: "file"), completion: .file())
    var passphraseFile: String?

    /// The file that has it, if one is named.
    func file(_ settings: Settings) throws -> String? { try settings.optional("passphrase-file", passphraseFile) }

    /// The passphrase, if the file or the environment gives one.
    func read(_ settings: Settings) throws -> [UInt8]? {
        if let path = try file(settings) {
            // A pipe gives it once, and several keys may have it.
            if let known = Self.known.withLock({ $0[path] }) { return known }
            let line = try Self.firstLine(of: path)
            Self.known.withLock { $0[path] = line }
            return line
        }
        guard let value = getenv(Passphrase.variable).map({ Array(String(cString: $0).utf8) }), !value.isEmpty else {
            return nil
        }
        return value
    }

    private static let known = Mutex<[String: [UInt8]]>([:])

    /// The passphrase in the file at `path`.
    static func firstLine(of path: String) throws -> [UInt8] {
        let bytes = try File.contents(ofArgument: path, maximumBytes: 64 * 1024) { file, isPipe in
            guard try isPipe || file.permissions() & 0o077 == 0 else {
                throw UpdateFailure(
                    .permissionDenied, subject: path,
                    "Others can read the passphrase in \(path): run `chmod 600` on it, or better, choose a new one.")
            }
        }
        let line = Array(bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") })
        if line.isEmpty {
            throw UpdateFailure(
                .configInvalid, subject: path, "The passphrase file \(path) starts with an empty line.")
        }
        return line
    }

    /// The passphrase of an encrypted key.
    func require(_ settings: Settings, for path: String) throws -> [UInt8] {
        if let given = try read(settings) { return given }
        return try Passphrase.ask("Passphrase for \(path): ", missing: "\(path) is encrypted")
    }
}

/// Asks at the terminal without echo.
enum Passphrase {
    /// The variable that holds one.
    static let variable = "CLIENTCTL_PASSPHRASE"

    /// The answer to `prompt`; where there is no terminal, `missing` says why one is needed.
    static func ask(_ prompt: String, missing: String) throws -> [UInt8] {
        guard isatty(0) == 1, let terminal = Terminal() else {
            throw UpdateFailure(
                .configInvalid, subject: "passphrase",
                "\(missing), and there is no terminal to ask at: give --passphrase-file, or set CLIENTCTL_PASSPHRASE.")
        }
        guard let typed = terminal.ask(prompt) else {
            throw UpdateFailure(.configInvalid, subject: "passphrase", "No passphrase was typed.")
        }
        return typed
    }

    static func askTwice() throws -> [UInt8] {
        let missing = "A passphrase is wanted for the key"
        let first = try ask("Passphrase for the key: ", missing: missing)
        guard try ask("The same again: ", missing: missing) == first, !first.isEmpty else {
            throw UpdateFailure(.configInvalid, subject: "passphrase", "The two passphrases differ or are empty.")
        }
        return first
    }
}
