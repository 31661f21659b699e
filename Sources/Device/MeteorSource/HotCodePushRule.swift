package import BundleCore
import BundleValues

/// The decision table of METEOR section 3.2: the first row that applies decides.
///
/// `UpdateRunner` implements rows a and e, about a running download.
package enum HotCodePushRule {
    /// Decides about an offer. `seed` is the shell's own client.
    package static func decide(on offer: MeteorOffer, in inventory: Inventory, seed: MeteorFacts?) -> Decision {
        let version = offer.manifest.version
        let ledger = inventory.ledger
        let runs = running(ledger)
        let present = [runs, ledger.pending].compactMap(\.self).first { has($0, version: version, seed: seed) }
        let block = ledger.block(on: .meteor(version))
        let known = facts(in: inventory, seed: seed)?.compatibility
        let isCompatible = known.map { $0 == offer.compatibility } ?? true

        // No key signs a hot code push, so its text is not trusted.
        let (offered, here) = (UntrustedName.display(offer.compatibility), known.map { UntrustedName.display($0) })

        let verdict: Decision.Verdict
        if let present {
            verdict = .upToDate(newest: present)
        } else if let block {
            verdict = .blocked(block)
        } else if !isCompatible {
            verdict = .unsuitable(incompatible(offer, offered: offered, here: here))
        } else if let client = client(of: version, in: inventory, seed: seed) {
            // Another source can have priority. A version that is already offered needs no change of the ledger.
            verdict = ledger.offered == client ? .upToDate(newest: client) : .choose(client)
        } else {
            verdict = .install
        }
        return Decision(
            verdict: verdict,
            outcomes: [
                Decision.Outcome(
                    rule: "new", passed: present == nil,
                    detail: "offered \(version), running \(runs)" + (ledger.pending.map { ", next \($0)" } ?? "")),
                Decision.Outcome(
                    rule: "blocked", passed: block == nil,
                    detail: block.map { "blocked since \($0.since): \($0.reason)" } ?? "not blocked on this device"),
                Decision.Outcome(
                    rule: "compatibility", passed: isCompatible,
                    detail: "offered \(offered), here \(here ?? "not known")"),
            ])
    }

    /// Returns the properties of the running bundle, or otherwise of the seed (METEOR section 4.1).
    static func facts(in inventory: Inventory, seed: MeteorFacts?) -> MeteorFacts? {
        guard let version = running(inventory.ledger).version else { return seed ?? inventory.ledger.seedFacts }
        return inventory.ledger.entry(version)?.identity.meteor ?? seed ?? inventory.ledger.seedFacts
    }

    /// Returns the running client, or after a failed launch the client that is shown instead.
    private static func running(_ ledger: Ledger) -> ClientName {
        guard let launch = ledger.launch, launch.verdict == .faulty, launch.name == ledger.current else {
            return ledger.current
        }
        return ledger.pending ?? ledger.current
    }

    private static func has(_ name: ClientName, version: MeteorVersion, seed: MeteorFacts?) -> Bool {
        name == .embedded ? seed?.version == version : name.version?.meteor == version
    }

    /// Returns the seed or the installed bundle of that version, or nil if the device does not have it.
    private static func client(of version: MeteorVersion, in inventory: Inventory, seed: MeteorFacts?) -> ClientName? {
        if seed?.version == version { return .embedded }
        guard let bundle = inventory.bundle(.meteor(version)) else { return nil }
        return SelectionRule.usability(of: bundle, ledger: inventory.ledger, shell: nil) == .usable ? bundle.name : nil
    }

    private static func incompatible(_ offer: MeteorOffer, offered: String, here: String?) -> UpdateFailure {
        UpdateFailure(
            .unsuitableBundle, subject: "unsuitableAssetBundle",
            "Skipping downloading new version because the Cordova platform version or plugin versions have changed and are "
                + "potentially incompatible: version \(offer.manifest.version) is for \(offered), this shell is "
                + "\(here ?? "unknown"). Update the shell, or build the server with the same "
                + "METEOR_CORDOVA_COMPAT_VERSION.")
    }
}
