package import BundleValues

/// Which client is launched next. A pure rule.
///
/// After a failed launch, unless an operator went back from its client, it is the last known good client, else the next lower
/// archive that may run and has not failed, else the embedded seed, else the best client that is left. After a Meteor bundle the
/// seed follows the last known good client.
/// Otherwise the first source in order that has a usable client gives its best one: the highest version of the archives,
/// the Meteor bundle that was offered last. The seed comes last. A client that failed once is among the usable ones again,
/// which is its retry.
package enum SelectionRule {
    /// Whether a client may run.
    package enum Usability: Sendable, Equatable {
        case usable
        case incompatible(ShellCompatibility)
        case blocked(Ledger.Block)
        /// It inherits files of another seed than the shell brings.
        case otherSeed
        /// The channel that is followed keeps it from running.
        case withdrawn(FeedMemory.Withdrawal)
    }

    /// What is launched next, and why.
    package struct Choice: Sendable, Equatable {
        /// The client.
        package let name: ClientName
        /// Why it and no other.
        package let reason: Reason
    }

    /// Why a client is chosen.
    package enum Reason: Sendable, Equatable {
        /// No usable archive is newer.
        case newest
        /// It is the Meteor bundle that the server offered last, or the last one that is usable.
        case hotCodePush
        /// It is the best one, and it failed once.
        case retry(StartFailure)
        /// `failed` was launched last and failed; this one is the last known good, or the seed.
        case fallback(failed: ClientName)
        /// `failed` was launched last and failed, and nothing is known to be good: this one is the next that has not failed.
        case lower(failed: ClientName)
        /// `failed` was launched last and failed, and there is no client to go back to: this one is the best that is left.
        case remaining(failed: ClientName)
        /// Nothing else can run.
        case onlyOne
    }

    /// Whether `bundle` may run on a device with `ledger` and `shell`; a nil `shell` meets every range.
    package static func usability(of bundle: InstalledBundle, ledger: Ledger, shell: SemanticVersion?) -> Usability {
        if let version = bundle.version.semantic, let withdrawal = ledger.feed.withdrawal(of: version) {
            return .withdrawn(withdrawal)
        }
        if let block = ledger.block(on: bundle.version) { return .blocked(block) }
        if !ledger.fitsSeed(bundle.entry.identity) { return .otherSeed }
        guard let shell, let answer = bundle.entry.shells?.compatibility(with: shell) else { return .usable }
        return answer == .compatible ? .usable : .incompatible(answer)
    }

    /// The highest usable archive; nil where none is.
    package static func newestUsable(_ inventory: Inventory, shell: SemanticVersion) -> InstalledBundle? {
        inventory.bundles.last {
            $0.version.source == .archive && usability(of: $0, ledger: inventory.ledger, shell: shell) == .usable
        }
    }

    /// The clients of the sources that are switched on, the best one first, usable or not.
    package static func ranking(_ inventory: Inventory) -> [InstalledBundle] {
        inventory.ledger.sources.names.flatMap { source in
            let newestFirst = inventory.bundles.filter { $0.version.source == source }.reversed()
            guard source == .meteor else { return Array(newestFirst) }
            // The server says that the shell's own client is the one to run.
            if inventory.ledger.offered == .embedded { return [] }
            let offered = newestFirst.filter { $0.name == inventory.ledger.offered }
            return offered + newestFirst.filter { $0.name != inventory.ledger.offered }
        }
    }

    /// The shell that the best client asks for, here or in the feed, where nothing but the age of `shell` keeps that client from
    /// running.
    package static func missingShell(_ inventory: Inventory, shell: SemanticVersion) -> SemanticVersion? {
        let offered = inventory.ledger.sources.names.contains(.archive) ? inventory.ledger.feed.neededShell : nil
        return [installedNeeds(inventory, shell), offered].compactMap(\.self).filter { $0 > shell }.max()
    }

    private static func installedNeeds(_ inventory: Inventory, _ shell: SemanticVersion) -> SemanticVersion? {
        for bundle in ranking(inventory) {
            switch usability(of: bundle, ledger: inventory.ledger, shell: shell) {
            case .usable: return nil
            case .incompatible(.shellTooOld(let minimum)): return minimum
            case .incompatible, .blocked, .otherSeed, .withdrawn: continue
            }
        }
        return nil
    }

    /// What runs next; a nil `shell` meets every range.
    ///
    /// `excluded` could not be made ready. Without a seed, a client that just failed is retried rather than nothing shown;
    /// nil where nothing can be shown at all.
    package static func select(
        _ inventory: Inventory, shell: SemanticVersion?, hasSeed: Bool = true, excluding excluded: Set<ClientName> = []
    ) -> Choice? {
        let ledger = inventory.ledger
        let isUsable = { (bundle: InstalledBundle) in
            !excluded.contains(bundle.name) && usability(of: bundle, ledger: ledger, shell: shell) == .usable
        }
        let ranked = ranking(inventory).filter(isUsable)
        let seed = hasSeed && !excluded.contains(.embedded)
        if let launch = ledger.launch, launch.verdict == .faulty, !ledger.isLeftByHand(launch.name) {
            // What was good may be fallen back to, whatever is offered by now.
            let good = inventory.bundles.filter { bundle in
                bundle.name == ledger.lastKnownGood && isUsable(bundle)
                    && ledger.sources.names.contains(bundle.version.source)
            }
            return fallback(from: launch.name, good, ranked, ledger, hasSeed: seed)
        }
        guard let best = ranked.first else { return seed ? Choice(name: .embedded, reason: .onlyOne) : nil }
        if case .failed(let failure) = ledger.standing(of: best.version) {
            return Choice(name: best.name, reason: .retry(failure))
        }
        return Choice(name: best.name, reason: best.version.source == .archive ? .newest : .hotCodePush)
    }

    /// What runs next with the shell that launched last, and its seed.
    static func next(_ inventory: Inventory) -> Choice? {
        select(inventory, shell: inventory.ledger.shell, hasSeed: inventory.ledger.seed != nil)
    }

    private static func fallback(
        from failed: ClientName, _ good: [InstalledBundle], _ ranked: [InstalledBundle], _ ledger: Ledger, hasSeed: Bool
    ) -> Choice? {
        let seed: [ClientName] = hasSeed ? [.embedded] : []
        // An archive's start says little about the ones below it; a hot code push is followed by what was good, or by the seed.
        let lower = ranked.filter { bundle in
            guard let version = bundle.version.semantic, let failed = failed.version?.semantic else { return false }
            return version < failed && ledger.record(of: bundle.version)?.failures.isEmpty != false
        }
        // A client that revoked keys have signed may run; it is chosen only where there is no other.
        let isTrusted = { (bundle: InstalledBundle) in !ledger.feed.isDistrusted(bundle.entry.identity) }
        let candidates =
            good.filter(isTrusted).map(\.name) + lower.filter(isTrusted).map(\.name) + seed
            + ranked.filter(isTrusted).map(\.name) + (good + ranked).map(\.name)
        if let name = candidates.first(where: { $0 != failed }) {
            let isGood = name == .embedded || good.contains { $0.name == name }
            let reason: Reason =
                isGood
                ? .fallback(failed: failed)
                : lower.contains { $0.name == name } ? .lower(failed: failed) : .remaining(failed: failed)
            return Choice(name: name, reason: reason)
        }
        return ranked.contains { $0.name == failed } || (failed == .embedded && hasSeed)
            ? Choice(name: failed, reason: .onlyOne) : nil
    }
}

extension SelectionRule.Reason: CustomStringConvertible {
    /// The reason in words.
    package var description: String {
        switch self {
        case .newest: "the newest usable client"
        case .hotCodePush: "the last usable hot code push"
        case .retry(let failure): "the newest usable client, once more: \(failure)"
        case .fallback(let failed): "the last known good client, because \(failed) failed"
        case .lower(let failed): "the next lower client, because \(failed) failed"
        case .remaining(let failed): "the best client that is left, because \(failed) failed"
        case .onlyOne: "nothing else can run"
        }
    }
}
