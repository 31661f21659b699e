import ArgumentParser
import BundleDisk
import ClientShell
import BundleValues
import Glibc
import Synchronization

/// Flags of the browser that shows the pages.
struct BrowserOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Start this browser, start it again when it ends or its page is lost, and end it with this command; {url} in it, or its end, is the address, and {profile} a folder for its profile.",
            valueName: "command"))
    var browser: String?

    @Option(
        help: ArgumentHelp(
            "What {profile} in --browser is: fresh (an empty folder for each session, removed after it) or keep (one folder); fresh if the device requires a session.",
            valueName: "fresh|keep"))
    var sessionProfile: String?

    /// The command as words, and the profile that is named.
    func browser(_ settings: Settings) throws -> (command: [String]?, profile: SessionProfile?) {
        let command = try CommandWords.read("browser", browser, settings)
        let profile = try settings.optional("session-profile", sessionProfile).map { text in
            guard let profile = SessionProfile(rawValue: text) else {
                throw ValidationError("--session-profile is fresh or keep, not \(UntrustedName.display(text)).")
            }
            guard CommandWords.names(CommandWords.profile, in: command ?? []) else {
                throw ValidationError(
                    "--session-profile needs {profile} in --browser, such as --browser \"chromium --user-data-dir={profile} {url}\"."
                )
            }
            return profile
        }
        if let program = command?.first { try CommandWords.requireProgram(program, of: "browser") }
        return (command, profile)
    }
}

/// Flags of a device's screen, and of the programs that serve starts.
struct KioskOptions: ParsableArguments {
    @OptionGroup var starting: BrowserOptions

    @Option(
        help: ArgumentHelp(
            "How long a page that is seen may say nothing before it is taken for lost; 60s with --browser, else never.",
            valueName: "duration"))
    var heartbeat: String?

    @Option(
        help: ArgumentHelp(
            "Run this, without a shell and for 30s at most, after a rollback: ROLLBACK_FROM, ROLLBACK_TO, ROLLBACK_REASON.",
            valueName: "command"))
    var onRollback: String?

    @Option(
        help: ArgumentHelp(
            "Run this, without a shell, to log in anew a minute before a session ends or when the feed has refused it; it prints a token and, on a second line, its end.",
            valueName: "command"))
    var loginCommand: String?

    /// Whether programs are started, which may do more than this one.
    func startsPrograms(_ settings: Settings) throws -> Bool {
        try [("browser", starting.browser), ("on-rollback", onRollback), ("login-command", loginCommand)].contains {
            try settings.optional($0.0, $0.1) != nil
        }
    }

    /// Nil where nobody logs in by a command.
    func renewal(_ settings: Settings, _ store: String) throws -> SessionRenewal? {
        try CommandWords.read("login-command", loginCommand, settings).map {
            SessionRenewal(command: $0, sessions: Wiring.sessions(store)) { Wiring.earliestTime(store) }
        }
    }

    /// The browser of a device with these `sessions`.
    func kiosk(_ settings: Settings, _ sessions: FileSessionRepository) throws -> Kiosk {
        let (browser, profile) = try starting.browser(settings)
        var patience = try settings.optional("heartbeat", heartbeat).map { text in
            try settings.parsed("heartbeat", text) { try DurationText(parsing: $0).duration }
        }
        if let patience, patience < .seconds(1) { throw ValidationError("--heartbeat takes 1s or more.") }
        if browser != nil, patience == nil { patience = .seconds(60) }
        return Kiosk(
            browser: browser, heartbeat: patience, hook: try CommandWords.read("on-rollback", onRollback, settings),
            profile: profile, requiresSession: { (try? sessions.record().isRequired) != false })
    }
}

/// A command line as words, without a shell.
enum CommandWords {
    /// Those of the flag `name`; nil where it is not given.
    static func read(_ name: String, _ given: String?, _ settings: Settings) throws -> [String]? {
        try settings.optional(name, given).map { text in
            guard let words = split(text) else {
                throw ValidationError(
                    "--\(name) takes a command with its arguments, quoted where they have blanks, not "
                        + "\(UntrustedName.display(text)).")
            }
            return words
        }
    }

    /// Refuses a program that is nowhere: it would be started again and again.
    static func requireProgram(_ program: String, of name: String) throws {
        let folders = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
        let paths =
            program.contains("/")
            ? [program] : folders.split(separator: ":").map { "\($0)/\(program)" }
        if paths.contains(where: { access($0, X_OK) == 0 }) { return }
        throw UpdateFailure(
            .configInvalid, subject: name,
            "--\(name): there is no program \(UntrustedName.display(program)): install it, or correct the command.")
    }

    /// The words, between blanks; quotes hold blanks together, a backslash the next letter. Nil for none, and for an open quote.
    static func split(_ line: String) -> [String]? {
        var words: [String] = []
        var word: String?
        var quote: Character?
        var isEscaped = false
        for letter in line {
            if isEscaped {
                word = (word ?? "") + String(letter)
                isEscaped = false
            } else if letter == "\\" && quote != "'" {
                isEscaped = true
            } else if letter == quote {
                quote = nil
            } else if quote == nil && (letter == "\"" || letter == "'") {
                quote = letter
                word = word ?? ""
            } else if quote == nil && letter.isWhitespace {
                if let word { words.append(word) }
                word = nil
            } else {
                word = (word ?? "") + String(letter)
            }
        }
        if let word { words.append(word) }
        return quote != nil || isEscaped || words.first?.isEmpty != false ? nil : words
    }

    /// What stands for the folder of the browser's profile.
    static let profile = "{profile}"

    /// Whether one of `words` contains `name`.
    static func names(_ name: String, in words: [String]) -> Bool { words.contains { $0.contains(name) } }

    /// `words` with `url` in the place that they have for it, or behind them, and with `profile` in its place.
    static func place(_ url: String, profile: String? = nil, in words: [String]) -> [String] {
        let words = profile.map { path in words.map { $0.replacing(Self.profile, with: path) } } ?? words
        return names("{url}", in: words) ? words.map { $0.replacing("{url}", with: url) } : words + [url]
    }
}

/// The browser that serve starts, and what it runs after a rollback.
final class Kiosk: Sendable {
    private static let shortestPause = Duration.seconds(1)
    private static let longestPause = Duration.seconds(60)
    /// A browser that ends with 0 before that has shown nothing.
    private static let shortestRun = Duration.seconds(5)
    private static let hookLimit = Duration.seconds(30)
    /// How much longer a hook may take when serve ends.
    private static let hookGrace = Duration.seconds(5)

    /// The browser that runs.
    private struct Run {
        var program: StartedProgram?
        /// Whether its profile is of this session alone.
        var isFresh = false
        /// Whether the session ended while it ran.
        var isOver = false
    }

    let heartbeat: Duration?
    /// Whether a browser is started.
    var startsBrowser: Bool { browser != nil }
    private let browser: [String]?
    private let hook: [String]?
    private let profile: SessionProfile?
    private let requiresSession: @Sendable () -> Bool
    private let running = Mutex(Run())
    private let orders = Mutex(Orders())
    private let rollbacks: AsyncStream<[String: String]>
    private let report: AsyncStream<[String: String]>.Continuation

    /// Starts `browser` with the folder that `profile` names, or that follows from whether the device `requiresSession`.
    init(
        browser: [String]?, heartbeat: Duration?, hook: [String]?, profile: SessionProfile? = nil,
        requiresSession: @escaping @Sendable () -> Bool = { false }
    ) {
        (self.browser, self.heartbeat, self.hook) = (browser, heartbeat, hook)
        (self.profile, self.requiresSession) = (profile, requiresSession)
        (rollbacks, report) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(4))
    }

    /// What the browser of another user is to do: `clientctl kiosk` asks for it again and again.
    private struct Orders {
        /// How often the page was lost.
        var losses = 0
        /// How often a session ended.
        var endings = 0
        /// When they were asked for last.
        var asked: SuspendingClock.Instant?

        /// Whether a kiosk obeys them.
        var areObeyed: Bool { asked.map { SuspendingClock().now - $0 < .seconds(10) } ?? false }
    }

    /// The orders so far, for `clientctl kiosk`.
    func ordersForKiosk() -> JSONObject {
        let orders = orders.withLock { orders in
            orders.asked = SuspendingClock().now
            return orders
        }
        return [
            "process": .integer(Int(getpid())), "losses": .integer(orders.losses), "endings": .integer(orders.endings),
            "requiresSession": .bool(requiresSession()),
        ]
    }

    /// Ends the browser because its page is lost.
    func lose(_ reason: String) {
        let isObeyed = orders.withLock { orders in
            orders.losses += 1
            return orders.areObeyed
        }
        let sequel =
            browser == nil && !isObeyed
            ? "nothing here can bring it back: see --browser" : "the browser is started again"
        Log.note(LogLine(level: .warning, event: "pageLost", message: "the page is lost: \(reason); \(sequel)"))
        running.withLock { $0.program }?.end()
    }

    /// Ends the browser because a session has ended. Nothing that it holds is for the next user, so it ends at once, unless its profile
    /// is kept, which it has to leave whole.
    func endSession() {
        orders.withLock { $0.endings += 1 }
        let (program, isFresh) = running.withLock { running in
            running.isOver = running.program != nil
            return (running.program, running.isFresh)
        }
        if isFresh { program?.kill() } else { program?.end() }
    }

    /// Takes in what happened in the shell.
    func observe(_ event: ShellEvent) {
        guard hook != nil, case .rolledBack(let name, let other, let failure) = event else { return }
        report.yield([
            "ROLLBACK_FROM": "\(name)", "ROLLBACK_TO": "\(other)",
            "ROLLBACK_REASON": UntrustedName.display(failure.message, limit: 1000),
        ])
    }

    /// Keeps the browser at `port` of this machine until it is cancelled. `started` is called at each start, and `restarting` before each start after
    /// an unexpected end.
    ///
    /// Browsers that an earlier `serve` on the locked `store` left are ended first: a browser that finds another one with its profile
    /// gives its page to that one and ends.
    func keepBrowser(
        at port: Int, of store: String? = nil, started: @escaping @Sendable () -> Void = {},
        restarting: @Sendable () -> Void = {}
    ) async {
        guard let browser else { return }
        let hasProfile = CommandWords.names(CommandWords.profile, in: browser)
        if !hasProfile && requiresSession() {
            Log.note(
                LogLine(
                    level: .warning, event: "browser",
                    message:
                        "the browser keeps what it remembers of one user for the next: write {profile} into --browser, "
                        + "where the command names the folder of the browser's profile"))
        }
        // Landlock keeps the other threads from reading the open files of another process, and from changing a profile.
        if let store, (try? await onThread { try SpawnThread.run { BrowserLeftovers.endOrphans(of: store) } }) ?? 0 > 0
        {
            Log.note(LogLine(level: .info, event: "browser", message: "ended the browser that an earlier serve left"))
        }
        var pause = Self.shortestPause
        while !Task.isCancelled {
            let began = SuspendingClock().now
            let isOver = await watch(browser, port, hasProfile, of: store, started)
            // The next user waits for it.
            if isOver {
                pause = Self.shortestPause
                continue
            }
            // One that ran for long has earned a quick start.
            if SuspendingClock().now - began > Self.longestPause { pause = Self.shortestPause }
            do { try await Task.sleep(for: pause) } catch { return }
            pause = min(pause * 2, Self.longestPause)
            restarting()
        }
    }

    /// Runs the browser; returns when it has ended, and whether a session ended it.
    private func watch(
        _ browser: [String], _ port: Int, _ hasProfile: Bool, of store: String?, _ started: @Sendable () -> Void
    ) async -> Bool {
        do {
            let isFresh = profile.map { $0 == .fresh } ?? requiresSession()
            let folder = hasProfile ? try await makeFolder(port, isFresh: isFresh) : nil
            let words = CommandWords.place("http://127.0.0.1:\(port)/", profile: folder?.profile, in: browser)
            for line in try await onThread({ try SpawnThread.run { BrowserLeftovers.removeStaleLocks(of: words) } }) {
                Log.note(LogLine(level: .warning, event: "browser", message: line))
            }
            let began = SuspendingClock().now
            let program = try await onThread {
                try StartedProgram(words, without: .secrets, input: store ?? "/dev/null")
            }
            running.withLock { $0 = Run(program: program, isFresh: isFresh && hasProfile) }
            started()
            let ending = try await withTaskCancellationHandler {
                try await program.ending()
            } onCancel: {
                program.end()
            }
            let isOver = running.withLock { running in
                defer { running = Run() }
                return running.isOver
            }
            if let folder, isFresh || (isOver && profile != .keep) { try await remove(folder) }
            if Task.isCancelled || isOver { return isOver }
            let isBrief = ending == .exited(0) && SuspendingClock().now - began < Self.shortestRun
            let guess = isBrief ? " at once: another browser may have its profile;" : ";"
            Log.note(
                LogLine(level: .warning, event: "browser", message: "the browser \(ending)\(guess) it is started again")
            )
        } catch {
            running.withLock { $0 = Run() }
            Log.note(LogLine(UpdateFailure(error), event: "browser"))
        }
        return false
    }

    /// Makes the folder, on the thread that starts programs: this one may be held to the store.
    private func makeFolder(_ port: Int, isFresh: Bool) async throws -> BrowserFolder {
        try await onThread { [profile] in
            try SpawnThread.run {
                try BrowserFolder(forPort: port, isFresh: isFresh, replacesLasting: profile != .keep)
            }
        }
    }

    private func remove(_ folder: BrowserFolder) async throws {
        try await onThread { try SpawnThread.run { try folder.remove() } }
    }

    /// Runs the hook once for each rollback, until it is cancelled, and never again: the last rollback is often what serve ends with, and
    /// what is waiting then still comes.
    func runHook() async {
        guard let hook else { return }
        for await facts in rollbacks {
            do {
                let program = try await onThread { try StartedProgram(hook, facts) }
                program.end(after: Self.hookLimit)
                let ending = try await withTaskCancellationHandler {
                    try await program.ending()
                } onCancel: {
                    program.end(after: Self.hookGrace)
                }
                guard ending != .exited(0) else { continue }
                Log.note(
                    LogLine(level: .warning, event: "onRollback", message: "the command of --on-rollback \(ending)"))
            } catch {
                Log.note(LogLine(UpdateFailure(error), event: "onRollback"))
            }
        }
    }
}

/// A program in a process group of its own, which ends as a whole.
final class StartedProgram: Sendable {
    /// How it ended.
    enum Ending: Equatable, CustomStringConvertible {
        case exited(Int32)
        case signalled(Int32)

        var description: String {
            switch self {
            case .exited(let status): "ended with status \(status)"
            case .signalled(let signal): "was ended by signal \(signal)"
            }
        }
    }

    /// How long it may take to end when it is asked to.
    private static let patience = Duration.seconds(3)

    private let process: pid_t
    private let isRunning = Mutex(true)

    /// Starts `words`, found on the path, with `more` and this program's environment, but for `withheld`. Standard output is for what
    /// this program itself answers, so that of `words` goes to `output`. Standard input is the file or folder at `input`.
    init(
        _ words: [String], _ more: [String: String] = [:], without withheld: WithheldVariables = .ofService,
        input: String = "/dev/null", output: Int32 = 2
    ) throws {
        process = try SpawnThread.run { try Self.spawn(words, more, without: withheld, input: input, output: output) }
    }

    private static func spawn(
        _ words: [String], _ more: [String: String], without withheld: WithheldVariables, input: String, output: Int32
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
        posix_spawn_file_actions_addopen(&actions, 0, input, O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        try OpenFiles.keep(from: 3, outOf: &actions)
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

    /// Returns this program's variables, each with its value, but for `withheld`.
    private static func inherited(without withheld: WithheldVariables) -> [UnsafeMutablePointer<CChar>?] {
        var variables: [UnsafeMutablePointer<CChar>?] = []
        var place = environ
        while let variable = place.pointee {
            place += 1
            let name = String(cString: variable).prefix { $0 != "=" }
            if withheld.contains(String(name)) { continue }
            variables.append(strdup(variable))
        }
        return variables
    }

    /// Waits until it has ended, without blocking the caller's thread. See `wait`.
    func ending() async throws -> Ending { try await onThread { self.wait() } }

    /// Waits until it has ended, once, and ends what is left of its group.
    func wait() -> Ending {
        var info = siginfo_t()
        while waitid(P_PID, id_t(process), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR {}
        return isRunning.withLock { isRunning in
            // Its number is its own until it is reaped.
            Glibc.kill(-process, SIGKILL)
            isRunning = false
            var status: Int32 = 0
            while waitpid(process, &status, 0) < 0 && errno == EINTR {}
            let signal = status & 0x7F
            return signal == 0 ? .exited(status >> 8 & 0xFF) : .signalled(signal)
        }
    }

    /// Has it end after `time`, if it runs by then: asked first.
    func end(after time: Duration = .zero) {
        Task {
            try await Task.sleep(for: time)
            signal(SIGTERM)
            try await Task.sleep(for: Self.patience)
            signal(SIGKILL)
        }
    }

    /// Ends it at once.
    func kill() { signal(SIGKILL) }

    private func signal(_ number: Int32) { isRunning.withLock { if $0 { Glibc.kill(-process, number) } } }
}
