package import BundleValues

/// Take this release? A pure rule; its order is the order of the outcomes.
package enum AcceptanceRule {
    /// Decides about `offer` on a device with `inventory`, `shell` and, when it has one, `appId`.
    package static func decide(
        _ offer: some ReleaseOffer, inventory: Inventory, shell: SemanticVersion, appId: String?
    ) -> Decision {
        let app = appAnswer(offer, appId: appId)
        let shells = offer.shells.answer(for: shell)
        let block = inventory.ledger.block(on: .archive(offer.version))
        // The manifest of a release that a channel has recalled is still signed.
        let withdrawal = inventory.ledger.feed.withdrawal(of: offer.version)
        let newest = SelectionRule.newestUsable(inventory, shell: shell)?.version.semantic
        let isNewer = newest.map { offer.version > $0 } ?? true

        let outcomes = [
            Decision.Outcome(rule: "application", passed: app == nil, detail: appDetail(offer, appId: appId)),
            Decision.Outcome(
                rule: "shell", passed: shells == .compatible, detail: shellDetail(offer.shells, shell: shell)),
            Decision.Outcome(
                rule: "notBlocked", passed: block == nil && withdrawal == nil,
                detail: block.map { "blocked since \($0.since): \($0.reason)" } ?? withdrawal?.description
                    ?? "not blocked on this device"),
            Decision.Outcome(
                rule: "newer", passed: isNewer,
                detail: newest.map { "offered \(offer.version), newest usable here \($0)" }
                    ?? "offered \(offer.version), nothing usable is installed"),
        ]
        let verdict: Decision.Verdict
        if let app {
            verdict = app
        } else if shells != .compatible {
            verdict = .incompatible(shells)
        } else if let block {
            verdict = .blocked(block)
        } else if let withdrawal {
            verdict = .withdrawn(withdrawal)
        } else if let newest, !isNewer {
            verdict = .upToDate(newest: .installed(.archive(newest)))
        } else {
            verdict = .install
        }
        return Decision(verdict: verdict, outcomes: outcomes)
    }

    private static func appAnswer(_ offer: some ReleaseOffer, appId: String?) -> Decision.Verdict? {
        guard let appId, offer.appId.map({ $0.utf8.elementsEqual(appId.utf8) }) != true else { return nil }
        return .wrongApp(expected: appId, found: offer.appId)
    }

    private static func appDetail(_ offer: some ReleaseOffer, appId: String?) -> String {
        guard let appId else { return "this device names no application" }
        return "device \(appId), offer \(offer.appId ?? "names none")"
    }

    private static func shellDetail(_ shells: ShellRange, shell: SemanticVersion) -> String {
        let maximum = shells.maximum.map { "at most \($0)" } ?? "no upper limit"
        return "shell \(shell), needed at least \(shells.minimum), \(maximum)"
    }
}
