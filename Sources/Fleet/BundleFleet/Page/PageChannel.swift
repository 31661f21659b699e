import BundlePublish
import BundleFormats
import BundleCore
import BundleValues

extension PageDocument {
    func section(_ channel: ReleasePage.ChannelSection) -> Markup {
        var parts: [Markup]
        switch channel.content {
        case .unreadable(let why): parts = [Markup("h2", [:], ["\(channel.name)"]), flaw(why)] + reports(channel)
        case .read(let content):
            parts = [Markup("h2", [:], ["\(channel.name) "] + marks(content))] + reason(content.proof)
            parts += [now(content), facts(of: content)] + recalls(content.document)
            parts += reports(channel) + releases(content)
        }
        return Markup(
            "section", ["class": "card", "id": "channel-\(channel.name)"], parts + history(channel.history))
    }

    private func marks(_ content: ReleasePage.PageContent) -> [Markup] {
        mark(content.proof) + (content.document.expires <= page.clock ? [tag("expired", "bad")] : [])
    }

    private func facts(of content: ReleasePage.PageContent) -> Markup {
        let document = content.document
        return facts([
            ("Sequence", ["\(document.sequence)"]), ("Issued", [time(document.issuedAt)]),
            ("Expires", expiry(document.expires)), ("Signed by", signers(content.proof)),
            ("Checks", document.poll.map { ["\(ChannelDocument.words($0))"] } ?? []),
            ("Minimum", document.minimumVersion.map { ["nothing below \($0) may run"] } ?? []),
        ])
    }

    // MARK: Now

    /// The release for every device, and the rollouts of higher releases.
    private func now(_ content: ReleasePage.PageContent) -> Markup {
        let live = content.live
        let coming = content.releases.filter { release in
            live.map { $0.release.version < release.release.version } != false && !release.isRecalled
                && release.state != .everybody
        }
        return Markup(
            "div", ["class": "now"],
            [
                live.map {
                    Markup("p", [:], [Markup("b", [:], ["\($0.release.version)"]), " is live for every device"])
                }
                    ?? Markup("p", [:], ["No release is for every device."])
            ] + coming.prefix(limits.items).map(rollout))
    }

    func rollout(_ release: ReleasePage.ReleaseRow) -> Markup {
        let words = Markup(
            "p", [:],
            [
                Markup("b", [:], ["\(release.release.version)"]), " is for \(release.audience)",
                release.isHeld ? ", and held by the guard" : release.release.isPaused ? ", and paused" : "",
            ] + (release.release.isOnlyForGroups ? [] : steps(release)))
        if release.release.isOnlyForGroups { return words }
        return Markup(
            "div", [:],
            [
                words,
                PagePlot.rollout(
                    permille: release.permille, isHeld: release.release.isPaused,
                    steps: release.steps.prefix(limits.items).map(\.permille)),
            ])
    }

    private func steps(_ release: ReleasePage.ReleaseRow) -> [Markup] {
        release.steps.prefix(limits.items).flatMap { step in
            [", \(RolloutPercentage(permille: step.permille)) from ", time(step.at)]
        }
    }

    // MARK: Releases

    private func releases(_ content: ReleasePage.PageContent) -> [Markup] {
        let all = content.releases
        let lines = all.dropFirst(limits.releases.full)
        let left = lines.count - limits.releases.lines
        return [Markup("h3", [:], ["Releases"])]
            + [
                Markup(
                    "ol", ["class": "releases"],
                    all.prefix(limits.releases.full).map(full) + lines.prefix(limits.releases.lines).map(line)
                        + (left > 0 ? [Markup("li", ["class": "quiet"], ["and \(Self.number(left)) older ones"])] : []))
            ]
    }

    func full(_ release: ReleasePage.ReleaseRow) -> Markup {
        let claims = release.release.manifest.claims
        return Markup(
            "li", ["class": "release"],
            [Markup("h4", [:], ["\(claims.version) ", tag(release)] + mark(release.proof))]
                + reason(release.proof) + [
                    facts([
                        ("Archive", sizes(claims)), ("For", ["\(claims.shells.text)"]),
                        ("Made", claims.createdAt.map { [time($0)] } ?? []), ("Signed by", signers(release.proof)),
                        ("Deltas", deltas(release)),
                    ])
                ] + notes(release.notes))
    }

    private func line(_ release: ReleasePage.ReleaseRow) -> Markup {
        let claims = release.release.manifest.claims
        let count = release.deltas?.content?.count ?? 0
        return Markup(
            "li", ["class": "line"],
            [Markup("b", [:], ["\(claims.version)"]), " ", tag(release), " "] + mark(release.proof)
                + (claims.size.map { [" \(ByteCount(bytes: $0)) "] } ?? [])
                + (count > 0 ? ["\(count) \(count == 1 ? "delta" : "deltas") "] : [])
                + (claims.createdAt.map { [time($0)] } ?? []))
    }

    private func tag(_ release: ReleasePage.ReleaseRow) -> Markup {
        switch release.state {
        case .recalled: tag("recalled", "bad")
        case .held: tag("held", "warn")
        case .paused: tag("paused", "warn")
        case .forGroups: tag("groups", "some")
        case .rollingOut(let share): tag("\(share)", "some")
        case .everybody: tag("every device", "good")
        }
    }

    private func sizes(_ claims: Manifest) -> [Markup] {
        let size = claims.size.map { "\(ByteCount(bytes: $0))" } ?? "of unknown size"
        let installed = claims.installedSize.map { ", \(ByteCount(bytes: $0)) installed" } ?? ""
        let files = claims.fileCount.map { ", \(Self.number($0)) \($0 == 1 ? "file" : "files")" } ?? ""
        return ["\(size)\(installed)\(files)"]
    }

    private func deltas(_ release: ReleasePage.ReleaseRow) -> [Markup] {
        switch release.deltas {
        case nil: []
        case .unreadable(let why): [flaw(why)]
        case .read(let deltas):
            deltas.isEmpty
                ? []
                : [
                    Markup(
                        "ul", [:],
                        list(deltas) { delta in
                            Markup("li", [:], ["\(ByteCount(bytes: delta.size)) from \(delta.baseName)"])
                        })
                ]
        }
    }

    private func notes(_ notes: String?) -> [Markup] {
        guard let notes, !notes.isEmpty else { return [] }
        let lines = notes.split(whereSeparator: \.isNewline)
        return lines.prefix(limits.items).map { Markup("p", ["class": "notes"], ["\(shown(String($0)))"]) }
            + (lines.count > limits.items ? [Markup("p", ["class": "notes"], ["…"])] : [])
    }

    private func recalls(_ document: ChannelDocument) -> [Markup] {
        if document.recalled.isEmpty { return [] }
        return [
            Markup("h3", [:], ["Recalls"]),
            Markup(
                "ul", [:],
                list(document.recalled.sorted { $0.version > $1.version }) {
                    Markup("li", [:], [Markup("b", [:], ["\($0.version)"]), ": \(shown($0.reason))"])
                }),
        ]
    }

    // MARK: History

    private func history(_ history: ReleasePage.ChannelReading<ChannelHistory>) -> [Markup] {
        let head = Markup("h3", [:], ["History"])
        switch history {
        case .unreadable(let why): return [head, flaw(why)]
        case .read(let history):
            if history.entries.isEmpty { return [head, Markup("p", [:], ["The channel has no numbered copies."])] }
            let entries = history.entries.reversed().prefix(limits.entries)
            let left = history.older + history.entries.count - entries.count
            let rest = "and \(Self.number(left)) older ones: clientctl channel log"
            return [
                head,
                Markup(
                    "ol", ["class": "history"],
                    entries.map(entry) + (left > 0 ? [Markup("li", ["class": "quiet"], ["\(rest)"])] : [])),
            ]
        }
    }

    func entry(_ entry: ChannelHistory.Record) -> Markup {
        let proof: ReleasePage.Proof =
            switch entry.isVerified {
            case true?: .verified(keyIds: entry.signers ?? [])
            case false?: .refused(reason: "", claimed: entry.keyIds)
            case nil: .unchecked(claimed: entry.keyIds)
            }
        return Markup(
            "li", entry.isVerified == false ? ["class": "bad"] : [:],
            [
                Markup(
                    "p", ["class": "quiet"],
                    [time(entry.document.issuedAt), " · sequence \(entry.document.sequence) · by "] + signers(proof)),
                Markup("ul", [:], list(entry.changes) { Markup("li", [:], ["\(shown($0))"]) }),
            ])
    }
}
