import ArgumentParser
import BundleServe
import BundleValues
import ClientShell
import Synchronization

/// `clientctl kiosk`.
struct KioskCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kiosk",
        abstract: "Start the browser of a device as another user than the one that serves.",
        discussion: """
            A browser that runs as the user of `clientctl serve` can read and change its
            store. This command starts the browser as its own user, and does with it what
            `serve --browser` does: it waits until serve answers, ends the browser when a
            session ends or the page is lost, and starts it again. serve needs --heartbeat
            to find a lost page.

            Example:
              clientctl kiosk --port 12000 \\
                --browser "chromium --kiosk --user-data-dir={profile} {url}"
            """)

    @OptionGroup var starting: BrowserOptions

    @Option(help: ArgumentHelp("Port of serve; 12000 by default.", valueName: "n"))
    var port: String?

    @OptionGroup var log: LogOptions
    @OptionGroup var common: CommonOptions

    private static let pause = Duration.milliseconds(500)

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

    /// Starts the browser when serve answers, and does what it orders, until it is cancelled.
    private static func follow(_ reader: OrderReader, _ kiosk: Kiosk, _ port: Int) async {
        await withTaskGroup { browsers in
            while !Task.isCancelled {
                let known = reader.last
                if let orders = await reader.read() {
                    // A serve that was started again counts from the start.
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

/// What `serve` wants of the browser, as it counts.
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

/// Asks `serve` for its orders.
private final class OrderReader: Sendable {
    private static let maximumBytes = 4096

    private let url: FetchURL
    private let fetcher: any Fetcher
    private let found = Mutex<Orders?>(nil)

    init(port: Int) throws {
        url = try FetchURL(parsing: "http://127.0.0.1:\(port)/__clientctl/v1/kiosk")
        fetcher = try DeviceContainer.fetcher(userAgent: "clientctl")
    }

    /// What was read last; nil before serve has answered.
    var last: Orders? { found.withLock(\.self) }

    /// Reads the orders; nil if serve does not answer.
    func read() async -> Orders? {
        guard let bytes = try? await fetcher.fetchBytes(url, maximumBytes: Self.maximumBytes),
            let object = try? JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes).objectValue,
            let orders = Orders(object)
        else { return nil }
        found.withLock { $0 = orders }
        return orders
    }
}
