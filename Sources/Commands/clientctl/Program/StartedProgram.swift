import BundleDisk
import BundleValues
import CLibrary
import Synchronization

/// A program that runs in its own process group. The whole group ends with it.
final class StartedProgram: Sendable {
    enum ProgramEnding: Equatable, CustomStringConvertible {
        case exited(Int32)
        case signalled(Int32)

        var description: String {
            switch self {
            case .exited(let status): "ended with status \(status)"
            case .signalled(let signal): "was ended by signal \(signal)"
            }
        }
    }

    /// The time between SIGTERM and SIGKILL.
    private static let gracePeriod = Duration.seconds(3)

    private let process: pid_t
    private let isRunning = Mutex(true)

    /// Starts the command `words`, which is searched on the path. Its environment is this program's without `withheld`, plus `more`;
    /// `OwnVariables` are never part of it. Its standard output goes to the descriptor `output`, because standard output of this program has only results, and its errors to `errors`. Its
    /// standard input is `/dev/null`. Its descriptor 3 is the folder `mark`, which identifies it to later runs. With a `pipe`, its descriptors 3 and 4 are these, and the mark is 5. Throws `UpdateFailure` if it cannot be started.
    init(
        _ words: [String], adding more: [String: String] = [:], without withheld: WithheldVariables = .ofService,
        mark: String? = nil, pipe: (reading: Int32, writing: Int32)? = nil, output: Int32 = 2, errors: Int32 = 2
    ) throws {
        process = try SpawnThread.run {
            // An orphan reaper must not see the process before it is in the set.
            try Self.children.withLock { children in
                let process = try Self.spawn(
                    words, adding: more, without: withheld, mark: mark, pipe: pipe, output: output, errors: errors)
                children.insert(process)
                return process
            }
        }
    }

    /// The processes whose ends this program waits for.
    private static let children = Mutex<Set<pid_t>>([])

    /// Reaps the orphans of a PID namespace if this program is its process 1, as in a container. A browser leaves about twenty processes at
    /// each end, and no other program reaps them.
    static func reapOrphansAsInit() throws(ThreadFailure) {
        guard getpid() == 1 else { return }
        _ = try BlockingThread {
            var info = siginfo_t()
            while true {
                // Without a child, the call returns at once.
                let hasEnded = waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0
                let isReaped = hasEnded && reap(orphan: info._sifields._sigchld.si_pid)
                if !isReaped { poll(nil, 0, hasEnded ? 50 : 2000) }
            }
        }
    }

    /// Reaps an ended process. Returns false if another thread waits for it.
    private static func reap(orphan process: pid_t) -> Bool {
        children.withLock { children in !children.contains(process) && waitpid(process, nil, WNOHANG) == process }
    }

    private static func spawn(
        _ words: [String], adding more: [String: String], without withheld: WithheldVariables, mark: String?,
        pipe: (reading: Int32, writing: Int32)?, output: Int32, errors: Int32
    ) throws -> pid_t {
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var (defaults, mask) = (sigset_t(), sigset_t())
        sigemptyset(&mask)
        sigemptyset(&defaults)
        for signal in [SIGPIPE, SIGXFSZ, SIGTERM, SIGINT, SIGHUP] { sigaddset(&defaults, signal) }
        posix_spawnattr_setsigdefault(&attributes, &defaults)
        posix_spawnattr_setsigmask(&attributes, &mask)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP))
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        posix_spawn_file_actions_adddup2(&actions, errors, 2)
        if let pipe {
            posix_spawn_file_actions_adddup2(&actions, pipe.reading, 3)
            posix_spawn_file_actions_adddup2(&actions, pipe.writing, 4)
        }
        let next: Int32 = pipe == nil ? 3 : 5
        try OpenFiles.keep(from: next, outOf: &actions)
        if let mark { posix_spawn_file_actions_addopen(&actions, next, mark, O_RDONLY | O_DIRECTORY, 0) }
        var variables = inherited(without: withheld) + more.map { strdup("\($0)=\($1)") } + [nil]
        var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { for text in arguments + variables { free(text) } }
        var process = pid_t()
        let code = posix_spawnp(&process, words[0], &actions, &attributes, &arguments, &variables)
        guard code == 0 else {
            throw UpdateFailure(
                .configInvalid, subject: words[0],
                "\(UntrustedName.display(words[0])) cannot be started: \(String(cString: strerror(code))). Check the command."
            )
        }
        return process
    }

    /// Returns this program's variables with their values, without `withheld`.
    private static func inherited(without withheld: WithheldVariables) -> [UnsafeMutablePointer<CChar>?] {
        var variables: [UnsafeMutablePointer<CChar>?] = []
        var next = environ
        while let variable = next.pointee {
            next += 1
            let name = String(cString: variable).prefix { $0 != "=" }
            if withheld.contains(String(name)) { continue }
            variables.append(strdup(variable))
        }
        return variables
    }

    /// Runs a command for at most `limit`, and returns its end and its standard output. Ends it if the output has more than `longestOutput`
    /// bytes, and returns one byte more then. With `withErrors`, its standard error is part of the output. Blocks the caller's thread.
    static func run(
        _ words: [String], adding more: [String: String] = [:], without withheld: WithheldVariables = .ofService,
        for limit: Duration, longestOutput: Int, withErrors: Bool = false
    ) throws -> (ending: ProgramEnding, output: [UInt8]) {
        let (reading, writing) = try OpenFiles.pipe()
        defer { close(reading) }
        let program: StartedProgram
        do {
            defer { close(writing) }
            program = try StartedProgram(
                words, adding: more, without: withheld, output: writing, errors: withErrors ? writing : 2)
        }
        program.end(after: limit)
        var output: [UInt8] = []
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        while output.count <= longestOutput {
            let count = read(reading, &bytes, min(bytes.count, longestOutput + 1 - output.count))
            if count < 0 && errno == EINTR { continue }
            if count <= 0 { break }
            output += bytes[..<count]
        }
        if output.count > longestOutput { program.end() }
        return (program.wait(), output)
    }

    /// Waits as `wait` does, without blocking the caller's thread.
    func ending() async throws -> ProgramEnding { try await onThread { self.wait() } }

    /// Waits until the program ends, then kills the rest of its group. Call this once.
    func wait() -> ProgramEnding {
        var info = siginfo_t()
        while waitid(P_PID, id_t(process), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR {}
        return isRunning.withLock { isRunning in
            // No other process has this ID before the program is reaped.
            CLibrary.kill(-process, SIGKILL)
            isRunning = false
            var status: Int32 = 0
            while waitpid(process, &status, 0) < 0 && errno == EINTR {}
            Self.children.withLock { _ = $0.remove(process) }
            let signal = status & 0x7F
            return signal == 0 ? .exited(status >> 8 & 0xFF) : .signalled(signal)
        }
    }

    /// Sends SIGTERM after `time` if the program still runs, and SIGKILL if it does not end.
    func end(after time: Duration = .zero) {
        Task {
            try await Task.sleep(for: time)
            signal(SIGTERM)
            try await Task.sleep(for: Self.gracePeriod)
            signal(SIGKILL)
        }
    }

    /// Sends SIGKILL.
    func kill() { signal(SIGKILL) }

    private func signal(_ number: Int32) { isRunning.withLock { if $0 { CLibrary.kill(-process, number) } } }
}

/// The variables that a started program does not inherit, besides `OwnVariables`. A pure rule about names.
enum WithheldVariables {
    /// Variables of the service manager for this process only.
    case ofService
    /// Also variables with the name of a secret, because a browser runs foreign code.
    case secrets

    private static let service = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]
    private static let words = [
        "ACCESS_KEY", "API_KEY", "APIKEY", "CREDENTIAL", "PASSPHRASE", "PASSWD", "PASSWORD", "PRIVATE_KEY", "SECRET",
        "SSH_AUTH_SOCK", "TOKEN",
    ]

    /// Returns true if a program does not inherit the variable `name`.
    func contains(_ name: String) -> Bool {
        if Self.service.contains(name) { return true }
        guard case .secrets = self else { return false }
        let upper = name.uppercased()
        return upper.hasPrefix("AWS_") || Self.words.contains { upper.contains($0) }
    }
}
