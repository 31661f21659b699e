/// What a page may load and run (Content Security Policy Level 3): strict by default, widened by the shell's operator only.
struct ContentSecurityPolicy: Sendable {
    private static let defaults: [(directive: String, sources: [String])] = [
        ("default-src", ["'self'"]),
        ("script-src", ["'self'"]),
        ("style-src", ["'self'", "'unsafe-inline'"]),
        ("img-src", ["'self'", "data:", "blob:"]),
        ("font-src", ["'self'", "data:"]),
        ("connect-src", ["'self'"]),
        ("worker-src", ["'self'", "blob:"]),
        ("object-src", ["'none'"]),
        ("base-uri", ["'none'"]),
        ("form-action", ["'self'"]),
        ("frame-ancestors", ["'none'"]),
    ]

    /// The directives that take sources. Not `script-src-elem` and `script-src-attr`: they would take the scripts of the host
    /// and of the page away.
    private static let known = Set(
        defaults.map(\.directive) + [
            "child-src", "frame-src", "manifest-src", "media-src", "style-src-attr", "style-src-elem",
        ])

    /// `script-src` stands last, so that a page's own hashes can follow.
    private let text: String
    /// Whether some page may show ours in a frame.
    let allowsFraming: Bool

    /// Adds `extra` sources by directive; a directive without a default of its own starts from `'self'`.
    init(bridge: String, extra: [String: [String]]) throws(ServerFailure) {
        for (directive, sources) in extra {
            guard Self.known.contains(directive) else { throw .directive(directive) }
            for source in sources where !Self.isSource(source) { throw .source(source, directive: directive) }
        }
        guard Self.isSource(bridge) else { throw .source(bridge, directive: "script-src") }
        var directives = Self.defaults
        for name in extra.keys.sorted() where !directives.contains(where: { $0.directive == name }) {
            directives.append((name, ["'self'"]))
        }
        let written = directives.map { directive, sources in
            let added = extra[directive] ?? []
            let all = added.isEmpty ? sources : sources.filter { $0 != "'none'" } + added
            return (directive: directive, text: ([directive] + all).joined(separator: " "))
        }
        let others = written.filter { $0.directive != "script-src" }.map(\.text)
        let scripts = written.filter { $0.directive == "script-src" }.map(\.text)
        text = (others + scripts).joined(separator: "; ") + " " + bridge
        allowsFraming = !(extra["frame-ancestors"] ?? []).isEmpty
    }

    /// The header line for a page with these inline scripts; what is no source is left out.
    func line(scriptSources: [String]) -> String {
        let sources = scriptSources.filter(Self.isSource).map { " " + $0 }.joined()
        return "Content-Security-Policy: \(text)\(sources)\r\n"
    }

    /// One source: visible ASCII without what ends a source, a directive or a policy.
    private static func isSource(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy {
                $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ";") && $0 != HTTPBytes.comma
            }
    }
}
