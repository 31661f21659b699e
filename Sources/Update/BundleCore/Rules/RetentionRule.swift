import BundleValues

/// Which clients may go. A pure rule.
package struct RetentionPlan: Sendable, Equatable {
    /// Clients that stay, in the order of the ledger.
    package let retained: [ClientName]
    /// Clients that go, in the order of the ledger.
    package let removed: [ClientName]

    /// States a plan.
    package init(retained: [ClientName], removed: [ClientName]) {
        self.retained = retained
        self.removed = removed
    }
}

/// Keeps what runs, ran, runs next or is fallen back to, and the best of each source; fills up to N with the next newest of
/// whatever source, those that cannot run last.
public enum RetentionRule {
    /// Clients kept unless told otherwise.
    public static let defaultKeep = 3

    /// The plan that keeps `keep` clients; protected ones stay even where that makes more.
    package static func plan(_ inventory: Inventory, keep: Int) -> RetentionPlan {
        let ledger = inventory.ledger
        let names = inventory.bundles.map(\.name)
        var kept = Set(inventory.bundles.filter { isProtected($0.version, ledger) }.map(\.name))
        let isOfUse = { (bundle: InstalledBundle) in
            SelectionRule.usability(of: bundle, ledger: ledger, shell: nil) == .usable
        }
        let newestFirst = newestFirst(inventory.bundles)
        for source in SourceName.allCases {
            let usable = newestFirst.filter { $0.version.source == source && isOfUse($0) }
            // A server that went back offers an older push, which is the one to run.
            if let best = usable.first(where: { $0.name == ledger.offered }) ?? usable.first { kept.insert(best.name) }
        }
        for bundle in newestFirst.filter(isOfUse) + newestFirst.filter({ !isOfUse($0) }) where kept.count < keep {
            kept.insert(bundle.name)
        }
        return RetentionPlan(retained: names.filter(kept.contains), removed: names.filter { !kept.contains($0) })
    }

    /// Each source in its own order; between sources, what was installed later.
    private static func newestFirst(_ bundles: [InstalledBundle]) -> [InstalledBundle] {
        var archives = bundles.filter { $0.version.source == .archive }
        var pushes = bundles.filter { $0.version.source == .meteor }
        var merged: [InstalledBundle] = []
        while let archive = archives.last, let push = pushes.last {
            let isLater = archive.entry.installedAt.secondsSinceEpoch > push.entry.installedAt.secondsSinceEpoch
            merged.append(isLater ? archives.removeLast() : pushes.removeLast())
        }
        return merged + archives.reversed() + pushes.reversed()
    }

    /// Whether `version` has a role in the ledger, so that it must never be removed.
    static func isProtected(_ version: ClientVersion, _ ledger: Ledger) -> Bool {
        ledger.mentioned.contains(version)
    }
}
