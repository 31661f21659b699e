/// Tracks whether a page is inside SVG or MathML. There `<style/>` is self-closing, text is never raw, and CDATA
/// sections exist.
struct ForeignElements {
    /// The open `svg` and `math` elements, and the elements in them that contain HTML; innermost last.
    private var open: [String] = []

    /// Whether the innermost open element is not HTML.
    var isCurrent: Bool { open.last == "svg" || open.last == "math" }

    /// The number of open elements.
    var depth: Int { open.count }

    /// Handles a start tag. Returns false if it is an HTML element.
    mutating func start(_ tag: HTMLTokenizer.Tag) -> Bool {
        if isCurrent && Self.leaving.contains(tag.name) {
            while isCurrent { open.removeLast() }
        }
        let opens = tag.name == "svg" || tag.name == "math" || isCurrent && Self.holdingHTML.contains(tag.name)
        let isForeign = isCurrent || opens
        if opens && !tag.isSelfClosing && open.count < Self.deepest { open.append(tag.name) }
        return isForeign
    }

    /// Handles an end tag.
    mutating func end(_ name: String) {
        if open.last == name { open.removeLast() }
    }

    /// Closes the elements that were opened since the given depth.
    mutating func close(to depth: Int) {
        open.removeLast(max(0, open.count - depth))
    }

    /// The depth at which browsers stop nesting.
    private static let deepest = 512

    private static let holdingHTML: Set<String> = ["foreignobject", "desc", "title", "mi", "mo", "mn", "ms", "mtext"]

    /// The HTML elements that end foreign content (HTML standard, section 13.2.6.5).
    private static let leaving: Set<String> = [
        "b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "embed", "h1", "h2",
        "h3", "h4", "h5", "h6", "head", "hr", "i", "img", "li", "listing", "menu", "meta", "nobr", "ol", "p", "pre",
        "ruby", "s", "small", "span", "strong", "strike", "sub", "sup", "table", "tt", "u", "ul", "var",
    ]
}
