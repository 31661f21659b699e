import BundleFormats
import BundleValues

/// The origins that a script seems to call, found without a parser: absolute URLs in the first argument of a request,
/// and values of names that are used for addresses.
struct ScriptCalls {
    /// The origins, in order and without repetitions.
    private(set) var origins: [String] = []

    private let script: ArraySlice<UInt8>
    /// The variables that are the first argument of a request, alone or as the start of an address.
    private var arguments: Set<String> = []
    private var bases: Set<String> = []

    /// The functions and methods that send requests to their first argument.
    private static let functions: [StaticString] = [
        "fetch", "WebSocket", "EventSource", "sendBeacon", "axios", "Request", "io", ".get", ".post", ".put", ".patch",
        ".delete", ".head", ".request", ".getJSON", ".ajax", ".connect", "ofetch", "ky", "got",
    ]
    /// Names of addresses, in lower case and without `_`, `-` and `$`.
    private static let names: Set = [
        "apibase", "apibaseurl", "apiendpoint", "apihost", "apiroot", "apiserver", "apiuri", "apiurl", "backend",
        "backendurl", "baseapi", "baseapiurl", "baseurl", "graphqluri", "graphqlurl", "serverurl", "socketurl", "wsurl",
        "websocketurl",
    ]
    private static let longestScheme = 5

    init(_ script: ArraySlice<UInt8>) {
        self.script = script
        let ends = ScriptText.ends(of: "://", in: script)
        if ends.isEmpty { return }
        for end in ScriptText.ends(of: "(", in: script) where isRequest(before: end - 1) { addArgument(at: end) }
        for end in ends {
            if let origin = calledOrigin(behindMark: end), !origins.contains(origin) { origins.append(origin) }
        }
    }

    private func byte(_ index: Int) -> UInt8? { script.indices.contains(index) ? script[index] : nil }

    private static func isNamePart(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || byte.isASCIIDigit || "_$".utf8.contains(byte)
    }

    private static func isSpace(_ byte: UInt8) -> Bool { " \t\r\n\u{0C}".utf8.contains(byte) }

    private static func isQuote(_ byte: UInt8) -> Bool { "\"'`".utf8.contains(byte) }

    // MARK: Arguments

    /// Returns whether a call of a function that sends requests has its parenthesis at `index`.
    private func isRequest(before index: Int) -> Bool {
        let text = script[..<trimmed(index)]
        return Self.functions.contains { name in
            let bytes = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
            guard text.suffix(bytes.count).elementsEqual(bytes) else { return false }
            return bytes.first == UInt8(ascii: ".") || text.dropLast(bytes.count).last.map(Self.isNamePart) != true
        }
    }

    private mutating func addArgument(at index: Int) {
        var start = index
        while byte(start).map(Self.isSpace) == true { start += 1 }
        let isTemplate = script[start...].starts(with: "`${".utf8)
        if isTemplate { start += 3 }
        let name = script[start...].prefix(while: Self.isNamePart)
        if name.isEmpty || name.first?.isASCIIDigit == true { return }
        var end = name.endIndex
        while byte(end).map(Self.isSpace) == true { end += 1 }
        let text = String(decoding: name, as: UTF8.self)
        if isTemplate
            ? byte(end) == UInt8(ascii: "}")
            : byte(end) == UInt8(ascii: "+")
                || script[end...].starts(with: ".concat(".utf8)
        {
            bases.insert(text)
        } else if !isTemplate, byte(end) == UInt8(ascii: ",") || byte(end) == UInt8(ascii: ")") {
            arguments.insert(text)
        }
    }

    // MARK: Addresses

    /// Returns the origin of the URL with `://` before `index`, if the script seems to call it.
    private func calledOrigin(behindMark index: Int) -> String? {
        let mark = index - 3
        let scheme = script[..<mark].suffix(Self.longestScheme + 1).reversed().prefix(while: \.isASCIILetter)
        let name = String(decoding: scheme.reversed(), as: UTF8.self).lowercased()
        let quote = mark - name.utf8.count - 1
        guard let known = WebOrigin.Scheme(rawValue: name), byte(quote).map(Self.isQuote) == true else { return nil }
        let host = script[index...].prefix { $0.isASCIILetter || $0.isASCIIDigit || ".-:".utf8.contains($0) }
        guard !host.isEmpty, let next = byte(host.endIndex), Self.isQuote(next) || "/?#$".utf8.contains(next) else {
            return nil
        }
        let origin = "\(name)://\(String(decoding: host, as: UTF8.self))"
        do throws(OriginRefusal) {
            _ = try WebOrigin(parsing: origin)
        } catch {
            // A declaration cannot allow it, but `--csp` can.
            guard error == .unencrypted else { return nil }
        }
        return known.isWebSocket || isCalled(quotedFrom: quote) ? origin.lowercased() : nil
    }

    private func isCalled(quotedFrom quote: Int) -> Bool {
        let end = trimmed(quote)
        switch byte(end - 1) {
        case UInt8(ascii: "(")?: return isRequest(before: end - 1)
        case UInt8(ascii: ",")?: return isOpened(before: end - 1)
        case UInt8(ascii: ":")?: return Self.isAddressName(word(before: end - 1))
        case UInt8(ascii: "=")?:
            let name = word(before: end - 1)
            return Self.isAddressName(name) || isUsed(name, quotedFrom: quote)
        default: return false
        }
    }

    /// Returns whether the comma at `index` follows the method of `XMLHttpRequest.open`.
    private func isOpened(before index: Int) -> Bool {
        let end = trimmed(index)
        guard let quote = byte(end - 1), Self.isQuote(quote) else { return false }
        let method = script[..<(end - 1)].reversed().prefix(while: \.isASCIILetter).count
        guard byte(end - 2 - method) == quote else { return false }
        let text = script[..<trimmed(end - 2 - method)]
        return text.reversed().starts(with: ".open(".utf8.reversed())
    }

    /// Returns whether a request begins with the variable `name`. Short names of minified scripts have many meanings, so
    /// only the start of an address is evidence for them.
    private func isUsed(_ name: String, quotedFrom quote: Int) -> Bool {
        let text = script[(quote + 1)...].prefix { $0 != script[quote] && $0 != UInt8(ascii: "\n") }
        var next = text.endIndex + 1
        while byte(next).map(Self.isSpace) == true { next += 1 }
        // Pages of documentation are joined with the number of an error.
        if byte(next) == UInt8(ascii: "+") || text.contains(where: { "?# ".utf8.contains($0) }) { return false }
        return bases.contains(name) || name.utf8.count > 2 && arguments.contains(name)
    }

    private static func isAddressName(_ name: String) -> Bool {
        names.contains(String(name.lowercased().filter { !"_-$".contains($0) }))
    }

    /// Returns the name that ends before `index`, also in quotation marks.
    private func word(before index: Int) -> String {
        var end = trimmed(index)
        if let quote = byte(end - 1), Self.isQuote(quote) { end -= 1 }
        let word = script[..<max(end, script.startIndex)].suffix(64).reversed().prefix {
            Self.isNamePart($0) || $0 == UInt8(ascii: "-")
        }
        return String(decoding: word.reversed(), as: UTF8.self)
    }

    /// Returns `index` or the index before the spaces in front of it.
    private func trimmed(_ index: Int) -> Int {
        var end = max(index, script.startIndex)
        while end > script.startIndex, Self.isSpace(script[end - 1]) { end -= 1 }
        return end
    }
}
