/// Why the browser, or a page in it, did not do what a test asked.
package enum BrowserError: Error, Equatable, CustomStringConvertible {
    /// There is no Chromium on the path.
    case notInstalled
    /// The browser ended, or its pipe did; with the end of what it printed.
    case ended(String)
    /// It did not answer in time.
    case timedOut(String)
    /// It refused a command.
    case refused(method: String, message: String)
    /// It sent what cannot be read.
    case unreadable(String)
    /// A page could not be loaded.
    case notLoaded(url: String, reason: String)
    /// An expression threw, or its promise was rejected.
    case exception(String)

    /// One sentence.
    package var description: String {
        switch self {
        case .notInstalled: "no Chromium on the path: Scripts/bootstrap --browser installs it"
        case .ended(let printed): "the browser ended; its last lines: \(printed)"
        case .timedOut(let what): "the browser did not answer in time: \(what)"
        case .refused(let method, let message): "the browser refused \(method): \(message)"
        case .unreadable(let what): "the browser sent a message that cannot be read: \(what)"
        case .notLoaded(let url, let reason): "\(url) was not loaded: \(reason)"
        case .exception(let text): "the expression threw: \(text)"
        }
    }
}
