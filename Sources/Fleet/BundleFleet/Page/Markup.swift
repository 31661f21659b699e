/// HTML in which nothing from outside can be an element or an attribute: names stand in the code, everything else is escaped.
struct Markup: Sendable {
    /// The HTML itself.
    let html: String

    /// The text, as HTML has it.
    init(text: String) { html = Self.escaped(text) }

    /// Several in a row.
    init(_ parts: [Markup]) { html = parts.lazy.map(\.html).joined() }

    /// An element. One with neither content nor an end tag is `void`.
    init(
        _ name: StaticString, _ attributes: KeyValuePairs<StaticString, String> = [:], _ content: [Markup] = [],
        isVoid: Bool = false
    ) {
        let start = attributes.reduce("<\(name)") { "\($0) \($1.key)=\"\(Self.escaped($1.value))\"" } + ">"
        html = isVoid ? start : start + content.lazy.map(\.html).joined() + "</\(name)>"
    }

    /// A style sheet that stands in the code.
    init(style: StaticString) { html = "<style>\(style)</style>" }

    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for character in text.unicodeScalars {
            switch character {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&#39;"
            default: escaped.unicodeScalars.append(character)
            }
        }
        return escaped
    }
}

/// A literal is text, with whatever stands in it.
extension Markup: ExpressibleByStringInterpolation {
    init(stringLiteral value: String) { self.init(text: value) }
}
