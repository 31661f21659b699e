import BundleFormats
package import BundleSigning
import BundleValues

/// Adds the `WebAppLocalServer` shim to a page, which provides the interface of a Meteor application.
package enum ShimInjector {
    /// The source of the shim, from `web-app-local-server.js`, on one line.
    package static let shim = onOneLine(PackageResources.web_app_local_server_js)

    /// Returns a script of this package without line breaks, so that the lines of a page keep their numbers.
    ///
    /// The script's statements end with semicolons, its comments are on separate lines, and its strings have no line
    /// breaks.
    package static func onOneLine(_ script: [UInt8]) -> [UInt8] {
        let lines = script.split(separator: UInt8(ascii: "\n")).map { $0.drop { $0 == UInt8(ascii: " ") } }
        return Array(lines.filter { !$0.isEmpty && !$0.starts(with: "//".utf8) }.joined(separator: [UInt8(ascii: " ")]))
    }

    /// Returns the page without the shim that `inject` added, for a host that has its own.
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

    /// Returns the start tag of the shim, with the nonce of the page's scripts.
    private static func opening(_ outline: HTMLOutline) -> [UInt8] {
        Array("<script\(outline.nonce.map { " nonce=\"\($0)\"" } ?? "")>".utf8)
    }

    /// Returns the page with the shim at the start of its head, before every script of the page, whichever tags the page omits.
    ///
    /// The script has the nonce of the page's scripts. A page that has the shim is returned unchanged. All bytes of
    /// the page stay, in order.
    package static func inject(into page: [UInt8]) -> [UInt8] {
        inject(shim, into: page)
    }

    /// Adds `script`, which must not contain `</script`, `<script` or `<!--`.
    static func inject(_ script: [UInt8], into page: [UInt8]) -> [UInt8] {
        let outline = HTMLOutline(page)
        if outline.scripts.contains(where: { !$0.isInTemplate && page[$0.text].elementsEqual(script) }) { return page }
        let place = outline.scriptStart
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

/// The source expressions of a Content-Security-Policy that allow exactly the inline scripts of a page.
package enum ScriptSource {
    /// Returns `'sha256-…'` of every inline script of `page`, without duplicates and in order. Throws only if OpenSSL
    /// fails.
    package static func expressions(for page: [UInt8]) throws(OpenSSLFailure) -> [String] {
        var found: [String] = []
        var known: Set<String> = []
        for script in HTMLOutline(page).scripts {
            let expression = try expression(for: page[script.text])
            if known.insert(expression).inserted { found.append(expression) }
        }
        return found
    }

    /// Returns `'sha256-…'` of a script's text.
    package static func expression(for text: ArraySlice<UInt8>) throws(OpenSSLFailure) -> String {
        let digest = try SHA256Digest.of(asParsed(text))
        return "'sha256-\(Base64.encode(digest.withUnsafeBytes { Array($0) }))'"
    }

    /// Returns the UTF-8 of a script's text as a browser parses it. It has LF as line break, and invalid
    /// bytes and NUL are replaced.
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
