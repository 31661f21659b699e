import BundleCore
import BundleServe
package import BundleValues

/// The list of a roster as a page without scripts.
struct RosterPage {
    /// The number of devices on one page.
    static let most = 500

    let filter: RosterFilter
    let rows: [RosterRow]
    /// The number of devices that the filter selects.
    let total: Int
    let inventory: RosterInventory
    let clock: Timestamp

    /// The content security policy of the page.
    static func policy() throws -> String {
        let style = try ScriptSource.expression(for: Array("\(RosterStyle.sheet)".utf8)[...])
        return
            "default-src 'none'; style-src \(style); img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    }

    func html() -> String {
        RosterFrame.html("Devices", "As of \(RosterFrame.minute(clock)).", content)
    }

    /// The page without its frame.
    var content: [Markup] { [sentence, summary, search, result, table] }

    private var sentence: Markup { Markup("p", ["class": "inventory"], ["\(Self.shown(inventory.text))."]) }

    // MARK: Summary

    private var summary: Markup {
        let groups = RosterGroup.allCases.filter { $0 != .never || inventory.neverSeen != nil }
        return Markup(
            "ul", ["class": "sums"],
            [sum(inventory.total, words: "in total", filter: RosterFilter(), kind: "")]
                + groups.map { group in
                    var filter = RosterFilter()
                    filter.groups = [group]
                    return sum(
                        inventory.count(of: group), words: Self.words(group), filter: filter,
                        kind: [.waits, .behind].contains(group) ? "" : "bad")
                }
                + versions.prefix(6).map { version, count in
                    var filter = RosterFilter()
                    filter.version = version
                    return sum(
                        count, words: version.isEmpty ? "run nothing" : "on \(version)",
                        filter: version.isEmpty ? nil : filter, kind: "")
                })
    }

    private static func words(_ group: RosterGroup) -> String {
        switch group {
        case .attention: "need attention"
        case .failed: "failed"
        case .silent: "silent"
        case .waits: "wait"
        case .behind: "behind"
        case .never: "never seen"
        }
    }

    private var versions: [(String, Int)] {
        inventory.versions.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { ($0.key, $0.value) }
    }

    private func sum(_ count: Int, words: String, filter: RosterFilter?, kind: String) -> Markup {
        let content: [Markup] = [Markup("b", [:], ["\(PageDocument.number(count))"]), " \(Self.shown(words))"]
        guard let filter else { return Markup("li", [:], content) }
        let link = filter.query.isEmpty ? "/roster" : "/roster?\(filter.query)"
        let isShown = filter == self.filter
        return Markup(
            "li", ["class": count > 0 ? kind : ""],
            [
                isShown
                    ? Markup("a", ["href": link, "aria-current": "true"], content)
                    : Markup("a", ["href": link], content)
            ])
    }

    // MARK: Search

    private var search: Markup {
        Markup(
            "form", ["action": "/roster", "method": "get"],
            group + [
                field("Name or device", name: "name", value: filter.name),
                field("Version", name: "version", value: filter.version),
                field(
                    "Silent for", name: "silent", value: filter.silent.map { DurationText($0).description },
                    example: "24h"),
                field("Group", name: "group", value: filter.memberOf),
                Markup("button", ["type": "submit"], ["Search"]),
            ])
    }

    /// A search keeps the group that is shown.
    private var group: [Markup] {
        var shown = RosterFilter()
        shown.groups = filter.groups
        let value = shown.query.split(separator: "=").last.map(String.init)
        return value.map { [Markup("input", ["type": "hidden", "name": "only", "value": $0], isVoid: true)] } ?? []
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
            ? "The first \(rows.count) of \(all) devices. Those that need attention come first; search to see others."
            : total == 1 ? "1 device." : "\(all) devices. Those that need attention come first."
        return Markup("p", ["class": "quiet"], ["\(words)"])
    }

    // MARK: Devices

    private var table: Markup {
        let names = ["Name", "Runs", "Needs attention", "Waits for", "Seen"]
        let urgent = rows.prefix { $0.place(at: clock).isUrgent }
        let missing = filter.neverSeen(inventory.neverSeen ?? []).prefix(Self.most).map(missing)
        return Markup(
            "table", [:],
            [
                Markup("thead", [:], [Markup("tr", [:], names.map { Markup("th", ["scope": "col"], ["\($0)"]) })]),
                Markup("tbody", [:], urgent.map(line) + missing + rows.dropFirst(urgent.count).map(line)),
            ])
    }

    private func missing(_ name: String) -> Markup {
        Markup(
            "tr", ["class": "warn"],
            [
                Markup("th", ["scope": "row"], [Markup("bdi", [:], ["\(Self.shown(name))"])]), cell("Runs", []),
                cell("Needs attention", ["never seen"]), cell("Waits for", []), cell("Seen", ["never"]),
            ])
    }

    /// Returns a cell, which a phone does not show if it has no content.
    private func cell(_ label: String, _ content: [Markup]) -> Markup {
        content.isEmpty
            ? Markup("td", ["class": "none"], ["–"]) : Markup("td", ["data-label": label], content)
    }

    private func line(_ row: RosterRow) -> Markup {
        let post = row.post
        let reasons = row.reasons(at: clock)
        let version: [Markup] =
            [Markup("b", [:], ["\(post.runs.map { Self.shown($0) } ?? "nothing")"])]
            + (post.state == .none ? [] : [" \(post.state.rawValue)"])
            + (post.next.map { [", next \(Self.shown($0))"] } ?? [])
        let others = reasons.dropFirst().map { Self.shown($0.words) }.joined(separator: ", ")
        let attention: [Markup] =
            reasons.first.map { first in
                ["\(Self.shown(first.text(at: clock)))", Markup("small", [:], RosterFrame.prose(first.remedy))]
                    + (others.isEmpty ? [] : [Markup("small", [:], ["also \(others)"])])
            } ?? []
        let kind = reasons.first.map { $0.kind.isUrgent ? "bad" : "warn" } ?? ""
        let name = post.name.isEmpty ? row.target : post.name
        return Markup(
            "tr", ["class": kind],
            [
                Markup(
                    "th", ["scope": "row"],
                    [Markup("a", ["href": "/roster/\(post.device)"], [Markup("bdi", [:], ["\(Self.shown(name))"])])]),
                cell(
                    "Runs",
                    version + [
                        Markup("small", [:], ["for ", RosterFrame.moment(row.since, at: clock, RosterRule.span)])
                    ]),
                cell("Needs attention", attention), cell("Waits for", RosterRule.waits(row).map { ["\($0)"] } ?? []),
                cell("Seen", [RosterFrame.moment(row.seen, at: clock) { "\(RosterRule.span($0)) ago" }]),
            ])
    }

    private static func shown(_ text: String) -> String { UntrustedName.display(text) }
}

/// The page of one device of a roster.
struct DevicePage {
    let row: RosterRow
    let clock: Timestamp

    func html() -> String { RosterFrame.html(row.displayName, "As of \(RosterFrame.minute(clock)).", content) }

    /// The page without its frame.
    var content: [Markup] {
        let reasons = row.reasons(at: clock)
        let list =
            reasons.isEmpty
            ? Markup("p", ["class": "quiet"], ["This device needs no attention."])
            : Markup("ul", ["class": "reasons"], reasons.map(item))
        let facts = Markup(
            "dl", [:],
            row.facts(at: clock).map { name, value in
                Markup(
                    "div", [:],
                    [Markup("dt", [:], ["\(name)"]), Markup("dd", [:], ["\(UntrustedName.display(value))"])])
            })
        let back = Markup("p", [:], [Markup("a", ["href": "/roster"], ["All devices"])])
        return [back, list] + pictures + [facts]
    }

    private var pictures: [Markup] {
        let shown =
            figure(.last, "The screen", row.pictured)
            + figure(.failed, "The screen of the last failed start", row.failurePictured)
        return shown.isEmpty ? [] : [Markup("div", ["class": "pictures"], shown)]
    }

    private func figure(_ kind: PicturePost.Kind, _ words: String, _ seen: Timestamp?) -> [Markup] {
        guard let seen else { return [] }
        let address = "/roster/\(kind.path(of: row.post.device))"
        let picture = Markup(
            "img", ["src": address, "alt": "\(words) of \(row.displayName)", "width": "480"], isVoid: true)
        let time = RosterFrame.moment(seen, at: clock) { "\(RosterRule.span($0)) ago" }
        return [Markup("figure", [:], [picture, Markup("figcaption", [:], ["\(words), ", time])])]
    }

    private func item(_ reason: RosterReason) -> Markup {
        let code: [Markup] = reason.code.map { [" ", Markup("code", [:], ["\(UntrustedName.display($0))"])] } ?? []
        return Markup(
            "li", ["class": reason.kind.isUrgent ? "bad" : "warn"],
            [Markup("b", [:], ["\(UntrustedName.display(reason.text(at: clock)))"])] + code
                + [Markup("small", [:], RosterFrame.prose(reason.remedy))])
    }
}

extension RosterRow {
    /// The name for people, or else the ID, on one line.
    package var displayName: String { post.name.isEmpty ? target : UntrustedName.display(post.name) }

    /// Everything about the device besides its reasons, by label.
    package func facts(at now: Timestamp) -> [(name: String, value: String)] {
        func ago(_ moment: Timestamp) -> String {
            "\(moment), \(RosterRule.span(now.secondsSinceEpoch - moment.secondsSinceEpoch)) ago"
        }
        let conflict = conflict.map {
            "\(counted(conflicts, "message")), the last at \($0)" + (refusedKey.map { ", key \($0)" } ?? "")
        }
        let aim =
            "clientctl release target \(target) --only --version \(newest?.version.description ?? "VERSION") --feed FEED "
            + "--channel \(post.channel ?? "CHANNEL") --channel-key KEY"
        let facts: [(String, String?)] = [
            ("device", target), ("runs", "\(post.runs ?? "nothing") (\(post.state.rawValue)) since \(since)"),
            ("next", post.next),
            ("newest", newest.map { "\($0.version) since \($0.since)" + (isBehind ? "; this device is behind" : "") }),
            ("waits for", RosterRule.waits(self)), ("screen", post.screen?.rawValue),
            ("channel", post.channel.map { $0 + (post.sequence.map { ", sequence \($0)" } ?? "") }),
            ("last check", post.checked.map { "\($0)\(post.code.map { ", failed with \($0)" } ?? "")" }),
            ("blocked", post.blocked.isEmpty ? nil : post.blocked.joined(separator: ", ")),
            ("failed start", post.failure),
            ("groups", post.groups.isEmpty ? nil : post.groups.joined(separator: ", ")),
            ("tags", post.tags.isEmpty ? nil : post.tags.joined(separator: ", ")),
            ("doctor", post.findings.isEmpty ? nil : "found \(post.findings.joined(separator: ", "))"),
            ("last message", "\(ago(seen)); one every \(DurationText(.seconds(post.interval)))"),
            ("first message", first.description), ("another key signed", conflict), ("pinned key", key),
            ("refused an old message", older.map { "at \($0)" }), ("application", post.appId),
            ("programs", "clientctl \(post.program)" + (post.shell.map { ", shell \($0)" } ?? "")),
            ("aim a release at it", aim),
        ]
        return facts.compactMap { name, value in value.map { (name, $0) } }
    }
}

/// The parts that the pages of a roster have in common.
private enum RosterFrame {
    static func html(_ title: String, _ time: String, _ content: [Markup]) -> String {
        let head = Markup(
            "head", [:],
            [
                Markup("meta", ["charset": "utf-8"], isVoid: true),
                Markup(
                    "meta", ["name": "viewport", "content": "width=device-width, initial-scale=1"], isVoid: true),
                Markup("meta", ["name": "color-scheme", "content": "light dark"], isVoid: true),
                Markup("meta", ["name": "robots", "content": "noindex"], isVoid: true),
                Markup("title", [:], ["\(title)"]), Markup(style: RosterStyle.sheet),
            ])
        let header = Markup(
            "header", [:],
            [Markup("h1", [:], [Markup("bdi", [:], ["\(title)"])]), Markup("p", ["class": "quiet"], ["\(time)"])])
        let body = Markup("body", [:], [header, Markup("main", [:], content)])
        return "<!doctype html>\n" + Markup("html", ["lang": "en"], [head, body]).html + "\n"
    }

    /// Returns a sentence whose commands are between backticks.
    static func prose(_ text: String) -> [Markup] {
        text.split(separator: "`", omittingEmptySubsequences: false).enumerated().map { index, part in
            index.isMultiple(of: 2) ? Markup(text: String(part)) : Markup("code", [:], ["\(String(part))"])
        }
    }

    /// Returns the time since `moment` in the words of `words`, which gets it in seconds.
    static func moment(_ moment: Timestamp, at now: Timestamp, _ words: (Int) -> String) -> Markup {
        Markup(
            "time", ["datetime": moment.description, "title": moment.description],
            ["\(words(now.secondsSinceEpoch - moment.secondsSinceEpoch))"])
    }

    /// Returns a time without its seconds, such as `2026-11-26 08:00 UTC`.
    static func minute(_ moment: Timestamp) -> String {
        moment.description.prefix(16).replacing("T", with: " ") + " UTC"
    }
}

/// The style sheet of the page, for light and dark screens, from phones to desktops.
enum RosterStyle {
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
        .sums li:has([aria-current]){border-color:var(--link);box-shadow:0 0 0 1px var(--link)}
        .sums a{display:block;color:inherit}.inventory{font-size:1.125rem;font-weight:600;margin-top:.75rem}
        .reasons{list-style:none;margin:1rem 0;padding:0}
        .reasons li{padding:.5rem .75rem;margin:.5rem 0;background:var(--card);border:1px solid var(--rule);box-shadow:inset .25rem 0 var(--mark)}
        .reasons .bad b{color:var(--bad)}.reasons .warn b{color:var(--warn)}.bad{--mark:var(--bad)}.warn{--mark:var(--warn)}
        dl{margin:1rem 0;background:var(--card);border:1px solid var(--rule)}
        dl div{display:flex;flex-wrap:wrap;padding:.5rem .75rem}dl div+div{border-top:1px solid var(--rule)}
        dt{flex:0 0 12rem;color:var(--quiet)}dd{flex:1 1 16rem;margin:0}
        form{display:flex;flex-wrap:wrap;gap:.75rem;align-items:end;margin:1rem 0}
        label{flex:1 1 10rem;font-size:.8125rem;color:var(--quiet)}
        input{display:block;width:100%;padding:.5rem;font:inherit;font-size:1rem;color:var(--text);background:var(--card);\
        border:1px solid var(--quiet);border-radius:.375rem}
        button{padding:.5rem 1.25rem;font:inherit;color:#fff;background:#1f6feb;border:1px solid #1f6feb;border-radius:.375rem}
        .pictures{display:flex;flex-wrap:wrap;gap:1rem}figure{margin:0 0 1rem}figcaption{color:var(--quiet);font-size:.8125rem}
        figure img{display:block;max-width:100%;height:auto;background:var(--card);border:1px solid var(--rule)}
        :focus-visible{outline:.1875rem solid var(--link);outline-offset:.125rem}
        table{width:100%;border-collapse:collapse;background:var(--card);border:1px solid var(--rule)}
        thead th{font-size:.8125rem;color:var(--quiet);border-bottom:1px solid var(--rule)}
        th,td{padding:.5rem .75rem;text-align:left;vertical-align:top;font-weight:400}
        tbody th{font-weight:600}tbody tr+tr{border-top:1px solid var(--rule)}
        @media(min-width:45.01rem){tr.bad>:first-child,tr.warn>:first-child{box-shadow:inset .25rem 0 var(--mark)}}
        .bad td:nth-child(3){color:var(--bad)}.warn td:nth-child(3){color:var(--warn)}td:nth-child(3){min-width:14rem}
        @media(max-width:45rem){thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
        table,tbody,tr,td,tbody th{display:block}tbody tr{padding:.5rem 0}
        tr.bad,tr.warn{box-shadow:inset .25rem 0 var(--mark)}th,td{padding:.125rem .75rem}td::before{content:attr(data-label) ": ";color:var(--quiet)}
        td small{display:inline;margin-left:.25rem}td:nth-child(3) small{display:block;margin:0}td.none{display:none}}

        """
}
