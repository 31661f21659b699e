import BundleFormats
package import BundleValues

/// Explains for each client why it is the next to run, or why not.
package enum StatusRule {
    /// The status of one client.
    package struct Row: Sendable, Equatable {
        package let name: ClientName
        package let isNext: Bool
        /// One of `seed`, `staged`, `trial`, `good`, `failed` and `blocked`.
        package let state: String
        package let reason: String
        /// The failed starts since the client last confirmed a start, oldest first.
        package let failures: [StartFailure]
    }

    /// Returns a row for every client: first the seed if there is one, then the installed clients, lowest version
    /// first. A nil `shell` meets every range.
    package static func rows(_ inventory: Inventory, shell: SemanticVersion?, hasSeed: Bool = true) -> [Row] {
        let choice = SelectionRule.select(inventory, shell: shell, hasSeed: hasSeed)
        return (hasSeed ? [seedRow(choice, isAlone: inventory.bundles.isEmpty)] : [])
            + inventory.bundles.map { bundle in
                let standing = inventory.ledger.standing(of: bundle.version)
                return Row(
                    name: bundle.name, isNext: bundle.name == choice?.name, state: standing.word,
                    reason: reason(of: bundle, standing: standing, in: inventory.ledger, shell: shell, choice: choice)
                        + (inventory.ledger.feed.isDistrusted(signers: bundle.entry.identity.signers)
                            ? "; signed-by-revoked-key: every key that signed it has been revoked" : ""),
                    failures: inventory.ledger.record(of: bundle.version)?.failures ?? [])
            }
    }

    /// Returns a warning if the newest channel file has expired at `time`.
    package static func staleness(of feed: FeedMemory, at time: Timestamp) -> String? {
        guard let followed = feed.followed, followed.expires <= max(time, feed.clock ?? time) else { return nil }
        return "stale: the newest file of channel \(followed.name) expired at \(followed.expires). Nothing new is "
            + "installed until the device receives a newer one"
    }

    /// Returns the row of the seed, which `isAlone` if no client is installed.
    private static func seedRow(_ choice: SelectionRule.Choice?, isAlone: Bool) -> Row {
        let reason =
            switch choice {
            case let choice? where choice.name != .embedded: "the seed; \(choice.name) is next"
            case let choice? where choice.reason != .onlyOne: choice.reason.description
            case _: isAlone ? "the seed; no client is installed yet" : "the seed; no installed client is usable"
            }
        return Row(
            name: .embedded, isNext: choice?.name == .embedded, state: "seed", reason: reason, failures: [])
    }

    private static func reason(
        of bundle: InstalledBundle, standing: Ledger.Standing, in ledger: Ledger, shell: SemanticVersion?,
        choice: SelectionRule.Choice?
    ) -> String {
        if let choice, choice.name == bundle.name {
            guard case .retry(let failure) = choice.reason else { return choice.reason.description }
            return "\(failure.sequel): \(failure)"
        }
        switch SelectionRule.usability(of: bundle, ledger: ledger, shell: shell) {
        case .blocked(let block): return "blocked since \(block.since): \(block.reason)"
        case .withdrawn(let withdrawal): return withdrawal.description
        case .otherSeed: return "uses files of another seed than this shell has"
        case .incompatible(.compatible), .usable: break
        case .incompatible(let answer): return answer.description
        }
        if case .failed(let failure) = standing { return "\(failure.sequel): \(failure)" }
        return "usable, but \(choice?.name.description ?? "nothing") is next"
            + orderReason(of: bundle, in: ledger, choice: choice)
    }

    /// Returns the reason that lies in the sources or their order; empty if there is none.
    private static func orderReason(
        of bundle: InstalledBundle, in ledger: Ledger, choice: SelectionRule.Choice?
    ) -> String {
        let source = bundle.version.source
        if !ledger.sources.names.contains(source) { return ": the source \(source) is disabled" }
        if source == .meteor && ledger.offered == .embedded { return ": the server offers the seed's own version" }
        switch choice?.reason {
        case .newest?, .hotCodePush?, .retry?:
            return choice?.name.version?.source == source ? "" : ": the order of the sources is \(ledger.sources)"
        case .fallback?, .lower?, .remaining?: return choice.map { ": \($0.reason)" } ?? ""
        case .onlyOne?, nil: return ""
        }
    }
}

extension Ledger.Standing {
    /// The state in one word, as JSON output has it.
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
