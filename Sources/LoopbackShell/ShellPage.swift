public import BundleCore
import BundleServe

/// A page of the shell's own, in place of a client: one sentence for whoever stands in front of the device, without a script or
/// anything to load.
public struct ShellPage: Sendable, Equatable {
    private let state: String
    private let title: String
    private let text: String

    /// The device has not decided yet what it shows.
    public static let starting = ShellPage(
        state: "starting", title: "One moment", text: "This device is starting.")
    /// Somebody locked it.
    public static let locked = ShellPage(
        state: "locked", title: "Locked", text: "This device is locked. Whoever looks after it can unlock it.")
    /// Somebody works on it.
    public static let maintenance = ShellPage(
        state: "maintenance", title: "Under maintenance",
        text: "Somebody is working on this device. It will be back soon.")

    /// Nothing can be shown, for this reason.
    public static func failure(_ reason: UpdateFailure) -> ShellPage {
        ShellPage(state: "failure", title: "This device has nothing to show", text: reason.message)
    }

    /// The page, cut where the host's own elements go.
    func page() -> IndexPage {
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

    /// Text as HTML has it.
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
