package import BundleCore
package import BundleValues
import BundleDisk
import BundleSigning
import BundleThreads

/// The signed archive channel: manifests, the archives that they name, and what a channel document says about them.
package struct ArchiveSource: UpdateSource {
    /// Who draws the device into rollouts.
    package struct DeviceId: Sendable {
        /// As configured; nil to use what the store remembers.
        package let given: String?
        /// What stands for the machine, where the store remembers none.
        package let machine: String?

        /// States where an id comes from; without any, one is drawn and remembered.
        package init(given: String? = nil, machine: String? = nil) {
            self.given = given
            self.machine = machine
        }
    }

    private let source: FeedAddress
    private let anchor: TrustAnchor
    private let deviceId: DeviceId
    private let limits: ArchiveLimits
    private let fetcher: any Fetcher
    private let now: @Sendable () -> Timestamp
    private let report: @Sendable (UpdateEvent) -> Void

    /// Follows `source`, believing what `anchor` vouches for.
    package init(
        source: FeedAddress, anchor: TrustAnchor, deviceId: DeviceId = DeviceId(), limits: ArchiveLimits,
        fetcher: any Fetcher, now: @escaping @Sendable () -> Timestamp = { .now },
        report: @escaping @Sendable (UpdateEvent) -> Void
    ) {
        self.source = source
        self.anchor = anchor
        self.deviceId = deviceId
        self.limits = limits
        self.fetcher = fetcher
        self.now = now
        self.report = report
    }

    /// Follows the chain of trust roots by one; at its end, fetches the manifest or channel document and checks its signatures
    /// before anything in it is used.
    package func latestOffer(for request: OfferRequest) async throws -> OfferStep<ArchiveOffer> {
        let look = try FeedPoll(anchor, request, clock: now())
        let update = TrustUpdate(source: source.url, folder: source.trustFolder, fetcher: fetcher)
        if request.stepsLeft > 0, let next = try await update.next(after: look.trust) {
            return .remember(look.news(trusting: next))
        }
        return .offer(try await offer(look))
    }

    private func offer(_ look: FeedPoll) async throws -> ArchiveOffer {
        switch source {
        case .manifest(let url):
            let bytes = try await ManifestRequest.fetch(url, with: fetcher)
            return try look.offer(of: try ManifestFormat.parse(bytes))
        case .channel(let url):
            let name = try ChannelFileName.name(in: url)
            let envelope = try ChannelFormat.envelope(
                parsing: try await ManifestRequest.fetchChannel(url, with: fetcher))
            return try look.offer(of: envelope, channel: name, deviceId: deviceId)
        }
    }

    /// `AcceptanceRule` for a flat manifest, `ChannelRule` for a release of a channel document.
    package func decide(
        _ offer: ArchiveOffer, _ inventory: Inventory, shell: SemanticVersion, appId: String?
    ) -> Decision {
        offer.decide(inventory, shell: shell, appId: appId ?? inventory.ledger.appId)
    }

    /// What speaks about each release of the channel document.
    package func explain(
        _ offer: ArchiveOffer, _ inventory: Inventory, shell: SemanticVersion, appId: String?
    ) -> [Decision.Outcome] {
        offer.explain(inventory, shell: shell, appId: appId ?? inventory.ledger.appId)
    }

    /// Downloads, verifies and unpacks the archive of `offer`.
    package func stage(
        _ offer: ArchiveOffer, in area: StagingArea, reusing installed: ReuseIndex
    ) async throws -> StagedBundle {
        let release = try offer.requireRelease()
        try limits.admit(release.manifest)
        let url = try ManifestRequest.archiveURL(of: release.manifest, at: source.url)
        let download = ArchiveDownload(
            release.manifest, at: url, limits: limits, fetcher: fetcher, into: area.downloads, report: report)
        let archive = try await download.run()
        let unpacker = ArchiveUnpacker(limits: limits, report: report)
        do {
            let staged = try await onThread {
                try unpacker.unpack(archive, of: release, into: area, reusing: installed)
            }
            // It goes before the barrier, so that its pages need never reach the disk.
            try download.remove()
            return staged
        } catch {
            // A refused archive is of no use. One that could not be unpacked for want of room is not fetched twice.
            let isRefused = [.archiveRejected, .digestMismatch, .sizeMismatch].contains(UpdateFailure(error).code)
            if isRefused { try download.remove() }
            throw error
        }
    }
}

/// Where a manifest and its archive come from.
enum ManifestRequest {
    static func fetch(_ url: FetchURL, with fetcher: any Fetcher) async throws -> [UInt8] {
        do {
            return try await fetcher.fetchBytes(url, maximumBytes: ManifestFormat.maximumBytes)
        } catch FetchError.tooLarge {
            throw ManifestRefusal(member: "manifest", problem: "is longer than \(ManifestFormat.maximumBytes) bytes")
        }
    }

    static func fetchChannel(_ url: FetchURL, with fetcher: any Fetcher) async throws -> [UInt8] {
        do {
            return try await fetcher.fetchBytes(url, maximumBytes: ChannelFormat.maximumBytes)
        } catch FetchError.tooLarge {
            throw DocumentRefusal("channel document", problem: "is longer than \(ChannelFormat.maximumBytes) bytes")
        }
    }

    /// The archive's address. A manifest from the network must not make a device read its own files.
    static func archiveURL(of manifest: Manifest, at manifestURL: FetchURL) throws -> FetchURL {
        let url: FetchURL
        do {
            url = try manifestURL.resolve(relative: manifest.url)
        } catch {
            throw ManifestRefusal(member: "manifest.url", problem: "cannot be fetched: \(error)")
        }
        if !manifestURL.isFile, !manifestURL.mayLead(to: url) {
            throw ManifestRefusal(
                member: "manifest.url",
                problem: "leads from \(manifestURL.scheme.rawValue) to \(url.scheme.rawValue), which is less protected")
        }
        return url
    }
}

extension FeedAddress {
    /// The folder of the trust roots, as the source's address sees it.
    fileprivate var trustFolder: String {
        switch self {
        case .manifest: "trust"
        case .channel: "../trust"
        }
    }
}
