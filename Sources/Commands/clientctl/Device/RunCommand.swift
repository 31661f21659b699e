import ArgumentParser
import BundleCore
import BundleDisk
import BundleValues
import CLibrary

/// `clientctl run`.
struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Start the newest program of a store, and go back when it fails.",
        discussion: """
            `clientctl install --program` installs programs, which `clientctl publish
            --program` publishes. This command records the start and becomes the program,
            in the same process, so that a service manager sees one service. Everything
            behind -- is for the program. Settings in the environment and in files are
            the program's: this command reads none.

            A new program is on trial until it is confirmed. If it ends before, or is not
            confirmed within --within, the next start goes back to the program that was
            confirmed last, or to the seed. It is tried once more with a later start, then
            blocked. The seed is the program of the device's package. It needs nothing of
            the store, and starts if the store is missing, full, read-only or damaged, or
            if it is as new as the newest program.

            --ready says how a program is confirmed: `confirm` by `clientctl confirm
            --program`, as `serve` does itself once its page has confirmed its start and
            one check for updates has ended; `notify` by READY=1 to the service manager;
            a time by having run for so long.

            Examples:
              clientctl run --store /var/lib/clientctl-program \\
                --starts /var/lib/clientctl/program \\
                -- serve --store /var/lib/clientctl
              clientctl run --store /var/lib/kiosk --seed /usr/lib/kiosk/kiosk \\
                --seed-version 1.0.0 --ready 10s -- --fullscreen
            """)

    @OptionGroup var place: ProgramPlace

    @Option(
        help: ArgumentHelp(
            "How a program on trial is confirmed: confirm, notify or a time. (default: confirm)", valueName: "how"))
    var ready: String?

    @Option(
        help: ArgumentHelp("Time in which a program on trial must be confirmed. (default: 60s)", valueName: "duration"))
    var within: String?

    @Option(
        help: ArgumentHelp(
            "Arguments with which a new program runs once before its first start, for at most 10 s; it must end with 0.",
            valueName: "arguments"))
    var probe: String?

    @Argument(
        parsing: .postTerminator, help: ArgumentHelp("Arguments of the program, behind --.", valueName: "argument"))
    var arguments: [String] = []

    func run() async throws {
        let readiness = try Readiness(ready)
        let limit = try FlagValue.duration(within ?? "60s", of: "within")
        let probe = try CommandWords.read(probe, of: "probe")
        if let watch = ProgramWatch(environment: ()) { return try await watch.run(readiness, within: limit, of: place) }
        let seed = try place.seedFile()
        while let (launcher, start) = program(probe: probe) {
            if try !become(start, of: launcher, readiness) { break }
        }
        let version = try place.seedVersioned()
        ProgramVariables.set(version: version, place: place, seed: version)
        throw Self.replace(by: seed, arguments)
    }

    /// Returns the program to start; nil for the seed. No failure keeps the seed from starting.
    private func program(
        probe words: [String]?
    ) -> (launcher: ProgramLauncher, start: ProgramLauncher.Start)? {
        do {
            let launcher = try place.launcher()
            let start = try launcher.start { start in try words.map { try Self.probe(start, $0) } }
            return start.map { (launcher, $0) }
        } catch {
            Output.warn("\(UpdateFailure(error).message) The seed starts.")
            return nil
        }
    }

    /// Becomes the program. If the system cannot start it, counts a failed start, and returns whether another one can be chosen.
    private func become(
        _ start: ProgramLauncher.Start, of launcher: ProgramLauncher, _ readiness: Readiness
    ) throws -> Bool {
        let manager = getenv(NotifyRelay.variable).map { String(cString: $0) }
        ProgramVariables.set(version: start.version, token: start.token, place: place, seed: try place.seedVersioned())
        if start.token != nil {
            do { try ProgramWatch.start(readiness) } catch {
                Output.warn("\(UpdateFailure(error).message) The program is on trial without a limit of time.")
            }
        }
        let failure = Self.replace(by: start.path, arguments)
        Output.warn(failure.message)
        ProgramVariables.clear()
        manager.map { _ = setenv(NotifyRelay.variable, $0, 1) }
        guard let token = start.token else { return false }
        return (try? launcher.fail(start.version, token, .notPrepared, failure.message)) == true
    }

    /// Runs a program once with `words`. Throws `programUnusable` with its last line if it does not end with 0 in time.
    private static func probe(_ start: ProgramLauncher.Start, _ words: [String]) throws {
        var ending: String
        var output: [UInt8] = []
        do {
            let result = try StartedProgram.run(
                [start.path] + words, for: .seconds(10), longestOutput: 64 << 10, withErrors: true)
            if result.ending == .exited(0) { return }
            (ending, output) = (result.ending.description, result.output)
        } catch {
            ending = "cannot be started: \(UpdateFailure(error).message)"
        }
        let last = String(decoding: output, as: UTF8.self).split(separator: "\n").last.map(String.init) ?? ""
        throw UpdateFailure(
            .programUnusable, subject: "\(start.version)",
            "The program \(start.version) does not run on this device, so it is not tried: the probe \(ending)"
                + (last.isEmpty ? "." : ": \(UntrustedName.display(last, limit: 300))."))
    }

    /// Becomes the program at `path`. Returns the failure if that is not possible.
    private static func replace(by path: String, _ arguments: [String]) -> UpdateFailure {
        OwnVariables.restore()
        for number in [SIGPIPE, SIGXFSZ] { signal(number, SIG_DFL) }
        umask(Main.inheritedMask)
        SignalMask.clear()
        var words: [UnsafeMutablePointer<CChar>?] = ([path] + arguments).map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        execv(path, &words)
        let code = errno
        return UpdateFailure(
            .programUnusable, subject: path,
            "\(UntrustedName.display(path)) cannot be started: \(String(cString: strerror(code))). Check the file.")
    }
}

/// The signals that this thread blocks, which programs inherit. A thread of Dispatch blocks all of them.
enum SignalMask {
    static func clear() {
        var none = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, nil)
    }
}

/// How a program on trial is confirmed.
enum Readiness: Equatable {
    /// By `clientctl confirm --program`.
    case confirm
    /// By READY=1 to the service manager.
    case notify
    /// By having run for this time.
    case after(Duration)

    init(_ text: String?) throws {
        switch text {
        case nil, "confirm"?: self = .confirm
        case "notify"?: self = .notify
        case let text?: self = .after(try FlagValue.duration(text, of: "ready"))
        }
    }
}

/// The flags of the place of programs.
struct ProgramPlace: ParsableArguments {
    @Option(help: ArgumentHelp("(required) Store of the programs.", valueName: "dir"), completion: .directory)
    var store: String?

    @Option(
        help: ArgumentHelp(
            "Folder for the record of starts, if this user may not write to the store. (default: the store)",
            valueName: "dir"), completion: .directory)
    var starts: String?

    @Option(
        help: ArgumentHelp(
            "The seed, the program of the device's package. (default: this clientctl)", valueName: "file"),
        completion: .file())
    var seed: String?

    @Option(
        help: ArgumentHelp("Version of the seed, such as 1.0.0; needed with --seed.", valueName: "version"))
    var seedVersion: String?

    func seedFile() throws -> String {
        if let seed { return seed }
        return try ProgramVariables.ownProgram()
    }

    func seedVersioned() throws -> SemanticVersion {
        if seed != nil || seedVersion != nil {
            return try FlagValue.version(FlagValue.required(seedVersion, of: "seed-version"), of: "seed-version")
        }
        return try SemanticVersion(parsing: Product.version)
    }

    func launcher() throws -> ProgramLauncher {
        try ProgramLauncher(
            ProgramLauncher.ProgramDevice(
                store: Wiring.absolute(FlagValue.required(store, of: "store")), starts: starts.map(Wiring.absolute),
                seed: seedVersioned()),
            environment: .command)
    }
}

/// The variables by which `run` describes the program to itself.
enum ProgramVariables {
    private static let (store, starts, seed) = ("PROGRAM_STORE", "PROGRAM_STARTS", "PROGRAM_SEED_VERSION")
    private static let (version, token) = ("PROGRAM_VERSION", "PROGRAM_TOKEN")

    /// Describes a program of a store. `token` is set on trial.
    static func set(
        version: SemanticVersion, token: LaunchToken? = nil, place: ProgramPlace, seed: SemanticVersion
    ) {
        clear()
        setenv(Self.version, version.description, 1)
        token.map { _ = setenv(Self.token, $0.text, 1) }
        for (name, path) in [(store, place.store), (starts, place.starts)] {
            if let path, let path = try? Wiring.absolute(path) { setenv(name, path, 1) }
        }
        setenv(Self.seed, seed.description, 1)
    }

    /// The folder in which a program records its verdict; empty if `run` did not start it.
    static var folders: [String] { [value(starts) ?? value(store)].compactMap(\.self) }

    static func clear() { for name in [store, starts, seed, version, token] { unsetenv(name) } }

    /// The version of the running program; nil if `run` did not start it.
    static var runningVersion: SemanticVersion? { value(version).flatMap { try? SemanticVersion(parsing: $0) } }

    /// The token of the trial; nil if there is none.
    static var trialToken: LaunchToken? { value(token).map { LaunchToken(text: $0) } }

    /// Returns the launcher of the place from which the program came; nil if it came from none.
    static func launcher() throws -> ProgramLauncher? {
        guard let path = value(store) else { return nil }
        let seed = value(seed).flatMap { try? SemanticVersion(parsing: $0) } ?? .zero
        return try ProgramLauncher(
            ProgramLauncher.ProgramDevice(store: path, starts: value(starts), seed: seed), environment: .command)
    }

    /// Returns the path of this program.
    static func ownProgram() throws -> String {
        guard let path = realpath("/proc/self/exe", nil) else {
            throw DiskError("read", at: "/proc/self/exe", code: errno)
        }
        defer { free(path) }
        return String(cString: path)
    }

    private static func value(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}
