import BundleServe
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
                text =
                    what
                    + (ContentSecurityPolicy.allowance(directive, url).map { ": --csp \"\($0)\" would allow it" } ?? "")
            }
        case "refused":
            let feature = body["feature"]?.stringValue ?? ""
            text =
                "it may not use \(feature)\(Self.place(body))"
                + (PagePolicies.allowance(feature).map { ": --permissions \"\($0)\" would allow it" } ?? "")
            isGrave = false
        default:
            text = (body["message"]?.stringValue ?? "") + Self.place(body)
            isGrave = true
        }
    }

    private static func place(_ body: JSONObject) -> String {
        guard let source = body["source"]?.stringValue, !source.isEmpty else { return "" }
        return " (\(source):\(body["line"]?.integerValue ?? 0))"
    }
}
