import BundleCore
import BundleServe
import BundleValues

/// The page of a roster, without scripts.
struct RosterPage {
    /// The number of devices on one page.
    static let most = 500

    let filter: RosterFilter
    let rows: [RosterRow]
    /// The number of devices that the filter selects.
    let total: Int
    let tallies: [RosterFile.Tally]
    /// The number of devices without a message for a day.
    let silent: Int
    let conflicts: Int
    let clock: Timestamp

    /// The content security policy of the page.
    static func policy() throws -> String {
        let style = try ScriptSource.expression(for: Array("\(RosterStyle.sheet)".utf8)[...])
        return "default-src 'none'; style-src \(style); form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    }

    func html() -> String {
        "<!doctype html>\n" + Markup("html", ["lang": "en"], [head, body]).html + "\n"
    }

    private var head: Markup {
        Markup(
            "head", [:],
            [
                Markup("meta", ["charset": "utf-8"], isVoid: true),
                Markup(
                    "meta", ["name": "viewport", "content": "width=device-width, initial-scale=1"], isVoid: true),
                Markup("meta", ["name": "color-scheme", "content": "light dark"], isVoid: true),
                Markup("meta", ["name": "robots", "content": "noindex"], isVoid: true),
                Markup("title", [:], ["Devices"]), Markup(style: RosterStyle.sheet),
            ])
    }

    private var body: Markup {
        Markup(
            "body", [:],
            [
                Markup(
                    "header", [:],
                    [Markup("h1", [:], ["Devices"]), Markup("p", ["class": "quiet"], ["As of \(Self.minute(clock))."])]),
                Markup("main", [:], [summary, search, result, table]),
            ])
    }

    // MARK: Summary

    private var summary: Markup {
        let all = tallies.reduce(0) { $0 + $1.devices }
        return Markup(
            "ul", ["class": "sums"],
            [
                sum(all, words: "in total", link: "/roster", kind: ""),
                sum(silent, words: "silent for a day", link: "/roster?silent=24h", kind: "bad"),
            ]
                + (conflicts > 0 ? [sum(conflicts, words: "with a conflict", link: nil, kind: "bad")] : [])
                + versions.prefix(6).map { version, count in
                    sum(
                        count, words: version.isEmpty ? "run nothing" : "on \(version)", link: link(toVersion: version),
                        kind: "")
                })
    }

    private var versions: [(String, Int)] {
        var counts: [String: Int] = [:]
        for tally in tallies { counts[tally.version, default: 0] += tally.devices }
        return counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { ($0.key, $0.value) }
    }

    private func link(toVersion version: String) -> String? {
        if version.isEmpty { return nil }
        var filter = RosterFilter()
        filter.version = version
        return "/roster?\(filter.query)"
    }

    private func sum(_ count: Int, words: String, link: String?, kind: String) -> Markup {
        let content: [Markup] = [Markup("b", [:], ["\(PageDocument.number(count))"]), " \(Self.shown(words))"]
        return Markup(
            "li", ["class": count > 0 ? kind : ""], link.map { [Markup("a", ["href": $0], content)] } ?? content)
    }

    // MARK: Search

    private var search: Markup {
        Markup(
            "form", ["action": "/roster", "method": "get"],
            [
                field("Name or device", name: "name", value: filter.name),
                field("Version", name: "version", value: filter.version),
                field(
                    "Silent for", name: "silent", value: filter.silent.map { DurationText($0).description },
                    example: "24h"),
                Markup("button", ["type": "submit"], ["Search"]),
            ])
    }

    private func field(_ label: String, name: String, value: String?, example: String = "") -> Markup {
        Markup(
            "label", [:],
            [
                "\(label) ",
                Markup(
                    "input",
                    [
                        "name": name, "value": value ?? "", "placeholder": example, "autocomplete": "off",
                        "autocapitalize": "none", "spellcheck": "false",
                    ], isVoid: true),
            ])
    }

    private var result: Markup {
        let all = PageDocument.number(total)
        let words =
            rows.count < total
            ? "The first \(rows.count) of \(all) devices by name. Search to see others."
            : total == 1 ? "1 device." : "\(all) devices. Those that need attention come first."
        return Markup("p", ["class": "quiet"], ["\(words)"])
    }

    // MARK: Devices

    private var table: Markup {
        let names = ["Name", "Runs", "Needs attention", "Seen", "Device"]
        return Markup(
            "table", [:],
            [
                Markup("thead", [:], [Markup("tr", [:], names.map { Markup("th", ["scope": "col"], ["\($0)"]) })]),
                Markup("tbody", [:], sorted.map(line)),
            ])
    }

    /// The urgency of a device for its operator. The raw value is the class of its row.
    private enum Attention: String, CaseIterable { case bad, warn, none = "" }

    private func attention(_ row: RosterRow) -> Attention {
        if !RosterRule.urgent(row, at: clock).isEmpty { return .bad }
        return RosterRule.reason(row, at: clock) == nil ? .none : .warn
    }

    /// The devices by the attention that they need, then by name.
    private var sorted: [RosterRow] {
        Attention.allCases.flatMap { attention in rows.filter { self.attention($0) == attention } }
    }

    private func line(_ row: RosterRow) -> Markup {
        let post = row.post
        let reasons = RosterRule.reasons(row, at: clock).map { Self.shown($0) }
        let version: [Markup] =
            [Markup("b", [:], ["\(post.runs.map { Self.shown($0) } ?? "nothing")"])]
            + (post.state == .none ? [] : [" \(post.state.rawValue)"])
            + (post.next.map { [", next \(Self.shown($0))"] } ?? [])
        let others: [Markup] =
            (reasons.count < 2
                ? [] : [Markup("small", [:], ["also \(reasons.dropFirst().joined(separator: ", "))"])])
            + (row.conflict == nil ? [] : [Markup("small", [:], ["\(Self.keys(row))"])])
        let waits = RosterRule.waits(row).map { [Markup("small", [:], ["waits for \($0)"])] } ?? []
        func cell(_ label: String, _ content: [Markup]) -> Markup { Markup("td", ["data-label": label], content) }
        return Markup(
            "tr", ["class": attention(row).rawValue],
            [
                Markup(
                    "th", ["scope": "row"],
                    [Markup("bdi", [:], ["\(post.name.isEmpty ? "(no name)" : Self.shown(post.name))"])]),
                cell("Runs", version + [Markup("small", [:], ["for ", moment(row.since, RosterRule.span)])] + waits),
                cell("Needs attention", ["\(reasons.first ?? "–")"] + others),
                cell("Seen", [moment(row.seen) { "\(RosterRule.span($0)) ago" }]),
                cell("Device", [Markup("code", [:], ["\(Self.shown(row.target))"])]),
            ])
    }

    private static func shown(_ text: String) -> String { UntrustedName.display(text) }

    /// Returns the first digits of the pinned key and of the last other one.
    private static func keys(_ row: RosterRow) -> String {
        [("pinned", row.key), ("refused", row.refusedKey)].compactMap { word, key in
            key.map { "\(word) key \(shown(String($0.prefix(12))))…" }
        }.joined(separator: ", ")
    }

    /// Returns the time since `moment` in the words of `words`, which gets it in seconds.
    private func moment(_ moment: Timestamp, _ words: (Int) -> String) -> Markup {
        Markup(
            "time", ["datetime": moment.description, "title": moment.description],
            ["\(words(clock.secondsSinceEpoch - moment.secondsSinceEpoch))"])
    }

    /// Returns a time without its seconds, such as `2026-11-26 08:00 UTC`.
    private static func minute(_ moment: Timestamp) -> String {
        moment.description.prefix(16).replacing("T", with: " ") + " UTC"
    }
}

/// The style sheet of the page, for light and dark screens, from phones to desktops.
private enum RosterStyle {
    static let sheet: StaticString = """
        :root{color-scheme:light dark;--page:#f4f5f7;--card:#fff;--text:#1a1f26;--quiet:#59636e;--rule:#d8dde3;--link:#1f6feb;\
        --bad:#b42318;--warn:#9a6700}
        @media(prefers-color-scheme:dark){:root{--page:#0e1116;--card:#171c23;--text:#e6eaef;--quiet:#9aa5b1;--rule:#2d343d;\
        --link:#589bff;--bad:#ff7b72;--warn:#d9a441}}
        *{box-sizing:border-box}
        body{margin:0 auto;max-width:80rem;padding:1rem;background:var(--page);color:var(--text);font:1rem/1.5 system-ui,sans-serif;\
        overflow-wrap:anywhere}
        h1{font-size:1.5rem;margin:.5rem 0 0}p{margin:.25rem 0}a{color:inherit;text-decoration-color:var(--link)}
        code{font:.875em ui-monospace,monospace}small{display:block;color:var(--quiet);font-size:.8125rem}
        .quiet{color:var(--quiet)}
        .sums{list-style:none;margin:1rem 0;padding:0;display:grid;grid-template-columns:repeat(auto-fill,minmax(9rem,1fr));gap:.5rem}
        .sums li{padding:.5rem .75rem;background:var(--card);border:1px solid var(--rule);border-radius:.5rem}
        .sums b{display:block;font-size:1.25rem}.sums .bad b{color:var(--bad)}
        form{display:flex;flex-wrap:wrap;gap:.75rem;align-items:end;margin:1rem 0}
        label{flex:1 1 10rem;font-size:.8125rem;color:var(--quiet)}
        input{display:block;width:100%;padding:.5rem;font:inherit;font-size:1rem;color:var(--text);background:var(--card);\
        border:1px solid var(--quiet);border-radius:.375rem}
        button{padding:.5rem 1.25rem;font:inherit;color:#fff;background:#1f6feb;border:1px solid #1f6feb;border-radius:.375rem}
        :focus-visible{outline:.1875rem solid var(--link);outline-offset:.125rem}
        table{width:100%;border-collapse:collapse;background:var(--card);border:1px solid var(--rule)}
        thead th{font-size:.8125rem;color:var(--quiet);border-bottom:1px solid var(--rule)}
        th,td{padding:.5rem .75rem;text-align:left;vertical-align:top;font-weight:400}
        tbody th{font-weight:600}tbody tr+tr{border-top:1px solid var(--rule)}
        @media(min-width:45.01rem){tr.bad>:first-child,tr.warn>:first-child{box-shadow:inset .25rem 0 var(--mark)}}
        tr.bad{--mark:var(--bad)}tr.warn{--mark:var(--warn)}
        .bad td:nth-child(3){color:var(--bad)}.warn td:nth-child(3){color:var(--warn)}
        @media(max-width:45rem){thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
        table,tbody,tr,td,tbody th{display:block}tbody tr{padding:.5rem 0}
        tr.bad,tr.warn{box-shadow:inset .25rem 0 var(--mark)}th,td{padding:.125rem .75rem}td::before{content:attr(data-label) ": ";color:var(--quiet)}
        td small{display:inline;margin-left:.25rem}}

        """
}
