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
            starts it again, as `serve --browser` does. To find a lost page, `serve` needs
            --heartbeat.

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
    /// The time after which a `serve` that has not answered yet is logged.
    private static let longestStart = Duration.seconds(5)

    func run() async throws {
        let settings = try common.settings()
        try log.begin(settings)
        let port = try settings.port(port) ?? PortChoice.derived(appId: nil).wanted
        _ = try settings.required("browser", starting.browser)
        let (browser, profile) = try starting.browser(settings)
        let reader = try OrderReader(port: port)
        let kiosk = Kiosk(
            browser: browser, heartbeat: nil, hook: nil, profile: profile,
            requiresSession: { reader.last?.requiresSession != false })
        let signals = StopSignals()
        await withTaskGroup { group in
            group.addTask { await Self.follow(reader, kiosk, port) }
            await signals.wait()
            group.cancelAll()
        }
    }

    /// Starts the browser when `serve` answers, and follows its orders until the task is cancelled.
    private static func follow(_ reader: OrderReader, _ kiosk: Kiosk, _ port: Int) async {
        await withTaskGroup { browsers in
            let began = SuspendingClock().now
            var isReported = false
            while !Task.isCancelled {
                let known = reader.last
                if known == nil, !isReported, SuspendingClock().now - began >= longestStart {
                    isReported = true
                    Log.say(
                        "serve does not answer at http://127.0.0.1:\(port)/: check CLIENTCTL_PORT (--port), and that "
                            + "clientctl-serve runs. The browser starts when serve answers.", .warning)
                }
                if let orders = await reader.read() {
                    // A restarted `serve` counts from 0.
                    if let known, known.process == orders.process {
                        if orders.endings != known.endings {
                            kiosk.endSession()
                        } else if orders.losses != known.losses {
                            kiosk.lose("serve reports it")
                        }
                    }
                    if known == nil { browsers.addTask { await kiosk.keepBrowser(at: port) } }
                }
                try? await Task.sleep(for: pause)
            }
            browsers.cancelAll()
        }
    }
}

/// The orders of `serve` for the browser: counters of lost pages and ended sessions.
private struct Orders: Sendable, Equatable {
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

    private let url: FetchURL
    private let fetcher: any Fetcher
    private let found = Mutex<Orders?>(nil)

    init(port: Int) throws {
        url = try FetchURL(parsing: "http://127.0.0.1:\(port)/__clientctl/v1/kiosk")
        fetcher = try DeviceContainer.fetcher(userAgent: "clientctl")
    }

    /// The orders that were read last; nil before `serve` has answered.
    var last: Orders? { found.withLock(\.self) }

    /// Reads the orders. Returns nil if `serve` does not answer.
    func read() async -> Orders? {
        guard let bytes = try? await fetcher.fetchBytes(url, maximumBytes: Self.maximumBytes),
            let object = try? JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes).objectValue,
            let orders = Orders(object)
        else { return nil }
        found.withLock { $0 = orders }
        return orders
    }
}
