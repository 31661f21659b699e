import BundleFormats
package import BundleValues

/// Chooses the client that is launched next.
///
/// After a failed launch, it is the first of: the last known good client, the next lower archive that may run and has
/// not failed, the seed, the best remaining client. After a failed Meteor bundle the lower archives are skipped. A
/// client that an operator left does not count as failed.
///
/// Otherwise, the first source with a usable client supplies its best one: the highest version of the archives, or
/// the Meteor bundle that was offered last. The seed comes last. A client that failed once is usable again, for its
/// retry.
package enum SelectionRule {
    /// Whether a client may run.
    package enum Usability: Sendable, Equatable {
        case usable
        case incompatible(ShellCompatibility)
        case blocked(Ledger.Block)
        /// The client uses files of another seed than this shell has.
        case otherSeed
        /// The followed channel does not allow the client to run.
        case withdrawn(FeedMemory.Withdrawal)
    }

    /// The next client and the reason for it.
    package struct Choice: Sendable, Equatable {
        package let name: ClientName
        package let reason: Reason
    }

    /// The reason why a client was chosen.
    package enum Reason: Sendable, Equatable {
        /// No usable archive is newer.
        case newest
        /// The client is the Meteor bundle that the server offered last, or the last usable one.
        case hotCodePush
        /// The best client failed once and gets its retry.
        case retry(StartFailure)
        /// `failed` was launched last and failed. The choice is the last known good client, or the seed.
        case fallback(failed: ClientName)
        /// `failed` was launched last and failed, and no client is known to be good. The choice is the next lower one
        /// that has not failed.
        case lower(failed: ClientName)
        /// `failed` was launched last and failed, and no fallback exists. The choice is the best remaining client.
        case remaining(failed: ClientName)
        /// No other client can run.
        case onlyOne
    }

    /// Returns whether `bundle` may run on a device with `ledger` and `shell`. A nil `shell` meets every range.
    package static func usability(of bundle: InstalledBundle, ledger: Ledger, shell: SemanticVersion?) -> Usability {
        if let version = bundle.version.semantic, let withdrawal = ledger.feed.withdrawal(of: version) {
            return .withdrawn(withdrawal)
        }
        if let block = ledger.block(on: bundle.version) { return .blocked(block) }
        if !ledger.fitsSeed(bundle.entry.identity) { return .otherSeed }
        guard let shell, let answer = bundle.entry.shells?.compatibility(with: shell) else { return .usable }
        return answer == .compatible ? .usable : .incompatible(answer)
    }

    /// Returns the highest usable archive.
    package static func newestUsable(_ inventory: Inventory, shell: SemanticVersion) -> InstalledBundle? {
        inventory.bundles.last {
            $0.version.source == .archive && usability(of: $0, ledger: inventory.ledger, shell: shell) == .usable
        }
    }

    /// Returns the clients of the enabled sources, usable or not, best first.
    package static func ranking(_ inventory: Inventory) -> [InstalledBundle] {
        inventory.ledger.sources.names.flatMap { source in
            let newestFirst = inventory.bundles.filter { $0.version.source == source }.reversed()
            guard source == .meteor else { return Array(newestFirst) }
            // The server offers the shell's own client.
            if inventory.ledger.offered == .embedded { return [] }
            let offered = newestFirst.filter { $0.name == inventory.ledger.offered }
            return offered + newestFirst.filter { $0.name != inventory.ledger.offered }
        }
    }

    /// Returns the version of the shell that the best client needs, installed or in the feed, if only the age of
    /// `shell` prevents that client from running.
    package static func missingShell(_ inventory: Inventory, shell: SemanticVersion) -> SemanticVersion? {
        let offered = inventory.ledger.sources.names.contains(.archive) ? inventory.ledger.feed.neededShell : nil
        return [installedNeeds(inventory, shell: shell), offered].compactMap(\.self).filter { $0 > shell }.max()
    }

    private static func installedNeeds(_ inventory: Inventory, shell: SemanticVersion) -> SemanticVersion? {
        for bundle in ranking(inventory) {
            switch usability(of: bundle, ledger: inventory.ledger, shell: shell) {
            case .usable: return nil
            case .incompatible(.shellTooOld(let minimum)): return minimum
            case .incompatible, .blocked, .otherSeed, .withdrawn: continue
            }
        }
        return nil
    }

    /// Returns the next client. A nil `shell` meets every range.
    ///
    /// `excluded` are clients that could not be prepared. Without a seed, a client that just failed is retried.
    /// Returns nil if no client can be shown.
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
            // A known good client is a fallback even if the source no longer offers it.
            let good = inventory.bundles.filter { bundle in
                bundle.name == ledger.lastKnownGood && isUsable(bundle)
                    && ledger.sources.names.contains(bundle.version.source)
            }
            return fallback(from: launch.name, good: good, ranked: ranked, in: ledger, hasSeed: seed)
        }
        guard let best = ranked.first else { return seed ? Choice(name: .embedded, reason: .onlyOne) : nil }
        if case .failed(let failure) = ledger.standing(of: best.version) {
            return Choice(name: best.name, reason: .retry(failure))
        }
        return Choice(name: best.name, reason: best.version.source == .archive ? .newest : .hotCodePush)
    }

    /// Returns the next client for the shell of the last launch and its seed.
    static func next(_ inventory: Inventory) -> Choice? {
        select(inventory, shell: inventory.ledger.shell, hasSeed: inventory.ledger.seed != nil)
    }

    private static func fallback(
        from failed: ClientName, good: [InstalledBundle], ranked: [InstalledBundle], in ledger: Ledger, hasSeed: Bool
    ) -> Choice? {
        let seed: [ClientName] = hasSeed ? [.embedded] : []
        // A failed archive says little about lower ones, but after a failed hot code push only a known good client or
        // the seed follows.
        let lower = ranked.filter { bundle in
            guard let version = bundle.version.semantic, let failed = failed.version?.semantic else { return false }
            return version < failed && ledger.record(of: bundle.version)?.failures.isEmpty != false
        }
        // A client whose signing keys are all revoked is chosen only if no other client can run.
        let isTrusted = { (bundle: InstalledBundle) in !ledger.feed.isDistrusted(signers: bundle.entry.identity.signers)
        }
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
    package var description: String {
        switch self {
        case .newest: "the newest usable client"
        case .hotCodePush: "the last usable hot code push"
        case .retry(let failure): "a second trial of the newest usable client: \(failure)"
        case .fallback(let failed): "the last known good client, because \(failed) failed"
        case .lower(let failed): "the next lower client, because \(failed) failed"
        case .remaining(let failed): "the best client that is left, because \(failed) failed"
        case .onlyOne: "nothing else can run"
        }
    }
}
