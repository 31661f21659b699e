import BundleFormats
import BundleServe
import BundleValues
import Testing

@testable import BundleShell
@testable import ClientServer

@Suite struct PageComplaintTests {
    @Test(arguments: [
        ("script-src-elem", "https://cdn.example:8443/a.js?x", "script-src https://cdn.example:8443"),
        ("script-src-elem", "inline", "script-src 'unsafe-inline'"),
        ("script-src-attr", "inline", "script-src-attr 'unsafe-inline'"),
        ("script-src", "eval", "script-src 'unsafe-eval'"),
        ("script-src", "wasm-eval", "script-src 'wasm-unsafe-eval'"),
        ("style-src-attr", "inline", "style-src 'unsafe-inline'"), ("media-src", "blob", "media-src blob:"),
        ("connect-src", "wss://h", "connect-src wss://h"), ("connect-src", "data:text/plain,a", "connect-src data:"),
        ("base-uri", "https://h/", "base-uri https://h"),
        ("require-trusted-types-for", "trusted-types-sink", nil), ("script-src", "", nil),
        ("img-src", "https://a\" -x", nil), ("img-src", "https://", nil), ("img-src", "A B:", nil),
        ("x; y", "eval", nil),
    ])
    func `names the --csp value that would allow a blocked source`(
        directive: String, blocked: String, allowance: String?
    ) { #expect(ContentSecurityPolicy.allowance(directive, blocked) == allowance) }

    @Test(arguments: [
        ("camera", "camera=(self)"), ("screen-wake-lock", "screen-wake-lock=(self)"), ("", nil), ("camera=*", nil),
        ("camera x", nil), ("Camera", nil), ("-", nil), ("-camera", nil), (String(repeating: "a", count: 65), nil),
    ])
    func `names the --permissions value that would allow a feature`(feature: String, allowance: String?) {
        #expect(PagePolicies.allowance(feature) == allowance)
    }

    @Test(arguments: [
        (
            #"{"kind":"blocked","directive":"script-src","url":"eval","isOwn":false,"source":"/a.js","line":3}"#,
            "its policy forbids eval as script-src (/a.js:3): --csp \"script-src 'unsafe-eval'\" would allow it", true
        ),
        (
            #"{"kind":"blocked","directive":"img-src","url":"https://h/a.png","isOwn":true}"#,
            "its policy forbids https://h/a.png as img-src, in a policy that the page itself sets", false
        ),
        (#"{"kind":"missing","element":"script","url":"/gone.js"}"#, "<script> could not load /gone.js", true),
        (#"{"kind":"missing","element":"img","url":"/a.png"}"#, "<img> could not load /a.png", false),
        (
            #"{"kind":"refused","feature":"screen-wake-lock","source":"/a.js","line":3}"#,
            "it asked for screen-wake-lock, which it may not use (/a.js:3): --permissions \"screen-wake-lock=(self)\" would allow it",
            false
        ), (#"{"kind":"refused","feature":"camera=*\" -x"}"#, "it asked for camera=*' -x, which it may not use", false),
        (
            #"{"message":"a: --csp \"x\" would allow it","source":"\""}"#, "a: --csp 'x' would allow it (':0)", true
        ),
        (
            #"{"kind":"stays"}"#,
            "it did not reload: a person cancelled the dialog of a beforeunload listener, or a script prevents it",
            false
        ),
        (
            #"{"kind":"worker","url":"/sw.js"}"#,
            "it registers the service worker /sw.js, which is refused, because it would outlive its client: leave the registration out",
            false
        ),
        (#"{"message":"Error: x","source":"/a.js","line":7}"#, "Error: x (/a.js:7)", true), ("{}", "", true),
    ])
    func `describes each kind of page error in a sentence`(body: String, text: String, isGrave: Bool) throws {
        let object = try JSONScanner.parse(Array(body.utf8), maximumBytes: 1000).objectValue
        let complaint = PageComplaint(try #require(object))
        #expect(complaint.text == text)
        #expect(complaint.isGrave == isGrave)
    }
}
