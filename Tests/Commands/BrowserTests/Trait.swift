import BundleTesting
import Testing

extension Trait where Self == ConditionTrait {
    /// A condition for suites that need a real browser.
    static var needsBrowser: Self {
        .enabled(if: Browser.isInstalled, "no Chromium: Scripts/bootstrap --browser installs it")
    }
}

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

extension Route {
    /// Returns a page with an icon in it, because the browser would request one.
    static func html(_ text: String, policy: String? = nil) -> Route {
        Route(bytes("<!doctype html><meta charset=utf-8><link rel=icon href=data:,>" + text)).with {
            $0.headers = [("Content-Type", "text/html; charset=utf-8")]
            if let policy { $0.headers.append(("Content-Security-Policy", policy)) }
        }
    }

    /// Returns a JSON response.
    static func json(_ text: String, status: Int = 200) -> Route {
        Route(bytes(text), status: status).with { $0.headers = [("Content-Type", "application/json")] }
    }
}

extension LoopbackServer {
    var root: String { "http://127.0.0.1:\(port)" }
}
