import BundleCore
import BundleServe
import BundleValues
import BundleShell

/// A bar above a client that runs because a better one needs a newer shell.
package struct UpdateNotice {
    /// When pages show the bar. Nobody can hide it on a screen without input, and its readers there are not its operators.
    package enum Showing: String, CaseIterable, Sendable {
        /// After the first input of a person, such as a click.
        case auto
        case on
        case off
    }

    private let minimum: SemanticVersion

    /// Creates the bar of a client that needs shell `minimum`.
    init(minimum: SemanticVersion) {
        self.minimum = minimum
    }

    /// The script that shows the bar: `update-notice.js`; nil if no page shows it. The bar is outside the body, which applications replace, and in a shadow
    /// tree, so that the styles of the client and of the operator do not affect each other. A constructed style sheet is not
    /// blocked by a policy of a page.
    func script(_ design: ScreenDesign) throws -> ServerConfiguration.Bridge? {
        if design.notice == .off { return nil }
        var texts = JSONObject()
        for language in design.texts.languages {
            let text = design.texts.sentence(.noticeText, in: language).replacing("{version}", with: "\(minimum)")
            texts[language] = .array([.string(text), .string(design.texts.sentence(.noticeHide, in: language))])
        }
        let css = Self.style + (design.style?.css ?? "")
        let arguments = "(\(Self.literal(.object(texts))), \(Self.literal(.string(css))), \(design.notice == .auto));"
        let script = PackageResources.update_notice_js + Array(arguments.utf8)
        return ServerConfiguration.Bridge(script: script, scriptSource: try ScriptSource.expression(for: script[...]))
    }

    private static let style = """
        .notice{display:flex;gap:1em;align-items:center;justify-content:center;padding:.75em 1em;background:#10141a;\
        color:#e8edf2;font:16px/1.4 system-ui,sans-serif}\
        .notice button{font:inherit;padding:.25em .75em;white-space:nowrap}
        """

    /// Returns a value as JavaScript without `<`, so that it cannot end the script's element.
    private static func literal(_ value: JSONValue) -> String {
        String(decoding: JSONWriter.bytes(of: value), as: UTF8.self).replacing("<", with: "\\u003C")
    }
}
