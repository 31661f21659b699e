import BundleTesting
import Testing

extension Trait where Self == ConditionTrait {
    /// For suites that need a real browser.
    static var needsBrowser: Self {
        .enabled(if: Browser.isInstalled, "no Chromium: Scripts/bootstrap --browser installs it")
    }
}

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

extension Route {
    /// A document, with an icon of its own: the browser would ask for one.
    static func html(_ text: String, policy: String? = nil) -> Route {
        Route(bytes("<!doctype html><meta charset=utf-8><link rel=icon href=data:,>" + text)).with {
            $0.headers = [("Content-Type", "text/html; charset=utf-8")]
            if let policy { $0.headers.append(("Content-Security-Policy", policy)) }
        }
    }

    /// A JSON document.
    static func json(_ text: String, status: Int = 200) -> Route {
        Route(bytes(text), status: status).with { $0.headers = [("Content-Type", "application/json")] }
    }
}

extension LoopbackServer {
    var root: String { "http://127.0.0.1:\(port)" }
}
