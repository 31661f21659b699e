import BundleValues

/// The resources that the markup of an HTML page loads, and the parts that a Content-Security-Policy may refuse.
/// Scripts are not run.
///
/// Content of a `<template>` or of SVG is ignored, since the browser does not load it as written.
package struct PageReferences: Sendable, Equatable {
    /// A resource or address in a page.
    package struct Reference: Sendable, Hashable {
        /// The directive of the policy that applies to it, such as `script-src`.
        package let directive: String
        /// The URL in the page, with the character references decoded that occur in addresses.
        package let url: String
        package let element: String
        /// Whether the browser loads the reference with the page. The target of a form is not loaded.
        package let isLoaded: Bool
    }

    /// The references, in the page's order.
    package private(set) var references: [Reference] = []
    /// The attributes that are scripts, such as `onclick of <button>`, and the script addresses.
    package private(set) var handlers: [String] = []
    /// The `href` of the first `<base>`.
    package private(set) var base: String?
    /// The contents of the `<meta http-equiv="Content-Security-Policy">` elements.
    package private(set) var policies: [String] = []

    /// The names of the `<meta>` elements that declare origins, wherever they are.
    package private(set) var declarations: [String] = []

    /// Parses `page`.
    package init(_ page: [UInt8]) {
        var tokenizer = HTMLTokenizer(page, from: 0, describing: nil)
        var foreign = ForeignElements()
        var templates = 0
        while let token = tokenizer.next(isForeign: foreign.isCurrent) {
            guard case .tag(let tag) = token else { continue }
            if tag.isEnd {
                foreign.end(tag.name)
                if tag.name == "template" { templates = max(0, templates - 1) }
                continue
            }
            let element = Element(tag, in: page)
            handlers += element.handlers
            if foreign.start(tag) { continue }
            if tag.name == "template" { templates += 1 }
            if templates == 0 {
                if tag.name == "base", base == nil { base = element["href"] }
                if let policy = element.policy { policies.append(policy) }
                if let name = element.declaration { declarations.append(name) }
                references += element.references
            }
            if Self.rawText.contains(tag.name) {
                guard let text = tokenizer.rawText(of: tag.name) else { return }
                if templates == 0 { references += element.imports(in: page[text]) }
            }
            if tag.name == "plaintext" { return }
        }
    }

    private static let rawText: Set<String> = HTMLOutline.rawTextElements.union(["script"])
}

/// A start tag with its attributes as text.
private struct Element {
    private let name: String
    private let attributes: [String: String]
    private let isScript: Bool

    init(_ tag: HTMLTokenizer.Tag, in page: [UInt8]) {
        name = tag.name
        attributes = tag.attributes.mapValues {
            String(decoding: page[$0], as: UTF8.self).replacing("&#39;", with: "'").replacing("&amp;", with: "&")
        }
        isScript = ScriptType.isJudged(
            type: tag.attributes["type"].map { page[$0] }, language: tag.attributes["language"].map { page[$0] })
    }

    subscript(attribute: String) -> String? { attributes[attribute] }

    /// The policy of a `<meta>` element; nil for any other element.
    var policy: String? {
        guard name == "meta", attributes["http-equiv"]?.lowercased() == "content-security-policy" else { return nil }
        return attributes["content"]
    }

    /// The name of a `<meta>` element that declares origins; nil for any other element.
    var declaration: String? {
        guard name == "meta", let name = attributes["name"]?.lowercased(), name.hasPrefix(ReleaseOrigins.prefix) else {
            return nil
        }
        return name
    }

    var handlers: [String] {
        attributes.keys.sorted().compactMap { key in
            let value = attributes[key] ?? ""
            if key.hasPrefix("on"), key.utf8.count > 3, key.utf8.allSatisfy(\.isASCIILetter), !value.isEmpty {
                return "\(key) of <\(name)>"
            }
            guard ["href", "src", "action", "formaction"].contains(key), Self.isScriptAddress(value) else { return nil }
            return "\(key) of <\(name)>, which is a script"
        }
    }

    private static func isScriptAddress(_ url: String) -> Bool {
        let text = url.drop { $0.isWhitespace }
        // An address without an effect does not need to be allowed.
        return text.prefix(11).lowercased() == "javascript:"
            && ![";", "", "void(0)", "void(0);"].contains(text.dropFirst(11))
    }

    var references: [PageReferences.Reference] {
        switch name {
        case "script": isScript ? one("src", directive: "script-src") : []
        case "link":
            attributes["href"].flatMap { href in Self.directive(ofLink: self).map { [reference(href, directive: $0)] } }
                ?? []
        case "img": one("src", directive: "img-src") + candidates("img-src")
        case "input": attributes["type"]?.lowercased() == "image" ? one("src", directive: "img-src") : []
        case "video": one("src", directive: "media-src") + one("poster", directive: "img-src")
        case "audio", "track": one("src", directive: "media-src")
        case "source": one("src", directive: "media-src") + candidates("img-src")
        case "iframe", "frame": one("src", directive: "frame-src")
        case "embed": one("src", directive: "object-src")
        case "object": one("data", directive: "object-src")
        case "form": one("action", directive: "form-action", isLoaded: false)
        case "base": one("href", directive: "base-uri", isLoaded: false)
        default: []
        }
    }

    /// Returns the files that a script in the page imports, or that an import map names. Packages by name are ignored.
    func imports(in text: ArraySlice<UInt8>) -> [PageReferences.Reference] {
        guard name == "script", attributes["src"] == nil else { return [] }
        func reference(_ url: some StringProtocol, _ element: String) -> PageReferences.Reference? {
            guard ["/", "./", "../"].contains(where: url.hasPrefix), !url.hasSuffix("/"), !url.hasPrefix("//") else {
                return nil
            }
            return PageReferences.Reference(
                directive: "script-src", url: String(url), element: element, isLoaded: true)
        }
        switch attributes["type"]?.lowercased() {
        case "module":
            let script = String(decoding: text, as: UTF8.self)
            // A comment is no statement. An import in one would be reported for nothing.
            let code = script.replacing(/\/\*(?s:.*?)\*\/|(?m:^\s*\/\/.*$)/, with: " ")
            let fixed = code.matches(
                of: /(?:^|[;}\s])(?:import|export)\s*(?:[\w$*{},\s]*?[\s*}]from\s*)?["']([^"']+)["']/)
            let later = code.matches(of: /\bimport\s*\(\s*["']([^"']+)["']\s*\)/)
            return fixed.compactMap { reference($0.1, "script") }
                + later.compactMap { reference($0.1, "script with import()") }
        case "importmap":
            guard let map = try? JSONScanner.parse(Array(text), maximumBytes: Self.largestMap).objectValue else {
                return []
            }
            return (map["imports"]?.objectValue?.members ?? []).compactMap { member in
                member.value.stringValue.flatMap { reference($0, "script type=importmap") }
            }
        default: return []
        }
    }

    private static let largestMap = 1 << 20

    private func one(_ attribute: String, directive: String, isLoaded: Bool = true) -> [PageReferences.Reference] {
        attributes[attribute].map { [reference($0, directive: directive, isLoaded: isLoaded)] } ?? []
    }

    private func reference(_ url: String, directive: String, isLoaded: Bool = true) -> PageReferences.Reference {
        PageReferences.Reference(directive: directive, url: url, element: name, isLoaded: isLoaded)
    }

    /// Returns the URLs of `srcset` (HTML standard, "parse a srcset attribute").
    private func candidates(_ directive: String) -> [PageReferences.Reference] {
        var rest = Substring(attributes["srcset"] ?? "")
        var urls: [Substring] = []
        while true {
            rest = rest.drop { $0.isWhitespace || $0 == "," }
            let word = rest.prefix { !$0.isWhitespace }
            if word.isEmpty { break }
            rest = rest[word.endIndex...]
            let hasDescription = word.last != ","
            urls.append(
                hasDescription
                    ? word : word[..<(word.lastIndex { $0 != "," }.map(word.index(after:)) ?? word.startIndex)])
            if hasDescription { rest = rest.drop { $0 != "," } }
        }
        return urls.map { reference(String($0), directive: directive) }
    }

    /// Returns the directive for the resource of a `<link>`; nil if it loads none.
    private static func directive(ofLink link: Element) -> String? {
        let relations = Set((link["rel"] ?? "").lowercased().split { $0.isWhitespace }.map(String.init))
        if relations.contains("stylesheet") { return "style-src" }
        if relations.contains("modulepreload") { return "script-src" }
        if relations.contains("manifest") { return "manifest-src" }
        if !relations.isDisjoint(with: ["icon", "apple-touch-icon", "mask-icon"]) { return "img-src" }
        guard relations.contains("preload") else { return nil }
        switch link["as"]?.lowercased() {
        case "script": return "script-src"
        case "worker": return "worker-src"
        case "style": return "style-src"
        case "font": return "font-src"
        case "image": return "img-src"
        case "audio", "video", "track": return "media-src"
        case "fetch": return "connect-src"
        default: return nil
        }
    }
}
