package import BundleCore
package import BundleValues
import BundleDisk

/// Meteor's hot code push: an asset manifest, and the files that it lists, of which only those come over the network that the
/// device does not have.
package struct MeteorSource: UpdateSource {
    private let server: MeteorServerOptions
    private let urls: MeteorURLs
    private let seed: SeedFolder?
    private let fetcher: any Fetcher
    private let report: @Sendable (UpdateEvent) -> Void

    /// Follows `server`. `seed` is the shell's own client; what it has is inherited.
    ///
    /// Throws where the server's address cannot be that of a Meteor application.
    package init(
        _ server: MeteorServerOptions, seed: SeedFolder?, fetcher: any Fetcher,
        report: @escaping @Sendable (UpdateEvent) -> Void
    ) throws {
        self.server = server
        self.seed = seed
        self.fetcher = fetcher
        self.report = report
        urls = try MeteorURLs(rootURL: server.rootURL, architecture: server.architecture)
    }

    /// Fetches the asset manifest and reads it strictly, before anything in it is used.
    package func latestOffer(for request: OfferRequest) async throws -> OfferStep<MeteorOffer> {
        let bytes = try await ManifestFetch(fetcher, maximumBytes: server.limits.bytes).fetch(urls.manifest)
        let manifest = try AssetManifest(parsing: bytes, limits: server.limits)
        return .offer(
            MeteorOffer(manifest: manifest, compatibility: try manifest.requireCompatibility(of: server.platform)))
    }

    /// `HotCodePushRule`; the device's own application is asked for when the page is there.
    package func decide(
        _ offer: MeteorOffer, _ inventory: Inventory, shell: SemanticVersion, appId: String?
    ) -> Decision {
        HotCodePushRule.decide(offer, inventory, seed: seed?.facts)
    }

    /// Links what the device has, downloads the rest, the index page first, and verifies every file that is downloaded.
    package func stage(
        _ offer: MeteorOffer, in area: StagingArea, reusing installed: ReuseIndex
    ) async throws -> StagedBundle {
        let known = HotCodePushRule.facts(area.inventory, seed?.facts)
        let stored = PageCheck.Stored(
            appId: known?.appId ?? server.appId, rootURL: known?.rootURL.flatMap { try? FetchURL(parsing: $0) })
        let staging = BundleStaging(
            offer: offer, server: server, urls: urls, seed: seed, stored: stored, fetcher: fetcher, area: area,
            installed: installed, report: report)
        return try await staging.run()
    }
}

/// An asset manifest that has passed every check that needs no device; only `MeteorSource` makes one.
package struct MeteorOffer: UpdateOffer {
    /// What the server lists.
    package let manifest: AssetManifest
    /// The compatibility version for the device's platform.
    package let compatibility: String

    init(manifest: AssetManifest, compatibility: String) {
        self.manifest = manifest
        self.compatibility = compatibility
    }

    /// The version offered.
    package var clientVersion: ClientVersion { .meteor(manifest.version) }

    /// Whether the manifest vouches for itself.
    package var evidence: [Decision.Outcome] {
        let detail =
            switch manifest.identity {
            case .computed: "the version is the digest of the \(manifest.assets.count) assets that are listed"
            case .stated: "the version is a text of the server's choice; it proves nothing"
            }
        return [Decision.Outcome(rule: "manifest", passed: true, detail: detail)]
    }

    /// Not known yet: it is what the device lacks, and is asked for when that is planned.
    package var footprint: Footprint { Footprint(downloadBytes: nil, installedBytes: nil, fileCount: nil) }
}
