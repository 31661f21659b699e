import BundleServe
import BundleValues

/// What a page says that went wrong in it. Its words are anybody's: what is repeated of them in advice is checked, and they
/// hold no `"`, so that none of them reads as advice.
struct PageComplaint: Equatable {
    /// A sentence for people.
    let text: String
    /// Whether a start may have failed by it.
    let isGrave: Bool

    /// Reads the body of a report.
    init(_ body: JSONObject) {
        let url = Self.words(body, "url")
        switch body["kind"]?.stringValue {
        case "missing":
            let element = Self.words(body, "element")
            text = "<\(element)> could not load \(url)"
            isGrave = ["script", "link"].contains(element)
        case "blocked":
            let directive = Self.words(body, "directive")
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
            let feature = Self.words(body, "feature")
            text =
                "it asked for \(feature), which it may not use\(Self.place(body))"
                + (PagePolicies.allowance(feature).map { ": --permissions \"\($0)\" would allow it" } ?? "")
            isGrave = false
        case "stays":
            text =
                "it was to load again, and stays: a person cancelled the dialog of a beforeunload listener, or a script does"
            isGrave = false
        case "worker":
            text =
                "it registers the service worker \(url), which is refused, because it would outlive its client: "
                + "leave the registration out"
            isGrave = false
        default:
            text = Self.words(body, "message") + Self.place(body)
            isGrave = true
        }
    }

    private static func words(_ body: JSONObject, _ member: String) -> String {
        String((body[member]?.stringValue ?? "").map { $0 == "\"" ? "'" : $0 })
    }

    private static func place(_ body: JSONObject) -> String {
        let source = words(body, "source")
        return source.isEmpty ? "" : " (\(source):\(body["line"]?.integerValue ?? 0))"
    }
}
