import BundleValues
import BundleDisk
import CLibrary

/// A shell command that reads a message on standard input and writes the raw signature to standard output. Its
/// standard error is passed through.
package struct SigningCommand: Sendable {
    /// A person may have to touch a token or type a PIN.
    package static let standardLimit = Duration.seconds(60)
    private static let maximumSignatureBytes = 64 << 10

    /// The purpose of the command, which failures name instead of the line, because the line may contain a PIN.
    package enum Purpose: String, Sendable {
        case signing = "signing command"
        case credentials = "credential command"
    }

    static let subject = Purpose.signing.rawValue

    private let line: String
    private let limit: Duration
    private let purpose: Purpose

    /// Runs `line` with `/bin/sh -c` for each message, for at most `limit`.
    package init(_ line: String, limit: Duration = standardLimit, purpose: Purpose = .signing) {
        self.line = line
        self.limit = limit
        self.purpose = purpose
    }

    /// Returns the output for `message`; the caller verifies the signature.
    func sign(_ message: [UInt8]) throws -> [UInt8] {
        let signature = try output(for: message)
        if signature.isEmpty { throw refusal("wrote nothing to standard output") }
        return signature
    }

    /// Runs the command with `message` on its standard input and returns its standard output.
    package func output(for message: [UInt8]) throws -> [UInt8] {
        // The command must not outlive this process, and the message must not stay on the disk.
        try HeldSignals.holding([SIGTERM, SIGINT, SIGHUP]) { try run(on: message, $0) }
    }

    private func run(on message: [UInt8], _ signals: HeldSignals) throws -> [UInt8] {
        // A file, not a pipe, because some tools ask for its length.
        let scratch = try TemporaryDirectory()
        try scratch.directory.createDurableFile("message", with: message, mode: 0o600)
        let input = try scratch.directory.file("message")
        // A pipe, not a file, so that the command stops when this process stops reading.
        let output = try OutputPipe()
        let end = output.writingEnd
        let process = try input.withDescriptor { input in try SpawnThread.run { try spawn(input: input, output: end) } }
        output.closeWritingEnd()
        let (status, written) = try wait(for: process, reading: output, signals)
        guard status == 0 else { throw refusal("ended with status \(status)" + Self.hint(line, message: message)) }
        return written
    }

    /// Returns the reason for a known failure that the tool of a token does not print.
    private static func hint(_ line: String, message: [UInt8]) -> String {
        guard line.contains("EDDSA"), message.count > 1024 else { return "" }
        return
            " (the message has \(message.count) bytes: pkcs11-tool signs at most 1024 with EDDSA, so use an ECDSA or RSA key)"
    }

    private func refusal(_ problem: String) -> UpdateFailure {
        let advice =
            switch purpose {
            case .signing:
                "Nothing was written. Test the command by hand: message on standard input, raw signature on standard output."
            case .credentials: "Nothing was written. Test the command by hand."
            }
        return UpdateFailure(.configInvalid, subject: purpose.rawValue, "The \(purpose.rawValue) \(problem). \(advice)")
    }

    private func spawn(input: Int32, output: Int32) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input, 0)
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        try OpenFiles.keep(from: 3, outOf: &actions)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // This process ignores these signals; the command must not inherit that.
        var signals = sigset_t()
        sigemptyset(&signals)
        for signal in [SIGPIPE, SIGXFSZ] { sigaddset(&signals, signal) }
        posix_spawnattr_setsigdefault(&attributes, &signals)
        var mask = sigset_t()
        sigemptyset(&mask)
        posix_spawnattr_setsigmask(&attributes, &mask)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))

        let words = ["sh", "-c", line]
        var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var process = pid_t()
        let code = posix_spawn(&process, "/bin/sh", &actions, &attributes, &arguments, environ)
        if code != 0 { throw refusal("cannot be started (\(String(cString: strerror(code))))") }
        return process
    }

    private func wait(
        for process: pid_t, reading output: OutputPipe, _ signals: HeldSignals
    ) throws -> (status: Int32, output: [UInt8]) {
        let deadline = ContinuousClock.now + limit
        var grace: ContinuousClock.Instant?
        var signature: [UInt8] = []
        var status: Int32 = 0
        while true {
            // When the command has ended, its whole output is in the pipe.
            let ended = waitpid(process, &status, WNOHANG)
            if ended < 0 && errno != EINTR {
                throw refusal("cannot be waited for (\(String(cString: strerror(errno))))")
            }
            signature += output.read(atMost: Self.maximumSignatureBytes + 1 - signature.count)
            if signature.count > Self.maximumSignatureBytes {
                let left = ended != process ? end(process) : ""
                throw refusal("wrote more than \(Self.maximumSignatureBytes) bytes\(left)")
            }
            if ended == process { break }
            if signals.arePending { try abort(process, after: &grace) }
            if ContinuousClock.now >= deadline {
                throw refusal("did not end within \(DurationText(limit))\(end(process))")
            }
            output.await(milliseconds: 5)
        }
        let signal = status & 0x7F
        if signal != 0 { throw refusal("was ended by signal \(signal)") }
        return (status >> 8 & 0xFF, signature)
    }

    /// Kills the command if it does not end after a signal within a grace period. A command that asks for a PIN
    /// restores the terminal first.
    private func abort(_ process: pid_t, after grace: inout ContinuousClock.Instant?) throws {
        guard let end = grace else {
            grace = .now + .milliseconds(500)
            return
        }
        if ContinuousClock.now < end { return }
        let left = self.end(process)
        let refusal = refusal("was aborted\(left)")
        // The pending signal ends this process before it can report the failure.
        if !left.isEmpty {
            let line = Array("\(PrintableText.line(refusal.message))\n".utf8)
            _ = CLibrary.write(2, line, line.count)
        }
        throw refusal
    }

    /// Kills the command and the processes that it started. Returns a note if some may still run.
    private func end(_ process: pid_t) -> String {
        let isEnded = ProcessTree.end(process)
        // A process of another user, such as one started by sudo, or one that waits for a failed disk cannot be
        // killed.
        for _ in 0..<200 where waitpid(process, nil, WNOHANG) == 0 { usleep(5_000) }
        return isEnded ? "" : "; one of its processes is still running, perhaps as another user: end it by hand"
    }
}

/// A process and its descendants. They have no process group of their own, because a token's tool asks for its PIN at
/// the terminal, which only the foreground group may read.
private enum ProcessTree {
    /// Kills the processes. It stops them first, so that none starts another. Returns false if one may still run.
    static func end(_ process: pid_t) -> Bool {
        var still: Set<pid_t> = []
        var found: Set<pid_t> = [process]
        // A process that starts others faster than they are found is abandoned.
        let deadline = ContinuousClock.now + .seconds(10)
        while !found.isEmpty, ContinuousClock.now < deadline {
            for one in found { kill(one, SIGSTOP) }
            still.formUnion(found)
            found = below(still)
        }
        let left = still.union(found).count { kill($0, SIGKILL) != 0 && errno == EPERM }
        return left == 0 && found.isEmpty
    }

    /// Returns the descendants of `roots`. In proc_pid_stat(5), the parent is the second word after the name.
    private static func below(_ roots: Set<pid_t>) -> Set<pid_t> {
        var children: [pid_t: [pid_t]] = [:]
        for name in (try? Directory.open("/proc").list()) ?? [] {
            guard let process = pid_t(name), let stat = try? File.open(reading: "/proc/\(name)/stat").head(4096),
                let end = stat.lastIndex(of: UInt8(ascii: ")"))
            else { continue }
            let words = String(decoding: stat[(end + 1)...], as: UTF8.self).split(separator: " ")
            if words.count > 1, let parent = pid_t(words[1]) { children[parent, default: []].append(process) }
        }
        var found: Set<pid_t> = []
        var parents = Array(roots)
        while let parent = parents.popLast() {
            for child in children[parent] ?? [] where !roots.contains(child) && found.insert(child).inserted {
                parents.append(child)
            }
        }
        return found
    }
}

/// The output of a command, read without blocking.
private final class OutputPipe {
    let readingEnd: Int32
    private(set) var writingEnd: Int32
    private var hasEnded = false

    init() throws(DiskError) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw DiskError("open", at: "a pipe", code: errno) }
        (readingEnd, writingEnd) = (ends[0], ends[1])
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        _ = fcntl(readingEnd, F_SETFL, O_NONBLOCK)
    }

    deinit {
        close(readingEnd)
        closeWritingEnd()
    }

    func closeWritingEnd() {
        if writingEnd >= 0 { close(writingEnd) }
        writingEnd = -1
    }

    /// Returns the bytes that are available now.
    func read(atMost count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var done = 0
        while done < count {
            let got = bytes.withUnsafeMutableBytes { buffer in
                CLibrary.read(readingEnd, buffer.baseAddress.map { $0 + done }, count - done)
            }
            if got < 0 && errno == EINTR { continue }
            if got == 0 { hasEnded = true }
            if got <= 0 { break }
            done += got
        }
        bytes.removeLast(count - done)
        return bytes
    }

    /// Waits up to `milliseconds` for more output.
    func await(milliseconds: Int32) {
        // A command that closed its output may still be running.
        if hasEnded {
            usleep(UInt32(milliseconds) * 1000)
        } else {
            var polled = pollfd(fd: readingEnd, events: Int16(POLLIN), revents: 0)
            poll(&polled, 1, milliseconds)
        }
    }
}
