import Glibc
import Synchronization

/// A real headless Chromium, driven over its debugging pipe; killed with its last reference, its pages included.
///
/// Every call ends within its time limit: a browser that hangs is an error with a sentence, never a test that hangs.
package final class Browser: Sendable {
    /// Whether there is a Chromium on the path; `Scripts/bootstrap --browser` installs one.
    package static var isInstalled: Bool { BrowserProcess.executable != nil }

    /// What starts one that nobody drives, with its profile and all else that it writes in `folder`.
    package static func command(in folder: String) throws -> [String] {
        guard let executable = BrowserProcess.executable else { throw BrowserError.notInstalled }
        return ["env"] + BrowserProcess.settings(in: folder)
            + BrowserProcess.arguments(executable, in: folder).filter {
                !["--remote-debugging-pipe", "about:blank"].contains($0)
            }
    }

    /// The time for what must come: so long that only what never comes takes longer, on a loaded machine too.
    package static let patience = Duration.seconds(60)

    private static let shared = Mutex<Browser?>(nil)

    let wire: BrowserWire
    private let process: BrowserProcess

    /// Starts one with an empty profile, and waits until it answers, at most a minute.
    package init() throws {
        process = try BrowserProcess()
        wire = try BrowserWire(process)
        _ = try wire.call("Browser.getVersion", within: Self.patience)
    }

    /// One browser for all tests, since to start one takes seconds of a processor; pages share nothing. It goes with this process.
    package static func forAllTests() throws -> Browser {
        try shared.withLock { shared in
            if let browser = shared { return browser }
            let browser = try Browser()
            shared = browser
            atexit { Browser.shared.withLock { $0 = nil } }
            return browser
        }
    }

    /// Opens a page with cookies, storage and a cache of its own, and loads `url` if given.
    ///
    /// Pictures are taken of a page in a window.
    package func open(
        _ url: String? = nil, inWindow: Bool = false, within limit: Duration = patience
    ) throws -> BrowserPage {
        let page = try BrowserPage(self, hasWindow: inWindow, within: limit)
        if let url { try page.navigate(url, within: limit) }
        return page
    }

    /// Its profile and what else it writes; removed with the browser.
    package var folder: String { process.folder.path }

    /// The processes of this browser that have not ended.
    package var processes: [Int32] { process.processes }
}
