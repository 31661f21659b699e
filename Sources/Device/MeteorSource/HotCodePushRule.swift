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
        let news = "offered \(version), running \(runs)" + (ledger.pending.map { ", next \($0)" } ?? "")
        var verdict = Decision.Verdict.install
        if let client = client(of: version, in: inventory, seed: seed) {
            // Another source can have priority. A version that is already offered needs no change of the ledger.
            verdict = ledger.offered == client ? .upToDate(newest: client) : .choose(client)
        }
        return Decision(
            [
                ("new", present.map { .objection(.upToDate(newest: $0), news) } ?? .passed { news }),
                ("blocked", AcceptanceRule.blocked(.meteor(version), in: inventory)),
                ("compatibility", compatibility(offer, facts(in: inventory, seed: seed)?.compatibility)),
            ], otherwise: verdict)
    }

    private static func compatibility(_ offer: MeteorOffer, _ known: String?) -> RuleAnswer {
        // No key signs a hot code push, so its text is not trusted.
        let (offered, here) = (UntrustedName.display(offer.compatibility), known.map { UntrustedName.display($0) })
        let detail = "offered \(offered), here \(here ?? "not known")"
        if known.map({ $0 == offer.compatibility }) ?? true { return .passed { detail } }
        return .objection(.unsuitable(incompatible(offer, offered: offered, here: here)), detail)
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
