import BundleValues

/// The positions in an HTML page that matter when a script is added: the start of its head, and the inline scripts.
///
/// Finds tags as browsers do with scripting enabled. Accepts any bytes, in linear time. Scripts inside SVG are not
/// reported, since the browser decodes their text.
package struct HTMLOutline: Sendable, Equatable {
    /// An inline script that a browser would run, or that governs which scripts run.
    package struct InlineScript: Sendable, Equatable {
        /// The range of the text; never empty.
        package let text: Range<Int>
        /// Whether the script is in a `<template>`, where the browser does not run it.
        package let isInTemplate: Bool
    }

    /// A `<meta>` element with a name.
    struct NamedMeta: Sendable, Equatable {
        /// The name in lower case, because names are compared without ASCII case.
        let name: String
        /// The bytes of `content`, in which no character reference is decoded.
        let content: ArraySlice<UInt8>
    }

    /// The offset behind the start tag of the head, or else behind that of the page, the doctype, or the byte order
    /// mark.
    package private(set) var headStart: Int
    /// The offset for a script that has to run before the scripts of the page: `headStart`, or behind the declaration of the encoding if
    /// that comes first, because browsers search for it in the first kilobyte.
    package private(set) var scriptStart: Int
    /// The inline scripts to which `script-src` of a Content-Security-Policy applies, in order.
    package private(set) var scripts: [InlineScript] = []
    /// The nonce of the first script with a valid one, in base64 or its URL form.
    package private(set) var nonce: String?

    /// The encoding that the page declares, for a header; nil if a byte order mark makes it UTF-8.
    package private(set) var charset: String?

    /// The named `<meta>` elements of the head, in order.
    private(set) var headMetas: [NamedMeta] = []

    /// Parses `page`.
    package init(_ page: [UInt8]) {
        let isMarked = page.starts(with: [0xEF, 0xBB, 0xBF])
        headStart = isMarked ? 3 : 0
        scriptStart = headStart
        var tokenizer = HTMLTokenizer(page, from: headStart, describing: ["script", "meta"])
        var foreign = ForeignElements()
        var templates: [Int] = []
        var isBeforeHead = true
        var isBeforeScripts = true
        defer { scriptStart = max(scriptStart, headStart) }
        var head = HeadScope()

        while let token = tokenizer.next(isForeign: foreign.isCurrent) {
            switch token {
            case .comment: break
            case .text(let isBlank):
                if isBlank { break }
                isBeforeHead = false
                if templates.isEmpty { head.close() }
            case .doctype: if isBeforeHead { headStart = tokenizer.index }
            case .tag(let tag) where tag.isEnd:
                isBeforeHead = false
                foreign.end(tag.name)
                if tag.name == "template", let depth = templates.popLast() {
                    foreign.close(to: depth)
                } else if templates.isEmpty {
                    head.end(tag.name)
                }
            case .tag(let tag):
                if templates.isEmpty { head.start(tag.name) }
                if isBeforeHead && (tag.name == "html" || tag.name == "head") { headStart = tokenizer.index }
                if tag.name != "html" { isBeforeHead = false }
                if foreign.start(tag) { continue }
                if !Self.quietElements.contains(tag.name) { isBeforeScripts = false }
                if tag.name == "meta" && charset == nil && !isMarked {
                    charset = Self.charset(tag, in: page)
                    if charset != nil && isBeforeScripts { scriptStart = tokenizer.index }
                }
                if tag.name == "meta", head.isOpen, templates.isEmpty, let name = tag.attributes["name"] {
                    headMetas.append(
                        NamedMeta(
                            name: String(decoding: page[name].map(\.asciiLowered), as: UTF8.self),
                            content: tag.attributes["content"].map { page[$0] } ?? []))
                }
                if tag.name == "template" {
                    templates.append(foreign.depth)
                } else if tag.name == "script" || tag.name == "plaintext" || Self.rawTextElements.contains(tag.name) {
                    guard tag.name != "plaintext", let text = tokenizer.rawText(of: tag.name) else { return }
                    if tag.name == "script" { add(tag, text: text, in: page, isInTemplate: !templates.isEmpty) }
                }
            }
        }
    }

    private mutating func add(_ tag: HTMLTokenizer.Tag, text: Range<Int>, in page: [UInt8], isInTemplate: Bool) {
        if nonce == nil, let value = tag.attributes["nonce"], !value.isEmpty, page[value].allSatisfy(Self.isNonceByte) {
            nonce = String(decoding: page[value], as: UTF8.self)
        }
        if tag.attributes["src"] != nil || text.isEmpty { return }
        if ScriptType.isJudged(
            type: tag.attributes["type"].map { page[$0] }, language: tag.attributes["language"].map { page[$0] })
        {
            scripts.append(InlineScript(text: text, isInTemplate: isInTemplate))
        }
    }

    /// Returns the encoding in a `<meta charset>` or its older form (HTML standard, "extracting a character encoding
    /// from a meta element").
    private static func charset(_ tag: HTMLTokenizer.Tag, in page: [UInt8]) -> String? {
        var label = tag.attributes["charset"].map { page[$0] }
        if label == nil, tag.attributes["http-equiv"] != nil, let content = tag.attributes["content"].map({ page[$0] })
        {
            let text = String(decoding: content, as: UTF8.self)
            label = text.lowercased().firstRange(of: "charset=").map { Array(text[$0.upperBound...].utf8)[...] }
        }
        let word = label?.drop(while: { !isLabelByte($0) }).prefix(while: isLabelByte) ?? []
        // Browsers read a page with an ASCII declaration of UTF-16 as UTF-8.
        return word.isEmpty || word.starts(with: "utf-16".utf8)
            ? nil : String(decoding: word, as: UTF8.self).lowercased()
    }

    private static func isLabelByte(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || "-_.:+".utf8.contains(byte)
    }

    /// The elements of a head that run no script.
    private static let quietElements: Set<String> = ["html", "head", "meta", "title", "base"]

    /// The elements whose content is text up to their end tag. `noscript` is one if scripting is enabled.
    static let rawTextElements: Set<String> = [
        "style", "textarea", "title", "iframe", "noembed", "noframes", "noscript", "xmp",
    ]

    /// The `base64-value` of Content Security Policy Level 3.
    private static func isNonceByte(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || byte.isASCIIDigit || "+/-_=".utf8.contains(byte)
    }
}

/// Whether the parser is still in the head (HTML standard, sections 13.2.6.4.2 to 13.2.6.4.6). Elements of the head
/// that follow its end tag are still put into it.
private struct HeadScope {
    private(set) var isOpen = true
    private var isBehindEndTag = false

    private static let elements: Set = [
        "html", "head", "base", "basefont", "bgsound", "link", "meta", "noframes", "script", "style", "template",
        "title",
    ]

    mutating func close() { isOpen = false }

    mutating func start(_ name: String) {
        if !Self.elements.contains(name), name != "noscript" || isBehindEndTag { isOpen = false }
    }

    mutating func end(_ name: String) {
        if name == "head" { isBehindEndTag = true }
        if ["body", "html", "br"].contains(name) { isOpen = false }
    }
}

/// Classifies scripts by their `type` (HTML standard, "prepare the script element").
enum ScriptType {
    /// Returns whether a script with these attributes runs, or governs scripts as import maps and speculation rules
    /// do.
    static func isJudged(type: ArraySlice<UInt8>?, language: ArraySlice<UInt8>?) -> Bool {
        guard let type else {
            guard let language, !language.isEmpty else { return true }
            return javaScript.contains("text/" + lowercased(language))
        }
        if type.isEmpty { return true }
        let name = lowercased(type.drop(while: HTMLTokenizer.isSpace).trimmingSuffix(while: HTMLTokenizer.isSpace))
        return javaScript.contains(name) || name == "module" || name == "importmap" || name == "speculationrules"
    }

    private static func lowercased(_ bytes: ArraySlice<UInt8>) -> String {
        String(decoding: bytes.map(\.asciiLowered), as: UTF8.self)
    }

    /// The JavaScript MIME type essences of the MIME Sniffing standard.
    private static let javaScript: Set<String> = [
        "application/ecmascript", "application/javascript", "application/x-ecmascript", "application/x-javascript",
        "text/ecmascript", "text/javascript", "text/javascript1.0", "text/javascript1.1", "text/javascript1.2",
        "text/javascript1.3", "text/javascript1.4", "text/javascript1.5", "text/jscript", "text/livescript",
        "text/x-ecmascript", "text/x-javascript",
    ]
}

extension ArraySlice<UInt8> {
    fileprivate func trimmingSuffix(while predicate: (UInt8) -> Bool) -> ArraySlice<UInt8> {
        guard let last = lastIndex(where: { !predicate($0) }) else { return prefix(0) }
        return self[startIndex...last]
    }
}
