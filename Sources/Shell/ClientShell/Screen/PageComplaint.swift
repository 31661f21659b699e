import BundleFormats
import BundleServe
import BundleValues

/// A page error as a page reports it. Its texts are untrusted: their parts in advice are checked, and they contain no
/// `"`, so none of them can be read as advice.
struct PageComplaint: Equatable {
    /// The description for operators.
    let text: String
    /// Whether the start may fail because of the error.
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
                text = what + ", in a policy that the page itself sets"
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
                "it did not reload: a person cancelled the dialog of a beforeunload listener, or a script prevents it"
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
