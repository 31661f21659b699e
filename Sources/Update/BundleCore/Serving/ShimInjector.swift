package import BundleSigning
import BundleValues

/// Puts the `WebAppLocalServer` shim into a page, so that a Meteor application finds the interface it expects.
package enum ShimInjector {
    /// The shim's source text, from `web-app-local-server.js`, on one line.
    package static let shim = onOneLine(PackageResources.web_app_local_server_js)

    /// Returns a script of this package without its line ends, so that the lines of a page with it keep their numbers.
    ///
    /// The script ends its statements with semicolons, has comments on lines of their own only, and no text of several lines.
    package static func onOneLine(_ script: [UInt8]) -> [UInt8] {
        let lines = script.split(separator: UInt8(ascii: "\n")).map { $0.drop { $0 == UInt8(ascii: " ") } }
        return Array(lines.filter { !$0.isEmpty && !$0.starts(with: "//".utf8) }.joined(separator: [UInt8(ascii: " ")]))
    }

    /// Returns the page without the shim that `inject` put into it, for a host that brings its own.
    package static func remove(from page: [UInt8]) -> [UInt8] {
        let outline = HTMLOutline(page)
        guard
            let script = outline.scripts.first(where: { !$0.isInTemplate && page[$0.text].elementsEqual(shim) })?.text
        else { return page }
        let opening = opening(outline)
        guard page[..<script.lowerBound].suffix(opening.count).elementsEqual(opening),
            page[script.upperBound...].starts(with: closing)
        else { return page }
        return Array(page[..<(script.lowerBound - opening.count)]) + page[(script.upperBound + closing.count)...]
    }

    private static let closing = Array("</script>".utf8)

    /// The start tag of the shim, with the nonce of the page's own scripts.
    private static func opening(_ outline: HTMLOutline) -> [UInt8] {
        Array("<script\(outline.nonce.map { " nonce=\"\($0)\"" } ?? "")>".utf8)
    }

    /// The page with the shim as a script before its `</head>`, else before its `</body>`, else at its end.
    ///
    /// The script carries the nonce of the page's own scripts. A page that has the shim is returned as it is; all bytes of
    /// the page are kept, in their order.
    package static func inject(into page: [UInt8]) -> [UInt8] {
        inject(shim, into: page)
    }

    /// `script` must not contain what would end or hide it: `</script`, `<script`, `<!--`.
    static func inject(_ script: [UInt8], into page: [UInt8]) -> [UInt8] {
        let outline = HTMLOutline(page)
        if outline.scripts.contains(where: { !$0.isInTemplate && page[$0.text].elementsEqual(script) }) { return page }
        let place = outline.headEnd ?? outline.bodyEnd ?? outline.end
        var result: [UInt8] = []
        result.reserveCapacity(page.count + script.count + 64)
        result += page[..<place]
        result += opening(outline)
        result += script
        result += closing
        result += page[place...]
        return result
    }
}

/// Source expressions of a Content-Security-Policy that allow the inline scripts of a page, and no others.
package enum ScriptSource {
    /// `'sha256-…'` of every inline script of `page`, each once, in their order; throws only if OpenSSL itself cannot work.
    package static func expressions(for page: [UInt8]) throws(OpenSSLFailure) -> [String] {
        var found: [String] = []
        var known: Set<String> = []
        for script in HTMLOutline(page).scripts {
            let expression = try expression(for: page[script.text])
            if known.insert(expression).inserted { found.append(expression) }
        }
        return found
    }

    /// `'sha256-…'` of a script's text.
    package static func expression(for text: ArraySlice<UInt8>) throws(OpenSSLFailure) -> String {
        let digest = try SHA256Digest.of(asParsed(text))
        return "'sha256-\(Base64.encode(digest.withUnsafeBytes { Array($0) }))'"
    }

    /// The UTF-8 of a script's text as the browser has it: ill-formed bytes replaced, every newline one LF, no NUL.
    static func asParsed(_ text: ArraySlice<UInt8>) -> [UInt8] {
        var parsed: [UInt8] = []
        parsed.reserveCapacity(text.count)
        var isAfterReturn = false
        for byte in String(decoding: text, as: UTF8.self).utf8 {
            switch byte {
            case UInt8(ascii: "\r"): parsed.append(UInt8(ascii: "\n"))
            case UInt8(ascii: "\n") where isAfterReturn: break
            case 0: parsed += [0xEF, 0xBF, 0xBD]
            default: parsed.append(byte)
            }
            isAfterReturn = byte == UInt8(ascii: "\r")
        }
        return parsed
    }
}

/// What the `type` of a script makes of it (HTML standard, "prepare the script element").
enum ScriptType {
    /// Whether a script with these attributes runs, or governs what runs, as import maps and speculation rules do.
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
