import ArgumentParser
import BundleValues
import BundleShell
import ClientServer
import Synchronization

/// Decides when a picture of the screen is due, and offers it to the sender of the roster.
final class ScreenPictures: Sendable {
    /// The time after an event in which a browser draws its page.
    private static let drawing = Duration.seconds(5)
    private static let pause = Duration.seconds(1)

    private struct Plan {
        /// The time of the next picture, and its kind.
        var next: Duration
        var kind = PicturePost.Kind.last
        /// The time of the picture of a start on trial. It is sent only if the start fails.
        var trial: Duration?
        var held: ScreenPicture?
        var state: LaunchState?

        /// Plans a picture after an event at `now`.
        mutating func note(_ kind: PicturePost.Kind, at now: Duration) {
            (next, self.kind) = (now + drawing, kind)
        }
    }

    private let sender: RosterSender
    private let sessions: FileSessionRepository
    private let interval: Duration
    private let showsSessions: Bool
    private let trialTime: Duration
    private let stopwatch = Stopwatch()
    private let plan: Mutex<Plan>

    /// Takes pictures at least every `interval`, and of a session of a user only if it `showsSessions`. A start has to confirm itself
    /// within `startupTimeout`.
    init(
        to sender: RosterSender, _ sessions: FileSessionRepository, every interval: Duration, showsSessions: Bool,
        startupTimeout: Duration
    ) {
        (self.sender, self.sessions, self.interval) = (sender, sessions, interval)
        self.showsSessions = showsSessions
        trialTime = min(Self.drawing, startupTimeout / 2)
        plan = Mutex(Plan(next: interval))
    }

    // MARK: Events

    /// Records an event of the shell.
    func note(_ event: ShellEvent) {
        let now = stopwatch.elapsed
        let failed = plan.withLock { plan -> ScreenPicture? in
            switch event {
            case .launched(_, let isTrial):
                (plan.trial, plan.held) = (isTrial ? now + trialTime : nil, nil)
            case .confirmed:
                (plan.trial, plan.held) = (nil, nil)
                plan.note(.last, at: now)
            case .rolledBack:
                defer { (plan.trial, plan.held) = (nil, nil) }
                plan.note(.last, at: now)
                return plan.held
            case .unconfirmed: plan.note(.failed, at: now)
            case .blank(_, let isOver): plan.note(isOver ? .last : .failed, at: now)
            case .updateAvailable, .downloading, .installed, .failed, .checked, .complained: break
            }
            return nil
        }
        if let failed { offer(failed, .failed) }
    }

    /// Records the state of the screen.
    func note(_ state: LaunchState) {
        let now = stopwatch.elapsed
        plan.withLock { plan in
            if plan.state == state { return }
            plan.state = state
            switch state {
            case .signedOut, .locked, .maintenance, .waiting, .failure: plan.note(.last, at: now)
            case .client, .guests, .updateRequired: break
            }
        }
    }

    // MARK: Pictures

    /// Whether a picture of what the device shows now may leave it. The record of sessions may be newer than the screen.
    private var isAllowed: Bool {
        guard let state = plan.withLock(\.state), let record = try? sessions.record() else { return false }
        let showsClient =
            switch state {
            case .client, .updateRequired: true
            case .guests, .signedOut, .locked, .maintenance, .waiting, .failure: false
            }
        return switch record.status(at: .now) {
        case .notRequired: true
        case .authenticated: showsSessions
        case .unauthenticated: !showsClient
        case .locked: state.isLock
        }
    }

    private func offer(_ picture: ScreenPicture, _ kind: PicturePost.Kind) {
        sender.offer(picture, kind) { self.isAllowed }
    }

    /// Takes pictures with `take` until the task is cancelled. A page that `host` showed before a lock or the end of a session may still be
    /// on the screen until a browser has loaded another one, so there is no picture before.
    func run(_ host: LoopbackHost, take: @Sendable () async throws -> [UInt8]) async {
        var lastFailure: String?
        while (try? await Task.sleep(for: Self.pause)) != nil {
            let now = stopwatch.elapsed
            let (isTrial, isDue, kind) = plan.withLock { plan in
                (plan.trial.map { $0 <= now } ?? false, plan.next <= now, plan.kind)
            }
            guard isTrial || isDue, isAllowed, host.showsPresentPage else { continue }
            let generation = host.generation
            do {
                guard let picture = ScreenPicture(try await take()) else { throw Self.unreadable }
                lastFailure = nil
                guard isAllowed, host.generation == generation else { continue }
                if isTrial {
                    plan.withLock { if $0.trial != nil { ($0.trial, $0.held) = (nil, picture) } }
                } else {
                    offer(picture, kind)
                }
            } catch {
                if Task.isCancelled { return }
                let failure = UpdateFailure(error)
                if failure.message != lastFailure { Log.note(LogLine(failure, event: "picture")) }
                lastFailure = failure.message
                // A failed picture of a trial is not tried again: the page may have changed.
                if isTrial { plan.withLock { $0.trial = nil } }
            }
            // An event during the picture has planned the next one.
            if !isTrial { plan.withLock { if $0.next <= now { ($0.next, $0.kind) = (now + interval, .last) } } }
        }
    }

    private static let unreadable = UpdateFailure(
        .configInvalid, subject: "picture-command",
        "The command of --picture-command printed no JPEG or PNG of at most 48 KiB. Let it print a smaller picture, such as \"grim -s 0.25 -t jpeg -\"."
    )
}

/// How a program that runs the browser takes a picture of the screen.
enum PictureWay: Sendable {
    /// The browser is Chromium, which takes it itself.
    case browser
    case command([String])

    private static let limit = Duration.seconds(10)

    /// Returns the output of the command. Throws `UpdateFailure` if it fails.
    static func run(_ words: [String]) async throws -> [UInt8] {
        try await onThread {
            let (ending, output) = try StartedProgram.run(
                words, without: .secrets, for: limit, longestOutput: ScreenPicture.maximumBytes)
            if output.count <= ScreenPicture.maximumBytes, ending != .exited(0) {
                throw UpdateFailure(
                    .configInvalid, subject: "picture-command",
                    "The command of --picture-command \(ending). Run it by hand to see why; it has 10 s.")
            }
            return output
        }
    }
}

/// The flags of a program that takes pictures of the screen.
struct PictureOptions: ParsableArguments {
    @Flag(
        help:
            "Take pictures of the screen for the roster: after each verdict, when a page of the device itself appears, and every --picture-interval of serve. Never while a session of a user is open."
    )
    var picture = false

    @Option(
        help: ArgumentHelp(
            "Command that prints a picture of the screen, a JPEG or a PNG of at most 48 KiB, without a shell and for 10s at most, such as \"grim -s 0.25 -t jpeg -\" (default: Chromium takes the picture itself).",
            valueName: "command"))
    var pictureCommand: String?

    /// Returns how to take a picture; nil without `--picture`, and if another program runs the browser. Throws `ValidationError` if there is no way.
    func way(browser: [String]?) throws -> PictureWay? {
        let command = try CommandWords.read(pictureCommand, of: "picture-command")
        guard picture else {
            if command != nil { throw ValidationError("--picture-command needs --picture.") }
            return nil
        }
        if let command, let program = command.first {
            try CommandWords.requireProgram(program, of: "picture-command")
            return .command(command)
        }
        guard let browser else { return nil }
        if DebuggingPipe.words(browser) != nil { return .browser }
        throw ValidationError(
            "Only Chromium takes a picture itself, and --browser starts another program. Give --picture-command, such as \"grim -s 0.25 -t jpeg -\"."
        )
    }
}

/// The flags of the pictures that `serve` sends.
struct SentPictureOptions: ParsableArguments {
    private static let standardInterval = Duration.seconds(900)

    @OptionGroup var taking: PictureOptions

    @Option(
        help: ArgumentHelp(
            "With --picture, the longest time between two pictures (default: 15m).", valueName: "duration"))
    var pictureInterval: String?

    @Flag(help: "With --picture, also send pictures while a session of a user is open.")
    var pictureSessions = false

    /// Returns what takes pictures for the roster of `sender`; nil without `--picture`. Logs what it sends, and where.
    func pictures(
        to sender: RosterSender?, at url: String?, _ sessions: FileSessionRepository, startupTimeout: Duration
    ) throws -> ScreenPictures? {
        let interval = try FlagValue.duration(pictureInterval, of: "picture-interval") ?? Self.standardInterval
        if interval < .seconds(10) { throw ValidationError("--picture-interval takes 10s or more.") }
        guard taking.picture else {
            if pictureSessions { throw ValidationError("--picture-sessions needs --picture.") }
            return nil
        }
        guard let sender, let url else {
            throw ValidationError("--picture needs --roster, which receives the pictures.")
        }
        let sessionWords =
            pictureSessions ? "also while a session of a user is open" : "never while a session of a user is open"
        Log.note(
            LogLine(
                level: .info, event: "pictures",
                message:
                    "pictures of the screen are sent to \(try FlagValue.url(url, of: "roster").display), at least every \(DurationText(interval)), \(sessionWords)"
            ))
        return ScreenPictures(
            to: sender, sessions, every: interval, showsSessions: pictureSessions, startupTimeout: startupTimeout)
    }
}
