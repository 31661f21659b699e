package import BundleFormats
package import BundleValues
import BundleSigning

extension NewDevice {
    /// Creates a device that trusts `anchor` and follows the trust roots of the feed at `location`.
    package init(following anchor: TrustAnchor, in location: any FeedLocation, clock: Timestamp) throws {
        try self.init(trusting: anchor, clock: clock)
        try follow { try location.read($0, maximumBytes: TrustRootFormat.maximumBytes)?.bytes }
    }
}

/// The feed's newest trust root, used to check files before they are published. It is not authenticated, so it can
/// only reject files.
package struct FeedTrust {
    /// The name of the trust root in a feed.
    package static let fileName = "trust.json"

    let root: TrustRoot
    private let clock: Timestamp

    /// Returns nil if the feed has no trust root.
    init?(in location: any FeedLocation, clock: Timestamp) throws {
        guard let record = try location.read(Self.fileName, maximumBytes: TrustRootFormat.maximumBytes) else {
            return nil
        }
        root = try TrustRootFormat.parse(record.bytes).claims
        self.clock = clock
    }

    /// Returns whether enough keys of the root for releases of its kind have signed `manifest`.
    func accepts(_ manifest: UnverifiedManifest) -> Bool {
        (try? ManifestVerifier.verify(manifest, trusted: root.trusted(for: manifest.claims.kind.role, at: clock)))
            != nil
    }

    /// Returns the reason why devices do not install `version`, in words.
    func refusal(of version: SemanticVersion) -> String {
        "No device installs \(version), because trust root \(root.version) does not authorize its signatures"
    }

    /// Throws if devices would refuse the release.
    func require(_ manifest: UnverifiedManifest) throws {
        try requireCurrent()
        try requireApp(manifest.claims.appId, of: "release")
        let role = manifest.claims.kind.role
        try explaining(role) {
            _ = try ManifestVerifier.verify(manifest, trusted: root.trusted(for: role, at: clock))
        }
    }

    /// Throws if devices would refuse the channel file.
    func require(_ envelope: SignedEnvelope, channel: String) throws {
        try requireCurrent()
        try explaining(.channel) {
            let verified = try ChannelVerifier.verify(
                envelope, channel: channel, trusted: root.trusted(for: .channel, at: clock))
            try requireApp(verified.document.appId, of: "channel file")
        }
    }

    /// Throws if devices would refuse files by these signers, judged by their key IDs.
    func require(_ signers: [Signer], as role: TrustRole) throws {
        try requireCurrent()
        let trusted = root.trusted(for: role, at: clock)
        let count = trusted.count(of: signers)
        if count >= trusted.threshold { return }
        try explaining(role) {
            throw UpdateFailure(
                count == 0 ? .keyUnknown : .signatureInvalid, subject: "trust root \(root.version)",
                "You gave \(count) of \(counted(trusted.threshold, "\(role) key")) that devices require. Give the others as well."
            )
        }
    }

    /// Throws if the root has expired, because devices then install nothing.
    private func requireCurrent() throws {
        guard root.expires <= clock else { return }
        throw UpdateFailure(
            .expired, subject: "trust root \(root.version)",
            "The feed's trust root \(root.version) expired at \(root.expires), so devices would refuse this. Renew it with "
                + "`clientctl trust renew`, sign it and publish it.")
    }

    private func requireApp(_ found: String?, of document: String) throws {
        guard let appId = root.appId, found.map({ $0.utf8.elementsEqual(appId.utf8) }) != true else { return }
        throw UpdateFailure(
            .appMismatch, subject: found ?? "",
            "The feed's trust root is for \(appId), the \(document) for \(found ?? "no named application"). Check --app-id."
        )
    }

    private func explaining(_ role: TrustRole, check: () throws -> Void) throws {
        do {
            try check()
        } catch let failure as UpdateFailure where failure.code == .keyUnknown {
            let keys = root.trusted(for: role, at: clock).keys.map(\.id).joined(separator: " or ")
            throw UpdateFailure(
                .keyUnknown, subject: failure.subject,
                "Devices that follow the feed's trust root (version \(root.version)) would refuse this, so it was not written. Sign it "
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

extension KeyNames {
    /// Reads the labels of the trust root in `trust` and of those that follow it in the feed. Without a trust root, no key has a label:
    /// anyone who can write to the feed could name a key.
    package init(in location: any FeedLocation, trust: TrustAnchor?, clock: Timestamp) throws {
        self.init()
        guard case .root(let given)? = trust else { return }
        add(given.root)
        var device = try NewDevice(trusting: .root(given), clock: clock)
        // The file at the end of the chain may be damaged, and the names before it are still right.
        while let name = device.nextRoot,
            let record = try location.read(name, maximumBytes: TrustRootFormat.maximumBytes),
            (try? device.advance(toRoot: record.bytes)) != nil, case .root(let root) = device.anchor
        { add(root.root) }
    }
}
