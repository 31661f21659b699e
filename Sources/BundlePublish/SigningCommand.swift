import BundleCore
import BundleDisk
import Glibc

/// A shell command that signs: the message on its standard input, the raw signature on its standard output. What it says on
/// standard error is passed through.
public struct SigningCommand: Sendable {
    /// A person may have to touch a token or type a PIN.
    public static let standardLimit = Duration.seconds(60)
    private static let maximumSignatureBytes = 16 * 1024

    /// What failures name: the line itself may hold a PIN.
    static let subject = "signing command"

    private let line: String
    private let limit: Duration

    /// Has `/bin/sh -c` run `line` for each signature, at most for `limit`.
    public init(_ line: String, limit: Duration = standardLimit) {
        self.line = line
        self.limit = limit
    }

    /// What the command gives for `message`; whether it is a signature is not looked at.
    func sign(_ message: [UInt8]) throws -> [UInt8] {
        // Files, not pipes: neither side can block the other, and tools that want to know the length can ask.
        let scratch = try TemporaryDirectory()
        try scratch.directory.createDurableFile("message", message, mode: 0o600)
        let input = try scratch.directory.file("message")
        let output = try scratch.directory.file(creating: "signature", mode: 0o600)
        let process = try input.withDescriptor { input in
            try output.withDescriptor { output in try spawn(input, output) }
        }
        let status = try wait(for: process)
        guard status == 0 else { throw refusal("ended with status \(status)") }
        guard try output.size() <= Self.maximumSignatureBytes else {
            throw refusal("wrote more than \(Self.maximumSignatureBytes) bytes, which is no signature")
        }
        let signature = try output.readAll(maximumBytes: Self.maximumSignatureBytes)
        if signature.isEmpty { throw refusal("wrote nothing to standard output") }
        return signature
    }

    private func refusal(_ problem: String) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: Self.subject,
            "The signing command \(problem). Nothing was written; try it by hand, with the message on standard input and the "
                + "raw signature on standard output.")
    }

    private func spawn(_ input: Int32, _ output: Int32) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input, 0)
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // This program ignores them; what it starts must not inherit that.
        var signals = sigset_t()
        sigemptyset(&signals)
        for signal in [SIGPIPE, SIGXFSZ] { sigaddset(&signals, signal) }
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF))

        let words = ["sh", "-c", line]
        var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var process = pid_t()
        let code = posix_spawn(&process, "/bin/sh", &actions, &attributes, &arguments, environ)
        if code != 0 { throw refusal("cannot be started (\(String(cString: strerror(code))))") }
        return process
    }

    private func wait(for process: pid_t) throws -> Int32 {
        let deadline = ContinuousClock.now + limit
        var status: Int32 = 0
        while true {
            let ended = waitpid(process, &status, WNOHANG)
            if ended == process { break }
            if ended < 0 && errno != EINTR {
                throw refusal("cannot be waited for (\(String(cString: strerror(errno))))")
            }
            if ContinuousClock.now >= deadline {
                kill(process, SIGKILL)
                waitpid(process, nil, 0)
                throw refusal("did not end within \(DurationText(limit))")
            }
            usleep(5000)
        }
        let signal = status & 0x7F
        if signal != 0 { throw refusal("was ended by signal \(signal)") }
        return status >> 8 & 0xFF
    }
}
