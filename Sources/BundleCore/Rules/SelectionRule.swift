/// Which client runs: the newest one that is compatible and not blocked, else the embedded seed. A pure rule.
public enum SelectionRule {
    /// Whether a client may run.
    public enum Usability: Sendable, Equatable {
        case usable
        case incompatible(ShellCompatibility)
        case blocked(Ledger.Block)
    }

    /// Whether `bundle` may run on a device with `ledger` and `shell`.
    public static func usability(of bundle: InstalledBundle, ledger: Ledger, shell: SemanticVersion) -> Usability {
        if let block = ledger.block(on: bundle.version) { return .blocked(block) }
        let answer = bundle.entry.shells.answer(for: shell)
        return answer == .compatible ? .usable : .incompatible(answer)
    }

    /// The highest usable version; nil where none is.
    public static func newestUsable(_ inventory: Inventory, shell: SemanticVersion) -> InstalledBundle? {
        inventory.bundles.last { usability(of: $0, ledger: inventory.ledger, shell: shell) == .usable }
    }

    /// What runs next.
    public static func select(_ inventory: Inventory, shell: SemanticVersion) -> ClientName {
        newestUsable(inventory, shell: shell)?.name ?? .embedded
    }
}
