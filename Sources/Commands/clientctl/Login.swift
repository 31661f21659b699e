import ArgumentParser
import BundleValues
import BundleDisk
import BundlePlatform
import ShellBoot

/// `clientctl login`.
struct Login: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Signs a device in: its token goes to the feed with every request.",
        discussion: """
            The token is shown to the origin (scheme, host and port) of --manifest,
            --channel or --meteor and to no other, never over http but to this machine, and
            appears in no answer. It is kept in STORE/session.json, mode 0600.

            From the first login on the device is gated: without a session `serve` shows
            guests the seed, and nothing else. `clientctl logout --forget` ends that.

            Examples:
              clientctl login --store /var/lib/kiosk --token-file /run/secrets/feed-token
              clientctl login --store /var/lib/kiosk --token-file token --expires 12h
              clientctl login --store /var/lib/kiosk --token-file token \\
                --expires 2027-01-31T00:00:00Z --json
            """)

    @OptionGroup var place: StoreOptions

    @Option(
        help: ArgumentHelp("File with the token; only its owner may read it.", valueName: "file"), completion: .file())
    var tokenFile: String?

    @Option(
        help: ArgumentHelp(
            "When the session ends: a time from now such as 12h, or a moment such as 2027-01-31T00:00:00Z.",
            valueName: "duration|time"))
    var expires: String?

    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let sessions = try Wiring.sessions(settings.required("store", place.store))
        let now = Timestamp.now
        let session = UserSession(
            token: try token(settings.required("token-file", tokenFile)), since: now,
            expires: try settings.optional("expires", expires).map { text in
                try settings.parsed("expires", text) { try SessionEnd(parsing: $0, now: now).time }
            })
        let record = try sessions.changeEvenDamaged { $0.signIn(session) }
        SessionOutput(record, at: now).give(
            "loggedIn", json: try settings.isOn("json", common.json),
            ["logged in" + (session.expires.map { " until \($0)" } ?? "")]
                + (record.lock == nil ? [] : ["the device stays locked: `clientctl unlock`"]))
    }

    private func token(_ path: String) throws -> AccessToken {
        let file = try File.open(reading: path)
        guard try file.permissions() & 0o077 == 0 else {
            throw UpdateFailure(
                .permissionDenied, subject: path,
                "Others may read or change \(path): take that away with `chmod 600`, and have another token made.")
        }
        let bytes = try file.readAll(maximumBytes: 64 * 1024)
        do throws(CredentialError) {
            return try AccessToken(tokenFile: bytes)
        } catch {
            throw UpdateFailure(.configInvalid, subject: path, "\(path) holds no bearer token: \(error)")
        }
    }
}

/// `clientctl logout`.
struct Logout: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Signs a device out: its token is gone, and guests see the seed.",
        discussion: """
            With --forget, nobody has to sign in any more, as before the first login.

            Examples:
              clientctl logout --store /var/lib/kiosk
              clientctl logout --store /var/lib/kiosk --forget
            """)

    @OptionGroup var place: StoreOptions

    @Flag(help: "From now on the device needs no session.")
    var forget = false

    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let sessions = try Wiring.sessions(settings.required("store", place.store))
        let forgets = try settings.isOn("forget", forget)
        let now = Timestamp.now
        let record = try sessions.changeEvenDamaged { record in
            record.signOut(at: now)
            if forgets { record.forget() }
        }
        SessionOutput(record, at: now).give(
            "loggedOut", json: try settings.isOn("json", common.json),
            [record.isRequired ? "logged out" : "logged out; the device needs no session"])
    }
}

/// `clientctl lock`.
struct Lock: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Locks a device: `serve` shows that it is locked, and nothing else, until it is unlocked.",
        discussion: """
            It goes on updating meanwhile. With --maintenance the page says that somebody
            works on the device.

            Examples:
              clientctl lock --store /var/lib/kiosk
              clientctl lock --store /var/lib/kiosk --maintenance
            """)

    @OptionGroup var place: StoreOptions

    @Flag(help: "Say that somebody works on the device.")
    var maintenance = false

    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let sessions = try Wiring.sessions(settings.required("store", place.store))
        let lock: SessionLock = try settings.isOn("maintenance", maintenance) ? .forMaintenance : .byOperator
        let record = try sessions.change { $0.lock(lock) }
        SessionOutput(record, at: .now).give(
            "locked", json: try settings.isOn("json", common.json),
            [lock == .forMaintenance ? "locked for maintenance" : "locked"])
    }
}

/// `clientctl unlock`.
struct Unlock: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Unlocks a device; it shows what its session allows.",
        discussion: """
            Example:
              clientctl unlock --store /var/lib/kiosk
            """)

    @OptionGroup var place: StoreOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let sessions = try Wiring.sessions(settings.required("store", place.store))
        let record = try sessions.change { $0.unlock() }
        SessionOutput(record, at: .now).give("unlocked", json: try settings.isOn("json", common.json), ["unlocked"])
    }
}

/// When a session ends, as people write it.
struct SessionEnd {
    let time: Timestamp

    /// A duration from `now`, or a moment after it.
    init(parsing text: String, now: Timestamp) throws {
        if text.contains("-") || text.contains(":") {
            time = try Timestamp(parsing: text)
        } else {
            let seconds = try DurationText(parsing: text).duration.components.seconds
            time = Timestamp(clamping: now.secondsSinceEpoch + Int(seconds))
        }
        guard time > now else { throw ValidationError("\(UntrustedName.display(text)) is not in the future.") }
    }
}
