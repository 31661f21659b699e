import BundleCore
import BundleFormats
package import BundlePublish
package import BundleValues

/// The pages of the console: those of a feed and of its roster, with forms.
package struct ConsolePage: Sendable {
    private static let limits = PageLimits(
        channels: 50, releases: (3, 20), entries: 5, versions: 6, items: 12, characters: 400)

    /// The token of the forms.
    private let token: String
    /// The reason for which there are no buttons; nil if there are.
    private let locked: String?
    /// A sentence about all buttons; nil without one.
    private let note: String?
    private let clock: Timestamp

    package init(token: String, locked: String?, note: String? = nil, clock: Timestamp) {
        (self.token, self.locked, self.note, self.clock) = (token, locked, note, clock)
    }

    /// The source expressions of the style sheets of all pages.
    package static func styles() throws -> [String] {
        try [PageStyle.sheet, RosterStyle.sheet, ConsoleStyle.sheet].map {
            try ScriptSource.expression(for: Array("\($0)".utf8)[...])
        }
    }

    // MARK: Frame

    private func html(_ title: String, _ content: [Markup], roster: Bool = false) -> String {
        let sheets = [roster ? RosterStyle.sheet : PageStyle.sheet, ConsoleStyle.sheet]
        let head = Markup(
            "head", [:],
            [
                Markup("meta", ["charset": "utf-8"], isVoid: true),
                Markup("meta", ["name": "viewport", "content": "width=device-width, initial-scale=1"], isVoid: true),
                Markup("meta", ["name": "color-scheme", "content": "light dark"], isVoid: true),
                // Without a referrer, a browser would send no origin with a form.
                Markup("meta", ["name": "referrer", "content": "same-origin"], isVoid: true),
                Markup("title", [:], ["\(title) · console"]),
            ] + sheets.map { Markup(style: $0) })
        let header = Markup(
            "header", [:],
            [
                Self.nav, Markup("h1", [:], [Markup("bdi", [:], ["\(title)"])]),
                Markup(
                    "p", ["class": "quiet"], ["As of \(clock.description.prefix(16).replacing("T", with: " ")) UTC."]),
            ] + [locked, note].compactMap(\.self).map { Markup("p", ["class": "quiet"], ["\($0)"]) })
        return "<!doctype html>\n"
            + Markup("html", ["lang": "en"], [head, Markup("body", [:], [header, Markup("main", [:], content)])]).html
            + "\n"
    }

    private static let nav = Markup(
        "nav", ["class": "console", "aria-label": "Console"],
        [
            Markup("a", ["href": "/"], ["Overview"]), " ", Markup("a", ["href": "/roster"], ["Devices"]), " ",
            Markup("a", ["href": "/wall"], ["Wall"]),
        ])

    private func alarm(_ text: String) -> Markup { Markup("p", ["class": "alarm"], ["\(shown(text))"]) }

    private func shown(_ text: String) -> String { UntrustedName.display(text, limit: Self.limits.characters) }

    // MARK: Forms

    /// A form with one button, which asks first. Empty without buttons.
    private func form(_ action: ConsoleAction, _ hidden: KeyValuePairs<String, String>, values: [String: String] = [:])
        -> Markup
    {
        guard locked == nil else { return Markup([]) }
        let inputs = action.inputs.map { input -> Markup in
            let field =
                input.isSwitch
                ? Markup("input", ["type": "checkbox", "name": input.name, "value": "yes"], isVoid: true)
                : Markup(
                    "input",
                    [
                        "name": input.name, "placeholder": input.example, "value": values[input.name] ?? "",
                        "autocomplete": "off",
                        "autocapitalize": "none", "spellcheck": "false",
                    ], isVoid: true)
            return Markup("label", ["class": input.isSwitch ? "switch" : ""], ["\(input.label) ", field])
        }
        return Markup(
            "form", ["class": "act", "action": "/ask", "method": "post"],
            self.hidden([("action", action.rawValue)] + hidden.map { ($0.key, $0.value) }) + inputs
                + [
                    Markup("button", ["type": "submit"], ["\(action.label)"]),
                    Markup("small", [:], ["\(action.purpose)"]),
                ])
    }

    private func hidden(_ fields: [(String, String)]) -> [Markup] {
        ([("token", token)] + fields).map {
            Markup("input", ["type": "hidden", "name": $0.0, "value": $0.1], isVoid: true)
        }
    }

    // MARK: Feed

    /// The page of all channels. `inventory` is the sentence of the roster, and `own` has the keys of the console.
    package func overview(
        _ page: ReleasePage, proposals: [ProposalReading], own: [String], inventory: String?, troubles: [String]
    ) -> String {
        let document = PageDocument(page, Self.limits)
        let channels = page.channels.prefix(Self.limits.channels)
        return html(
            page.title,
            troubles.map(alarm)
                + (inventory.map { [Markup("p", [:], [Markup("a", ["href": "/roster"], ["\(shown($0))."])])] } ?? [])
                + waiting(proposals, page.names, own: own)
                + (channels.isEmpty ? [Markup("p", [:], ["This feed has no channels."])] : [])
                + channels.flatMap { [document.section($0), buttons(of: $0)] })
    }

    /// The box of the changes that wait for another person; empty without one.
    private func waiting(_ proposals: [ProposalReading], _ names: KeyNames, own: [String]) -> [Markup] {
        if proposals.isEmpty { return [] }
        let shown = proposals.prefix(Self.limits.items)
        let left = proposals.count - shown.count
        return [
            Markup(
                "section", ["class": "card", "aria-label": "Waits for another person"],
                [Markup("h2", [:], ["Waits for another person"])]
                    + shown.flatMap { proposal($0, names, own: own) }
                    + (left > 0 ? [Markup("p", ["class": "quiet"], ["and \(left) more"])] : []))
        ]
    }

    private func proposal(_ proposal: ProposalReading, _ names: KeyNames, own: [String]) -> [Markup] {
        let signers = proposal.keyIds.map(names.shortName).joined(separator: " and ")
        let age = proposal.document.map {
            ", \(RosterRule.span(clock.secondsSinceEpoch - $0.issuedAt.secondsSinceEpoch)) ago"
        }
        let changes = proposal.changes.prefix(Self.limits.items).map { Markup("li", [:], ["\(self.shown($0))"]) }
        let head: [Markup] = [
            Markup("h3", [:], ["\(proposal.channel), proposal \(proposal.shortID)"]),
            Markup(
                "p", ["class": "quiet"],
                ["Signed by \(signers.isEmpty ? "no channel key" : self.shown(signers))\(age ?? "")."]),
            Markup("ul", [:], changes),
        ]
        if let refusal = proposal.refusal { return head + [alarm(refusal.message)] }
        let missing = "\(counted(proposal.missing, "signature")) \(proposal.missing == 1 ? "is" : "are") missing."
        if !own.isEmpty, proposal.keyIds.contains(where: own.contains) {
            return head + [Markup("p", [:], ["\(missing) You have signed it, so another person must approve it."])]
        }
        return head + [
            Markup("p", [:], ["\(missing)"]),
            form(.approve, ["channel": proposal.channel, "id": proposal.id]),
        ]
    }

    /// Links to the releases of a channel, and its buttons.
    private func buttons(of channel: ReleasePage.ChannelSection) -> Markup {
        let releases = channel.content.content?.releases ?? []
        let links = releases.prefix(Self.limits.releases.full + Self.limits.releases.lines).flatMap { row -> [Markup] in
            let version = "\(row.release.version)"
            return [Markup("a", ["href": "/release/\(channel.name)/\(version)"], ["\(version)"]), " "]
        }
        return Markup(
            "section", ["class": "card", "aria-label": "Change \(channel.name)"],
            [
                Markup("h3", [:], ["Change \(channel.name)"]), Markup("p", [:], ["Releases: "] + links),
                Markup(
                    "p", [:], [Markup("a", ["href": "/history/\(channel.name)"], ["All changes of \(channel.name)"])]),
                form(.renew, ["channel": channel.name]),
            ])
    }

    /// The page of one release; nil if the channel does not have it.
    package func release(_ version: String, of name: String, in page: ReleasePage) -> String? {
        guard let channel = page.channels.first(where: { $0.name == name }), let content = channel.content.content,
            let row = content.releases.first(where: { "\($0.release.version)" == version })
        else { return nil }
        let document = PageDocument(page, Self.limits)
        let forms = ConsoleAction.buttons(for: row).map { form($0, ["channel": name, "version": version]) }
        return html(
            "\(version) in \(name)",
            [
                Markup(
                    "section", ["class": "card"],
                    [document.rollout(row), Markup("ul", ["class": "releases"], [document.full(row)])]),
                Markup("p", [:], [Markup("a", ["href": "/roster?version=\(version)"], ["Devices that run it"])]),
            ] + document.reports(channel)
                + (forms.isEmpty || locked != nil
                    ? [] : [Markup("section", ["class": "card"], [Markup("h2", [:], ["Change it"])] + forms)]))
    }

    /// The page of all changes of a channel; nil if there is none.
    package func history(of name: String, in page: ReleasePage) -> String? {
        guard let channel = page.channels.first(where: { $0.name == name }) else { return nil }
        let document = PageDocument(page, PageLimits.all[0])
        let content: [Markup]
        switch channel.history {
        case .unreadable(let why): content = [alarm(why)]
        case .read(let history):
            let entries = history.entries.reversed().prefix(PageLimits.mostEntries).map { entry in
                Markup([
                    document.entry(entry),
                    entry.document.sequence == history.entries.last?.document.sequence
                        ? Markup([])
                        : Markup(
                            "li", ["class": "quiet"],
                            [form(.restore, ["channel": name, "copy": "\(entry.document.sequence)"])]),
                ])
            }
            content = [Markup("ol", ["class": "history"], entries)]
        }
        return html("Changes of \(name)", content)
    }

    // MARK: Roster

    /// The list of devices.
    package func devices(
        _ filter: RosterFilter, _ rows: [RosterRow], inventory: RosterInventory
    ) -> String {
        let most = 200
        let page = RosterPage(
            filter: filter, rows: Array(rows.prefix(most)), total: rows.count, inventory: inventory, clock: clock)
        return html("Devices", page.content, roster: true)
    }

    /// The page of one device, with the newest releases of its channel to aim at it.
    package func device(_ row: RosterRow) -> String {
        let name = row.displayName
        var forms: [Markup] = []
        if let channel = row.post.channel, let newest = row.newest?.version {
            forms.append(
                form(.target, ["channel": channel, "version": "\(newest)"], values: ["groups": row.target]))
        }
        forms.append(form(.forget, ["device": row.target]))
        return html(
            name,
            DevicePage(row: row, clock: clock).content
                + (locked == nil
                    ? [Markup("section", ["class": "card"], [Markup("h2", [:], ["Change it"])] + forms)] : []),
            roster: true)
    }

    /// The number of pictures on one page of the wall.
    package static let picturesOnWall = 24

    /// One page of the pictures of all screens, those first that need attention; nil if there is no such page. `rows` are in the order of
    /// the list of devices.
    package func wall(_ rows: [RosterRow], number: Int) -> String? {
        let shown = rows.filter { $0.newestPicture != nil }
        let last = max(1, (shown.count + Self.picturesOnWall - 1) / Self.picturesOnWall)
        guard (1...last).contains(number) else { return nil }
        let part = shown.dropFirst((number - 1) * Self.picturesOnWall).prefix(Self.picturesOnWall)
        let without = rows.count - shown.count
        let words =
            shown.isEmpty
            ? "The roster has no pictures. The devices need `serve --picture`, and the host `feed serve --roster-pictures`."
            : "\(counted(shown.count, "picture")). Those of devices that need attention come first."
                + (without > 0 ? " \(counted(without, "device")) without one." : "")
        func link(_ words: String, _ page: Int) -> [Markup] {
            (1...last).contains(page) ? [Markup("a", ["href": "/wall/\(page)"], ["\(words)"]), " "] : []
        }
        return html(
            number == 1 ? "Wall" : "Wall, page \(number)",
            [
                Markup("p", ["class": "quiet"], ["\(words)"]), Markup("ul", ["class": "wall"], part.map(screen)),
                Markup("p", [:], link("Previous page", number - 1) + link("Next page", number + 1)),
            ], roster: true)
    }

    private func screen(_ row: RosterRow) -> Markup {
        guard let (kind, seen) = row.newestPicture else { return Markup([]) }
        let reason = row.reasons(at: clock).first
        let address = "/roster/\(row.post.device)"
        return Markup(
            "li", ["class": reason.map { $0.kind.isUrgent ? "bad" : "warn" } ?? ""],
            [
                Markup(
                    "a", ["href": address],
                    [
                        Markup(
                            "img",
                            [
                                "src": "/roster/\(kind.path(of: row.post.device))", "alt": "",
                                "loading": "lazy",
                            ], isVoid: true),
                        Markup("bdi", [:], ["\(row.displayName)"]),
                    ]),
                Markup(
                    "small", [:],
                    [
                        "\(reason.map { shown($0.text(at: clock)) + ", " } ?? "")\(RosterRule.span(clock.secondsSinceEpoch - seen.secondsSinceEpoch)) ago"
                    ]),
            ])
    }

    // MARK: Answers

    /// The page that asks before a change.
    package func question(_ question: ConsoleQuestion) -> String {
        let difference = question.difference.map { line -> Markup in
            guard let line else { return Markup("span", ["class": "gap"], ["…\n"]) }
            switch line.kind {
            case .same: return "  \(line.text)\n"
            case .removed: return Markup("del", [:], ["- \(line.text)\n"])
            case .added: return Markup("ins", [:], ["+ \(line.text)\n"])
            }
        }
        let fields = question.fields.filter { $0.key != "token" }.sorted { $0.key < $1.key }
        var content: [Markup] = []
        if !question.news.isEmpty {
            content.append(alarm("Another person was faster. Read what changed, and decide again."))
            content.append(Markup("ul", [:], question.news.map { Markup("li", [:], ["\(shown($0))"]) }))
        }
        content += question.warnings.map(alarm)
        content.append(
            Markup("ul", ["class": "changes"], question.changes.map { Markup("li", [:], ["\(shown($0))"]) }))
        content += (question.signing + [question.reach].compactMap(\.self)).map { Markup("p", [:], ["\(shown($0))"]) }
        content.append(Markup("p", [:], ["The same on a command line:"]))
        content.append(Markup("pre", ["tabindex": "0"], ["\(question.command)"]))
        if !difference.isEmpty {
            content.append(Markup("p", [:], ["The difference:"]))
            content.append(Markup("pre", ["class": "difference", "tabindex": "0"], difference))
        }
        var parts = hidden(fields.map { ($0.key, $0.value) })
        parts.append(Markup("button", ["type": "submit"], ["\(question.action.label)"]))
        parts.append(" ")
        parts.append(Markup("a", ["href": back(from: question)], ["Cancel"]))
        content.append(Markup("form", ["class": "act", "action": "/do", "method": "post"], parts))
        return html("\(question.action.label)?", content)
    }

    private func back(from question: ConsoleQuestion) -> String {
        guard let channel = question.fields["channel"], let version = question.fields["version"],
            ChannelFileName.isName(channel), let known = try? SemanticVersion(parsing: version)
        else { return "/" }
        return "/release/\(channel)/\(known)"
    }

    /// The page after a change.
    package func done(_ lines: [String]) -> String {
        html("Done", [Markup("ul", ["class": "changes"], lines.map { Markup("li", [:], ["\(shown($0))"]) })])
    }

    /// The page about a failure.
    package func failed(_ failure: UpdateFailure) -> String {
        html(
            "Nothing was changed",
            [
                alarm(failure.message),
                Markup("p", [:], [Markup("code", [:], ["\(failure.code.rawValue)"]), " \(failure.code.remedy)"]),
            ])
    }
}

/// The style sheet of the parts that only the console has.
private enum ConsoleStyle {
    static let sheet: StaticString = """
        nav.console{display:flex;gap:1rem;padding:.5rem 0;border-bottom:1px solid var(--rule)}
        form.act{display:flex;flex-wrap:wrap;gap:.5rem;align-items:end;margin:.75rem 0;padding:.5rem 0;border-top:1px solid var(--rule)}
        form.act label{flex:0 1 14rem;font-size:.8125rem;color:var(--quiet)}form.act small{flex:1 1 100%;color:var(--quiet)}
        form.act input{display:block;width:100%;padding:.5rem;font:inherit;font-size:1rem;color:var(--text);background:var(--card);\
        border:1px solid var(--quiet);border-radius:.375rem}
        form.act .switch input{display:inline-block;width:1.25rem;height:1.25rem;vertical-align:middle}
        form.act button{padding:.5rem 1.25rem;font:inherit;color:#fff;background:#1f6feb;border:1px solid #1f6feb;border-radius:.375rem}
        :focus-visible{outline:.1875rem solid #1f6feb;outline-offset:.125rem}
        .changes{font-size:1.125rem}.alarm{padding:.25rem .75rem;border-left:.25rem solid var(--bad)}
        pre{overflow-x:auto;padding:.75rem;background:var(--card);border:1px solid var(--rule);font:.875rem/1.4 ui-monospace,monospace}
        .difference ins{color:inherit;background:rgb(17 99 41/.25);text-decoration:none;display:block}
        .difference del{color:inherit;background:rgb(180 35 24/.25);display:block}
        .wall{list-style:none;margin:1rem 0;padding:0;display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:1rem}
        .wall li{padding:.5rem;background:var(--card);border:1px solid var(--rule)}.wall a{display:block}
        .wall img{display:block;width:100%;aspect-ratio:16/9;object-fit:contain;background:#000;margin-bottom:.25rem}
        .wall .bad{box-shadow:inset .25rem 0 var(--bad)}.wall .warn{box-shadow:inset .25rem 0 var(--warn)}
        section.card{margin:1rem 0;padding:1rem;background:var(--card);border:1px solid var(--rule);border-radius:.5rem}

        """
}
