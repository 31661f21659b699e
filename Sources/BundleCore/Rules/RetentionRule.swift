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

/// Keeps the current client, the previous one and the newest, and fills up to N with the next newest.
public enum RetentionRule {
    /// Clients kept unless told otherwise.
    public static let defaultKeep = 3

    /// The plan that keeps `keep` clients; protected ones stay even where that makes more.
    public static func plan(_ inventory: Inventory, keep: Int) -> RetentionPlan {
        let versions = inventory.bundles.map(\.version)
        var kept = Set(
            [inventory.ledger.current.version, inventory.ledger.previous?.version, versions.last].compactMap(\.self))
        for version in versions.reversed() where kept.count < keep { kept.insert(version) }
        return RetentionPlan(
            retained: versions.filter(kept.contains), removed: versions.filter { !kept.contains($0) })
    }
}
