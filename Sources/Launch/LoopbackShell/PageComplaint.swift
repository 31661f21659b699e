import BundleValues

/// What a page says that went wrong in it. Its words are anybody's: what is repeated of them in advice is checked.
struct PageComplaint: Equatable {
    /// A sentence for people.
    let text: String
    /// Whether a start may have failed by it.
    let isGrave: Bool

    /// Reads the body of a report.
    init(_ body: JSONObject) {
        let url = body["url"]?.stringValue ?? ""
        switch body["kind"]?.stringValue {
        case "missing":
            let element = body["element"]?.stringValue ?? ""
            text = "<\(element)> could not load \(url)"
            isGrave = ["script", "link"].contains(element)
        case "blocked":
            let directive = body["directive"]?.stringValue ?? ""
            let what = "its policy forbids \(url) as \(directive)\(Self.place(body))"
            isGrave = directive.hasPrefix("script-src")
            if body["isOwn"]?.boolValue == true {
                text = what + ", by what the page says itself"
            } else {
                text = what + (Self.allowance(directive, url).map { ": --csp \"\($0)\" would allow it" } ?? "")
            }
        default:
            text = (body["message"]?.stringValue ?? "") + Self.place(body)
            isGrave = true
        }
    }

    private static func place(_ body: JSONObject) -> String {
        guard let source = body["source"]?.stringValue, !source.isEmpty else { return "" }
        return " (\(source):\(body["line"]?.integerValue ?? 0))"
    }

    /// What of `--csp` would allow what a policy of ours forbids (Content Security Policy Level 3, section 5); nil where nothing does.
    static func allowance(_ directive: String, _ blocked: String) -> String? {
        let name =
            switch directive {
            case "script-src-elem": "script-src"
            case "style-src-elem", "style-src-attr": "style-src"
            default: directive
            }
        guard directives.contains(name), let source = source(blocked) else { return nil }
        return "\(name) \(source)"
    }

    private static let directives: Set = [
        "script-src", "script-src-attr", "style-src", "img-src", "font-src", "connect-src", "worker-src", "object-src",
        "base-uri", "form-action", "frame-src", "child-src", "manifest-src", "media-src",
    ]

    private static func source(_ blocked: String) -> String? {
        switch blocked {
        case "inline": return "'unsafe-inline'"
        case "eval": return "'unsafe-eval'"
        case "wasm-eval": return "'wasm-unsafe-eval'"
        default: break
        }
        let scheme = blocked.prefix { $0 != ":" }
        guard !scheme.isEmpty, scheme.utf8.allSatisfy({ (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }) else {
            return nil
        }
        let rest = blocked.dropFirst(scheme.count)
        guard rest.hasPrefix("://") else { return "\(scheme):" }
        let host = rest.dropFirst(3).prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        let isPlain = host.utf8.allSatisfy {
            (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || "-.:[]".utf8.contains($0)
        }
        return isPlain && !host.isEmpty ? "\(scheme)://\(host)" : nil
    }
}
