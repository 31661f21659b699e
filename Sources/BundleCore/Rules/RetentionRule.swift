/// Which clients may go. A pure rule.
public struct RetentionPlan: Sendable, Equatable {
    /// Versions that stay, lowest first.
    public let retained: [SemanticVersion]
    /// Versions that go, lowest first.
    public let removed: [SemanticVersion]

    /// States a plan.
    public init(retained: [SemanticVersion], removed: [SemanticVersion]) {
        self.retained = retained
        self.removed = removed
    }
}

/// Keeps what runs, ran, runs next or is fallen back to, and the newest; fills up to N with the next newest, those that are
/// blocked last.
public enum RetentionRule {
    /// Clients kept unless told otherwise.
    public static let defaultKeep = 3

    /// The plan that keeps `keep` clients; protected ones stay even where that makes more.
    public static func plan(_ inventory: Inventory, keep: Int) -> RetentionPlan {
        let versions = inventory.bundles.map(\.version)
        var kept = Set(versions.filter { isProtected($0, inventory.ledger) })
        let isBlocked = { (version: SemanticVersion) in inventory.ledger.block(on: version) != nil }
        if let newest = versions.last(where: { !isBlocked($0) }) { kept.insert(newest) }
        let newestFirst = versions.reversed()
        for version in newestFirst.filter({ !isBlocked($0) }) + newestFirst.filter(isBlocked) where kept.count < keep {
            kept.insert(version)
        }
        return RetentionPlan(
            retained: versions.filter(kept.contains), removed: versions.filter { !kept.contains($0) })
    }

    /// Whether `version` has a role in the ledger, so that it must never be removed.
    static func isProtected(_ version: SemanticVersion, _ ledger: Ledger) -> Bool {
        ledger.mentioned.contains(version)
    }
}
