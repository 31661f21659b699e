import BundleFetch
import ArgumentParser
import BundleValues
import BundleDisk
import ClientShell
import Glibc

/// `clientctl login`.
struct Login: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: "Sign a device in. Every request to the feed then carries its token.",
        discussion: """
            The token is shown to the origin (scheme, host and port) of --manifest,
            --channel or --meteor and to no other, never over http but to this machine, and
            appears in no answer. It is kept in STORE/session.json, mode 0600.

            After the first login, the device requires a session: everyone else sees the
            seed. `clientctl logout --forget` ends that. `serve --login-command` signs in
            again before a session ends. --renew gives the session that lasts another end,
            for example once the clock is right.

            Examples:
              clientctl login --store /var/lib/clientctl --token-file /run/secrets/token
              clientctl login --store /var/lib/clientctl --token-file token --expires 12h
              clientctl login --store /var/lib/clientctl --token-file token \\
                --expires 2027-01-31T00:00:00Z --json
              clientctl login --store /var/lib/clientctl --renew --expires 30d
            """)

    @OptionGroup var place: StoreOptions

    @Option(
        help: ArgumentHelp("File with the token, which only its owner may read, or a pipe.", valueName: "file"),
        completion: .file())
    var tokenFile: String?

    @Option(
        help: ArgumentHelp(
            "When the session ends: a time from now such as 12h, or a moment such as 2027-01-31T00:00:00Z.",
            valueName: "duration|time"))
    var expires: String?

    @Flag(help: "Keep the session and its token, and give it the end that --expires names.")
    var renew = false

    @Flag(help: "Make the store if there is none at this path.")
    var create = false

    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let store = try settings.required("store", place.store)
        let renews = try settings.isOn("renew", renew)
        let now = Timestamp.now
        let text = try settings.optional("expires", expires)
        if renews && (text == nil || tokenFile != nil) {
            throw ValidationError("--renew takes --expires, and no --token-file: the session keeps its token.")
        }
        let end = try text.map { text in
            try SessionEnd.requireClock(now, earliest: Wiring.earliestTime(store))
            return try settings.parsed("expires", text) { try SessionEnd(parsing: $0, now: now).time }
        }
        let given = renews ? nil : try token(settings.required("token-file", tokenFile))
        let record = try Wiring.changingSessions(store, creates: settings.isOn("create", create)) { sessions in
            guard let given else { return try Self.renew(sessions, until: end, at: now) }
            return try sessions.changeEvenDamaged { $0.signIn(UserSession(token: given, since: now, expires: end)) }
        }
        SessionOutput(record, at: now).give(
            renews ? "renewed" : "loggedIn", json: try settings.isOn("json", common.json),
            ["\(renews ? "the session lasts" : "logged in")" + (end.map { " until \($0)" } ?? "")]
                + (record.lock == nil ? [] : ["the device stays locked: `clientctl unlock`"]))
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
                "No user is logged in, so there is no session to renew: log in with --token-file.")
        }
        return record
    }

    private func token(_ path: String) throws -> AccessToken {
        let bytes = try TokenFile.contents(of: path) { file in
            let mode = try file.permissions()
            guard mode & 0o077 == 0 else {
                throw UpdateFailure(
                    .permissionDenied, subject: path,
                    "Other users can \(mode & 0o044 != 0 ? "read" : "change") \(path). Run `chmod 600 \(path)` and get a new token, since "
                        + "this one may be known.")
            }
        }
        do throws(CredentialError) {
            return try AccessToken(tokenFile: bytes)
        } catch {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) holds no bearer token: \(error)")
        }
    }
}

/// Signs in anew by a command, before a session ends, and after the feed has refused it; one at a time.
struct SessionRenewal: Sendable {
    private static let lead = 60
    private static let look = Duration.seconds(1)
    /// After a failure, so that nobody's server is flooded.
    private static let pause = Duration.seconds(60)
    private static let limit = Duration.seconds(30)
    private static let longestAnswer = 16 << 10

    let command: [String]
    let sessions: any SessionRepository
    /// The time before which it cannot be.
    let earliest: @Sendable () -> Timestamp

    /// Looks after the session until it is cancelled.
    func run() async {
        while !Task.isCancelled {
            var wait = Self.look
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
            // Somebody may have signed out meanwhile.
            if record.wantsRenewal(at: session.since, lead: Self.lead) { record.signIn(session) }
        }
        // One that would end at once would be renewed at once.
        if SessionRecord(access: .session(session), lock: nil).wantsRenewal(at: session.since, lead: Self.lead) {
            throw refusal("gave a token that ends within \(Self.lead) seconds")
        }
        Log.note(LogLine(level: .info, event: "login", message: "logged in by the command of --login-command"))
    }

    /// The token on the first line, and on the second, where there is one, when the session ends.
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
            // Its words may be the token.
            throw refusal("gave no token, or an end that is none")
        }
    }

    private func answer() async throws -> [UInt8] {
        try await onThread {
            var ends: [Int32] = [-1, -1]
            guard pipe(&ends) == 0 else { throw DiskError("open", "a pipe", code: errno) }
            let (reading, writing) = (ends[0], ends[1])
            for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            defer { close(reading) }
            let program: StartedProgram
            do {
                defer { close(writing) }
                program = try StartedProgram(command, output: writing)
            }
            program.end(after: Self.limit)
            var answer: [UInt8] = []
            var bytes = [UInt8](repeating: 0, count: Self.longestAnswer)
            while answer.count <= Self.longestAnswer {
                let count = read(reading, &bytes, bytes.count)
                if count < 0 && errno == EINTR { continue }
                if count <= 0 { break }
                answer += bytes[..<count]
            }
            if answer.count > Self.longestAnswer { program.end() }
            let ending = program.wait()
            guard ending == .exited(0), answer.count <= Self.longestAnswer else { throw refusal("\(ending)") }
            return answer
        }
    }

    private func refusal(_ what: String) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: "login-command",
            "The command of --login-command \(what): it is tried again in \(DurationText(Self.pause)).")
    }
}

/// `clientctl logout`.
struct Logout: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "Sign a device out. Its token is deleted, and guests see the seed.",
        discussion: """
            With --forget, nobody has to sign in any more, as before the first login.

            Examples:
              clientctl logout --store /var/lib/clientctl
              clientctl logout --store /var/lib/clientctl --forget
            """)

    @OptionGroup var place: StoreOptions

    @Flag(help: "From now on the device needs no session.")
    var forget = false

    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let store = try settings.required("store", place.store)
        let forgets = try settings.isOn("forget", forget)
        let now = Timestamp.now
        let record = try Wiring.changingSessions(store) { sessions in
            try sessions.changeEvenDamaged { record in
                if forgets { record.forget(at: now) } else { record.signOut(at: now) }
            }
        }
        SessionOutput(record, at: now).give(
            "loggedOut", json: try settings.isOn("json", common.json),
            [record.isRequired ? "logged out" : "logged out; the device needs no session"])
    }
}

/// `clientctl lock`.
struct Lock: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "Lock a device. Until it is unlocked, `serve` shows only that it is locked.",
        discussion: """
            It goes on updating meanwhile. With --maintenance the page says that somebody
            works on the device.

            Examples:
              clientctl lock --store /var/lib/clientctl
              clientctl lock --store /var/lib/clientctl --maintenance
            """)

    @OptionGroup var place: StoreOptions

    @Flag(help: "Report on the page that a person works on the device.")
    var maintenance = false

    @Flag(help: "Make the store if there is none at this path.")
    var create = false

    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let store = try settings.required("store", place.store)
        let lock: SessionLock = try settings.isOn("maintenance", maintenance) ? .forMaintenance : .byOperator
        let record = try Wiring.changingSessions(store, creates: settings.isOn("create", create)) {
            try $0.change { $0.lock(lock) }
        }
        SessionOutput(record, at: .now).give(
            "locked", json: try settings.isOn("json", common.json),
            [lock == .forMaintenance ? "locked for maintenance" : "locked"])
    }
}

/// `clientctl unlock`.
struct Unlock: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unlock",
        abstract: "Unlock a device. It shows what its session allows.",
        discussion: """
            Example:
              clientctl unlock --store /var/lib/clientctl
            """)

    @OptionGroup var place: StoreOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let store = try settings.required("store", place.store)
        let record = try Wiring.changingSessions(store) { try $0.change { $0.unlock() } }
        SessionOutput(record, at: .now).give("unlocked", json: try settings.isOn("json", common.json), ["unlocked"])
    }
}

/// When a session ends, as people write it.
struct SessionEnd {
    let time: Timestamp

    /// A duration from `now`, or a moment after it. Throws `ValidationError` if the text is not a time or has passed.
    init(parsing text: String, now: Timestamp) throws {
        if text.contains("-") || text.contains(":") {
            time = try Timestamp(parsing: text)
        } else {
            let seconds = try DurationText(parsing: text).duration.components.seconds
            time = Timestamp(clamping: now.secondsSinceEpoch + Int(seconds))
        }
        guard time > now else { throw ValidationError("\(UntrustedName.display(text)) is not in the future.") }
    }

    /// Throws `UpdateFailure` if the clock that says `now` is wrong, since it cannot be before `earliest`.
    static func requireClock(_ now: Timestamp, earliest: Timestamp) throws {
        switch SessionClock.judge(now, earliest: earliest) {
        case .plausible: break
        case .behind: throw wrongClock(now, "before \(earliest), which is signed or the age of this program")
        case .ahead: throw wrongClock(now, "years after \(earliest), the latest time that this device has found signed")
        }
    }

    private static func wrongClock(_ now: Timestamp, _ why: String) -> UpdateFailure {
        UpdateFailure(
            .configInvalid, subject: "expires",
            "The clock of this machine is \(now), \(why), so the session would not end when it should. Set the clock, or log in without "
                + "--expires and run `clientctl login --renew --expires TIME` when the clock is right.")
    }
}
