import ArchiveSource
import BundleValues
import BundleSigning

/// The feed's `manifest.json` before a release is built on it: what devices are offered now.
struct PresentManifest {
    private let manifest: UnverifiedManifest
    private let location: any FeedLocation
    private let trust: FeedTrust?
    private let anchor: TrustAnchor?
    private let clock: Timestamp

    /// nil where the feed has none. `anchor` is what the publisher says that devices trust.
    init?(in location: any FeedLocation, anchor: TrustAnchor?, clock: Timestamp) throws {
        guard let manifest = try ReleaseFeed.newest(in: location) else { return nil }
        self.manifest = manifest
        self.location = location
        self.anchor = anchor
        self.clock = clock
        trust = try FeedTrust(in: location, clock: clock)
    }

    /// Refuses a manifest that nobody known has signed, and a release that devices which took it would refuse.
    func require(goesBefore appId: String?, by signers: [Signer]) throws {
        let signed = isSigned(by: TrustedKeys(signers.map(\.publicKey)))
        guard try signed || known.map(isSigned) ?? false || isItsOwn() else {
            throw UpdateFailure(
                .signatureInvalid, subject: "\(location.address)/\(ReleaseFeed.manifestName)",
                "The feed's \(ReleaseFeed.manifestName), for \(manifest.claims.version), is not signed by a key that is known here and "
                    + "is none of the feed's releases: it was changed or damaged. Restore or remove it, then publish again."
            )
        }
        if let before = manifest.claims.appId, appId.map({ $0.utf8.elementsEqual(before.utf8) }) != true {
            throw UpdateFailure(
                .appMismatch, subject: appId ?? "",
                appId.map {
                    "The feed is for \(UntrustedName.display(before)), and this release for \($0). Check --app-id and --feed: each "
                        + "application has a feed of its own."
                } ?? "The feed is for \(UntrustedName.display(before)). Give --app-id \(UntrustedName.display(before))."
            )
        }
        if !signed, known == nil {
            throw UpdateFailure(
                .keyUnknown, subject: manifest.claims.keyId.map { UntrustedName.display($0) } ?? "manifest.json",
                "None of the keys given has signed what the feed offers now, \(manifest.claims.version): devices that trust its key "
                    + "would refuse this. Sign with that key, or name with --trust what devices trust.")
        }
    }

    /// Whose signatures devices believe, where that is known.
    private var known: TrustedKeys? {
        let keys = trust?.root.trusted(for: .release, at: clock) ?? anchor?.keys(for: .release, at: clock)
        return keys.map { TrustedKeys($0.keys) }
    }

    private func isSigned(by keys: TrustedKeys) -> Bool {
        (try? ManifestVerifier.verify(manifest, trusted: keys)) != nil
    }

    /// Whether it says what its release in the feed says: its key may have been replaced since.
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
