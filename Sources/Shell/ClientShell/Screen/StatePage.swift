import BundleCore
import BundleValues
import BundleServe

/// A page of the shell itself instead of a client: one sentence for users, without scripts and resources.
/// Instructions for operators are in the log, because the screen may be public.
struct StatePage {
    private let state: String
    private let title: String
    private let text: String

    /// The page of a device that has not decided yet what it shows.
    static let starting = StatePage(state: "starting", title: "One moment", text: "This device is starting.")

    private init(state: String, title: String, text: String) {
        self.state = state
        self.title = title
        self.text = text
    }

    /// Returns the page of `state`; nil if clients are shown.
    init?(_ state: LaunchState?) {
        switch state {
        case .authenticated, .unauthenticated, .updateRequired: return nil
        case .locked:
            self.init(
                state: "locked", title: "Locked", text: "This device is locked. Ask an administrator to unlock it.")
        case .signedOut: self.init(state: "signedOut", title: "Signed out", text: "No user is signed in.")
        case .maintenance:
            self.init(
                state: "maintenance", title: "Under maintenance",
                text: "This device is being serviced. It will be back soon.")
        case .waiting:
            self.init(
                state: "waiting", title: "Waiting for the first update",
                text: "This device shows its content as soon as it has arrived.")
        case .failure(let reason):
            self.init(
                state: "failure", title: "This device has nothing to show",
                text: "The log of this device contains the reason (\(reason.code.rawValue)).")
        case nil: self = Self.starting
        }
    }

    /// Returns the page with a token of its own.
    func page() throws -> Page {
        let token = try LaunchToken.random().text
        return Page(
            id: String(try LaunchToken.random().text.prefix(32)), token: token, site: try Site(page: document()))
    }

    /// The document, split where the host inserts elements.
    private func document() -> IndexPage {
        let before = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
        let after = """
            <meta name="viewport" content="width=device-width"><title>\(Self.escaped(title))</title>\
            <link rel="icon" href="data:,"><style>\(Self.style)</style></head>
            <body data-state="\(state)"><main><h1>\(Self.escaped(title))</h1><p>\(Self.escaped(text))</p></main></body></html>

            """
        return IndexPage(before: Array(before.utf8), after: Array(after.utf8), scriptSources: [])
    }

    private static let style = """
        html{height:100%}body{margin:0;min-height:100%;display:grid;place-items:center;background:#10141a;color:#e8edf2;\
        font:1.25rem/1.5 system-ui,sans-serif}main{max-width:32rem;padding:2rem;text-align:center}\
        h1{font-size:2rem;font-weight:600}p{overflow-wrap:anywhere}
        """

    /// Returns text with HTML escapes.
    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for character in text.unicodeScalars {
            switch character {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            default: escaped.unicodeScalars.append(character)
            }
        }
        return escaped
    }
}

/// A bar above a client that runs because a better one needs a newer shell.
struct UpdateNotice {
    private let minimum: SemanticVersion

    /// Creates the bar of a client that needs shell `minimum`.
    init(minimum: SemanticVersion) {
        self.minimum = minimum
    }

    /// The script that shows the bar. It is outside the body, which applications replace, and has its style set by
    /// script, which no policy of a page blocks.
    func script() throws -> ServerConfiguration.Bridge {
        let text =
            "The newest version of this content needs a newer shell, version \(minimum) or later. "
            + "Until then this device shows an older version."
        let literal = String(decoding: JSONWriter.bytes(of: .string(text)), as: UTF8.self)
        let script = Array(
            """
            (function () {
              'use strict';
              function show() {
                var bar = document.createElement('div');
                bar.id = 'clientctl-update-required';
                bar.setAttribute('role', 'status');
                bar.style.cssText = 'position:fixed;top:0;left:0;right:0;z-index:2147483647;display:flex;gap:1em;'
                  + 'align-items:center;justify-content:center;padding:.75em 1em;background:#10141a;color:#e8edf2;'
                  + 'font:16px/1.4 system-ui,sans-serif';
                var text = document.createElement('span');
                text.textContent = \(literal);
                var button = document.createElement('button');
                button.type = 'button';
                button.textContent = 'Hide';
                button.style.cssText = 'font:inherit;padding:.25em .75em';
                button.addEventListener('click', function () { bar.remove(); });
                bar.append(text, button);
                document.documentElement.appendChild(bar);
              }
              if (document.readyState === 'loading') {
                document.addEventListener('DOMContentLoaded', show);
              } else {
                show();
              }
            }());
            """.utf8)
        return ServerConfiguration.Bridge(script: script, scriptSource: try ScriptSource.expression(for: script[...]))
    }
}
