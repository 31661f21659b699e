import BundleFormats
import BundleCore
import BundleValues

/// Renders a release page as HTML.
struct PageDocument {
    let page: ReleasePage
    let limits: PageLimits

    init(_ page: ReleasePage, _ limits: PageLimits) { (self.page, self.limits) = (page, limits) }

    func html() throws -> String {
        "<!doctype html>\n" + Markup("html", ["lang": "en"], [try head(), body()]).html + "\n"
    }

    private var title: String { page.title }

    private func head() throws -> Markup {
        // The style sheet is hashed like a script.
        let style = try ScriptSource.expression(for: Array("\(PageStyle.sheet)".utf8)[...])
        let policy = "default-src 'none'; style-src \(style); base-uri 'none'; form-action 'none'"
        return Markup(
            "head", [:],
            [
                Markup("meta", ["charset": "utf-8"], isVoid: true),
                Markup("meta", ["http-equiv": "Content-Security-Policy", "content": policy], isVoid: true),
                Markup(
                    "meta", ["name": "viewport", "content": "width=device-width, initial-scale=1"], isVoid: true),
                Markup("meta", ["name": "color-scheme", "content": "light dark"], isVoid: true),
                Markup("meta", ["name": "referrer", "content": "no-referrer"], isVoid: true),
                Markup("meta", ["name": "robots", "content": "noindex"], isVoid: true),
                Markup("title", [:], ["\(title)"]), Markup(style: PageStyle.sheet),
            ])
    }

    private func body() -> Markup {
        let channels = page.channels.prefix(limits.channels)
        let overview = page.channels.count > 1 ? [self.overview(channels)] : []
        return Markup(
            "body", [:],
            [Markup("header", [:], [Markup("h1", [:], ["\(title)"]), Markup("p", ["class": "quiet"], made)] + notes)]
                + [Markup("main", [:], overview + channels.map(section) + rest(channels.count) + [trust])])
    }

    private var made: [Markup] { ["As of ", time(page.clock), "."] }

    private var notes: [Markup] {
        let unchecked = page.proofs.contains { if case .unchecked = $0 { true } else { false } }
        let notes =
            (unchecked ? ["Parts marked as not verified were not checked with a key. Give --trust."] : [])
            + page.warnings.prefix(limits.items).map { shown($0) }
        return notes.map { Markup("p", ["class": "alarm"], ["\($0)"]) } + emptiness
    }

    private var emptiness: [Markup] {
        page.channels.isEmpty ? [Markup("p", [:], ["This feed has no channels."])] : []
    }

    private func rest(_ count: Int) -> [Markup] {
        let left = page.channels.count - count
        return left > 0
            ? [Markup("p", ["class": "quiet"], ["\(Self.number(left)) more channels do not fit on this page."])] : []
    }

    private func overview(_ channels: some Sequence<ReleasePage.ChannelSection>) -> Markup {
        Markup(
            "nav", ["aria-label": "Channels"],
            [
                Markup(
                    "ul", [:],
                    channels.map { channel in
                        let live = channel.content.content?.live.map { "\($0.release.version)" }
                        return Markup(
                            "li", [:],
                            [
                                Markup("a", ["href": "#channel-\(channel.name)"], ["\(channel.name)"]),
                                " \(live.map { "\($0) is live" } ?? "nothing is live")",
                            ])
                    })
            ])
    }
}

// MARK: Words

extension PageDocument {
    /// Text from outside, made printable, on one line and shortened.
    func shown(_ text: String) -> String { UntrustedName.display(text, limit: limits.characters) }

    func time(_ moment: Timestamp) -> Markup {
        let text = "\(moment)"
        return Markup("time", ["datetime": text], ["\(text.prefix(10)) \(text.dropFirst(11).prefix(5)) UTC"])
    }

    func day(_ moment: Timestamp) -> Markup {
        Markup("time", ["datetime": "\(moment)"], ["\("\(moment)".prefix(10))"])
    }

    /// For example `1,204`.
    static func number(_ count: Int) -> String {
        var digits = String(count)
        var index = digits.count
        while index > 3 {
            index -= 3
            digits.insert(",", at: digits.index(digits.startIndex, offsetBy: index))
        }
        return digits
    }

    /// Shows a key: its label if it is known to have signed, otherwise its ID.
    private func key(_ id: String, hasSigned: Bool) -> Markup {
        if hasSigned, let label = page.names.label(of: id) {
            return Markup("span", ["title": shown(id)], ["\(label)"])
        }
        return Markup("code", [:], ["\(shown(id).prefix(12))\(id.utf8.count > 12 ? "…" : "")"])
    }

    /// Shows as many items as fit, and the number of the others.
    func list<Item>(_ items: [Item], _ show: (Item) -> Markup) -> [Markup] {
        items.prefix(limits.items).map(show)
            + (items.count > limits.items
                ? [Markup("li", ["class": "quiet"], ["and \(Self.number(items.count - limits.items)) more"])] : [])
    }

    func facts(_ rows: [(String, [Markup])]) -> Markup {
        Markup(
            "dl", [:],
            rows.filter { !$0.1.isEmpty }.map { name, value in
                Markup("div", [:], [Markup("dt", [:], ["\(name)"]), Markup("dd", [:], value)])
            })
    }

    func tag(_ words: String, _ kind: String) -> Markup { Markup("span", ["class": "tag \(kind)"], ["\(words)"]) }

    func flaw(_ why: String) -> Markup { Markup("p", ["class": "alarm"], ["\(shown(why))"]) }

    /// The signers, as far as they are verified.
    func signers(_ proof: ReleasePage.Proof) -> [Markup] {
        func keys(_ ids: [String], haveSigned: Bool = false) -> [Markup] {
            ids.isEmpty
                ? ["a key that it does not name "]
                : ids.prefix(limits.items).flatMap { [key($0, hasSigned: haveSigned), " "] }
        }
        return switch proof {
        case .verified(let ids): keys(ids, haveSigned: true)
        case .unchecked(let ids): keys(ids) + ["(not verified)"]
        case .refused(_, let ids): keys(ids) + ["(not trusted)"]
        }
    }

    /// A tag for a file that is not verified.
    func mark(_ proof: ReleasePage.Proof) -> [Markup] {
        switch proof {
        case .verified: []
        case .unchecked: [tag("not verified", "warn")]
        case .refused: [tag("not trusted", "bad")]
        }
    }

    func reason(_ proof: ReleasePage.Proof) -> [Markup] {
        if case .refused(let reason, _) = proof { [flaw(reason)] } else { [] }
    }
}

// MARK: What a feed has besides channels

extension PageDocument {
    private var trust: Markup {
        Markup("section", ["class": "card"], [Markup("h2", [:], ["The feed"]), offered] + root)
    }

    private var offered: Markup {
        switch page.offered {
        case nil: Markup("p", [:], ["It has no manifest.json, which devices without a channel follow."])
        case .unreadable(let why): flaw(why)
        case .read(let offer):
            Markup(
                [
                    Markup(
                        "p", [:],
                        [
                            "Devices without a channel are offered ", Markup("b", [:], ["\(offer.manifest.version)"]),
                            " ",
                        ]
                            + mark(offer.proof))
                ] + reason(offer.proof))
        }
    }

    private var root: [Markup] {
        switch page.root {
        case nil: [Markup("p", [:], ["It has no trust root."])]
        case .unreadable(let why): [flaw(why)]
        case .read(let found):
            [
                Markup("h3", [:], ["Trust root \(found.root.version) "] + mark(found.proof)),
                facts([
                    ("Issued", [time(found.root.issued)]), ("Expires", expiry(found.root.expires)),
                    ("Signed by", signers(found.proof)),
                ]),
            ] + reason(found.proof) + TrustRole.allCases.compactMap { role($0, of: found.root) } + revoked(found.root)
        }
    }

    private func role(_ role: TrustRole, of root: TrustRoot) -> Markup? {
        guard let named = root.roles[role] else { return nil }
        return Markup([
            Markup("p", [:], ["\(role.rawValue): \(named.threshold) of \(named.keyIds.count) must sign"]),
            Markup("ul", ["class": "keys"], list(named.keyIds, keyRow)),
        ])
    }

    private func keyRow(_ id: String) -> Markup {
        let label = page.names.label(of: id).map { "\($0): " } ?? ""
        return Markup("li", [:], ["\(label)", Markup("code", [:], ["\(id)"])])
    }

    private func revoked(_ root: TrustRoot) -> [Markup] {
        if root.revoked.isEmpty { return [] }
        return [
            Markup("p", [:], ["Revoked keys:"]),
            Markup(
                "ul", ["class": "keys"],
                list(root.revoked) { Markup("li", [:], [Markup("code", [:], ["\(shown($0))"])]) }),
        ]
    }

    func expiry(_ moment: Timestamp) -> [Markup] {
        [time(moment)] + (moment < page.clock ? [" ", tag("expired", "bad")] : [])
    }
}

extension ReleasePage {
    /// Every proof that the page shows, but for those of copies.
    fileprivate var proofs: [Proof] {
        channels.compactMap(\.content.content).flatMap { [$0.proof] + $0.releases.map(\.proof) }
            + [root?.content?.proof, offered?.content?.proof].compactMap { $0 }
    }
}
