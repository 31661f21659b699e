/// Why each client runs, or why not. A pure rule, for people.
public enum StatusRule {
    /// One client's answer.
    public struct Row: Sendable, Equatable {
        /// Its name.
        public let name: ClientName
        /// Whether it is the one that would run.
        public let runs: Bool
        /// Why.
        public let reason: String
    }

    /// Every client, the seed first, then the lowest version; a nil `shell` meets every range.
    public static func rows(_ inventory: Inventory, shell: SemanticVersion?) -> [Row] {
        let usabilities = inventory.bundles.map { bundle in
            (
                bundle,
                SelectionRule.usability(
                    of: bundle, ledger: inventory.ledger, shell: shell ?? bundle.entry.shells.minimum)
            )
        }
        let chosen = usabilities.last { $0.1 == .usable }?.0
        let seed = Row(
            name: .embedded, runs: chosen == nil,
            reason: chosen.map { "the shell's own client; \($0.name) is usable" } ?? "no installed client is usable")
        return [seed]
            + usabilities.map { bundle, usability in
                Row(name: bundle.name, runs: bundle == chosen, reason: reason(usability, chosen, bundle))
            }
    }

    private static func reason(
        _ usability: SelectionRule.Usability, _ chosen: InstalledBundle?, _ bundle: InstalledBundle
    ) -> String {
        switch usability {
        case .usable where bundle == chosen: "the newest usable client"
        case .usable: "usable, but \(chosen?.name.description ?? "") is newer"
        case .blocked(let block): "blocked since \(block.since): \(block.reason)"
        case .incompatible(.shellTooOld(let minimum)): "needs shell \(minimum) or newer"
        case .incompatible(.shellTooNew(let maximum)): "is for shells up to \(maximum)"
        case .incompatible(.compatible): "usable"
        }
    }
}
