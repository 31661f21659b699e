public import BundleCore

/// An asset manifest that has passed every check that needs no device; only `MeteorChannel` makes one.
public struct MeteorOffer: UpdateOffer {
    /// What the server lists.
    public let manifest: AssetManifest
    /// The compatibility version for the device's platform.
    public let compatibility: String

    init(manifest: AssetManifest, compatibility: String) {
        self.manifest = manifest
        self.compatibility = compatibility
    }

    /// The version offered.
    public var clientVersion: ClientVersion { .meteor(manifest.version) }

    /// Whether the manifest vouches for itself.
    public var evidence: [Decision.Outcome] {
        let detail =
            switch manifest.identity {
            case .computed: "the version is the digest of the \(manifest.assets.count) assets that are listed"
            case .stated: "the version is a text of the server's choice; it proves nothing"
            }
        return [Decision.Outcome(rule: "manifest", passed: true, detail: detail)]
    }

    /// Not known yet: it is what the device lacks, and is asked for when that is planned.
    public var footprint: Footprint { Footprint(downloadBytes: nil, installedBytes: nil, fileCount: nil) }
}
