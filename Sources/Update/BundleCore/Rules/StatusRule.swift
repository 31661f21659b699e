package import BundleValues

/// Why each client is the next to run, or why not. A pure rule, for people.
package enum StatusRule {
    /// One client's answer.
    package struct Row: Sendable, Equatable {
        /// Its name.
        package let name: ClientName
        /// Whether it is the one that would be launched next.
        package let isNext: Bool
        /// What it is at present: `seed`, `staged`, `trial`, `good`, `failed` or `blocked`.
        package let state: String
        /// Why.
        package let reason: String
        /// Its failed starts since it was last good, oldest first.
        package let failures: [StartFailure]
    }

    /// Every client, the seed first if there is one, then the lowest version; a nil `shell` meets every range.
    package static func rows(_ inventory: Inventory, shell: SemanticVersion?, hasSeed: Bool = true) -> [Row] {
        let choice = SelectionRule.select(inventory, shell: shell, hasSeed: hasSeed)
        return (hasSeed ? [seedRow(choice)] : [])
            + inventory.bundles.map { bundle in
                let standing = inventory.ledger.standing(of: bundle.version)
                return Row(
                    name: bundle.name, isNext: bundle.name == choice?.name, state: standing.word,
                    reason: reason(bundle, standing, inventory.ledger, shell, choice)
                        + (inventory.ledger.feed.isDistrusted(bundle.entry.identity)
                            ? "; signed-by-revoked-key: every key that signed it has been revoked" : ""),
                    failures: inventory.ledger.record(of: bundle.version)?.failures ?? [])
            }
    }

    /// What is wrong with the age of what is known of the feed at `time`; nil where nothing is.
    package static func staleness(of feed: FeedMemory, at time: Timestamp) -> String? {
        guard let followed = feed.followed, followed.expires <= max(time, feed.clock ?? time) else { return nil }
        return "stale: the newest document of channel \(followed.name) expired at \(followed.expires); nothing new is "
            + "installed until a newer one comes"
    }

    private static func seedRow(_ choice: SelectionRule.Choice?) -> Row {
        let reason =
            switch choice {
            case let choice? where choice.name != .embedded: "the seed; \(choice.name) is next"
            case let choice? where choice.reason != .onlyOne: choice.reason.description
            case _: "no installed client is usable"
            }
        return Row(
            name: .embedded, isNext: choice?.name == .embedded, state: "seed", reason: reason, failures: [])
    }

    private static func reason(
        _ bundle: InstalledBundle, _ standing: Ledger.Standing, _ ledger: Ledger, _ shell: SemanticVersion?,
        _ choice: SelectionRule.Choice?
    ) -> String {
        if let choice, choice.name == bundle.name { return choice.reason.description }
        switch SelectionRule.usability(of: bundle, ledger: ledger, shell: shell) {
        case .blocked(let block): return "blocked since \(block.since): \(block.reason)"
        case .withdrawn(let withdrawal): return withdrawal.description
        case .otherSeed: return "inherits files of another seed than the shell brings"
        case .incompatible(.compatible), .usable: break
        case .incompatible(let answer): return answer.description
        }
        if case .failed(let failure) = standing { return "failed once, to be retried: \(failure)" }
        return "usable, but \(choice?.name.description ?? "nothing") is next" + orderReason(bundle, ledger, choice)
    }

    /// What the sources have to do with it, where they do.
    private static func orderReason(
        _ bundle: InstalledBundle, _ ledger: Ledger, _ choice: SelectionRule.Choice?
    ) -> String {
        let source = bundle.version.source
        if !ledger.sources.names.contains(source) { return ": the source \(source) is switched off" }
        if source == .meteor && ledger.offered == .embedded { return ": the server offers the seed's own version" }
        switch choice?.reason {
        case .newest?, .hotCodePush?, .retry?:
            return choice?.name.version?.source == source ? "" : ": the order of the sources is \(ledger.sources)"
        case .fallback?, .lower?, .remaining?, .onlyOne?, nil: return ""
        }
    }
}

extension Ledger.Standing {
    /// The state in one word, as answers have it.
    package var word: String {
        switch self {
        case .staged: "staged"
        case .trial: "trial"
        case .good: "good"
        case .failed: "failed"
        case .blocked: "blocked"
        }
    }
}
