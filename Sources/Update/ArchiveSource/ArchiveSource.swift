package import BundleCore
import BundleDisk
import BundleSigning
import BundleThreads
package import BundleValues
import Synchronization

/// The signed archive channel: manifests, the archives that they name, and what a channel document says about them.
package struct ArchiveSource: UpdateSource {
    /// What draws the device into rollouts, and the groups that it is in.
    package struct DeviceId: Sendable {
        /// As configured; nil to use what the store remembers.
        package let given: String?
        /// The id that is made from the machine's id; nil if the machine does not have one.
        package let machine: String?
        /// The groups that the device is in; nil for those that the store remembers.
        package let groups: [String]?

        /// States where an id comes from; without any, one is drawn and remembered.
        package init(given: String? = nil, machine: String? = nil, groups: [String]? = nil) {
            self.given = given
            self.machine = machine
            self.groups = groups
        }

        /// The id of the device whose store has `memory`. An id that was given stays; any other gives way to the machine's, so that the
        /// clones of one disk are devices of their own.
        package func resolved(_ memory: FeedMemory) throws -> (id: String, source: FeedMemory.DeviceIdSource) {
            if let given { return (given, .given) }
            if let id = memory.deviceId, memory.deviceIdSource == .given { return (id, .given) }
            if let machine { return (machine, .machine) }
            // A machine whose id is gone stays the device that it was.
            if let id = memory.deviceId { return (id, memory.deviceIdSource ?? .drawn) }
            return (try LaunchToken.random().text, .drawn)
        }
    }

    private let source: FeedAddress
    private let anchor: TrustAnchor
    private let deviceId: DeviceId
    private let seed: String?
    private let limits: ArchiveLimits
    private let fetcher: any Fetcher
    private let now: @Sendable () -> Timestamp
    private let report: @Sendable (UpdateEvent) -> Void
    private let last = LastDocument()

    /// Follows `source`, believing what `anchor` vouches for; a delta may build on the folder `seed`.
    package init(
        source: FeedAddress, anchor: TrustAnchor, deviceId: DeviceId = DeviceId(), seed: String? = nil,
        limits: ArchiveLimits,
        fetcher: any Fetcher, now: @escaping @Sendable () -> Timestamp = { .now },
        report: @escaping @Sendable (UpdateEvent) -> Void
    ) {
        self.source = source
        self.anchor = anchor
        self.deviceId = deviceId
        self.seed = seed
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
            let fetched = try await ManifestRequest.fetchChannel(url, with: fetcher, knowing: last.document)
            let envelope = try ChannelFormat.envelope(parsing: fetched.bytes)
            let hold =
                look.trust.hasGuard
                ? try await HoldFile.fetch(of: name, beside: url, with: fetcher) : HoldFile.none
            let offer = try look.offer(of: envelope, channel: name, deviceId: deviceId, hold: hold)
            last.keep(fetched)
            return offer
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

    /// What `stage` would choose, without a look at the files that a delta builds on.
    package func plan(_ offer: ArchiveOffer, _ inventory: Inventory) async throws -> PlannedRoute? {
        let release = try offer.requireRelease()
        let url = try ManifestRequest.archiveURL(of: release.manifest, at: source.url)
        let installed = inventory.bundles.filter { $0.version.source == .archive }.map(\.entry.contentSha256)
        if seed == nil && installed.isEmpty {
            return PlannedRoute(DownloadRoute(.noBase), bytes: release.manifest.size)
        }
        return try await deltas(to: release, offer, url).plan(installed, try inventory.downloads())
    }

    private func deltas(to release: VerifiedManifest, _ offer: ArchiveOffer, _ url: FetchURL) -> DeltaInstall {
        DeltaInstall(
            release: release, trusted: offer.releaseKeys, archiveURL: url, limits: limits, seed: seed,
            fetcher: fetcher, report: report)
    }

    /// Downloads, verifies and unpacks a delta to `offer`, where there is one for what is here, else its archive.
    package func stage(
        _ offer: ArchiveOffer, in area: StagingArea, reusing installed: ReuseIndex
    ) async throws -> StagedBundle {
        let release = try offer.requireRelease()
        try limits.admit(release.manifest)
        let url = try ManifestRequest.archiveURL(of: release.manifest, at: source.url)
        var (route, bytes) = (DownloadRoute(.noBase), 0)
        if seed != nil || !installed.sources(of: .archive).isEmpty {
            switch try await deltas(to: release, offer, url).run(in: area, reusing: installed) {
            case .staged(let bundle): return bundle
            case .archive(let why, let wasted): (route, bytes) = (why, wasted)
            }
        }
        let staged = try await stage(release, at: url, in: area, reusing: installed, route)
        report(.routed(route))
        return staged.adding(bytes)
    }

    private func stage(
        _ release: VerifiedManifest, at url: FetchURL, in area: StagingArea, reusing installed: ReuseIndex,
        _ route: DownloadRoute
    ) async throws -> StagedBundle {
        let download = ArchiveDownload(
            release.manifest, at: url, limits: limits, fetcher: fetcher, into: area.downloads, report: report)
        let archive = try await download.run()
        let unpacker = ArchiveUnpacker(limits: limits, report: report)
        do {
            let staged = try await onThread {
                try unpacker.unpack(archive, of: release, into: area, reusing: installed, route)
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

/// The channel document that counted last, in memory: a server that has no other one need not send it again. Its signatures and its
/// age are judged anew each time. One that did not count is not kept, since it may have been damaged on its way.
final class LastDocument: Sendable {
    struct Document {
        let bytes: [UInt8]
        let tag: String?
    }

    private let kept = Mutex<Document?>(nil)

    var document: Document? { kept.withLock { $0 } }

    func keep(_ document: Document) { kept.withLock { $0 = document.tag == nil ? nil : document } }
}

/// Where a manifest and its archive come from.
package enum ManifestRequest {
    static func fetch(_ url: FetchURL, with fetcher: any Fetcher) async throws -> [UInt8] {
        do {
            return try document(try await fetcher.fetchBytes(url, maximumBytes: ManifestFormat.maximumBytes), of: url)
        } catch FetchError.tooLarge {
            throw ManifestRefusal(member: "manifest", problem: "is longer than \(ManifestFormat.maximumBytes) bytes")
        }
    }

    /// The bytes of a channel document, unread.
    package static func fetchChannel(_ url: FetchURL, with fetcher: any Fetcher) async throws -> [UInt8] {
        try await fetchChannel(url, with: fetcher, knowing: nil).bytes
    }

    /// The same, which costs no bytes where the document is the known one still.
    static func fetchChannel(
        _ url: FetchURL, with fetcher: any Fetcher, knowing known: LastDocument.Document?
    ) async throws -> LastDocument.Document {
        do {
            let fetched = try await fetcher.fetchBytes(
                url, maximumBytes: ChannelFormat.maximumBytes, unless: known?.tag)
            if let fetched {
                return LastDocument.Document(bytes: try document(fetched.bytes, of: url), tag: fetched.tag)
            }
            guard let known else {
                throw FetchError.invalidResponse(url, reason: "it says that nothing has changed, and nothing was known")
            }
            return known
        } catch FetchError.tooLarge {
            throw DocumentRefusal("channel document", problem: "is longer than \(ChannelFormat.maximumBytes) bytes")
        }
    }

    /// A web page where a document should be comes from somebody else than the feed.
    static func document(_ bytes: [UInt8], of url: FetchURL) throws -> [UInt8] {
        let first = bytes.first { ![0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF].contains($0) }
        if url.isFile || first != UInt8(ascii: "<") { return bytes }
        throw UpdateFailure(
            .manifestMalformed, subject: url.display,
            "\(url.display) answers with a web page. Either the network wants a login first (a captive portal): open a page in a "
                + "browser here. Or the address is not that of a feed: check it.")
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

/// What a feed offers to a device: a verified release, or a channel's best answer for it.
package struct ArchiveOffer: UpdateOffer {
    /// The version; of an empty channel, the newest one here.
    package let clientVersion: ClientVersion
    /// What was found out before any rule was asked: signatures, application, channel, sequence, expiry.
    package let evidence: [Decision.Outcome]
    /// What is to be remembered; nil where nothing is.
    package let feed: FeedUpdate?
    /// Whose signatures count for releases.
    let releaseKeys: TrustedKeys
    private let answer: Answer

    private enum Answer {
        /// With the application that it must name, where the trust root says so.
        case manifest(VerifiedManifest, appId: String?)
        case channel(ChannelOffer)
    }

    init(
        _ manifest: VerifiedManifest, of appId: String?, evidence: [Decision.Outcome], feed: FeedUpdate?,
        releaseKeys: TrustedKeys
    ) {
        self.releaseKeys = releaseKeys
        clientVersion = manifest.clientVersion
        self.evidence = evidence + manifest.evidence
        self.feed = feed
        answer = .manifest(manifest, appId: appId)
    }

    init(_ channel: ChannelOffer, evidence: [Decision.Outcome], feed: FeedUpdate, _ inventory: Inventory) throws {
        let newest = inventory.bundles.last { $0.version.source == .archive }?.version.semantic
        let version = try channel.candidate?.release.version ?? newest ?? SemanticVersion(parsing: "0.0.0")
        clientVersion = .archive(version)
        self.evidence = evidence
        self.feed = feed
        releaseKeys = channel.releaseKeys
        answer = .channel(channel)
    }

    /// The release, where there is one that may be installed.
    package var release: VerifiedManifest? {
        switch answer {
        case .manifest(let manifest, _): return manifest
        case .channel(let channel):
            guard case .verified(let manifest)? = channel.candidate?.signed else { return nil }
            return manifest
        }
    }

    /// The application of the release.
    package var appId: String? { release?.appId }

    /// The room that the release states.
    package var footprint: Footprint {
        release?.footprint ?? Footprint(downloadBytes: nil, installedBytes: nil, fileCount: nil)
    }

    /// As the channel document asks.
    package var pace: PollPace? {
        guard case .channel(let channel) = answer else { return nil }
        return channel.document.poll.map { PollPace(asked: $0.interval, jitter: $0.jitter) }
    }

    func requireRelease() throws -> VerifiedManifest {
        if let release { return release }
        throw UpdateFailure(
            .signatureInvalid, subject: clientVersion.description,
            "Version \(clientVersion) has no signature that counts: sign the release again.")
    }

    func decide(_ inventory: Inventory, shell: SemanticVersion, appId: String?) -> Decision {
        switch answer {
        case .manifest(let manifest, let named):
            AcceptanceRule.decide(manifest, inventory: inventory, shell: shell, appId: appId ?? named)
        case .channel(let channel):
            channel.decide(channel.device(inventory, shell, appId))
        }
    }

    func explain(_ inventory: Inventory, shell: SemanticVersion, appId: String?) -> [Decision.Outcome] {
        guard case .channel(let channel) = answer else { return [] }
        return channel.explain(channel.device(inventory, shell, appId))
    }
}

/// A channel document that was taken, with the release that the device is to hear about.
struct ChannelOffer: Sendable {
    let document: ChannelDocument
    let releaseKeys: TrustedKeys
    /// The application that releases must name.
    let appId: String?
    let candidate: ChannelRule.Candidate?
    private let unknownHold: UpdateFailure?

    init(_ document: ChannelDocument, releaseKeys: TrustedKeys, on device: ChannelRule.Device) {
        self.document = document
        self.releaseKeys = releaseKeys
        (appId, unknownHold) = (device.appId, device.unknownHold)
        candidate = ChannelRule.pick(document.releases, on: device) { Self.check($0, releaseKeys) }
    }

    private static func check(_ release: ChannelDocument.Release, _ keys: TrustedKeys) -> ChannelRule.SignedRelease {
        do {
            return .verified(try ManifestVerifier.verify(release.manifest, trusted: keys))
        } catch {
            return .refused(UpdateFailure(error))
        }
    }

    func device(_ inventory: Inventory, _ shell: SemanticVersion, _ appId: String?) -> ChannelRule.Device {
        ChannelRule.Device(
            inventory: inventory, shell: shell, appId: appId ?? self.appId, unknownHold: unknownHold)
    }

    func neededShell(_ device: ChannelRule.Device) -> SemanticVersion? {
        ChannelRule.neededShell(document.releases, on: device) { Self.check($0, releaseKeys) }
    }

    func decide(_ device: ChannelRule.Device) -> Decision {
        guard let candidate else {
            let newest = SelectionRule.newestUsable(device.inventory, shell: device.shell)?.name ?? .embedded
            return Decision(
                verdict: .upToDate(newest: newest),
                outcomes: [
                    Decision.Outcome(rule: "newer", passed: false, detail: "the channel \(document.channel) is empty")
                ])
        }
        return ChannelRule.decide(candidate, on: device)
    }

    func explain(_ device: ChannelRule.Device) -> [Decision.Outcome] {
        document.releases.sorted { $0.version > $1.version }.map { release in
            let candidate = ChannelRule.Candidate(release, Self.check(release, releaseKeys))
            let fate = ChannelRule.fate(of: candidate, on: device)
            return Decision.Outcome(
                rule: "release \(release.version)", passed: fate == .eligible, detail: fate.description)
        }
    }
}

/// One look at a feed: what is trusted, what is remembered, and what both say about what was fetched.
struct FeedPoll: Sendable {
    let trust: CurrentTrust
    private let request: OfferRequest
    private let clock: Timestamp

    init(_ anchor: TrustAnchor, _ request: OfferRequest, clock: Timestamp) throws {
        self.init(try CurrentTrust(anchor, memory: request.inventory.ledger.feed), request, clock: clock)
        if let found = trust.root?.root.appId, let appId = request.appId, !found.utf8.elementsEqual(appId.utf8) {
            throw UpdateFailure(
                .appMismatch, subject: found,
                "The trust root is for \(found), this device runs \(appId): check --trust and --app-id.")
        }
    }

    /// A device that trusts `trust`.
    init(_ trust: CurrentTrust, _ request: OfferRequest, clock: Timestamp) {
        self.trust = trust
        self.request = request
        self.clock = clock
    }

    private var memory: FeedMemory { request.inventory.ledger.feed }
    /// The application of the device, else that of the trust root.
    private var appId: String? { request.appId ?? trust.root?.root.appId }

    /// The memory with `trust` in it.
    func news(trusting trust: CurrentTrust) -> FeedUpdate { FeedUpdate(before: memory, after: remembering(trust)) }

    private func remembering(_ trust: CurrentTrust) -> FeedMemory {
        var after = memory
        after.trust = trust.record ?? after.trust
        after.clock = trust.clock(memory)
        return after
    }

    /// The time that counts for the device, which is no earlier than any signed time that it has seen.
    var time: Timestamp { TrustedTime.at(clock, remembering(trust)) }

    /// Returns the manifest if the release keys of a root that is not out of date have signed it.
    func take(_ manifest: UnverifiedManifest) throws -> VerifiedManifest {
        try trust.requireFresh(at: time, clock: clock)
        return try ManifestVerifier.verify(manifest, trusted: trust.keys(for: .release, at: time))
    }

    /// Returns the channel document if the channel keys of a root that is not out of date have signed it, and it is that of the channel
    /// `name` and of the device's application.
    func take(_ envelope: SignedEnvelope, channel name: String) throws -> VerifiedChannelDocument {
        try trust.requireFresh(at: time, clock: clock)
        let verified = try ChannelVerifier.verify(
            envelope, channel: name, trusted: trust.keys(for: .channel, at: time))
        try requireApp(of: verified.document)
        return verified
    }

    /// Returns the hold if it has the signatures of the guard, and is that of the channel `name`.
    func take(hold bytes: [UInt8], channel name: String) throws -> VerifiedHold {
        try HoldVerifier.verify(
            try HoldFormat.envelope(parsing: bytes), channel: name, trusted: trust.keys(for: .guard, at: time))
    }

    /// The offer of a flat manifest.
    func offer(of manifest: UnverifiedManifest) throws -> ArchiveOffer {
        var after = remembering(trust)
        let verified = try take(manifest)
        let keys = trust.keys(for: .release, at: time)
        let decision = AcceptanceRule.decide(
            verified, inventory: request.inventory, shell: request.shell, appId: appId)
        after.neededShell = decision.neededShell
        let isNews = trust.root != nil || after.neededShell != memory.neededShell
        return ArchiveOffer(
            verified, of: appId, evidence: rootEvidence,
            feed: isNews ? FeedUpdate(before: memory, after: after) : nil, releaseKeys: keys)
    }

    /// The offer of a channel document: signatures, application and channel, sequence, expiry, in this order.
    func offer(
        of envelope: SignedEnvelope, channel name: String, deviceId: ArchiveSource.DeviceId, hold: HoldFile = .none
    ) throws -> ArchiveOffer {
        var after = remembering(trust)
        let time = time
        let verified = try take(envelope, channel: name)
        let held = judge(hold, verified.document)
        let document = verified.document.held(by: held.rule)
        let (signers, digest) = (verified.signers, verified.payloadSha256)
        let keys = trust.keys(for: .channel, at: time)
        let known = memory.channel(name)?.counting(trusting: keys.keys.map(\.id))
        let freshness = FreshnessRule.judge(document, payloadSha256: digest, known: known, now: time)
        if let failure = freshness.failure(of: document, clock: clock) { throw failure }

        let id: String
        (id, after.deviceIdSource) = try deviceId.resolved(memory)
        after.deviceId = id
        after.groups = deviceId.groups ?? memory.groups
        let member = try RolloutRule.Device(id: id, groups: after.groups)
        after.follow(
            FeedMemory.Channel(
                name: name, sequence: document.sequence, payloadSha256: digest, signers: signers.map(\.id),
                issuedAt: document.issuedAt, expires: document.expires, revoked: document.revoked,
                reinstated: document.reinstated, minimumVersion: document.minimumVersion,
                leftOut: try leftOut(by: verified.document, digest, member, at: time),
                urgent: document.releases.filter(\.isUrgent).map(\.version), busyLimit: document.busyLimit,
                retries: document.releases.filter { $0.retries > 0 }.map { .init($0.version, $0.retries) }
            ).following(known))
        let inventory = request.inventory.recording(FeedUpdate(before: memory, after: after))
        let device = ChannelRule.Device(
            inventory: inventory, shell: request.shell, appId: appId ?? document.appId, unknownHold: held.unknown)
        let offer = ChannelOffer(document, releaseKeys: trust.keys(for: .release, at: time), on: device)
        after.neededShell = offer.neededShell(device)
        let news = FeedUpdate(before: memory, after: after)
        return try ArchiveOffer(
            offer, evidence: rootEvidence + evidence(document, signers, known, time) + held.evidence, feed: news,
            inventory)
    }

    /// What a guard says of `document`. Who can change the feed can take a hold away, so one that does not count keeps nobody from
    /// updating.
    private func judge(
        _ file: HoldFile, _ document: ChannelDocument
    ) -> (rule: HoldRule, unknown: UpdateFailure?, evidence: [Decision.Outcome]) {
        func told(_ passed: Bool, _ detail: String) -> [Decision.Outcome] {
            [Decision.Outcome(rule: "hold", passed: passed, detail: detail)]
        }
        guard trust.hasGuard else { return (.none, nil, []) }
        let bytes: [UInt8]
        switch file {
        case .none: return (.none, nil, [])
        case .unknown(let failure): return (.none, failure, told(false, failure.message))
        case .found(let found): bytes = found
        }
        do {
            let hold = try take(hold: bytes, channel: document.channel)
            let rule = HoldRule.judge(hold, on: document, at: time)
            return (rule, nil, told(!rule.isHolding, rule.detail(hold.document)))
        } catch {
            return (.none, nil, told(false, UpdateFailure(error).message))
        }
    }

    /// The releases that leave `device` out. A hold has no say in that: it moves nobody. A document is no older than its own time,
    /// whatever this device's clock says.
    private func leftOut(
        by document: ChannelDocument, _ digest: SHA256Digest, _ device: RolloutRule.Device, at time: Timestamp
    ) throws -> [SemanticVersion] {
        let time = max(time, document.issuedAt)
        let known = memory.channel(document.channel).flatMap { $0.payloadSha256 == digest ? $0 : nil }
        return try document.releases.filter { release in
            let wasIn = known.map { !$0.leftOut.contains(release.version) } ?? false
            return try !RolloutRule.judge(release, device, at: time, wasIn: wasIn).isIn
        }.map(\.version)
    }

    private func requireApp(of document: ChannelDocument) throws {
        guard let appId, document.appId.map({ $0.utf8.elementsEqual(appId.utf8) }) != true else { return }
        throw UpdateFailure(
            .appMismatch, subject: document.appId ?? "",
            "The channel document is for \(document.appId ?? "no named application"), this device runs \(appId): "
                + "check the feed's address.")
    }

    private var rootEvidence: [Decision.Outcome] {
        guard let root = trust.root?.root else { return [] }
        return [
            Decision.Outcome(rule: "trustRoot", passed: true, detail: "version \(root.version), until \(root.expires)")
        ]
    }

    private func evidence(
        _ document: ChannelDocument, _ signers: [PublicKey], _ known: FeedMemory.Channel?, _ time: Timestamp
    ) -> [Decision.Outcome] {
        [
            Decision.Outcome(
                rule: "channelSignature", passed: true,
                detail: signers.map { "\($0.algorithm.rawValue) key \($0.id)" }.joined(separator: ", ")),
            Decision.Outcome(
                rule: "channel", passed: true,
                detail: "\(document.channel) of \(document.appId ?? "no named application")"),
            Decision.Outcome(
                rule: "sequence", passed: true,
                detail: "\(document.sequence), seen before \(known.map { "\($0.sequence)" } ?? "none")"),
            Decision.Outcome(rule: "expiry", passed: true, detail: "\(document.expires), it is \(time)"),
        ]
    }
}
