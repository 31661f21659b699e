package import BundleValues

/// The Content Security Policy (Level 3) of pages: strict by default, and extended by the shell's operator
/// and, within the operator's bound, by a release.
package struct ContentSecurityPolicy: Sendable {
    private static let defaults: [(directive: String, sources: [String])] = [
        ("default-src", ["'self'"]),
        ("style-src", ["'self'", "'unsafe-inline'"]),
        ("img-src", ["'self'", "data:", "blob:"]),
        ("font-src", ["'self'", "data:"]),
        ("connect-src", ["'self'"]),
        ("worker-src", ["'self'", "blob:"]),
        ("object-src", ["'none'"]),
        ("base-uri", ["'self'"]),
        ("form-action", ["'self'"]),
        ("frame-ancestors", ["'none'"]),
        ("script-src", ["'self'"]),
    ]

    /// The directives without default sources that accept extra sources, and the directive that applies without them
    /// (section 6.8.3).
    private static let others = [
        "child-src": "default-src", "frame-src": "child-src", "manifest-src": "default-src", "media-src": "default-src",
        "style-src-attr": "style-src", "style-src-elem": "style-src", "script-src-elem": "script-src",
        "script-src-attr": "script-src-attr",
    ]

    /// Returns the sources that a directive starts with: those of the directive that it replaces, with the operator's
    /// extras. Directives for inline event handlers start empty.
    private static func start(of directive: String, _ extra: [String: [String]]) -> [String] {
        if let sources = defaults.first(where: { $0.directive == directive })?.sources { return sources }
        guard let before = others[directive], before != directive else { return [] }
        return start(of: before, extra) + (extra[before] ?? [])
    }

    /// The directives that apply to inline scripts, so they receive the hashes.
    private static let judges = ["script-src", "script-src-elem"]

    /// The largest total size of hashes, in bytes. Browsers reject a response with a long head; the lowest known
    /// limit is 100 KiB.
    static let mostHashes = 64 << 10

    private let directives: [(directive: String, sources: [String])]
    private let bridge: String
    private let extra: [String: [String]]
    /// Whether another page may show a page of the client in a frame.
    package let allowsFraming: Bool

    /// Creates a policy with `extra` sources by directive. A directive without default sources starts with those that
    /// apply without it.
    package init(bridge: String, extra: [String: [String]]) throws(PolicyRefusal) {
        for (directive, sources) in extra {
            guard Self.others[directive] != nil || Self.defaults.contains(where: { $0.directive == directive }) else {
                throw .directive(directive)
            }
            for source in sources where !Self.isSource(source) { throw .source(source, directive: directive) }
        }
        guard Self.isSource(bridge) else { throw .source(bridge, directive: "script-src") }
        self.init(accepted: extra, bridge: bridge)
    }

    private init(accepted extra: [String: [String]], bridge: String) {
        let added = extra.keys.filter { Self.others[$0] != nil }.sorted().map { name in
            (directive: name, sources: Self.start(of: name, extra))
        }
        directives = (Self.defaults.dropLast() + added + Self.defaults.suffix(1)).map { directive, sources in
            let more = extra[directive] ?? []
            return (directive, more.isEmpty ? sources : sources.filter { $0 != "'none'" } + more)
        }
        self.bridge = bridge
        self.extra = extra
        allowsFraming = !(extra["frame-ancestors"] ?? []).isEmpty
    }

    /// Returns the policy of a client that may use `origins`. They extend no directive for scripts.
    package func adding(_ origins: GrantedOrigins) -> ContentSecurityPolicy {
        if origins.sources.isEmpty { return self }
        return ContentSecurityPolicy(
            accepted: extra.merging(origins.sources) { own, more in own + more.filter { !own.contains($0) } },
            bridge: bridge)
    }

    /// Returns the header line for a page with these inline scripts. Invalid sources are omitted. Hashes disable
    /// `'unsafe-inline'`, so they are omitted if the operator allows it; if there are too many hashes,
    /// `'unsafe-inline'` replaces them.
    package func line(scriptSources: [String]) -> String {
        let hashes = [bridge] + scriptSources.filter(Self.isSource)
        let inline = Self.areTooMany(scriptSources) ? ["'unsafe-inline'"] : hashes
        let texts = directives.map { directive, sources in
            let isJudge = Self.judges.contains(directive) && !sources.contains("'unsafe-inline'")
            return ([directive] + sources + (isJudge ? inline : [])).joined(separator: " ")
        }
        return "Content-Security-Policy: \(texts.joined(separator: "; "))\r\n"
    }

    /// Returns whether a page has more inline scripts than a head can list.
    package static func areTooMany(_ scriptSources: [String]) -> Bool {
        scriptSources.reduce(0) { $0 + $1.utf8.count + 1 } > mostHashes
    }

    /// Returns whether `text` is one source: visible ASCII without a delimiter of sources, directives or policies.
    private static func isSource(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy {
                $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: ",")
            }
    }
}

extension ContentSecurityPolicy {
    /// Returns whether the default policy blocks `blocked` as `directive`. `blocked` is a URL, a scheme, `inline`,
    /// `eval` or `wasm-eval`.
    package static func refuses(_ directive: String, _ blocked: String) -> Bool {
        let sources = { name in defaults.first { $0.directive == name }?.sources }
        let judge = directive.hasPrefix("script-src") ? "script-src" : directive
        guard let source = source(blocked) else { return false }
        return !(sources(judge) ?? sources("default-src") ?? []).contains(source)
    }

    /// Returns the `--csp` value that would allow a blocked source (section 5); nil if there is none.
    package static func allowance(_ directive: String, _ blocked: String) -> String? {
        let name =
            switch directive {
            case "script-src-elem": "script-src"
            case "style-src-elem", "style-src-attr": "style-src"
            default: directive
            }
        guard widened.contains(name), let source = source(blocked) else { return nil }
        return "\(name) \(source)"
    }

    /// Returns whether `policy`, from a `<meta>` element of a page, blocks the page's calls to the loopback server,
    /// which is its own origin. `connect-src` applies, or `default-src` without it (section 6.8.3).
    package static func refusesOwnCalls(_ policy: String) -> Bool {
        policy.split(separator: ",").contains { policy in
            var directives: [String: [String]] = [:]
            for directive in policy.split(separator: ";") {
                let words = directive.split(whereSeparator: \.isWhitespace).map { $0.lowercased() }
                guard let name = words.first, directives[name] == nil else { continue }
                directives[name] = Array(words.dropFirst())
            }
            guard let sources = directives["connect-src"] ?? directives["default-src"] else { return false }
            return !sources.contains(where: allowsOwnOrigin)
        }
    }

    private static func allowsOwnOrigin(_ source: String) -> Bool {
        if ["'self'", "*", "http:"].contains(source) { return true }
        let host = source.hasPrefix("http://") ? String(source.dropFirst(7)) : source
        return ["127.0.0.1", "localhost", "*"].contains { host == $0 || host.hasPrefix("\($0):") }
    }

    /// The `--csp` value that lets pages of the client show each other in frames, which the default policy blocks.
    package static let framing = "frame-ancestors 'self'"

    private static let widened: Set = [
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

/// The device features that pages may use, and their isolation from other origins: fields of every response.
package struct PagePolicies: Sendable {
    /// The isolation from other origins (Cross-Origin-Opener-Policy, Cross-Origin-Embedder-Policy).
    package enum Isolation: String, Sendable, CaseIterable {
        /// Windows of other origins have no reference to windows of the client, and vice versa.
        case separate
        /// Windows that the client opens may refer to it, as pages for login do.
        case popups
        /// Resources of other origins are loaded only if they opt in. The page has `SharedArrayBuffer` and precise
        /// clocks.
        case isolated
    }

    /// The values of `Permissions-Policy` by feature, such as `"(self)"` for `"camera"`.
    package var permissions = ["camera": "()", "microphone": "()", "geolocation": "()"]
    package var isolation = Isolation.separate

    /// Creates the strict defaults.
    package init() {}

    /// Returns whether `text` can name a feature of a `Permissions-Policy`: a lowercase letter, then up to 63
    /// lowercase letters and hyphens.
    ///
    /// Browsers ignore a whole policy with an invalid key (RFC 9651, section 3.1.2).
    package static func isFeature(_ text: some StringProtocol) -> Bool {
        let letters = UInt8(ascii: "a")...UInt8(ascii: "z")
        return text.utf8.count <= 64 && text.utf8.first.map(letters.contains) == true
            && text.utf8.allSatisfy { $0 == UInt8(ascii: "-") || letters.contains($0) }
    }

    /// Returns the `--permissions` value that would allow a feature; nil if there is none.
    package static func allowance(_ feature: String) -> String? { isFeature(feature) ? "\(feature)=(self)" : nil }

    /// The header lines.
    package var fields: String {
        get throws(PolicyRefusal) {
            let list = permissions.sorted { $0.key < $1.key }.map { "\($0)=\($1)" }.joined(separator: ", ")
            guard list.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F }) else { throw .permissions }
            let opener = isolation == .popups ? "same-origin-allow-popups" : "same-origin"
            let embedder = isolation == .isolated ? "Cross-Origin-Embedder-Policy: require-corp\r\n" : ""
            return """
                Cross-Origin-Opener-Policy: \(opener)\r
                Cross-Origin-Resource-Policy: same-origin\r
                \(embedder)\(list.isEmpty ? "" : "Permissions-Policy: \(list)\r\n")
                """
        }
    }
}

/// The reason why a policy cannot be sent.
package enum PolicyRefusal: Error, Equatable, Sendable, CustomStringConvertible {
    /// The name is not a directive of Content Security Policy that can be extended.
    case directive(String)
    /// The text is not a single source expression.
    case source(String, directive: String)
    /// The permissions policy has bytes that a header must not have.
    case permissions

    /// The failure and the remedy.
    package var description: String {
        switch self {
        case .directive(let name):
            "\"\(name)\" is not a directive of Content Security Policy that can be extended: write one such as connect-src "
                + "or script-src"
        case .source(let source, let directive):
            "\"\(source)\" is not a source for \(directive): write one source expression, without spaces, commas or semicolons"
        case .permissions:
            "the permissions policy has characters that a header cannot have: write visible ASCII on one line"
        }
    }
}

extension PolicyRefusal: ClassifiedFailure {
    /// The failure for users: the configuration cannot be applied.
    package var failure: UpdateFailure {
        let subject =
            switch self {
            case .directive(let name): name
            case .source(let source, _): source
            case .permissions: "permissions policy"
            }
        return UpdateFailure(.configInvalid, subject: subject, "The server cannot start: \(self).")
    }
}
