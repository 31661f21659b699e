import BundleCore
import BundleServe
import BundleValues

/// A page of the shell itself instead of a client: one sentence for users, without scripts and resources.
/// Instructions for operators are in the log, because the screen may be public.
struct StatePage {
    private let state: String
    private let title: ScreenTexts.Sentence
    private let text: ScreenTexts.Sentence
    /// The error code in the text.
    private var code = ""

    /// The page of a device before it has decided on its content.
    static let starting = StatePage(state: "starting", title: .startingTitle, text: .startingText)

    private init(state: String, title: ScreenTexts.Sentence, text: ScreenTexts.Sentence) {
        self.state = state
        self.title = title
        self.text = text
    }

    /// Returns the page of `state`; nil if clients are shown.
    init?(_ state: LaunchState?) {
        switch state {
        case .authenticated, .unauthenticated, .updateRequired: return nil
        case .locked: self.init(state: "locked", title: .lockedTitle, text: .lockedText)
        case .signedOut: self.init(state: "signedOut", title: .signedOutTitle, text: .signedOutText)
        case .maintenance: self.init(state: "maintenance", title: .maintenanceTitle, text: .maintenanceText)
        case .waiting: self.init(state: "waiting", title: .waitingTitle, text: .waitingText)
        case .failure(let reason):
            self.init(state: "failure", title: .failureTitle, text: .failureText)
            code = reason.code.rawValue
        case nil: self = Self.starting
        }
    }

    /// Returns the page with a new token, in every language of `design`.
    func page(_ design: ScreenDesign) throws -> Page {
        let documents = design.texts.languages.map { ($0, document(in: $0, design)) }
        let token = try LaunchToken.random().text
        return Page(
            id: String(try LaunchToken.random().text.prefix(32)), token: token,
            site: try Site(page: documents[0].1), translations: Translations(documents))
    }

    /// The document, split where the host inserts elements.
    private func document(in language: String, _ design: ScreenDesign) -> IndexPage {
        func shown(_ key: ScreenTexts.Sentence) -> String {
            Self.escaped(design.texts.sentence(key, in: language).replacing("{code}", with: code))
        }
        let before = "<!doctype html><html lang=\"\(language)\"><head><meta charset=\"utf-8\">"
        let after = """
            <meta name="viewport" content="width=device-width"><title>\(shown(title))</title>\
            <link rel="icon" href="data:,"><style>\(Self.style)\(design.style?.css ?? "")</style></head>
            <body data-state="\(state)"><main><h1>\(shown(title))</h1><p>\(shown(text))</p></main></body></html>

            """
        return IndexPage(before: Array(before.utf8), after: Array(after.utf8), scriptSources: [])
    }

    private static let style = """
        html{height:100%}body{margin:0;min-height:100%;display:grid;place-items:center;background:#10141a;color:#e8edf2;\
        font:1.25rem/1.5 system-ui,sans-serif}main{max-width:32rem;padding:2rem;text-align:center}\
        h1{font-size:2rem;font-weight:600}h1,p{overflow-wrap:anywhere}
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

    /// The script that shows the bar. It is outside the body, which applications replace, and in a shadow tree, so that the styles
    /// of the client and of the operator do not affect each other. A constructed style sheet is not blocked by a policy of a page.
    func script(_ design: ScreenDesign) throws -> ServerConfiguration.Bridge {
        var texts = JSONObject()
        for language in design.texts.languages {
            let text = design.texts.sentence(.noticeText, in: language).replacing("{version}", with: "\(minimum)")
            texts[language] = .array([.string(text), .string(design.texts.sentence(.noticeHide, in: language))])
        }
        let script = Array(
            """
            (function () {
              'use strict';
              var texts = \(Self.literal(.object(texts)));
              var css = \(Self.literal(.string(Self.style + (design.style?.css ?? ""))));
              function chosen() {
                var languages = navigator.languages || [navigator.language || ''];
                for (var index = 0; index < languages.length; index += 1) {
                  var tag = String(languages[index]).toLowerCase();
                  while (tag && !texts[tag]) { tag = tag.slice(0, Math.max(tag.lastIndexOf('-'), 0)); }
                  if (tag) { return texts[tag]; }
                }
                return texts.en;
              }
              function add(root) {
                try {
                  var sheet = new CSSStyleSheet();
                  sheet.replaceSync(css);
                  root.adoptedStyleSheets = [sheet];
                } catch (error) {
                  var style = document.createElement('style');
                  style.textContent = css;
                  root.appendChild(style);
                }
              }
              function show() {
                var bar = document.createElement('div');
                bar.id = 'clientctl-update-required';
                bar.setAttribute('role', 'status');
                bar.style.cssText = 'position:fixed;top:0;left:0;right:0;z-index:2147483647';
                var root = bar.attachShadow({ mode: 'open' });
                add(root);
                var notice = document.createElement('div');
                notice.className = 'notice';
                var text = document.createElement('span');
                text.textContent = chosen()[0];
                var button = document.createElement('button');
                button.type = 'button';
                button.textContent = chosen()[1];
                button.addEventListener('click', function () { bar.remove(); });
                notice.append(text, button);
                root.appendChild(notice);
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

    private static let style = """
        .notice{display:flex;gap:1em;align-items:center;justify-content:center;padding:.75em 1em;background:#10141a;\
        color:#e8edf2;font:16px/1.4 system-ui,sans-serif}\
        .notice button{font:inherit;padding:.25em .75em;white-space:nowrap}
        """

    /// Returns a value as JavaScript without `<`, so that it cannot end the script's element.
    private static func literal(_ value: JSONValue) -> String {
        String(decoding: JSONWriter.bytes(of: value), as: UTF8.self).replacing("<", with: "\\u003C")
    }
}
