package import ArchiveSource
package import BundleValues
import BundleSigning

extension NewDevice {
    /// A device with what `anchor` vouches for, which follows the trust roots of the feed at `place`.
    package init(following anchor: TrustAnchor, in place: any FeedPlace, clock: Timestamp) throws {
        try self.init(trusting: anchor, clock: clock)
        try follow { try place.read($0, maximumBytes: TrustRootFormat.maximumBytes)?.bytes }
    }
}

/// The feed's newest trust root as the devices' check on what is published. It can only refuse: whoever can write the feed
/// could have put it there.
struct FeedTrust {
    static let fileName = "trust.json"

    let root: TrustRoot
    private let clock: Timestamp

    /// nil where the feed has none.
    init?(in place: any FeedPlace, clock: Timestamp) throws {
        guard let record = try place.read(Self.fileName, maximumBytes: TrustRootFormat.maximumBytes) else { return nil }
        root = try TrustRootFormat.parse(record.bytes).claims
        self.clock = clock
    }

    /// Whether enough release keys of the root have signed `manifest`.
    func vouches(for manifest: UnverifiedManifest) -> Bool {
        (try? ManifestVerifier.verify(manifest, trusted: root.trusted(for: .release, at: clock))) != nil
    }

    /// Why devices do not install a `version` that the root does not vouch for, for people.
    func refusal(of version: SemanticVersion) -> String {
        "No device installs \(version), because its signatures do not count by trust root \(root.version)"
    }

    /// Refuses a release that devices would refuse.
    func require(_ manifest: UnverifiedManifest) throws {
        try requireCurrent()
        try requireApp(manifest.claims.appId, of: "release")
        try explaining(.release) {
            _ = try ManifestVerifier.verify(manifest, trusted: root.trusted(for: .release, at: clock))
        }
    }

    /// Refuses a channel document that devices would refuse.
    func require(_ envelope: SignedEnvelope, channel: String) throws {
        try requireCurrent()
        try explaining(.channel) {
            let verified = try ChannelVerifier.verify(
                envelope, channel: channel, trusted: root.trusted(for: .channel, at: clock))
            try requireApp(verified.document.appId, of: "channel document")
        }
    }

    /// Refuses signers whose documents devices would refuse, by the ids of their keys.
    func require(_ signers: [Signer], as role: TrustRole) throws {
        try requireCurrent()
        let trusted = root.trusted(for: role, at: clock)
        let count = trusted.count(of: signers)
        if count >= trusted.threshold { return }
        try explaining(role) {
            throw UpdateFailure(
                count == 0 ? .keyUnknown : .signatureInvalid, subject: "trust root \(root.version)",
                "You gave \(count) of \(counted(trusted.threshold, "\(role) key")) that devices ask for. Give the others, too."
            )
        }
    }

    /// Devices install nothing by a root that has expired.
    private func requireCurrent() throws {
        guard root.expires <= clock else { return }
        throw UpdateFailure(
            .expired, subject: "trust root \(root.version)",
            "The feed's trust root \(root.version) expired at \(root.expires), so devices would refuse this: renew it with "
                + "`clientctl trust renew`, have it signed and publish it.")
    }

    private func requireApp(_ found: String?, of document: String) throws {
        guard let appId = root.appId, found.map({ $0.utf8.elementsEqual(appId.utf8) }) != true else { return }
        throw UpdateFailure(
            .appMismatch, subject: found ?? "",
            "The feed's trust root is for \(appId), the \(document) for \(found ?? "no named application"): check --app-id."
        )
    }

    private func explaining(_ role: TrustRole, _ check: () throws -> Void) throws {
        do {
            try check()
        } catch let failure as UpdateFailure where failure.code == .keyUnknown {
            let keys = root.trusted(for: role, at: clock).keys.map(\.id).joined(separator: " or ")
            throw UpdateFailure(
                .keyUnknown, subject: failure.subject,
                "Devices that follow the feed's trust root (version \(root.version)) would refuse this, so it was not written: sign it "
                    + "with \(keys), the root's \(role) key\(root.trusted(for: role, at: clock).keys.count > 1 ? "s" : "")."
            )
        } catch let failure as UpdateFailure where failure.code != .appMismatch {
            throw UpdateFailure(
                failure.code, subject: failure.subject,
                "Devices that follow the feed's trust root (version \(root.version)) would refuse this, so it was not written: "
                    + failure.message)
        }
    }
}
