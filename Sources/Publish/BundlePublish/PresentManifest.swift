import BundleFormats
import BundleValues
import BundleSigning

/// The feed's current `manifest.json`, which a new release replaces.
struct PresentManifest {
    private let manifest: UnverifiedManifest
    private let location: any FeedLocation
    private let trust: FeedTrust?
    private let anchor: TrustAnchor?
    private let clock: Timestamp

    /// Returns nil if the feed has none. `anchor` has the keys that devices trust, if the publisher gave them.
    init?(in location: any FeedLocation, anchor: TrustAnchor?, clock: Timestamp) throws {
        guard let manifest = try ReleaseFeed.newest(in: location) else { return nil }
        self.manifest = manifest
        self.location = location
        self.anchor = anchor
        self.clock = clock
        trust = try FeedTrust(in: location, clock: clock)
    }

    /// Throws if no known key signed the manifest, or if devices that installed its release would refuse the new one.
    func require(goesBefore appId: String?, by signers: [Signer], isNewKeyTrusted: Bool) throws {
        let signed = isSigned(by: TrustedKeys(signers.map(\.publicKey)))
        guard try signed || known.map(isSigned) ?? false || isItsOwn() else {
            throw UpdateFailure(
                .signatureInvalid, subject: "\(location.address)/\(ReleaseFeed.manifestName)",
                "The feed's \(ReleaseFeed.manifestName), for \(manifest.claims.version), is not signed by a known key and "
                    + "does not match a release of the feed, so it was changed or damaged. Restore or remove it, then publish again."
            )
        }
        if let before = manifest.claims.appId, appId.map({ $0.utf8.elementsEqual(before.utf8) }) != true {
            throw UpdateFailure(
                .appMismatch, subject: appId ?? "",
                appId.map {
                    "The feed is for \(UntrustedName.display(before)), and this release for \($0). Check --app-id and --feed: each "
                        + "application has its own feed."
                } ?? "The feed is for \(UntrustedName.display(before)). Give --app-id \(UntrustedName.display(before))."
            )
        }
        if !isNewKeyTrusted { try requireKeptKeys(signers, isSigned: signed) }
    }

    /// Throws if a key of the present release would not sign the next one, unless none of these keys signed an earlier one: devices
    /// that trust only such a key would be cut off. `isSigned` if one of the signers signed the present release.
    private func requireKeptKeys(_ signers: [Signer], isSigned: Bool) throws {
        let dropped = Set(manifest.keyIds).subtracting(signers.map(\.publicKey.id))
        if isSigned {
            if dropped.isEmpty { return }
            let earlier = try ReleaseFeed.versions(in: location).filter { $0 < manifest.claims.version }
            for version in earlier.sorted(by: >).prefix(Self.mostCompared) {
                let release = try ReleaseFeed.published(version, in: location)
                if let ids = release?.keyIds, !ids.isEmpty, dropped.isDisjoint(with: ids) { return }
            }
        }
        let shown = dropped.sorted().map { UntrustedName.display($0) }.joined(separator: " and ")
        throw UpdateFailure(
            .keyUnknown, subject: shown.isEmpty ? ReleaseFeed.manifestName : shown,
            "Devices that trust only a key of the current release, \(manifest.claims.version), would refuse the new one. Sign with "
                + "\(shown.isEmpty ? "its key" : shown) as well. If every device has the trust root, or the new key, add "
                + "--devices-trust-new-key.")
    }

    /// The number of earlier releases to compare; each costs one read of the feed.
    private static let mostCompared = 10

    /// The keys that devices trust, if they are known.
    private var known: TrustedKeys? {
        let keys =
            trust?.root.trusted(for: manifest.claims.kind.role, at: clock)
            ?? anchor?.keys(for: manifest.claims.kind.role, at: clock)
        return keys.map { TrustedKeys($0.keys) }
    }

    private func isSigned(by keys: TrustedKeys) -> Bool {
        (try? ManifestVerifier.verify(manifest, trusted: keys)) != nil
    }

    /// Returns whether the manifest equals that of its release in the feed, whose key may have been replaced since.
    private func isItsOwn() throws -> Bool {
        guard let release = try? ReleaseFeed.published(manifest.claims.version, in: location) else { return false }
        return Self.members(manifest) == Self.members(release)
    }

    private static func members(_ manifest: UnverifiedManifest) -> JSONObject {
        var object = manifest.document.objectValue ?? [:]
        object["url"] = .null
        return object
    }
}
