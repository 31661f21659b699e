import Glibc
import Synchronization

/// A headless Chromium that is controlled by its debugging pipe. It is killed with its last reference, including its
/// pages.
///
/// Every call has a time limit, so a browser that hangs causes an error instead of a test that hangs.
package final class Browser: Sendable {
    /// Whether Chromium is on the path. `Scripts/bootstrap --browser` installs it.
    package static var isInstalled: Bool { BrowserProcess.executable != nil }

    /// Returns the command of a browser without a controller, which writes its files into `folder`.
    package static func command(in folder: String) throws -> [String] {
        guard let executable = BrowserProcess.executable else { throw BrowserError.notInstalled }
        return ["env"] + BrowserProcess.settings(in: folder)
            + BrowserProcess.arguments(executable, in: folder).filter {
                !["--remote-debugging-pipe", "about:blank"].contains($0)
            }
    }

    /// The default time limit, which only a hang exceeds, even on a busy machine.
    package static let patience = Duration.seconds(60)

    private static let shared = Mutex<Browser?>(nil)

    let wire: BrowserWire
    private let process: BrowserProcess

    /// Starts a browser with an empty profile and waits up to a minute until it responds.
    package init() throws {
        process = try BrowserProcess()
        wire = try BrowserWire(process)
        _ = try wire.call("Browser.getVersion", within: Self.patience)
    }

    /// Returns the browser that all tests share, because a start takes seconds of processor time. Pages share nothing. It
    /// ends with this process.
    package static func forAllTests() throws -> Browser {
        try shared.withLock { shared in
            if let browser = shared { return browser }
            let browser = try Browser()
            shared = browser
            atexit { Browser.shared.withLock { $0 = nil } }
            return browser
        }
    }

    /// Opens a page with separate cookies, storage and cache, and loads `url` if it is given.
    ///
    /// Screenshots require a window.
    package func open(
        _ url: String? = nil, inWindow: Bool = false, within limit: Duration = patience
    ) throws -> BrowserPage {
        let page = try BrowserPage(self, hasWindow: inWindow, within: limit)
        if let url { try page.navigate(url, within: limit) }
        return page
    }

    /// The folder of the profile and other files. It is removed with the browser.
    package var folder: String { process.folder.path }

    /// The running processes of this browser.
    package var processes: [Int32] { process.processes }
}
