import BundleCore
import BundleDisk
import BundleValues
import BundleShell
import ClientServer
import CLibrary
import Synchronization

/// Runs the browser of a device, and a command after each rollback.
final class Kiosk: Sendable {
    private static let shortestPause = Duration.seconds(1)
    private static let longestPause = Duration.seconds(60)
    /// A browser that ends with status 0 before this time has shown nothing.
    private static let shortestRun = Duration.seconds(5)
    private static let hookLimit = Duration.seconds(30)
    /// The time that a running hook has left when `serve` ends.
    private static let hookGrace = Duration.seconds(5)

    private struct Run {
        var program: StartedProgram?
        /// The pipe of a browser that takes pictures; nil for another one.
        var pipe: DebuggingPipe?
        /// Whether the profile is only for this session.
        var isFresh = false
        /// Whether the profile would be another one if the device requires a session.
        var isChosen = false
        /// Whether the session ended while the browser ran.
        var isOver = false
        /// Whether the browser was ended because its page was lost.
        var isLost = false
    }

    /// The time after which a silent page is lost, unless the operator names another one.
    static let standardHeartbeat = Duration.seconds(60)

    let heartbeat: Duration
    var startsBrowser: Bool { browser != nil }
    var takesPictures: Bool { pictures != nil }
    /// Whether the loss of a page has a consequence: a program can restart the browser, or the operator asked for a warning.
    var isFollowed: Bool { startsBrowser || isHeartbeatGiven || orders.withLock(\.areObeyed) }
    private let isHeartbeatGiven: Bool
    private let browser: [String]?
    private let hook: [String]?
    private let profile: SessionProfile?
    private let requiresSession: @Sendable () -> Bool
    private let pictures: PictureWay?
    private let running = Mutex(Run())
    private let orders = Mutex(Orders())
    private let rollbacks: AsyncStream<[String: String]>
    private let report: AsyncStream<[String: String]>.Continuation

    /// Creates a kiosk. `heartbeat` is nil if the operator named none. Without `profile`, the browser gets a fresh folder if the device
    /// `requiresSession`, and otherwise keeps one folder.
    init(
        browser: [String]?, heartbeat: Duration? = nil, hook: [String]?, profile: SessionProfile? = nil,
        pictures: PictureWay? = nil, requiresSession: @escaping @Sendable () -> Bool = { false }
    ) {
        (self.browser, self.hook) = (browser, hook)
        (self.heartbeat, isHeartbeatGiven) = (heartbeat ?? Self.standardHeartbeat, heartbeat != nil)
        (self.profile, self.requiresSession, self.pictures) = (profile, requiresSession, pictures)
        (rollbacks, report) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(4))
    }

    /// The orders for a browser that runs as another user. `clientctl kiosk` polls them.
    private struct Orders {
        /// The number of lost pages.
        var losses = 0
        /// The number of ended sessions.
        var endings = 0
        /// The order to take a picture: the token with which it arrives, and its receiver.
        var picture: (token: String, receiver: AsyncStream<[UInt8]>.Continuation)?
        /// The time of the last poll.
        var asked: SuspendingClock.Instant?
        /// The number of browsers that `clientctl kiosk` has started, with the one that starts now; nil before its first poll.
        var starts: Int?
        /// Called when `clientctl kiosk` starts a browser.
        var noteStart: @Sendable () -> Void = {}
        /// Returns whether a browser has loaded a page since the start of `serve`; nil while `serve` has no store.
        var hasPage: @Sendable () -> Bool? = { nil }

        /// Whether `clientctl kiosk` polled within the last 10 seconds.
        var areObeyed: Bool { asked.map { SuspendingClock().now - $0 < .seconds(10) } ?? false }
    }

    /// The query of a poll after `starts` starts of the browser.
    static func query(starts: Int) -> String { "?starts=\(starts)" }

    /// Sets the functions that are called when `clientctl kiosk` starts a browser, which has to load the page, and when it asks for the page.
    func follow(start: @escaping @Sendable () -> Void, hasPage: @escaping @Sendable () -> Bool) {
        orders.withLock { ($0.noteStart, $0.hasPage) = (start, hasPage) }
    }

    /// Returns the orders for `clientctl kiosk`, which polls with `query`.
    func ordersForKiosk(_ query: Substring) -> JSONObject {
        let starts = query.split(separator: "=").last.flatMap { Int($0) }
        let (orders, hasStarted) = orders.withLock { orders in
            let hasStarted = orders.starts.map { $0 < starts ?? 0 } ?? false
            (orders.asked, orders.starts) = (SuspendingClock().now, starts)
            return (orders, hasStarted)
        }
        if hasStarted { orders.noteStart() }
        var answer: JSONObject = [
            "process": .integer(Int(getpid())), "losses": .integer(orders.losses), "endings": .integer(orders.endings),
            "requiresSession": .bool(requiresSession()),
        ]
        if let hasPage = orders.hasPage() { answer["hasPage"] = .bool(hasPage) }
        if let token = orders.picture?.token { answer["picture"] = .string(token) }
        return answer
    }

    // MARK: Pictures

    private static let pictureLimit = Duration.seconds(15)

    /// Returns a picture of the browser that shows `address`: of this program, or else of `clientctl kiosk`. Throws `UpdateFailure` if there is
    /// none.
    func picture(of address: String) async throws -> [UInt8] {
        switch pictures {
        case .command(let words): return try await PictureWay.run(words)
        case .browser:
            guard let pipe = running.withLock(\.pipe) else { throw Self.noBrowser }
            return try await onThread { try pipe.picture(of: address) }
        case nil: return try await orderPicture()
        }
    }

    private static let noBrowser = UpdateFailure(
        .configInvalid, subject: "picture",
        "No browser runs that gives a picture of its screen. Start it with `serve --browser`, or with `clientctl kiosk --picture`."
    )

    private func orderPicture() async throws -> [UInt8] {
        let token = try LaunchToken.random().text
        let (bytes, receiver) = AsyncStream<[UInt8]>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let isObeyed = orders.withLock { orders in
            if orders.areObeyed { orders.picture = (token, receiver) }
            return orders.areObeyed
        }
        guard isObeyed else { throw Self.noBrowser }
        let limit = Task {
            try await Task.sleep(for: Self.pictureLimit)
            receiver.finish()
        }
        defer {
            limit.cancel()
            orders.withLock { if $0.picture?.token == token { $0.picture = nil } }
        }
        for await picture in bytes { return picture }
        throw Self.noBrowser
    }

    /// Takes the picture that was ordered with `token`. Returns false if none was. A token is used up.
    func receive(_ picture: [UInt8], token: String) -> Bool {
        orders.withLock { orders in
            guard let order = orders.picture, order.token == token else { return false }
            orders.picture = nil
            order.receiver.yield(picture)
            return true
        }
    }

    /// Ends the browser because its page is lost.
    func lose(_ reason: String) {
        let isObeyed = orders.withLock { orders in
            orders.losses += 1
            return orders.areObeyed
        }
        let sequel =
            browser == nil && !isObeyed
            ? "serve cannot restart the browser without --browser" : "the browser is restarted"
        Log.note(LogLine(level: .warning, event: "pageLost", message: "the page is lost: \(reason); \(sequel)"))
        let program = running.withLock { running in
            running.isLost = true
            return running.program
        }
        program?.end()
    }

    /// Whether the browser that runs has the lasting profile on a device that requires a session. It was started before that was known.
    var hasWrongProfile: Bool { running.withLock { $0.isChosen && !$0.isFresh } && requiresSession() }

    /// Ends the browser because a session ended. A browser with a fresh profile is killed, because its data is not for the next user. With a
    /// kept profile, the browser gets time to write it.
    func endSession() {
        orders.withLock { $0.endings += 1 }
        let (program, isFresh) = running.withLock { running in
            running.isOver = running.program != nil
            return (running.program, running.isFresh)
        }
        if isFresh { program?.kill() } else { program?.end() }
    }

    /// Runs the hook if `event` is a rollback.
    func observe(_ event: ShellEvent) {
        guard hook != nil, case .rolledBack(let name, let other, let failure) = event else { return }
        report.yield([
            "ROLLBACK_FROM": "\(name)", "ROLLBACK_TO": "\(other)",
            "ROLLBACK_REASON": UntrustedName.display(failure.message, limit: 1000),
        ])
    }

    /// Runs a browser that shows `port` of this machine, or else the `address` at the time of its start, and restarts it until the task is
    /// cancelled. Calls `starting` before each start, and `restarting` before each start after an unexpected end.
    ///
    /// First ends browsers that an earlier run left, which was killed: those with the folder `mark`, which the caller has locked. Otherwise,
    /// the new browser would open its page in the old one, and end.
    func keepBrowser(
        at port: Int, showing address: (@Sendable () -> String)? = nil, mark: String? = nil,
        starting: @escaping @Sendable () async -> Void = {}, restarting: @Sendable () -> Void = {}
    ) async {
        guard let browser else { return }
        let hasProfile = CommandWords.names(CommandWords.profile, in: browser)
        if !hasProfile && requiresSession() {
            Log.note(
                LogLine(
                    level: .warning, event: "browser",
                    message:
                        "the browser keeps the data of one user for the next: set its profile folder in --browser "
                        + "to {profile}"))
        }
        // Landlock denies other threads to read the open files of another process, and to change a profile.
        if let mark, (try? await onThread { try SpawnThread.run { BrowserLeftovers.endOrphans(of: mark) } }) ?? 0 > 0 {
            Log.note(LogLine(level: .info, event: "browser", message: "ended a browser that an earlier run left"))
        }
        let address = address ?? { "http://127.0.0.1:\(port)/" }
        var pause = Self.shortestPause
        var drawing = Drawing(browser)
        while !Task.isCancelled {
            let began = SuspendingClock().now
            let start = Start(
                words: browser, variables: drawing?.variables ?? [:], address: address, port: port, mark: mark,
                hasProfile: hasProfile)
            let (isOver, hasFailed) = await watch(start, starting: starting)
            if hasFailed, let next = drawing?.next(afterFailureIn: SuspendingClock().now - began) {
                drawing = next
                Log.note(LogLine(level: .info, event: "browser", message: next.notice))
            }
            // The next user is waiting.
            if isOver {
                pause = Self.shortestPause
                continue
            }
            // A browser that ran for a long time is restarted quickly.
            if SuspendingClock().now - began > Self.longestPause { pause = Self.shortestPause }
            do { try await Task.sleep(for: pause) } catch { return }
            pause = min(pause * 2, Self.longestPause)
            restarting()
        }
    }

    /// One start of the browser.
    private struct Start {
        let words: [String]
        let variables: [String: String]
        let address: @Sendable () -> String
        let port: Int
        let mark: String?
        let hasProfile: Bool
    }

    /// Runs the browser until it ends. Returns whether it ended because its session ended, and whether it failed.
    private func watch(
        _ start: Start, starting: @Sendable () async -> Void
    ) async -> (isOver: Bool, hasFailed: Bool) {
        do {
            let hasProfile = start.hasProfile
            let isFresh = profile.map { $0 == .fresh } ?? requiresSession()
            let folder = hasProfile ? try await makeFolder(start.port, isFresh: isFresh) : nil
            let placed = CommandWords.place(start.address(), profile: folder?.profile, in: start.words)
            let more = if case .browser? = pictures { DebuggingPipe.words(placed) } else { [String]?.none }
            let (words, pipe) = (more ?? placed, try more.map { _ in try DebuggingPipe() })
            for line in try await onThread({ try SpawnThread.run { BrowserLeftovers.removeStaleLocks(of: words) } }) {
                Log.note(LogLine(level: .warning, event: "browser", message: line))
            }
            await starting()
            let began = SuspendingClock().now
            let output = try BrowserOutput()
            let program = try await onThread {
                defer {
                    output.isPassedOn()
                    pipe?.isPassedOn()
                }
                return try StartedProgram(
                    words, adding: start.variables, without: .secrets, mark: start.mark, pipe: pipe?.theirs,
                    output: output.writing, errors: output.writing)
            }
            running.withLock {
                $0 = Run(
                    program: program, pipe: pipe, isFresh: isFresh && hasProfile, isChosen: hasProfile && profile == nil
                )
            }
            let ending = try await withTaskCancellationHandler {
                try await program.ending()
            } onCancel: {
                program.end()
            }
            let (isOver, isLost) = running.withLock { running in
                defer { running = Run() }
                return (running.isOver, running.isLost)
            }
            if let folder, isFresh || (isOver && profile != .keep) { try await remove(folder) }
            let lines = output.lastLines()
            if Task.isCancelled || isOver { return (isOver, false) }
            let isBrief = ending == .exited(0) && SuspendingClock().now - began < Self.shortestRun
            let guess = isBrief ? " at once: another browser may have its profile;" : ";"
            Log.note(
                LogLine(level: .warning, event: "browser", message: "the browser \(ending)\(guess) it is restarted")
            )
            for line in lines {
                Log.note(LogLine(level: .warning, event: "browserOutput", message: "the browser wrote: \(line)"))
            }
            return (false, ending != .exited(0) && !isLost)
        } catch {
            running.withLock { $0 = Run() }
            Log.note(LogLine(UpdateFailure(error), event: "browser"))
            return (false, false)
        }
    }

    /// Creates the folder on the thread that starts programs, because Landlock may confine this thread to the store.
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

    /// Runs the hook once for each rollback until the task is cancelled. Call this once. Rollbacks that are still queued at the end are
    /// handled, because `serve` often ends with a rollback.
    func runHook() async {
        guard let hook else { return }
        for await variables in rollbacks {
            do {
                let program = try await onThread { try StartedProgram(hook, adding: variables) }
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
