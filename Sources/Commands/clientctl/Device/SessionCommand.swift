import BundleFetch
import ArgumentParser
import BundleValues
import BundleDisk
import BundleShell
import CLibrary

/// `clientctl session`.
struct SessionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "session",
        abstract: "Log a device in or out.",
        discussion: """
            Examples:
              clientctl session login --store /var/lib/clientctl --token-file token
              clientctl session logout --store /var/lib/clientctl
            """,
        subcommands: [SessionLogin.self, SessionLogout.self])
}

/// `clientctl session login`.
struct SessionLogin: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: "Log in a device, so that its requests to the feed have a token.",
        discussion: """
            The device sends the token only to the origin (scheme, host and port) of
            --manifest, --channel or --meteor. It uses https, except for this machine. No
            command prints the token. It is stored in STORE/session.json, mode 0600.

            After the first login, the device requires a session, and users without one
            see the seed. `clientctl session logout --forget` removes this requirement.
            `serve --login-command` logs in again before a session ends. --renew changes
            the end of the current session, for example after the clock was set.

            Examples:
              clientctl session login --store /var/lib/clientctl \\
                --token-file /run/secrets/token
              clientctl session login --store /var/lib/clientctl --token-file token \\
                --expires 12h
              clientctl session login --store /var/lib/clientctl --token-file token \\
                --expires 2027-01-31T00:00:00Z --json
              clientctl session login --store /var/lib/clientctl --renew --expires 30d
            """)

    @OptionGroup var place: StoreOptions

    @Option(
        help: ArgumentHelp(
            "(required, or --renew) File with the token that only its owner can read, or a pipe.",
            valueName: "file"),
        completion: .file())
    var tokenFile: String?

    @Option(
        help: ArgumentHelp(
            "End of the session: a time from now, such as 12h, or a date and time, such as 2027-01-31T00:00:00Z (default: no end).",
            valueName: "duration|time"))
    var expires: String?

    @Flag(help: "Keep the session and its token, and change its end to --expires.")
    var renew = false

    @Flag(help: "Create the store if the path does not exist.")
    var create = false

    @OptionGroup var common: CommonOptions

    func run() throws {
        let store = try place.required()
        let now = Timestamp.now
        if renew && (expires == nil || CommandLineFlags.contain("token-file")) {
            throw ValidationError("--renew needs --expires, without --token-file: the session keeps its token.")
        }
        let end = try expires.map { expires in
            try SessionEnd.requireClock(now, earliest: Wiring.earliestTime(store))
            return try FlagValue.parsed(expires, of: "expires") { try SessionEnd(parsing: $0, now: now).time }
        }
        let given = renew ? nil : try token(FlagValue.required(tokenFile, of: "token-file"))
        let record = try Wiring.changingSessions(store, creates: create) { sessions in
            guard let given else { return try Self.renew(sessions, until: end, at: now) }
            return try sessions.changeEvenDamaged { $0.signIn(UserSession(token: given, since: now, expires: end)) }
        }
        SessionOutput(record, at: now).give(
            renew ? "renewed" : "loggedIn", json: common.json,
            lines: ["\(renew ? "the session lasts" : "logged in")" + (end.map { " until \($0)" } ?? "")]
                + (record.lock == nil
                    ? [] : ["the device is still locked: run `clientctl screen unlock --store \(store)`"]))
    }

    private static func renew(
        _ sessions: FileSessionRepository, until end: Timestamp?, at now: Timestamp
    ) throws -> SessionRecord {
        let record = try sessions.change { record in
            guard let session = record.session, session.isValid(at: now) else { return }
            record.signIn(UserSession(token: session.token, since: session.since, expires: end))
        }
        if record.session == nil || record.session?.expires != end {
            throw UpdateFailure(
                .loginRequired, subject: "session",
                "No user is logged in, so no session can be renewed. Log in with --token-file.")
        }
        return record
    }

    private func token(_ path: String) throws -> AccessToken {
        let bytes = try TokenFile.contents(of: path) { file in
            let mode = try file.permissions()
            guard mode & 0o077 == 0 else {
                throw UpdateFailure(
                    .permissionDenied, subject: path,
                    "Other users can \(mode & 0o044 != 0 ? "read" : "change") \(path). Run `chmod 600 \(path)`, and get a new token, "
                        + "because they may have read this one.")
            }
        }
        do throws(CredentialError) {
            return try AccessToken(tokenFile: bytes)
        } catch {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) does not contain a bearer token: \(error)")
        }
    }
}

/// Logs in again with a command before a session ends, and after the feed rejects its token.
struct SessionRenewal: Sendable {
    /// The seconds before the end of a session.
    private static let lead = 60
    private static let interval = Duration.seconds(1)
    /// The pause after a failure. It protects the server.
    private static let pause = Duration.seconds(60)
    private static let limit = Duration.seconds(30)
    private static let longestAnswer = 16 << 10

    let command: [String]
    let sessions: any SessionRepository
    /// Returns the earliest possible time.
    let earliest: @Sendable () -> Timestamp

    /// Renews the session until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            var wait = Self.interval
            do {
                if try await sessions.record().wantsRenewal(at: .now, lead: Self.lead) { try await renew() }
            } catch {
                Log.note(LogLine(UpdateFailure(error), event: "login"))
                wait = Self.pause
            }
            do { try await Task.sleep(for: wait) } catch { return }
        }
    }

    private func renew() async throws {
        let session = try session(out: try await answer())
        try await sessions.change { record in
            // A user may have logged out while the command ran.
            if record.wantsRenewal(at: session.since, lead: Self.lead) { record.signIn(session) }
        }
        // Without this check, a session that ends within the lead would be renewed in a loop.
        if SessionRecord(access: .session(session), lock: nil).wantsRenewal(at: session.since, lead: Self.lead) {
            throw refusal("printed a token that expires within \(Self.lead) seconds")
        }
        Log.note(LogLine(level: .info, event: "login", message: "logged in by the command of --login-command"))
    }

    /// Returns the session in the output of the command: the token on the first line, and its end on an optional second line.
    private func session(out answer: [UInt8]) throws -> UserSession {
        let lines = answer.split(separator: UInt8(ascii: "\n"), maxSplits: 1)
        let now = Timestamp.now
        let end = lines.dropFirst().first.map { String(decoding: $0, as: UTF8.self) } ?? ""
        let time = end.filter { !$0.isWhitespace }
        if !time.isEmpty { try SessionEnd.requireClock(now, earliest: earliest()) }
        do {
            return UserSession(
                token: try AccessToken(tokenFile: Array(lines.first ?? [])), since: now,
                expires: time.isEmpty ? nil : try SessionEnd(parsing: time, now: now).time)
        } catch {
            // The message of the error could contain the token.
            throw refusal("printed no token, or an invalid end")
        }
    }

    private func answer() async throws -> [UInt8] {
        try await onThread {
            let (ending, answer) = try StartedProgram.run(command, for: Self.limit, longestOutput: Self.longestAnswer)
            guard ending == .exited(0), answer.count <= Self.longestAnswer else { throw refusal("\(ending)") }
            return answer
        }
    }

    private func refusal(_ what: String) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: "login-command",
            "The command of --login-command \(what). It runs again in \(DurationText(Self.pause)).")
    }
}

/// `clientctl session logout`.
struct SessionLogout: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "Log out a device, and delete its token. Guests then see the seed.",
        discussion: """
            With --forget, the device no longer requires a session, as before its first
            login.

            Examples:
              clientctl session logout --store /var/lib/clientctl
              clientctl session logout --store /var/lib/clientctl --forget
            """)

    @OptionGroup var place: StoreOptions

    @Flag(help: "Remove the requirement of a session.")
    var forget = false

    @OptionGroup var common: CommonOptions

    func run() throws {
        let store = try place.required()
        let now = Timestamp.now
        let record = try Wiring.changingSessions(store) { sessions in
            try sessions.changeEvenDamaged { record in
                if forget { record.forget(at: now) } else { record.signOut(at: now) }
            }
        }
        SessionOutput(record, at: now).give(
            "loggedOut", json: common.json,
            lines: [record.isRequired ? "logged out" : "logged out; the device requires no session"])
    }
}

/// The end of a session, parsed from text.
struct SessionEnd {
    let time: Timestamp

    /// Parses a duration from `now`, or a time after it. Throws an error if the text is neither, or `ValidationError` if the time has passed.
    init(parsing text: String, now: Timestamp) throws {
        if text.contains("-") || text.contains(":") {
            time = try Timestamp(parsing: text)
        } else {
            let seconds = try DurationText(parsing: text).duration.components.seconds
            time = Timestamp(clamping: now.secondsSinceEpoch + Int(seconds))
        }
        guard time > now else { throw ValidationError("\(UntrustedName.display(text)) is not in the future.") }
    }

    /// Throws `UpdateFailure` if `now` is before `earliest`, or years after it, because the clock is then wrong.
    static func requireClock(_ now: Timestamp, earliest: Timestamp) throws {
        switch SessionClock.judge(now, earliest: earliest) {
        case .plausible: break
        case .behind:
            throw wrongClock(now, why: "before \(earliest), the latest signed time or the build time of this program")
        case .ahead:
            throw wrongClock(now, why: "years after \(earliest), the latest signed time that this device has seen")
        }
    }

    private static func wrongClock(_ now: Timestamp, why: String) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: "expires",
            "The clock of this machine shows \(now), \(why), so the session would end at a wrong time. Set the clock, or log in without "
                + "--expires and run `clientctl session login --renew --expires TIME` after the clock is set.")
    }
}
