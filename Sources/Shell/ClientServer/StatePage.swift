import BundleCore
package import BundleServe
import BundleValues
import BundleShell

/// A page of the shell itself instead of a client: one sentence for users, without scripts and resources.
/// Instructions for operators are in the log, because the screen may be public. A device without content also shows its name, and for
/// which answer it waits, to the person who installs it.
struct StatePage {
    private let state: String
    private let title: ScreenTexts.Sentence
    private let text: ScreenTexts.Sentence
    /// The error code in the text.
    private var code = ""
    /// The sentence below the text; nil for a state in which the device works as intended.
    private var detail: ScreenTexts.Sentence?
    private var host = ""
    private var since = ""

    /// The page of a device before it has decided on its content.
    static let starting = StatePage(state: "starting", title: .startingTitle, text: .startingText)

    private init(state: String, title: ScreenTexts.Sentence, text: ScreenTexts.Sentence) {
        self.state = state
        self.title = title
        self.text = text
    }

    /// Returns the page of `state`, in which the device is since `moment`; nil if clients are shown.
    init?(_ state: LaunchState?, since moment: Timestamp) {
        switch state {
        case .client, .guests, .updateRequired: return nil
        case .locked: self.init(state: "locked", title: .lockedTitle, text: .lockedText)
        case .signedOut: self.init(state: "signedOut", title: .signedOutTitle, text: .signedOutText)
        case .maintenance: self.init(state: "maintenance", title: .maintenanceTitle, text: .maintenanceText)
        case .waiting(let reason):
            self.init(state: "waiting", title: .waitingTitle, text: .waitingText)
            show(reason, since: moment)
        case .failure(let reason):
            self.init(state: "failure", title: .failureTitle, text: .failureText)
            show(reason, since: moment)
            detail = .sinceText
        case nil: self = Self.starting
        }
    }

    private mutating func show(_ reason: UpdateFailure, since moment: Timestamp) {
        (code, since) = (reason.code.rawValue, moment.localMinute)
        host = (try? FetchURL(parsing: reason.subject))?.origin.host ?? ""
        switch reason.code {
        // No check has ended.
        case .configInvalid: detail = .sinceText
        case .networkUnavailable where !host.isEmpty: detail = .noAnswerText
        default: detail = .checkFailedText
        }
    }

    /// The page of a kiosk whose `serve` has not answered for some time.
    fileprivate static let withoutServe: StatePage = {
        var page = StatePage(state: "failure", title: .failureTitle, text: .failureText)
        page.code = "serveSilent"
        return page
    }()

    /// Returns the page in every language of `design`.
    fileprivate func translations(_ design: ScreenDesign) -> Translations {
        Translations(design.texts.languages.map { ($0, document(in: $0, design)) })
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
            var sentence = design.texts.sentence(key, in: language)
            for (place, value) in [("{code}", code), ("{host}", host), ("{time}", since)] {
                sentence = sentence.replacing(place, with: value)
            }
            return Self.escaped(sentence)
        }
        // These states have no content. The others work as intended.
        let isWithoutContent = ["starting", "waiting", "failure"].contains(state)
        let lines = [isWithoutContent ? Self.escaped(design.device) : "", detail.map(shown) ?? ""].filter {
            !$0.isEmpty
        }
        let device = lines.isEmpty ? "" : "<p class=\"device\">\(lines.joined(separator: "<br>"))</p>"
        let before = "<!doctype html><html lang=\"\(language)\"><head><meta charset=\"utf-8\">"
        let after = """
            <meta name="viewport" content="width=device-width"><title>\(shown(title))</title>\
            <link rel="icon" href="data:,"><style>\(Self.style)\(design.style?.css ?? "")</style></head>
            <body data-state="\(state)"><main><h1>\(shown(title))</h1><p>\(shown(text))</p>\(device)</main></body></html>

            """
        return IndexPage(before: Array(before.utf8), after: Array(after.utf8), scriptSources: [])
    }

    private static let style = """
        html{height:100%}body{margin:0;min-height:100%;display:grid;place-items:center;background:#10141a;color:#e8edf2;\
        font:1.25rem/1.5 system-ui,sans-serif}main{max-width:32rem;padding:2rem;text-align:center}\
        h1{font-size:2rem;font-weight:600}h1,p{overflow-wrap:anywhere}.device{margin-top:2rem;font-size:1rem;color:#9aa5b1}
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

extension ScreenDesign {
    /// Returns the page of a kiosk whose `serve` does not answer: that the device is starting, or that it has nothing to show.
    package func pageWithoutServe(isStarting: Bool) -> Translations {
        (isStarting ? StatePage.starting : StatePage.withoutServe).translations(self)
    }
}
