import ArgumentParser
import BundleDisk
import BundleValues
import CLibrary
import Synchronization

/// The terminal of this process, for input with or without echo. Keys that send signals, such as Ctrl-C, still end the process.
struct Terminal: ~Copyable {
    /// The signals that end or stop a process.
    private static let signals = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP]

    private let descriptor: Int32

    /// Returns nil if the process has no terminal.
    init?() {
        descriptor = open("/dev/tty", O_RDWR | O_CLOEXEC)
        if descriptor < 0 { return nil }
    }

    deinit { close(descriptor) }

    /// Returns the line that the user types, without its line feed; nil if the input ends before one. A secret is not
    /// echoed.
    func ask(_ question: String, isSecret: Bool = true) -> [UInt8]? {
        var shown = termios()
        guard tcgetattr(descriptor, &shown) == 0 else { return nil }
        var hidden = shown
        if isSecret { hidden.c_lflag &= ~tcflag_t(ECHO) }
        // A signal must not end the process while the terminal is without echo.
        return HeldSignals.holding(Self.signals) { signals in
            tcsetattr(descriptor, TCSAFLUSH, &hidden)
            write(PrintableText.line(question))
            let line = readLine(until: signals)
            tcsetattr(descriptor, TCSAFLUSH, &shown)
            if isSecret { write("\n") }
            return line
        }
    }

    private func readLine(until signals: HeldSignals) -> [UInt8]? {
        var line: [UInt8] = []
        while !signals.arePending {
            // The signal may interrupt another thread, so the poll has a timeout.
            var polled = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            if poll(&polled, 1, 100) <= 0 { continue }
            var byte: UInt8 = 0
            let count = CLibrary.read(descriptor, &byte, 1)
            if count < 0 && errno == EINTR { continue }
            if count <= 0 { return nil }
            if byte == UInt8(ascii: "\n") { return line }
            if line.count < 4096 { line.append(byte) }
        }
        return nil
    }

    private func write(_ text: String) {
        let bytes = Array(text.utf8)
        _ = CLibrary.write(descriptor, bytes, bytes.count)
    }
}

/// The sources of a passphrase: a file, the environment, or the terminal. Other users could read an argument.
struct PassphraseOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "File or pipe whose first line is the passphrase of the key (default: CLIENTCTL_PASSPHRASE, or a prompt).",
            valueName: "file"), completion: .file())
    var passphraseFile: String?

    /// Returns the passphrase from the file or the environment; nil if neither has one.
    func read() throws -> [UInt8]? {
        if let path = passphraseFile {
            // A pipe can be read only once, and several keys may use its passphrase.
            if let known = Self.known.withLock({ $0[path] }) { return known }
            let line = try Self.firstLine(of: path)
            Self.known.withLock { $0[path] = line }
            return line
        }
        return OwnVariables.value(of: Passphrase.variable).flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The passphrases in files, by the path of the file.
    private static let known = Mutex<[String: [UInt8]]>([:])
    /// The passphrases from the terminal, by the path of the key.
    private static let typed = Mutex<[String: [UInt8]]>([:])

    /// Returns the first line of the file at `path`. Throws if other users can read the file or the line is empty.
    static func firstLine(of path: String) throws -> [UInt8] {
        let content = try File.contents(ofArgument: path, maximumBytes: 64 * 1024) { file, isPipe in
            guard try isPipe || file.permissions() & 0o077 == 0 else {
                throw UpdateFailure(
                    .permissionDenied, subject: path,
                    "Other users can read the passphrase file \(path). Run `chmod 600` on it, and choose a new passphrase."
                )
            }
        }
        let bytes = try EditedText.bytes(of: content, in: path)
        let line = Array(bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") })
        if line.isEmpty {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "The first line of the passphrase file \(path) is empty. Write the passphrase there.")
        }
        return line
    }

    /// Returns the passphrase of the encrypted key at `path`, and asks at the terminal if no other source has it.
    func require(for path: String) throws -> [UInt8] {
        if let given = try read() { return given }
        // A key may sign both the release and its channel.
        if let known = Self.typed.withLock({ $0[path] }) { return known }
        let answer = try Passphrase.ask("Passphrase for \(path): ", missing: "\(path) is encrypted")
        Self.typed.withLock { $0[path] = answer }
        return answer
    }
}

/// Passphrase prompts at the terminal, without echo.
enum Passphrase {
    /// The environment variable that may contain a passphrase.
    static let variable = "CLIENTCTL_PASSPHRASE"

    /// Returns the answer to `prompt`. Without a terminal, throws an error that starts with `missing`, the reason for the prompt.
    static func ask(_ prompt: String, missing: String) throws -> [UInt8] {
        guard isatty(0) == 1, let terminal = Terminal() else {
            throw UpdateFailure(
                .configInvalid, subject: "passphrase",
                "\(missing), but this process has no terminal. Give --passphrase-file, or set CLIENTCTL_PASSPHRASE."
            )
        }
        guard let typed = terminal.ask(prompt) else {
            throw UpdateFailure(
                .configInvalid, subject: "passphrase", "No passphrase was entered. Run the command again.")
        }
        return typed
    }

    static func askTwice() throws -> [UInt8] {
        let missing = "The key needs a passphrase"
        let first = try ask("Passphrase for the key: ", missing: missing)
        guard try ask("Repeat the passphrase: ", missing: missing) == first, !first.isEmpty else {
            throw UpdateFailure(
                .configInvalid, subject: "passphrase", "The two passphrases differ or are empty. Run the command again."
            )
        }
        return first
    }
}
