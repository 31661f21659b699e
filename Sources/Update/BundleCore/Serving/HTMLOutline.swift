import BundleValues

/// What matters of an HTML page to one who adds a script to it: where head and body end, and which scripts it has.
///
/// Finds tags as browsers do, with scripting on; takes any bytes, in time linear to their number. Scripts inside SVG are not
/// reported: their text is not what stands in the page.
package struct HTMLOutline: Sendable, Equatable {
    /// A script whose text stands in the page and that a browser would run, or that governs what it runs.
    package struct InlineScript: Sendable, Equatable {
        /// The text's bytes; never empty.
        package let text: Range<Int>
        /// Whether it stands in a `<template>`, where it does not run by itself.
        package let isInTemplate: Bool
    }

    /// Behind the start tag of the head; without one, behind that of the page, or the doctype, or the byte order mark.
    package private(set) var headStart: Int
    /// Where the first `</head>` starts; in SVG or MathML that is left open, where that starts, because no script runs in it
    /// as it stands there.
    package private(set) var headEnd: Int?
    /// Where the first `</body>` starts, likewise.
    package private(set) var bodyEnd: Int?
    /// The end, or where the first thing starts that the page leaves open and that would swallow what is added.
    package private(set) var end: Int
    /// Every inline script that the rule `script-src` of a Content-Security-Policy judges, in their order.
    package private(set) var scripts: [InlineScript] = []
    /// The nonce of the first script that has a usable one: the letters of base64 and its URL form.
    package private(set) var nonce: String?

    /// The letters that the page says it is written in, where it is not UTF-8 by its byte order mark: a word for a header.
    package private(set) var charset: String?

    /// Reads `page`.
    package init(_ page: [UInt8]) {
        let isMarked = page.starts(with: [0xEF, 0xBB, 0xBF])
        headStart = isMarked ? 3 : 0
        end = page.count
        var tokenizer = HTMLTokenizer(page, from: headStart, describing: ["script", "meta"])
        var foreign = ForeignContent()
        var templates: [(start: Int, foreignDepth: Int)] = []
        var isBeforeHead = true

        while let token = tokenizer.next(isForeign: foreign.isCurrent) {
            switch token {
            case .comment: break
            case .text(let isBlank): if !isBlank { isBeforeHead = false }
            case .doctype: if isBeforeHead { headStart = tokenizer.index }
            case .tag(let tag) where tag.isEnd:
                isBeforeHead = false
                foreign.end(tag.name)
                switch tag.name {
                case "template": if let left = templates.popLast() { foreign.close(to: left.foreignDepth) }
                case "head" where templates.isEmpty: headEnd = headEnd ?? foreign.start ?? tag.start
                case "body" where templates.isEmpty: bodyEnd = bodyEnd ?? foreign.start ?? tag.start
                default: break
                }
            case .tag(let tag):
                if isBeforeHead && (tag.name == "html" || tag.name == "head") { headStart = tokenizer.index }
                if tag.name != "html" { isBeforeHead = false }
                if foreign.start(tag) { continue }
                if tag.name == "meta" && charset == nil && !isMarked { charset = Self.charset(tag, in: page) }
                if tag.name == "template" {
                    templates.append((tag.start, foreign.depth))
                } else if tag.name == "script" || Self.rawTextElements.contains(tag.name) {
                    guard let text = tokenizer.rawText(of: tag.name) else {
                        end = templates.first?.start ?? tag.start
                        return
                    }
                    if tag.name == "script" { add(tag, text, in: page, isInTemplate: !templates.isEmpty) }
                } else if tag.name == "plaintext" {
                    end = templates.first?.start ?? tag.start
                    return
                }
            }
        }
        end = templates.first?.start ?? foreign.start ?? tokenizer.index
    }

    private mutating func add(_ tag: HTMLTokenizer.Tag, _ text: Range<Int>, in page: [UInt8], isInTemplate: Bool) {
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

    /// What a `<meta charset>` or its older form says (HTML standard, "extracting a character encoding from a meta element").
    private static func charset(_ tag: HTMLTokenizer.Tag, in page: [UInt8]) -> String? {
        var label = tag.attributes["charset"].map { page[$0] }
        if label == nil, tag.attributes["http-equiv"] != nil, let content = tag.attributes["content"].map({ page[$0] })
        {
            let text = String(decoding: content, as: UTF8.self)
            label = text.lowercased().firstRange(of: "charset=").map { Array(text[$0.upperBound...].utf8)[...] }
        }
        let word = label?.drop(while: { !isLabelByte($0) }).prefix(while: isLabelByte) ?? []
        // Browsers take UTF-16 that a page declares in ASCII for UTF-8.
        return word.isEmpty || word.starts(with: "utf-16".utf8)
            ? nil : String(decoding: word, as: UTF8.self).lowercased()
    }

    private static func isLabelByte(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || "-_.:+".utf8.contains(byte)
    }

    /// Elements whose content is text up to their own end tag; `noscript` is one wherever scripts run.
    static let rawTextElements: Set<String> = [
        "style", "textarea", "title", "iframe", "noembed", "noframes", "noscript", "xmp",
    ]

    /// The `base64-value` of Content Security Policy Level 3.
    private static func isNonceByte(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || byte.isASCIIDigit || "+/-_=".utf8.contains(byte)
    }
}
