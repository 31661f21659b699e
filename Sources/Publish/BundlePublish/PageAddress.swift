import BundleFormats
import BundleValues
import BundleSigning

/// An address in a page (RFC 3986, section 4.2).
enum PageAddress: Equatable {
    /// A path in the client, without query and fragment.
    case local(String)
    /// An address of another origin or a data URL, by its scheme.
    case elsewhere(String)
    /// The page itself, or nothing that is loaded.
    case none

    init(_ text: String) {
        let text = text.drop { $0.isWhitespace }
        let scheme = text.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || "+-.".contains($0)) }
        if text.hasPrefix("//") {
            self = .elsewhere(Self.lowered("https:\(text)"))
        } else if !scheme.isEmpty, scheme.first?.isLetter == true, text.dropFirst(scheme.count).first == ":" {
            let isLoaded = !["javascript", "about", "mailto", "tel"].contains(scheme.lowercased())
            self = isLoaded ? .elsewhere(Self.lowered(text)) : .none
        } else {
            let path = text.prefix { $0 != "?" && $0 != "#" }
            self = path.isEmpty ? .none : .local(String(path))
        }
    }

    var isLocal: Bool { if case .elsewhere = self { false } else { true } }

    /// Scheme and host are case-insensitive.
    private static func lowered(_ text: some StringProtocol) -> String {
        let end = text.firstRange(of: "://").map { range in
            text[range.upperBound...].firstIndex { "/?#".contains($0) } ?? text.endIndex
        }
        let cut = end ?? text.firstIndex(of: ":") ?? text.endIndex
        return text[..<cut].lowercased() + text[cut...]
    }

    /// Returns the path in the client relative to `page`; nil if it leaves the client.
    func path(from page: BundlePath) -> [UInt8]? {
        guard case .local(let name) = self else { return nil }
        return Self.path(name, from: page.bytes)
    }

    /// Returns the path of `name` relative to `page`, with a final slash for a folder; nil if its percent-encoding is
    /// invalid.
    static func path(_ name: String, from page: [UInt8]) -> [UInt8]? {
        let slash = UInt8(ascii: "/")
        guard let decoded = PercentEncoding.decodeStrictly(Array(name.utf8)[...]) else { return nil }
        let isAbsolute = decoded.first == slash
        let folder = isAbsolute ? [] : Array(page[..<((page.lastIndex(of: slash) ?? -1) + 1)])
        var parts: [ArraySlice<UInt8>] = []
        let whole = folder + decoded
        for part in whole.split(separator: slash) {
            if part.elementsEqual("..".utf8) {
                _ = parts.popLast()
            } else if !part.elementsEqual(".".utf8) {
                parts.append(part)
            }
        }
        let path = Array(parts.joined(separator: [slash]))
        let last = whole.split(separator: slash, omittingEmptySubsequences: false).last ?? []
        let isFolder = last.isEmpty || last.elementsEqual(".".utf8) || last.elementsEqual("..".utf8)
        return isFolder && !path.isEmpty ? path + [slash] : path
    }
}
