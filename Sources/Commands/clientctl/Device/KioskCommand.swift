import ArgumentParser
import BundleServe
import BundleValues
import ClientShell
import Synchronization

/// `clientctl kiosk`.
struct KioskCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kiosk",
        abstract: "Run the browser of a device as another user than `serve`.",
        discussion: """
            A browser that runs as the user of `clientctl serve` can read and change the
            store. This command runs the browser as its own user. It starts the browser
            when `serve` answers, ends it when a session ends or the page is lost, and
            starts it again, as `serve --browser` does. A visible page is lost if it sends
            no heartbeat for the time that `serve --heartbeat` sets.

            Example:
              clientctl kiosk --port 12000 \\
                --browser "chromium --kiosk --user-data-dir={profile} {url}"
            """)

    @OptionGroup var starting: BrowserOptions

    @Option(help: ArgumentHelp("Port of `serve` (default: 12000).", valueName: "n"))
    var port: String?

    @OptionGroup var log: LogOptions
    @OptionGroup var common: CommonOptions

    private static let pause = Duration.milliseconds(500)

    func run() async throws {
        try log.begin()
        let port = try FlagValue.port(port) ?? PortChoice.derived(appId: nil).wanted
        _ = try FlagValue.required(starting.browser, of: "browser")
        let (browser, profile) = try starting.commandAndProfile()
        let reader = try OrderReader(port: port)
        let kiosk = Kiosk(
            browser: browser, hook: nil, profile: profile,
            requiresSession: { reader.last?.requiresSession != false })
        let signals = StopSignals()
        await withTaskGroup { group in
            group.addTask { await Self.follow(reader, with: kiosk, port: port) }
            await signals.wait()
            group.cancelAll()
        }
    }

    /// Starts the browser when `serve` answers, and follows its orders until the task is cancelled.
    private static func follow(_ reader: OrderReader, with kiosk: Kiosk, port: Int) async {
        var contact = ServeContact(at: SuspendingClock().now)
        await withTaskGroup { browsers in
            while !Task.isCancelled {
                let known = reader.last
                let orders = await reader.read()
                contact.note(isAnswered: orders != nil, at: SuspendingClock().now).map { note($0, port: port) }
                if let orders {
                    // A restarted `serve` counts from 0.
                    if let known, known.process == orders.process {
                        if orders.endings != known.endings {
                            kiosk.endSession()
                        } else if orders.losses != known.losses {
                            kiosk.lose("serve reports it")
                        }
                    }
                    if known == nil {
                        browsers.addTask { await kiosk.keepBrowser(at: port, starting: reader.noteStart) }
                    }
                }
                try? await Task.sleep(for: pause)
            }
            browsers.cancelAll()
        }
    }

    private static func note(_ change: ServeContact.Change, port: Int) {
        let url = "http://127.0.0.1:\(port)/"
        switch change {
        case .isLost:
            Log.note(
                LogLine(
                    level: .warning, event: "serveSilent",
                    message:
                        "serve does not answer at \(url): check CLIENTCTL_PORT (--port), and that clientctl-serve runs")
            )
        case .isBack: Log.note(LogLine(level: .info, event: "serveAnswers", message: "serve answers at \(url)"))
        }
    }
}

/// The contact of `clientctl kiosk` with `serve`.
private struct ServeContact {
    enum Change { case isLost, isBack }

    /// A restart of `serve` is shorter.
    private static let limit = Duration.seconds(5)

    private var answered: SuspendingClock.Instant
    private var isLost = false

    /// Creates a contact whose first answer is due from now on.
    init(at now: SuspendingClock.Instant) { answered = now }

    /// Records the result of a poll. Returns the change of the contact, if there is one.
    mutating func note(isAnswered: Bool, at now: SuspendingClock.Instant) -> Change? {
        if isAnswered {
            defer { (answered, isLost) = (now, false) }
            return isLost ? .isBack : nil
        }
        guard !isLost, now - answered >= Self.limit else { return nil }
        isLost = true
        return .isLost
    }
}

/// The orders of `serve` for the browser: counters of lost pages and ended sessions.
private struct PolledOrders: Sendable, Equatable {
    let process: Int
    let losses: Int
    let endings: Int
    let requiresSession: Bool

    init?(_ object: JSONObject) {
        guard let process = object["process"]?.integerValue, let losses = object["losses"]?.integerValue,
            let endings = object["endings"]?.integerValue, let requires = object["requiresSession"]?.boolValue
        else { return nil }
        (self.process, self.losses, self.endings, requiresSession) = (process, losses, endings, requires)
    }
}

/// Polls `serve` for its orders.
private final class OrderReader: Sendable {
    private static let maximumBytes = 4096

    private let address: String
    private let fetcher: any Fetcher
    private let found = Mutex<PolledOrders?>(nil)
    private let starts = Mutex(0)

    init(port: Int) throws {
        address = "http://127.0.0.1:\(port)/__clientctl/v1/kiosk"
        fetcher = try DeviceContainer.fetcher(userAgent: "clientctl")
    }

    /// The orders that were read last; nil before `serve` has answered.
    var last: PolledOrders? { found.withLock(\.self) }

    /// Reports a start of the browser to `serve`, which then expects a page.
    func noteStart() async {
        starts.withLock { $0 += 1 }
        _ = await fetch()
    }

    /// Reads the orders. Returns nil if `serve` does not answer.
    func read() async -> PolledOrders? {
        guard let orders = await fetch() else { return nil }
        found.withLock { $0 = orders }
        return orders
    }

    private func fetch() async -> PolledOrders? {
        guard let url = try? FetchURL(parsing: address + Kiosk.query(starts: starts.withLock(\.self))),
            let bytes = try? await fetcher.fetchBytes(url, maximumBytes: Self.maximumBytes),
            let object = try? JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes).objectValue
        else { return nil }
        return PolledOrders(object)
    }
}
