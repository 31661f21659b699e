import ArgumentParser
import BundleCore
import BundleValues
import CLibrary
import BundleShell

/// The flags of the browser that shows the pages, for `serve` and `kiosk`.
struct BrowserOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Command that starts the browser. It is started again when it ends or its page is lost, and ended with this command. {url} is replaced by the address, which is appended otherwise; {profile} is replaced by a folder for the browser's profile.",
            valueName: "command"))
    var browser: String?

    @Option(
        help: ArgumentHelp(
            "Profile folder that replaces {profile} in --browser: fresh is an empty folder for each session, removed after it; keep is one folder for all sessions (default: fresh if the device requires a session, otherwise keep).",
            valueName: "fresh|keep"), completion: .list(["fresh", "keep"]))
    var sessionProfile: String?

    /// Returns the words of the command, and the chosen profile. Throws `ValidationError` if a flag has a wrong value, or `UpdateFailure` if
    /// the browser is not installed.
    func commandAndProfile() throws -> (command: [String]?, profile: SessionProfile?) {
        let command = try CommandWords.read(browser, of: "browser")
        let profile = try sessionProfile.map { text in
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

/// The flags of a device's screen, and of the programs that `serve` starts.
struct KioskOptions: ParsableArguments {
    @OptionGroup var starting: BrowserOptions

    @Option(
        help: ArgumentHelp(
            "Time without a heartbeat after which a visible page is lost, if --browser or `clientctl kiosk` runs the browser (default: 60s).",
            valueName: "duration"))
    var heartbeat: String?

    @Option(
        help: ArgumentHelp(
            "Time without a touch, click or key after which a page that was used returns to the start page, unless it has reported that it is busy. (default: never)",
            valueName: "duration"))
    var idleReset: String?

    @Option(
        help: ArgumentHelp(
            "Run this command after a rollback, without a shell and for 30s at most. It gets the variables ROLLBACK_FROM, ROLLBACK_TO and ROLLBACK_REASON.",
            valueName: "command"))
    var onRollback: String?

    @Option(
        help: ArgumentHelp(
            "Run this command after the page of a new client has confirmed its start, without a shell and for 30s at most. The client has failed if the status is not 0; the last line of its output is the reason. It gets the variable CLIENTCTL_VERSION, and never runs as root.",
            valueName: "command"))
    var healthCommand: String?

    @Option(
        help: ArgumentHelp(
            "Run this command, without a shell, to log in again: a minute before a session ends, or after the feed rejects its token. It prints the token, and on a second line the time at which the session ends.",
            valueName: "command"))
    var loginCommand: String?

    @OptionGroup var pictures: SentPictureOptions

    /// Returns true if `serve` starts programs, which its sandbox must not confine.
    var startsPrograms: Bool {
        [starting.browser, onRollback, healthCommand, loginCommand, pictures.taking.pictureCommand].contains {
            $0 != nil
        }
    }

    /// Returns the check of a client on trial; nil without `--health-command`.
    func healthCheck() throws -> HealthCheck? {
        guard let command = try CommandWords.read(healthCommand, of: "health-command"), let program = command.first
        else { return nil }
        guard geteuid() != 0 else {
            throw UpdateFailure(
                .configInvalid, subject: "health-command",
                "--health-command never runs as root. Run `clientctl serve` as another user, as its systemd unit does.")
        }
        try CommandWords.requireProgram(program, of: "health-command")
        let health = HealthCommand(command: command)
        return { health.check(of: $0) }
    }

    /// Returns the renewal of the store's session; nil without `--login-command`.
    func renewal(_ store: String) throws -> SessionRenewal? {
        try CommandWords.read(loginCommand, of: "login-command").map {
            SessionRenewal(command: $0, sessions: Wiring.sessions(store)) { Wiring.earliestTime(store) }
        }
    }

    /// Returns the time after which an idle page returns to the start page; nil without `--idle-reset`.
    func idleTime() throws -> Duration? {
        let time = try FlagValue.duration(idleReset, of: "idle-reset")
        if let time, time < .seconds(5) { throw ValidationError("--idle-reset takes 5s or more.") }
        return time
    }

    /// Returns the browser of a device with these `sessions`.
    func kiosk(_ sessions: FileSessionRepository) throws -> Kiosk {
        let (browser, profile) = try starting.commandAndProfile()
        let timeout = try FlagValue.duration(heartbeat, of: "heartbeat")
        if let timeout, timeout < .seconds(1) { throw ValidationError("--heartbeat takes 1s or more.") }
        return Kiosk(
            browser: browser, heartbeat: timeout, hook: try CommandWords.read(onRollback, of: "on-rollback"),
            profile: profile, pictures: try pictures.taking.way(browser: browser),
            requiresSession: { (try? sessions.record().isRequired) != false })
    }
}

/// The command of `--health-command`, which checks the device after the page of a client on trial has confirmed its start.
private struct HealthCommand: Sendable {
    private static let limit = Duration.seconds(30)
    private static let longestOutput = 64 << 10

    let command: [String]

    func check(of client: ReadyClient) -> @Sendable () async -> HealthResult {
        let version = client.name.shortDescription
        return { await run(for: version) }
    }

    private func run(for version: String) async -> HealthResult {
        do {
            let (ending, output) = try await onThread { [command] in
                try StartedProgram.run(
                    command, adding: ["CLIENTCTL_VERSION": version], for: Self.limit,
                    longestOutput: Self.longestOutput)
            }
            if ending == .exited(0) { return .passed }
            let line = output.split(separator: UInt8(ascii: "\n")).last.map { String(decoding: $0, as: UTF8.self) }
            return .failed("the health command \(ending)" + (line.map { ": \($0)" } ?? ""))
        } catch {
            return .failed("the health command failed: \(UpdateFailure(error).message)")
        }
    }
}
