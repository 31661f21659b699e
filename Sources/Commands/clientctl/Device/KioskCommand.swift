import ArgumentParser
import BundleFetch
import BundleServe
import BundleValues
import CLibrary
import BundleShell
import ClientServer
import Synchronization

/// `clientctl kiosk`.
struct KioskCommand: AsyncParsableCommand, RequiringCommand {
    static let alsoRequired = [RequiredFlags.Need("browser <command>")]
    static let configuration = CommandConfiguration(
        commandName: "kiosk",
        abstract: "Run the browser of a device as another user than `serve`.",
        discussion: """
            A browser that runs as the user of `clientctl serve` can read and change the
            store. This command runs the browser as its own user. It ends the browser when
            a session ends or the page is lost, and starts it again, as `serve --browser`
            does. A visible page is lost if it sends no heartbeat for the time that
            `serve --heartbeat` sets. While `serve` does not answer, a browser that starts
            shows a page of this command.

            With --picture, it takes the pictures of the screen that `serve --picture`
            orders, and gives them to `serve`, which sends them.

            Examples:
              clientctl kiosk --port 12000 \\
                --browser "chromium --kiosk --user-data-dir={profile} {url}"
              clientctl kiosk --picture \\
                --browser "cage -- chromium --user-data-dir={profile} {url}"
            """)

    @OptionGroup var starting: BrowserOptions

    @Option(help: ArgumentHelp("Port of `serve` (default: 12000).", valueName: "n"))
    var port: String?

    @Option(
        help: ArgumentHelp(
            "User that runs `serve`, a name or a number. The page of another user's program is not shown, unless it is root (default: clientctl, or this user).",
            valueName: "user"))
    var serveUser: String?

    @OptionGroup var pictures: PictureOptions
    @OptionGroup var log: LogOptions
    @OptionGroup var common: CommonOptions

    private static let pause = Duration.milliseconds(500)
    /// `serve` answers within this time at a boot, so that its page is the first one.
    private static let shortestWait = Duration.seconds(3)
    /// A page that lost `serve` loads again within this time after a restart of `serve` (page-events.js).
    private static let returnTime = Duration.seconds(4)
    /// The time after which a device without `serve` is not starting any more.
    private static let longestStart = Duration.seconds(30)

    func run() async throws {
        try log.begin()
        let port = try FlagValue.port(port) ?? PortChoice.derived(appId: nil).wanted
        _ = try FlagValue.required(starting.browser, of: "browser")
        let (browser, profile) = try starting.commandAndProfile()
        let way = try pictures.way(browser: browser)
        let reader = try OrderReader(port: port, users: ServeUsers(serveUser))
        let kiosk = Kiosk(
            browser: browser, hook: nil, profile: profile, pictures: way,
            requiresSession: { reader.last?.requiresSession == true })
        try StartedProgram.reapOrphansAsInit()
        // A user without a home folder has none.
        let mark = try? KioskMark(port: port)
        let began = SuspendingClock().now
        let own = try await WaitingServer.start(next: {
            reader.isAnswered && !kiosk.hasWrongProfile ? reader.page : nil
        }) {
            ScreenDesign(device: MachineIdentity.hostName).pageWithoutServe(
                isStarting: SuspendingClock().now - began < Self.longestStart)
        }
        let signals = StopSignals()
        await withTaskGroup { group in
            group.addTask { await Self.follow(reader, with: kiosk, port: port, own: own, mark: mark) }
            await signals.wait()
            group.cancelAll()
        }
    }

    /// Starts the browser when `serve` answers, or after a short time with the page of `own`, and follows the orders of `serve` until the task
    /// is cancelled.
    private static func follow(
        _ reader: OrderReader, with kiosk: Kiosk, port: Int, own: WaitingServer, mark: KioskMark?
    ) async {
        let began = SuspendingClock().now
        var contact = ServeContact(at: began)
        var isStarted = false
        /// The time by which a browser has to load a page from a restarted `serve`.
        var deadline: SuspendingClock.Instant?
        await withTaskGroup { browsers in
            while !Task.isCancelled {
                let (known, wasShown) = (reader.last, reader.isAnswered)
                let answer = await reader.read()
                let now = SuspendingClock().now
                contact.note(answer, at: now).map { note($0, reader) }
                switch answer {
                case .orders(let orders):
                    // A restarted `serve` counts from 0.
                    if let known, known.process == orders.process {
                        if orders.endings != known.endings {
                            kiosk.endSession()
                        } else if orders.losses != known.losses {
                            kiosk.lose("serve reports it")
                        }
                    } else if kiosk.hasWrongProfile {
                        kiosk.endSession()
                    } else if isStarted {
                        // The browser may show an error page, which no page of the device replaces.
                        deadline = known?.hasPage == true && !reader.hasStarted ? now + returnTime : nil
                        // A browser that has loaded nothing yet gets the time of a start.
                        if deadline == nil { await reader.noteStart() }
                    }
                    reader.settle()
                    if let token = orders.picture, token != known?.picture, kiosk.takesPictures {
                        browsers.addTask { await Self.takePicture(token, reader, kiosk) }
                    }
                    if orders.hasPage != false { deadline = nil }
                    if let limit = deadline, now >= limit {
                        deadline = nil
                        kiosk.lose("serve was restarted, and the browser has loaded no page from it")
                    }
                case .taken: if wasShown { kiosk.lose("its address belongs to another user's program") }
                case .silent: break
                }
                if !isStarted, reader.isAnswered || now - began >= shortestWait {
                    isStarted = true
                    browsers.addTask {
                        await kiosk.keepBrowser(
                            at: port, showing: { reader.isAnswered ? reader.page : own.url }, mark: mark?.path,
                            starting: reader.noteStart)
                    }
                }
                try? await Task.sleep(for: pause)
            }
            browsers.cancelAll()
        }
    }

    /// Takes the picture that `serve` ordered with `token`, and gives it to `serve`.
    private static func takePicture(_ token: String, _ reader: OrderReader, _ kiosk: Kiosk) async {
        do {
            try await reader.give(try await kiosk.picture(of: reader.page), token: token)
        } catch {
            Log.note(LogLine(UpdateFailure(error), event: "picture"))
        }
    }

    private static func note(_ change: ServeContact.Change, _ reader: OrderReader) {
        switch change {
        case .isLost:
            Log.note(
                LogLine(
                    level: .warning, event: "serveSilent",
                    message:
                        "serve does not answer at \(reader.page): check CLIENTCTL_PORT (--port), and that clientctl-serve runs"
                )
            )
        case .isTaken(let user):
            Log.note(
                LogLine(
                    level: .error, event: "portTaken",
                    message:
                        "a program of the user \(ServeUsers.name(of: user)) listens at \(reader.page), and its page is not shown: end that program, or name the user of serve with --serve-user"
                ))
        case .isBack:
            Log.note(LogLine(level: .info, event: "serveAnswers", message: "serve answers at \(reader.page)"))
        }
    }
}

/// The users whose programs `clientctl kiosk` accepts as `serve`. Every user of the machine can listen on the port while `serve` does not.
struct ServeUsers: Sendable {
    /// The user of `clientctl-serve.service`.
    private static let service = "clientctl"

    private let accepted: Set<uid_t>

    /// Accepts root and the user of `--serve-user`, or without it the user of the service and of this program. Throws `UpdateFailure` for an
    /// unknown user.
    init(_ text: String?) throws {
        guard let text else {
            accepted = Set([0, geteuid(), Self.user(named: Self.service)].compactMap(\.self))
            return
        }
        guard let user = uid_t(text) ?? Self.user(named: text) else {
            throw UpdateFailure(
                .configInvalid, subject: "serve-user",
                "--serve-user: this machine has no user \(UntrustedName.display(text)). Name the user that runs serve."
            )
        }
        accepted = [0, user]
    }

    /// Returns a user that is not accepted; nil if all are.
    func intruder(among users: Set<uid_t>) -> uid_t? { users.subtracting(accepted).min() }

    /// Returns the name of a user for a message.
    static func name(of user: uid_t) -> String {
        guard let entry = getpwuid(user), let name = entry.pointee.pw_name else { return "\(user)" }
        return "\(UntrustedName.display(String(cString: name))) (\(user))"
    }

    private static func user(named name: String) -> uid_t? { getpwnam(name)?.pointee.pw_uid }
}

/// What `clientctl kiosk` finds at the port of `serve`.
private enum ServeAnswer: Sendable {
    case orders(PolledOrders)
    case silent
    /// A program of this user, who is not accepted.
    case taken(by: uid_t)
}

/// The contact of `clientctl kiosk` with `serve`.
private struct ServeContact {
    enum Change { case isLost, isBack, isTaken(by: uid_t) }

    /// A restart of `serve` is shorter.
    private static let limit = Duration.seconds(5)

    private var answered: SuspendingClock.Instant
    private var isLost = false
    private var intruder: uid_t?

    /// Creates a contact whose first answer is due from now on.
    init(at now: SuspendingClock.Instant) { answered = now }

    /// Records the result of a poll. Returns the change of the contact, if there is one.
    mutating func note(_ answer: ServeAnswer, at now: SuspendingClock.Instant) -> Change? {
        switch answer {
        case .orders:
            defer { (answered, isLost, intruder) = (now, false, nil) }
            return isLost || intruder != nil ? .isBack : nil
        case .taken(let user):
            if intruder == user { return nil }
            intruder = user
            return .isTaken(by: user)
        case .silent:
            guard !isLost, now - answered >= Self.limit else { return nil }
            isLost = true
            return .isLost
        }
    }
}

/// The orders of `serve` for the browser: counters of lost pages and ended sessions.
private struct PolledOrders: Sendable, Equatable {
    let process: Int
    let losses: Int
    let endings: Int
    let requiresSession: Bool
    /// Whether a browser has loaded a page since the start of `serve`; nil if `serve` does not say so.
    let hasPage: Bool?
    /// The token of the picture that `serve` waits for; nil if it waits for none.
    let picture: String?

    init?(_ object: JSONObject) {
        guard let process = object["process"]?.integerValue, let losses = object["losses"]?.integerValue,
            let endings = object["endings"]?.integerValue, let requires = object["requiresSession"]?.boolValue
        else { return nil }
        (self.process, self.losses, self.endings, requiresSession) = (process, losses, endings, requires)
        hasPage = object["hasPage"]?.boolValue
        picture = object["picture"]?.stringValue
    }
}

/// Polls `serve` for its orders.
private final class OrderReader: Sendable {
    private static let maximumBytes = 4096

    private struct Found {
        /// The orders that were read last; nil before `serve` has answered.
        var last: PolledOrders?
        /// Whether `serve` answered the last poll.
        var isAnswered = false
        /// The number of starts of the browser.
        var starts = 0
        /// The number of starts when `serve` answered last.
        var settledStarts = 0
    }

    /// The address of the device's page.
    let page: String
    private let port: Int
    private let users: ServeUsers
    private let fetcher: any Fetcher
    private let found = Mutex(Found())

    /// Throws `UpdateFailure` if the system does not list its sockets.
    init(port: Int, users: ServeUsers) throws {
        (self.port, self.users) = (port, users)
        page = "http://127.0.0.1:\(port)/"
        // Without the log of requests: it polls twice a second.
        fetcher = try DeviceContainer.fetcher(FetchOptions(userAgent: Product.userAgent))
        guard LoopbackPort.users(of: port) != nil else {
            throw UpdateFailure(
                .configInvalid, subject: "/proc/net/tcp",
                "clientctl kiosk cannot read /proc/net/tcp, which names the user of a port. Mount /proc with all files (ProcSubset=all in a unit)."
            )
        }
    }

    var last: PolledOrders? { found.withLock(\.last) }
    var isAnswered: Bool { found.withLock(\.isAnswered) }
    /// Whether the browser was started after the last answer.
    var hasStarted: Bool { found.withLock { $0.starts != $0.settledStarts } }

    /// Records that the starts so far are followed up.
    func settle() { found.withLock { $0.settledStarts = $0.starts } }

    /// Reports a start of the browser to `serve`, which then expects a page.
    func noteStart() async {
        found.withLock { $0.starts += 1 }
        if case .orders = await look() { settle() }
    }

    /// Reads the orders.
    func read() async -> ServeAnswer {
        let answer = await look()
        found.withLock { found in
            guard case .orders(let orders) = answer else {
                found.isAnswered = false
                return
            }
            (found.last, found.isAnswered) = (orders, true)
        }
        return answer
    }

    /// Gives `serve` the picture that it ordered with `token`. Gives nothing to another program at its port.
    func give(_ picture: [UInt8], token: String) async throws {
        if refusal() != nil { return }
        // `serve` names the format by the first bytes.
        let upload = FetchRequest.Upload(
            type: "application/octet-stream", bytes: picture, authorization: "Bearer \(token)")
        try await fetcher.post(upload, to: try FetchURL(parsing: "\(page)__clientctl/v1/picture"))
    }

    private func look() async -> ServeAnswer {
        if let refusal = refusal() { return refusal }
        let query = Kiosk.query(starts: found.withLock(\.starts))
        guard let url = try? FetchURL(parsing: "\(page)__clientctl/v1/kiosk\(query)"),
            let bytes = try? await fetcher.fetchBytes(url, maximumBytes: Self.maximumBytes),
            let object = try? JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes).objectValue,
            let orders = PolledOrders(object)
        else { return .silent }
        // The program that answered may have begun to listen after the first look.
        return refusal() ?? .orders(orders)
    }

    /// Returns why the program that listens on the port is not asked; nil if it may be `serve`.
    private func refusal() -> ServeAnswer? {
        guard let found = LoopbackPort.users(of: port), !found.isEmpty else { return .silent }
        return users.intruder(among: found).map { .taken(by: $0) }
    }
}
