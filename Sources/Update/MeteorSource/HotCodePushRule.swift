package import BundleCore
import BundleValues

/// Take this hot code push? The decision table of METEOR section 3.2 as a pure rule: the first row that applies decides.
///
/// Rows a and e, about a download under way, are `UpdateRunner`'s.
package enum HotCodePushRule {
    /// Decides about `offer` on a device with `inventory`, whose shell brings `seed`.
    package static func decide(_ offer: MeteorOffer, _ inventory: Inventory, seed: MeteorFacts?) -> Decision {
        let version = offer.manifest.version
        let ledger = inventory.ledger
        let runs = running(ledger)
        let isCurrent = isVersion(runs, version, seed)
        let isPending = ledger.pending.map { isVersion($0, version, seed) } ?? false
        let block = ledger.block(on: .meteor(version))
        let known = facts(inventory, seed)?.compatibility
        let isCompatible = known.map { $0 == offer.compatibility } ?? true

        // No key signs a hot code push.
        let (offered, here) = (UntrustedName.display(offer.compatibility), known.map { UntrustedName.display($0) })

        let verdict: Decision.Verdict
        if isCurrent {
            verdict = .upToDate(newest: runs)
        } else if isPending, let pending = ledger.pending {
            verdict = .upToDate(newest: pending)
        } else if let block {
            verdict = .blocked(block)
        } else if !isCompatible {
            verdict = .unsuitable(incompatible(offer, offered, here))
        } else if let client = client(version, inventory, seed) {
            // Another source may come first; what has been noted need not be noted again.
            verdict = ledger.offered == client ? .upToDate(newest: client) : .choose(client)
        } else {
            verdict = .install
        }
        return Decision(
            verdict: verdict,
            outcomes: [
                Decision.Outcome(
                    rule: "new", passed: !isCurrent && !isPending,
                    detail: "offered \(version), running \(runs)" + (ledger.pending.map { ", next \($0)" } ?? "")),
                Decision.Outcome(
                    rule: "notBlocked", passed: block == nil,
                    detail: block.map { "blocked since \($0.since): \($0.reason)" } ?? "not blocked on this device"),
                Decision.Outcome(
                    rule: "compatibility", passed: isCompatible,
                    detail: "offered \(offered), here \(here ?? "not known")"),
            ])
    }

    /// What the device knows of its application: the facts of the bundle that runs, else of the seed (METEOR section 4.1).
    static func facts(_ inventory: Inventory, _ seed: MeteorFacts?) -> MeteorFacts? {
        guard let version = running(inventory.ledger).version else { return seed ?? inventory.ledger.seedFacts }
        return inventory.ledger.entry(version)?.identity.meteor ?? seed ?? inventory.ledger.seedFacts
    }

    /// The client that runs; after a failed launch, the one that is shown instead.
    private static func running(_ ledger: Ledger) -> ClientName {
        guard let launch = ledger.launch, launch.verdict == .faulty, launch.name == ledger.current else {
            return ledger.current
        }
        return ledger.pending ?? ledger.current
    }

    private static func isVersion(_ name: ClientName, _ version: MeteorVersion, _ seed: MeteorFacts?) -> Bool {
        name == .embedded ? seed?.version == version : name.version?.meteor == version
    }

    /// The client of that version that the device has: the seed, or a bundle.
    private static func client(_ version: MeteorVersion, _ inventory: Inventory, _ seed: MeteorFacts?) -> ClientName? {
        if seed?.version == version { return .embedded }
        guard let bundle = inventory.bundle(.meteor(version)) else { return nil }
        return SelectionRule.usability(of: bundle, ledger: inventory.ledger, shell: nil) == .usable ? bundle.name : nil
    }

    private static func incompatible(_ offer: MeteorOffer, _ offered: String, _ here: String?) -> UpdateFailure {
        UpdateFailure(
            .unsuitableBundle, subject: "unsuitableAssetBundle",
            "Skipping downloading new version because the Cordova platform version or plugin versions have changed and are "
                + "potentially incompatible: version \(offer.manifest.version) is for \(offered), this shell is "
                + "\(here ?? "unknown"). Update the shell, or build the server with the same "
                + "METEOR_CORDOVA_COMPAT_VERSION.")
    }
}
