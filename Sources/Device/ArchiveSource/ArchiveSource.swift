package import BundleCore
import BundleDisk
package import BundleValues

/// The source of signed archives, from a flat manifest or a channel document.
package struct ArchiveSource: UpdateSource {
    /// The id that places the device in rollouts, and its groups.
    package struct DeviceId: Sendable {
        /// The configured id; nil to use the one in the store.
        package let given: String?
        /// The id derived from the machine's id; nil if the machine does not have one.
        package let machine: String?
        /// The configured groups; nil to use those in the store.
        package let groups: [String]?

        /// Creates a configuration. If all sources of an id are nil, a random id is made and stored.
        package init(given: String? = nil, machine: String? = nil, groups: [String]? = nil) {
            self.given = given
            self.machine = machine
            self.groups = groups
        }

        /// Returns the id of the device with `memory`. A configured id has priority; the machine's id replaces any
        /// other, so that clones of a disk are different devices.
        package func resolved(_ memory: FeedMemory) throws -> (id: String, source: FeedMemory.DeviceIdSource) {
            if let given { return (given, .given) }
            if let id = memory.deviceId, memory.deviceIdSource == .given { return (id, .given) }
            if let machine { return (machine, .machine) }
            // A machine that lost its id keeps the stored one.
            if let id = memory.deviceId { return (id, memory.deviceIdSource ?? .drawn) }
            return (try LaunchToken.random().text, .drawn)
        }
    }

    private let source: FeedAddress
    private let anchor: TrustAnchor
    private let deviceId: DeviceId
    private let kind: ReleaseKind
    private let seed: String?
    private let limits: ArchiveLimits
    private let fetcher: any Fetcher
    private let environment: Environment
    private let report: UpdateObserver
    private let gate: FetchGate
    private let mirrors: Mirrors
    private let last = LastDocument()

    /// Creates a source of releases of `kind` that trusts `anchor`. A delta may use the folder `seed` as its base. `gate` admits downloads, and
    /// `mirrorFetcher` fetches from mirrors.
    package init(
        source: FeedAddress, anchor: TrustAnchor, kind: ReleaseKind = .client, deviceId: DeviceId = DeviceId(),
        seed: String? = nil,
        limits: ArchiveLimits,
        fetcher: any Fetcher, mirrorFetcher: (any Fetcher)? = nil, mirrorLimits: MirrorLimits = MirrorLimits(),
        gate: FetchGate = FetchGate(),
        environment: Environment = Environment(),
        report: UpdateObserver
    ) {
        self.source = source
        self.anchor = anchor
        self.kind = kind
        self.deviceId = deviceId
        self.seed = seed
        self.limits = limits
        self.fetcher = fetcher
        self.gate = gate
        mirrors = Mirrors(of: source, fetcher: mirrorFetcher ?? fetcher, limits: mirrorLimits)
        self.environment = environment
        self.report = report
    }

    /// Advances the chain of trust roots by one. At its end, downloads the manifest or channel document and verifies
    /// its signatures before any other use.
    package func latestOffer(for request: OfferRequest) async throws -> OfferStep<ArchiveOffer> {
        let poll = try FeedPoll(anchor, request, of: kind, clock: environment.now())
        let update = TrustUpdate(source: source.url, folder: source.trustFolder, fetcher: fetcher)
        if request.stepsLeft > 0, let next = try await update.next(after: poll.trust) {
            return .remember(poll.update(trusting: next))
        }
        return .offer(try await offer(poll))
    }

    private func offer(_ poll: FeedPoll) async throws -> ArchiveOffer {
        switch source {
        case .manifest(let url):
            let bytes = try await ManifestRequest.fetch(url, with: fetcher)
            return try poll.offer(of: try ManifestFormat.parse(bytes))
        case .channel(let url):
            let name = try ChannelFileName.name(in: url)
            let fetched = try await ManifestRequest.fetchChannel(url, with: fetcher, knowing: last.document)
            let envelope = try ChannelFormat.envelope(parsing: fetched.bytes)
            let hold =
                poll.trust.hasGuard
                ? try await HoldFile.fetch(of: name, beside: url, with: fetcher) : HoldFile.none
            let offer = try poll.offer(of: envelope, channel: name, deviceId: deviceId, hold: hold)
            last.keep(fetched)
            return offer
        }
    }

    /// Applies `AcceptanceRule` to a flat manifest and `ChannelRule` to a release of a channel document.
    package func decide(
        _ offer: ArchiveOffer, in inventory: Inventory, shell: SemanticVersion, appId: String?
    ) -> Decision {
        offer.decide(inventory, shell: shell, appId: appId ?? inventory.ledger.appId)
    }

    /// Returns the result of the rules for each release of the channel document.
    package func explain(
        _ offer: ArchiveOffer, in inventory: Inventory, shell: SemanticVersion, appId: String?
    ) -> [Decision.Outcome] {
        offer.explain(inventory, shell: shell, appId: appId ?? inventory.ledger.appId)
    }

    /// Returns the route that `stage` would choose, without reading the files that a delta builds on.
    package func plan(_ offer: ArchiveOffer, in inventory: Inventory) async throws -> PlannedRoute? {
        let release = try offer.requireRelease()
        let url = try ManifestRequest.archiveURL(of: release.manifest, at: source.url)
        let installed = inventory.bundles.filter { $0.version.source == .archive }.map(\.entry.contentSha256)
        if !policy(offer).deltas.allowsDelta {
            return PlannedRoute(DownloadRoute(.excluded), bytes: release.manifest.size)
        }
        if seed == nil && installed.isEmpty {
            return PlannedRoute(DownloadRoute(.noBase), bytes: release.manifest.size)
        }
        return try await deltas(to: release, of: offer, at: url).plan(installed, in: try inventory.downloads())
    }

    private func policy(_ offer: ArchiveOffer) -> FetchPolicy { gate.policy.joined(with: offer.terms.policy) }

    private func deltas(to release: VerifiedManifest, of offer: ArchiveOffer, at url: FetchURL) -> DeltaInstall {
        DeltaInstall(
            release: release, trusted: offer.releaseKeys, archiveURL: url, limits: limits, seed: seed,
            fetcher: fetcher, report: report,
            admission: DownloadAdmission(
                gate: gate, terms: offer.terms, mirrors: mirrors, roots: policy(offer).mirrors,
                environment: environment))
    }

    /// Downloads, verifies and unpacks a delta to `offer` if one fits an installed client, or else the archive. Then downloads the
    /// release notes.
    package func stage(
        _ offer: ArchiveOffer, in area: StagingArea, reusing installed: ReuseIndex
    ) async throws -> StagedBundle {
        let release = try offer.requireRelease()
        try limits.admit(release.manifest)
        let url = try ManifestRequest.archiveURL(of: release.manifest, at: source.url)
        let staged = try await stage(release, offer, at: url, in: area, reusing: installed)
        return staged.with(notes: await NotesRequest.text(of: release.manifest, beside: url, with: fetcher))
    }

    private func stage(
        _ release: VerifiedManifest, _ offer: ArchiveOffer, at url: FetchURL, in area: StagingArea,
        reusing installed: ReuseIndex
    ) async throws -> StagedBundle {
        let usesDeltas = policy(offer).deltas.allowsDelta
        var (route, bytes) = (DownloadRoute(usesDeltas ? .noBase : .excluded), 0)
        if usesDeltas, seed != nil || !installed.sources(of: .archive).isEmpty {
            switch try await deltas(to: release, of: offer, at: url).run(in: area, reusing: installed) {
            case .staged(let bundle): return bundle
            case .archive(let why, let wasted): (route, bytes) = (why, wasted)
            }
        }
        let staged = try await stage(release, of: offer, at: url, in: area, reusing: installed, route: route)
        report(.routed(route))
        return staged.adding(bytes)
    }

    private func stage(
        _ release: VerifiedManifest, of offer: ArchiveOffer, at url: FetchURL, in area: StagingArea,
        reusing installed: ReuseIndex, route: DownloadRoute
    ) async throws -> StagedBundle {
        let download = ArchiveDownload(
            release.manifest, at: url, limits: limits, fetcher: fetcher, into: area.downloads, report: report)
        let archive = try await deltas(to: release, of: offer, at: url).admission.run(download, load: .archive, at: url)
        let unpacker = ArchiveUnpacker(limits: limits, report: report)
        do {
            let staged = try await onThread {
                try unpacker.unpack(archive, of: release, into: area, reusing: installed, route: route)
            }
            // Removed before the write barrier, so that its pages are not written to the disk.
            try download.remove()
            return staged
        } catch {
            // Removes a refused archive. Keeps an archive that did not fit on the disk, so that the next run does not
            // download it again.
            let isRefused = [.archiveRejected, .digestMismatch, .sizeMismatch].contains(UpdateFailure(error).code)
            if isRefused { try download.remove() }
            throw error
        }
    }
}
