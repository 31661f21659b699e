/// HTML that escapes everything from outside. Only the names of elements and attributes, which are literals, are not
/// escaped.
struct Markup: Sendable {
    let html: String

    init(text: String) { html = Self.escaped(text) }

    init(_ parts: [Markup]) { html = parts.lazy.map(\.html).joined() }

    /// An element. A `void` element has neither content nor an end tag.
    init(
        _ name: StaticString, _ attributes: KeyValuePairs<StaticString, String> = [:], _ content: [Markup] = [],
        isVoid: Bool = false
    ) {
        let start = attributes.reduce("<\(name)") { "\($0) \($1.key)=\"\(Self.escaped($1.value))\"" } + ">"
        html = isVoid ? start : start + content.lazy.map(\.html).joined() + "</\(name)>"
    }

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

/// A literal is text; the interpolated values are escaped.
extension Markup: ExpressibleByStringInterpolation {
    init(stringLiteral value: String) { self.init(text: value) }
}
