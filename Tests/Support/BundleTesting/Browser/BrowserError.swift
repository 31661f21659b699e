/// The reason why the browser or a page did not obey a test.
package enum BrowserError: Error, Equatable, CustomStringConvertible {
    case notInstalled
    /// The browser or its pipe ended. The value is the end of its output.
    case ended(String)
    /// The browser did not respond in time.
    case timedOut(String)
    /// The browser rejected a command.
    case refused(method: String, message: String)
    /// The browser sent an invalid message.
    case unreadable(String)
    case notLoaded(url: String, reason: String)
    /// An expression threw, or its promise was rejected.
    case exception(String)

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
