import BundleCore
import BundleSigning
import BundleValues

/// The judgment of one poll: combines the trust and the memory of a device with the documents of the feed.
struct FeedPoll: Sendable {
    let trust: CurrentTrust
    private let request: OfferRequest
    private let clock: Timestamp
    private let kind: ReleaseKind

    init(_ anchor: TrustAnchor, _ request: OfferRequest, of kind: ReleaseKind = .client, clock: Timestamp) throws {
        self.init(try CurrentTrust(anchor, memory: request.inventory.ledger.feed), request, of: kind, clock: clock)
        if let found = trust.root?.root.appId, let appId = request.appId, !found.utf8.elementsEqual(appId.utf8) {
            throw UpdateFailure(
                .appMismatch, subject: found,
                "The trust root is for \(found), but this device runs \(appId): check --trust and --app-id.")
        }
    }

    init(_ trust: CurrentTrust, _ request: OfferRequest, of kind: ReleaseKind = .client, clock: Timestamp) {
        self.kind = kind
        self.trust = trust
        self.request = request
        self.clock = clock
    }

    private var memory: FeedMemory { request.inventory.ledger.feed }
    /// The application of the device, or else that of the trust root.
    private var appId: String? { request.appId ?? trust.root?.root.appId }

    /// Returns the change that stores `trust`.
    func update(trusting trust: CurrentTrust) -> FeedUpdate { FeedUpdate(before: memory, after: remembering(trust)) }

    private func remembering(_ trust: CurrentTrust) -> FeedMemory {
        var after = memory
        after.trust = trust.record ?? after.trust
        after.clock = trust.clock(memory)
        return after
    }

    private var verifier: FeedVerifier { FeedVerifier(trust, of: appId, knowing: memory, clock: clock) }

    /// Returns the offer of a flat manifest.
    func offer(of manifest: UnverifiedManifest) throws -> ArchiveOffer {
        var after = remembering(trust)
        let verified = try verifier.verify(manifest)
        try verified.require(kind)
        let keys = trust.keys(for: kind.role, at: verifier.time)
        let decision = AcceptanceRule.decide(
            verified, inventory: request.inventory, shell: request.shell, appId: appId)
        after.neededShell = decision.neededShell
        let isChange = trust.root != nil || after.neededShell != memory.neededShell
        return ArchiveOffer(
            verified, of: appId, evidence: rootEvidence,
            feed: isChange ? FeedUpdate(before: memory, after: after) : nil, releaseKeys: keys)
    }

    /// Returns the offer of a channel document. Checks signatures, application and channel, sequence and expiry, in
    /// this order.
    func offer(
        of envelope: SignedEnvelope, channel name: String, deviceId: ArchiveSource.DeviceId, hold: HoldFile = .none
    ) throws -> ArchiveOffer {
        var after = remembering(trust)
        let verifier = verifier
        let time = verifier.time
        let verified = try verifier.verify(envelope, channel: name)
        let held = judge(hold, of: verified.document)
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
        let member = try RolloutRule.RolloutDevice(id: id, groups: after.groups)
        after.follow(
            FeedMemory.ChannelMemory(
                name: name, sequence: document.sequence, payloadSha256: digest, signers: signers.map(\.id),
                issuedAt: document.issuedAt, expires: document.expires, recalled: document.recalled,
                reinstated: document.reinstated, minimumVersion: document.minimumVersion,
                leftOut: try leftOut(by: verified.document, digest: digest, on: member, at: time),
                paused: document.releases.filter(\.isPaused).map(\.version),
                urgent: document.releases.filter(\.isUrgent).map(\.version), busyLimit: document.busyLimit,
                retries: document.releases.filter { $0.retries > 0 }.map { .init($0.version, $0.retries) },
                undoneMinimum: document.undoneMinimum
            ).following(known))
        let inventory = request.inventory.recording(FeedUpdate(before: memory, after: after))
        let device = ChannelRule.JudgedDevice(
            inventory: inventory, shell: request.shell, appId: appId ?? document.appId, unknownHold: held.unknown)
        let offer = ChannelOffer(document, of: kind, releaseKeys: trust.keys(for: kind.role, at: time), on: device)
        after.neededShell = offer.neededShell(device)
        let update = FeedUpdate(before: memory, after: after)
        return ArchiveOffer(
            offer,
            evidence: rootEvidence + evidence(of: document, signers: signers, known: known, at: time) + held.evidence,
            feed: update,
            in: inventory)
    }

    /// Returns the effect of a hold on `document`. An invalid hold is ignored: an attacker who can replace it can also
    /// remove it.
    func judge(
        _ file: HoldFile, of document: ChannelDocument
    ) -> (rule: HoldRule, unknown: UpdateFailure?, evidence: [Decision.Outcome]) {
        func outcome(_ passed: Bool, detail: String) -> [Decision.Outcome] {
            [Decision.Outcome(rule: "hold", passed: passed, detail: detail)]
        }
        guard trust.hasGuard else { return (.none, nil, []) }
        let bytes: [UInt8]
        switch file {
        case .none: return (.none, nil, [])
        case .unknown(let failure): return (.none, failure, outcome(false, detail: failure.message))
        case .found(let found): bytes = found
        }
        do {
            let hold = try verifier.verify(hold: bytes, channel: document.channel)
            let rule = HoldRule.judge(hold, on: document, at: verifier.time)
            return (rule, nil, outcome(!rule.isHolding, detail: rule.detail(hold.document)))
        } catch {
            return (.none, nil, outcome(false, detail: UpdateFailure(error).message))
        }
    }

    /// Returns the releases whose rollout excludes `device`. Holds do not affect this. The time is at least that of the
    /// document, independent of the device's clock.
    func leftOut(
        by document: ChannelDocument, digest: SHA256Digest, on device: RolloutRule.RolloutDevice, at time: Timestamp
    ) throws -> [SemanticVersion] {
        let time = max(time, document.issuedAt)
        let known = memory.channel(document.channel).flatMap { $0.payloadSha256 == digest ? $0 : nil }
        return try document.releases.filter { release in
            let wasIn = known.map { !$0.leftOut.contains(release.version) } ?? false
            return try !RolloutRule.judge(release, on: device, at: time, wasIn: wasIn).isIn
        }.map(\.version)
    }

    private var rootEvidence: [Decision.Outcome] {
        guard let root = trust.root?.root else { return [] }
        return [
            Decision.Outcome(rule: "trustRoot", passed: true, detail: "version \(root.version), until \(root.expires)")
        ]
    }

    private func evidence(
        of document: ChannelDocument, signers: [PublicKey], known: FeedMemory.ChannelMemory?, at time: Timestamp
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
