package import BundleCore
import BundleDisk
package import BundleValues

/// Meteor's hot code push: an asset manifest, and the files that it lists. The device downloads only the files that it
/// does not have.
package struct MeteorSource: UpdateSource {
    private let server: MeteorServerOptions
    private let urls: MeteorURLs
    private let seed: SeedFolder?
    private let fetcher: any Fetcher
    private let report: UpdateObserver
    private let gate: FetchGate

    /// Creates a source for `server`. `seed` is the shell's own client, whose files are inherited.
    ///
    /// Throws if the URL of the server is invalid.
    package init(
        _ server: MeteorServerOptions, seed: SeedFolder?, fetcher: any Fetcher, gate: FetchGate = FetchGate(),
        report: UpdateObserver
    ) throws {
        self.server = server
        self.seed = seed
        self.fetcher = fetcher
        self.gate = gate
        self.report = report
        urls = try MeteorURLs(rootURL: server.rootURL, architecture: server.architecture)
    }

    /// Downloads the asset manifest and parses it strictly.
    package func latestOffer(for request: OfferRequest) async throws -> OfferStep<MeteorOffer> {
        let bytes = try await ManifestFetch(fetcher, maximumBytes: server.limits.bytes).fetch(urls.manifest)
        let manifest = try AssetManifest(parsing: bytes, limits: server.limits)
        return .offer(
            MeteorOffer(manifest: manifest, compatibility: try manifest.requireCompatibility(of: server.platform)))
    }

    /// Decides by `HotCodePushRule`. The page is checked for the device's application after its download.
    package func decide(
        _ offer: MeteorOffer, in inventory: Inventory, shell: SemanticVersion, appId: String?
    ) -> Decision {
        HotCodePushRule.decide(on: offer, in: inventory, seed: seed?.facts)
    }

    /// Links existing files and downloads the rest, the index page first. It verifies every downloaded file.
    package func stage(
        _ offer: MeteorOffer, in area: StagingArea, reusing installed: ReuseIndex
    ) async throws -> StagedBundle {
        let known = HotCodePushRule.facts(in: area.inventory, seed: seed?.facts)
        let stored = PageCheck.KnownApplication(
            appId: known?.appId ?? server.appId, rootURL: known?.rootURL.flatMap { try? FetchURL(parsing: $0) })
        let staging = BundleStaging(
            offer: offer, server: server, urls: urls, seed: seed, stored: stored, fetcher: fetcher, gate: gate,
            area: area, installed: installed, report: report)
        return try await staging.run()
    }
}

/// An asset manifest that passed all checks that do not depend on the device. Only `MeteorSource` creates it.
package struct MeteorOffer: UpdateOffer {
    package let manifest: AssetManifest
    /// The compatibility version for the device's platform.
    package let compatibility: String

    package var clientVersion: ClientVersion { .meteor(manifest.version) }

    /// Whether the version is the digest of the list.
    package var evidence: [Decision.Outcome] {
        let detail =
            switch manifest.identity {
            case .computed: "the version is the digest of the \(manifest.assets.count) assets that are listed"
            case .stated: "the server states the version; it is not the digest of the assets"
            }
        return [Decision.Outcome(rule: "manifest", passed: true, detail: detail)]
    }

    /// The footprint is not known yet; staging checks the space after planning.
    package var footprint: Footprint { Footprint(downloadBytes: nil, installedBytes: nil, fileCount: nil) }
}

/// Downloads an asset manifest (METEOR sections 1.9, 1.10 and 3.1).
private struct ManifestFetch {
    /// The waits before retries. A device that wakes up can be faster than its network.
    private static let pauses = [Duration.milliseconds(100), .seconds(1)]

    private let fetcher: any Fetcher
    private let maximumBytes: Int

    init(_ fetcher: any Fetcher, maximumBytes: Int) {
        self.fetcher = fetcher
        self.maximumBytes = maximumBytes
    }

    func fetch(_ url: FetchURL) async throws -> [UInt8] { try await fetch(url, pauses: Self.pauses[...]) }

    private func fetch(_ url: FetchURL, pauses: ArraySlice<Duration>) async throws -> [UInt8] {
        do {
            return try await fetcher.fetchBytes(url, maximumBytes: maximumBytes)
        } catch let error as FetchError {
            guard case .unreachable = error, let pause = pauses.first else { throw Self.failure(error) }
            try await Task.sleep(for: pause)
            return try await fetch(url, pauses: pauses.dropFirst())
        }
    }

    private static func failure(_ error: FetchError) -> any Error {
        switch error {
        case .tooLarge(let limit, _): AssetManifestError.tooLarge(bytes: limit + 1, limit: limit)
        case .httpStatus(let status, _, _):
            UpdateFailure(
                .httpStatus, subject: error.failure.subject,
                "Non-success status code \(status) for asset manifest: \(error)", status: status)
        default:
            UpdateFailure(
                error.failure.code, subject: error.failure.subject, "Error downloading asset manifest: \(error)")
        }
    }
}
