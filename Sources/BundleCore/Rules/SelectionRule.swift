/// Which client is launched next. A pure rule.
///
/// After a failed launch it is the last known good client or the embedded seed. Otherwise it is the newest one that is
/// compatible and not blocked, else the seed; a client that failed once is among them again, which is its retry.
public enum SelectionRule {
    /// Whether a client may run.
    public enum Usability: Sendable, Equatable {
        case usable
        case incompatible(ShellCompatibility)
        case blocked(Ledger.Block)
    }

    /// What is launched next, and why.
    public struct Choice: Sendable, Equatable {
        /// The client.
        public let name: ClientName
        /// Why it and no other.
        public let reason: Reason
    }

    /// Why a client is chosen.
    public enum Reason: Sendable, Equatable {
        /// No usable client is newer.
        case newest
        /// No usable client is newer, and it failed once.
        case retry(StartFailure)
        /// `failed` was launched last and failed; this one is the last known good.
        case fallback(failed: ClientName)
        /// Nothing else can run.
        case onlyOne
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

    /// What runs next; a nil `shell` meets every range.
    ///
    /// `excluded` could not be made ready. Without a seed, a client that just failed is retried rather than nothing shown;
    /// nil where nothing can be shown at all.
    public static func select(
        _ inventory: Inventory, shell: SemanticVersion?, hasSeed: Bool = true, excluding excluded: Set<ClientName> = []
    ) -> Choice? {
        let ledger = inventory.ledger
        let usable = inventory.bundles.filter { bundle in
            !excluded.contains(bundle.name)
                && usability(of: bundle, ledger: ledger, shell: shell ?? bundle.entry.shells.minimum) == .usable
        }
        let seed = hasSeed && !excluded.contains(.embedded)
        if let launch = ledger.launch, launch.verdict == .faulty, !wasLeftByHand(launch, ledger) {
            return fallback(from: launch.name, ledger.lastKnownGood, usable.map(\.name), hasSeed: seed)
        }
        guard let newest = usable.last else { return seed ? Choice(name: .embedded, reason: .onlyOne) : nil }
        if case .failed(let failure) = ledger.standing(of: newest.version) {
            return Choice(name: newest.name, reason: .retry(failure))
        }
        return Choice(name: newest.name, reason: .newest)
    }

    /// Whether somebody has said what follows the failed launch.
    private static func wasLeftByHand(_ launch: Launch, _ ledger: Ledger) -> Bool {
        launch.name.version.flatMap(ledger.block(on:))?.cause == .byHand
    }

    private static func fallback(
        from failed: ClientName, _ good: ClientName, _ usable: [ClientName], hasSeed: Bool
    ) -> Choice? {
        let possible = usable + (hasSeed ? [.embedded] : [])
        for name in [good, .embedded] + usable.reversed() where name != failed && possible.contains(name) {
            return Choice(name: name, reason: .fallback(failed: failed))
        }
        return possible.contains(failed) ? Choice(name: failed, reason: .onlyOne) : nil
    }
}

extension SelectionRule.Reason: CustomStringConvertible {
    /// The reason in words.
    public var description: String {
        switch self {
        case .newest: "the newest usable client"
        case .retry(let failure): "the newest usable client, once more: \(failure)"
        case .fallback(let failed): "the last known good client, because \(failed) failed"
        case .onlyOne: "nothing else can run"
        }
    }
}
