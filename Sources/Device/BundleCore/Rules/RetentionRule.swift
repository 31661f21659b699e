import BundleFormats
import BundleValues

/// The clients that retention keeps and removes.
package struct RetentionPlan: Sendable, Equatable {
    /// The clients that stay, in the order of the ledger.
    package let retained: [ClientName]
    /// The clients to remove, in the order of the ledger.
    package let removed: [ClientName]
    /// The clients of `retained` that the rule would remove, and that stay while a page shows them.
    package let shown: [ClientName]

    package init(retained: [ClientName], removed: [ClientName], shown: [ClientName] = []) {
        self.retained = retained
        self.removed = removed
        self.shown = shown
    }
}

/// Keeps the current, previous, next and fallback clients and the best client of each source. Fills up to the limit
/// with the newest clients of any source; clients that cannot run come last.
public enum RetentionRule {
    /// The default number of clients to keep.
    public static let defaultKeep = 3

    /// Returns the plan that keeps `keep` clients, or more if more are protected.
    package static func plan(_ inventory: Inventory, keep: Int) -> RetentionPlan {
        let ledger = inventory.ledger
        let names = inventory.bundles.map(\.name)
        var kept = Set(inventory.bundles.filter { isProtected($0.version, in: ledger) }.map(\.name))
        let isOfUse = { (bundle: InstalledBundle) in
            SelectionRule.usability(of: bundle, ledger: ledger, shell: nil) == .usable
        }
        let newestFirst = newestFirst(inventory.bundles)
        for source in SourceName.allCases {
            let usable = newestFirst.filter { $0.version.source == source && isOfUse($0) }
            // A server that returned to an older version offers that push again.
            if let best = usable.first(where: { $0.name == ledger.offered }) ?? usable.first { kept.insert(best.name) }
        }
        for bundle in newestFirst.filter(isOfUse) + newestFirst.filter({ !isOfUse($0) }) where kept.count < keep {
            kept.insert(bundle.name)
        }
        return RetentionPlan(retained: names.filter(kept.contains), removed: names.filter { !kept.contains($0) })
    }

    /// Merges the sources by the time of installation. Each source keeps its own order.
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

    /// Returns whether `version` has a role in the ledger, so that it must never be removed.
    static func isProtected(_ version: ClientVersion, in ledger: Ledger) -> Bool {
        ledger.mentioned.contains(version)
    }
}
