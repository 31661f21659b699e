package import BundleSigning

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
